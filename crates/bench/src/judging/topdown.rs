//! Where the pipeline slots of a row's code go: the parts in percent, of the counts of all rounds.

use crate::events::sets::Set;
#[cfg(feature = "topdown")]
use crate::events::sets::fit;
use crate::judging::estimate::Estimate;
use crate::judging::row::{Figure, Quantity};
use crate::judging::verdict::{Cause, Verdict};
use crate::sampling::sample::Sample;
use rdpmc::Event;
use rdpmc_report::gate::{MIN_VALUES, slices};
use std::fmt;

/// The parts of the slots, in the order of the columns. The memory's is a part of the back end's.
pub(crate) const QUANTITIES: [Quantity; 5] = [
    Quantity::Retiring,
    Quantity::BadSpeculation,
    Quantity::FrontendBound,
    Quantity::BackendBound,
    Quantity::MemoryBound,
];

/// The fractions of the slots, and why they are doubtful.
pub(crate) struct Parts {
    /// One for each of [`QUANTITIES`]. None if it is not known.
    pub(crate) fractions: [Option<f64>; 5],
    pub(crate) disagreement: Option<String>,
}

/// The events, and the function from the counts of a turn to the fractions. The latter is `rdpmc-events`', which is optional.
pub(crate) struct Topdown {
    pub(crate) events: Vec<Event>,
    pub(crate) parts: Box<PartsOf>,
}

type PartsOf = dyn Fn(&[f64]) -> Option<Parts>;

impl fmt::Debug for Topdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Topdown").field(&self.events).finish()
    }
}

#[cfg(feature = "topdown")]
impl Topdown {
    /// That of this CPU, without the memory's part if its events cannot be counted.
    pub(crate) fn of_this_cpu() -> Result<Topdown, rdpmc::Error> {
        let mut formula = rdpmc_events::topdown::Formula::of_this_cpu()?;
        if !fit(formula.events()).1.is_empty() {
            formula = formula.without_memory();
        }
        if let Some(missing) = fit(formula.events()).1.into_iter().next() {
            return Err(missing.why);
        }
        let parts = |level1: rdpmc_events::topdown::Level1| {
            let [retiring, bad_speculation, frontend_bound, backend_bound] =
                level1.parts().map(|(_, part)| Some(part.fraction));
            let memory = level1.memory_bound.map(|part| part.fraction);
            Parts {
                fractions: [retiring, bad_speculation, frontend_bound, backend_bound, memory],
                disagreement: level1.disagreement(),
            }
        };
        Ok(Topdown {
            events: formula.events().to_vec(),
            parts: Box::new(move |counts| formula.level1_of_means(counts).map(parts)),
        })
    }
}

/// The counts of a turn of a row's loop, by event: of all samples, and of each slice.
///
/// A turn has the code and the loop's own instructions, two or three. Their slots are not subtracted, because the CPU starts them
/// beside the code.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Vec<(Event, Vec<f64>)>);

impl Turns {
    /// Adds the counts of those events that a round has counted.
    pub(crate) fn add(&mut self, topdown: &Topdown, set: &Set, kept: &[&Sample]) {
        if kept.len() < MIN_VALUES {
            return;
        }
        for event in &topdown.events {
            let (Some(place), false) = (set.place(*event), self.has(*event)) else { continue };
            let mean = |samples: &[&Sample]| {
                let count: f64 = samples.iter().map(|sample| sample.difference(place)).sum();
                let turns: f64 = samples.iter().map(|sample| sample.k as f64).sum();
                count / turns
            };
            let means = std::iter::once(mean(kept)).chain(slices(kept).map(mean));
            self.0.push((*event, means.collect()));
        }
    }

    fn has(&self, event: Event) -> bool {
        self.0.iter().any(|(known, _)| *known == event)
    }

    /// Returns the figures in percent, and a note if the counts disagree. None if an event was not counted.
    pub(crate) fn figures(
        &self,
        topdown: &Topdown,
        target: f64,
    ) -> Option<(Vec<Figure>, Option<String>)> {
        let of_event = |event: &Event| self.0.iter().find(|(known, _)| known == event);
        let means: Vec<&[f64]> = topdown
            .events
            .iter()
            .map(|event| of_event(event).map(|(_, means)| means.as_slice()))
            .collect::<Option<_>>()?;
        let parts_of = |place: usize| {
            let counts: Option<Vec<f64>> =
                means.iter().map(|means| means.get(place).copied()).collect();
            (topdown.parts)(&counts?)
        };
        let all = parts_of(0)?;
        let last = means.iter().map(|means| means.len()).min().unwrap_or(0);
        let of_slices: Vec<Parts> = (1..last).map(parts_of).collect::<Option<_>>()?;
        let figure = |(number, quantity): (usize, Quantity)| {
            let percent = |parts: &Parts| Some((*parts.fractions.get(number)?)? * 100.0);
            let slices = of_slices.iter().filter_map(percent);
            let estimate = Estimate::of_slices(percent(&all)?, slices);
            let verdict = if estimate.error() == 0.0 {
                Verdict::Exact
            } else if estimate.error() <= target * 100.0 {
                Verdict::Stable
            } else {
                Verdict::Unstable(Cause::Varies)
            };
            Some(Figure { quantity, estimate, verdict })
        };
        let figures = QUANTITIES.into_iter().enumerate().filter_map(figure).collect();
        Some((figures, all.disagreement))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sampling::code::{Content, Random};
    use crate::sampling::sample::{Loop, Measure, TICKS, VALUES, sample};

    const EVENTS: [Event; 3] = [Event::CYCLES, Event::INSTRUCTIONS, Event::BRANCHES];

    /// Each turn has 10 cycles, 4 instructions, and 1 branch, or 2 in the last samples.
    struct Machine {
        branches: u64,
    }

    impl Measure for Machine {
        fn measure(&mut self, _content: Content, turns: u64) -> Option<Loop> {
            let mut values = [7; VALUES];
            for (place, each) in [(0, 10), (1, 4), (2, self.branches), (TICKS, 5)] {
                *values.get_mut(place)? += each * turns;
            }
            Some(Loop { values, is_disturbed: false })
        }
    }

    /// Two slots in a cycle.
    fn topdown(events: &[Event]) -> Topdown {
        let parts = |counts: &[f64]| {
            let &[cycles, retiring, bad, ..] = counts else { return None };
            let slots = 2.0 * cycles;
            let fractions = [Some(retiring / slots), Some(bad / slots), None, None, None];
            Some(Parts { fractions, disagreement: Some("it is doubtful".into()) })
        };
        Topdown { events: events.to_vec(), parts: Box::new(parts) }
    }

    fn samples(branches: [u64; 2]) -> Vec<Sample> {
        let mut random = Random::of_seed(0);
        let mut one = |pass, branches| {
            sample(&mut Machine { branches }, pass, 100, true, &mut random).unwrap()
        };
        let mut all: Vec<Sample> = (0..40).map(|pass| one(pass, branches[0])).collect();
        all.extend((40..80).map(|pass| one(pass, branches[1])));
        all
    }

    fn figures(samples: &[Sample], sets: &[&[Event]]) -> Option<Vec<Figure>> {
        let (topdown, mut turns) = (topdown(&EVENTS), Turns::default());
        let kept: Vec<&Sample> = samples.iter().collect();
        for events in sets {
            turns.add(&topdown, &Set { events: events.to_vec() }, &kept);
        }
        let (figures, disagreement) = turns.figures(&topdown, 0.01)?;
        assert_eq!(disagreement.as_deref(), Some("it is doubtful"));
        Some(figures)
    }

    #[test]
    fn parts_of_turns() {
        let found = figures(&samples([1, 1]), &[&EVENTS]).unwrap();
        let values: Vec<_> =
            found.iter().map(|it| (it.quantity, it.estimate.value, it.verdict)).collect();
        let exact = [
            (Quantity::Retiring, 20.0, Verdict::Exact),
            (Quantity::BadSpeculation, 5.0, Verdict::Exact),
        ];
        assert_eq!(values, exact);
        // The slices differ.
        let found = figures(&samples([1, 2]), &[&EVENTS]).unwrap();
        let [retiring, bad] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(retiring.verdict, Verdict::Exact);
        let Estimate { value, low, high, .. } = bad.estimate;
        assert_eq!((value, low, high), (7.5, 5.0, 10.0));
        assert_eq!(bad.verdict, Verdict::Unstable(Cause::Varies));
    }

    #[test]
    fn an_event_that_was_not_counted() {
        let samples = samples([1, 1]);
        assert_eq!(figures(&samples, &[&[Event::CYCLES, Event::INSTRUCTIONS]]), None);
        let few = samples.get(..3).unwrap();
        assert_eq!(figures(few, &[&EVENTS]), None);
    }
}
