//! A piece of code that is measured, from its first sample to its row.

use crate::events::sets::Set;
use crate::judging::comparison::{Measured, costs, is_speed};
use crate::judging::estimate::Estimate;
use crate::judging::judge::{FenceCosts, Judged};
use crate::judging::row::{Figure, Quantity, Row};
use crate::judging::slow;
use crate::judging::topdown::{QUANTITIES, Topdown, Turns};
use crate::judging::verdict::{Cause, Verdict};
use crate::sampling::code::Loops;
use crate::sampling::guard::panic_of;
use crate::sampling::machine::Machine;
use crate::sampling::paths::has_rarer_path;
use crate::sampling::sample::{Shape, TICKS};
use crate::sampling::series::{Length, Series};
use crate::stepping::again;
use crate::stepping::by_function::{Placer, Recorded, Resolver};
use crate::stepping::stepped::{self, Counted, Stepper};
use rdpmc::{Event, Scope};
use rdpmc_report::gate::MIN_VALUES;
use rdpmc_report::gate::functions::Functions;
use rdpmc_step::OtherThreads;
use std::time::Duration;

/// A row that is measured.
pub(super) struct Task<'a> {
    pub(super) code: Box<dyn Loops + 'a>,
    /// Tasks of one unit are measured one after the other in each pass.
    pub(super) unit: usize,
    /// It takes at most this long.
    pub(super) most_time: Duration,
    pub(super) length: Option<Length>,
    pub(super) row: Row,
    /// What the row's figures are of.
    pub(super) measured: Vec<Measured>,
    operations: u64,
    /// The instructions of the first round, for comparison with those of the others.
    instructions: Option<Estimate>,
    /// Whether a round counted other instructions than the first.
    rounds_disagree: bool,
    /// The CPU time of other threads during its samples.
    pub(super) others: OtherThreads,
    /// Whether other threads have worked for its code. Their time is seen late, so once is enough.
    pub(super) has_helpers: bool,
    /// In how many of its samples it waited, and how many there are.
    waited: (usize, usize),
    /// The instructions by single-stepping.
    pub(super) stepped: Option<Counted>,
    /// These by address.
    recorded: Option<Recorded>,
    /// Whether the time shows a path that was not stepped.
    has_rarer_path: bool,
    /// For the parts of the slots, and these. They are of this process alone, so `rdpmc-bench compare` does not compare them.
    pub(super) turns: Turns,
    parts: Vec<Figure>,
}

/// What a row is stepped for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Purpose {
    /// For its instructions, and the functions they are in.
    Figure,
    /// A counter counts its instructions.
    FunctionsAlone,
}

/// What the samples of a round have in common.
pub(super) struct Round<'r> {
    /// The events that were counted.
    pub(super) set: &'r Set,
    pub(super) shape: Shape,
    pub(super) is_first: bool,
    /// Those that the rows have.
    pub(super) events: &'r [Event],
}

impl<'a> Task<'a> {
    pub(super) fn new(code: Box<dyn Loops + 'a>, unit: usize, operations: u64) -> Task<'a> {
        let row = Row::empty(String::new());
        Task {
            code,
            unit,
            most_time: Duration::MAX,
            length: None,
            row,
            measured: Vec::new(),
            operations,
            instructions: None,
            rounds_disagree: false,
            others: OtherThreads::default(),
            has_helpers: false,
            waited: (0, 0),
            stepped: None,
            recorded: None,
            has_rarer_path: false,
            turns: Turns::default(),
            parts: Vec::new(),
        }
    }

    /// Returns the task with a limit of its time.
    pub(super) fn at_most(self, most_time: Duration) -> Task<'a> {
        Task { most_time, ..self }
    }

    /// Does something that runs the code. None if it panics, or has panicked: its row has a note then.
    pub(super) fn guarded<T>(&mut self, run: impl FnOnce(&mut Task<'a>) -> T) -> Option<T> {
        if self.row.panicked.is_some() {
            return None;
        }
        panic_of(|| run(self)).map_err(|message| self.row.panicked = Some(message)).ok()
    }

    /// Adds the figures of a round.
    pub(super) fn add(
        &mut self,
        round: &Round<'_>,
        series: &Series,
        judged: &Judged<'_>,
        fence: &FenceCosts,
    ) {
        let Round { set, shape, is_first, events } = round;
        let scale = 1.0 / self.operations.max(1) as f64;
        let figure = |place: usize, quantity: Quantity| {
            let (estimate, verdict) = (*judged.figures.get(place)?)?;
            let (estimate, verdict) = (estimate.scaled(scale), verdict.scaled(scale));
            Some(Figure { quantity, estimate, verdict })
        };
        let cost_of_fence = |place: usize| {
            let fence = fence.get(place).copied().flatten();
            fence.map_or(0.0, |fence| fence.in_loop_of(&judged.kept, place, shape).value)
        };
        let measured = |figure: Figure, place: usize, unit: f64| {
            let costs = match is_speed(figure.quantity) {
                true => vec![costs(&judged.kept, place, shape, cost_of_fence(place), unit * scale)],
                false => Vec::new(),
            };
            Measured { figure, costs }
        };
        let row = &mut self.row;
        if *is_first {
            row.runs = series.length.k;
            row.samples = series.samples.len();
            row.set_aside = series.samples.len() - judged.kept.len();
            let waited = series.samples.iter().filter(|sample| sample.has_blocked).count();
            self.waited = (waited, series.samples.len());
            let time = figure(TICKS, Quantity::Time);
            let time = time.map(|time| measured(time, TICKS, shape.ns_per_tick));
            row.times =
                time.iter().flat_map(|time| time.costs.concat()).map(|(_, ns)| ns).collect();
            self.measured.extend(time);
            let fence = fence.get(TICKS).copied().flatten();
            row.fence = fence.map(|fence| fence.as_note(shape.ns_per_tick, scale));
            row.slow = slow::slow_loops(judged, shape).map(|slow| slow.scaled(scale));
        }
        let of_this =
            set.place(Event::INSTRUCTIONS).and_then(|place| *judged.figures.get(place)?);
        let of_this = of_this.map(|(estimate, _)| estimate);
        let agrees = agree(self.instructions, of_this);
        self.instructions = self.instructions.or(of_this);
        self.rounds_disagree |= !agrees;
        for (place, event) in set.events.iter().enumerate() {
            let quantity = Quantity::Event(*event);
            let is_known = self.measured.iter().any(|known| known.figure.quantity == quantity);
            if is_known || !events.contains(event) {
                continue; // the witness of a later round, of interrupts or of context switches
            }
            let found = figure(place, quantity).map(|figure| match agrees {
                true => figure,
                false => Figure { verdict: Verdict::Unstable(Cause::RoundsDisagree), ..figure },
            });
            self.measured.extend(found.map(|figure| measured(figure, place, 1.0)));
        }
    }

    /// Adds where the instructions are, from [`recorded`](Task::recorded).
    pub(super) fn add_places(&mut self, placer: &Placer) {
        let Some(stepped) = &mut self.stepped else { return };
        match self.recorded.take() {
            Some(recorded) => stepped.places = placer.places(&recorded),
            None => self.row.no_functions = Some("a run has more instructions than addresses were kept for. Give the code less to do".to_owned()),
        }
    }

    /// Adds in which functions the instructions are that were stepped for this alone.
    pub(super) fn add_functions(&mut self, resolver: &mut Resolver) {
        let places = self.stepped.take().and_then(|stepped| stepped.places);
        self.row.functions = places.and_then(|places| resolver.functions(&places, self.operations));
    }

    /// Adds the instructions by single-stepping, in this process and in others, and in which functions they are.
    pub(super) fn judge_steps(
        &mut self,
        others: &[again::Row],
        wanted: usize,
        why_alone: Option<&str>,
        target: f64,
        resolver: &mut Resolver,
    ) {
        let Some(own) = &self.stepped else { return };
        let others: Vec<Counted> = others.iter().filter_map(|row| row.stepped.clone()).collect();
        let (estimate, mut verdict) = stepped::judged(own, &others, target);
        // With a different slack, a count includes calls of the loop.
        let all = std::iter::once(own).chain(&others).filter(|it| it.slack == own.slack);
        let places = all.filter_map(|it| it.places.as_deref());
        let functions = places.filter_map(|it| resolver.functions(it, self.operations)).collect();
        let typical = estimate.value / self.operations.max(1) as f64;
        let (functions, differing) = Functions::joined(functions, typical);
        self.row.functions = functions;
        if let (Some(names), true) =
            (differing, matches!(verdict, Verdict::Range | Verdict::Stable))
        {
            self.row.notes.push(format!("the processes' instructions differ in {names}"));
        }
        let all = || std::iter::once(own).chain(&others);
        self.row.stepped_runs = all().map(|counted| counted.stepped).sum();
        let (samples, of) = self.waited;
        if samples * 2 > of {
            verdict = Verdict::Unstable(Cause::Waits { samples, of });
        } else if self.has_rarer_path {
            verdict = Verdict::Unstable(Cause::SeveralPaths);
        } else if others.len() < wanted.min(MIN_VALUES - 1) {
            verdict = Verdict::Unstable(Cause::FewProcesses { processes: others.len() + 1 });
            let why = why_alone.unwrap_or("its code could not be stepped there");
            self.row.notes.push(format!("other processes did not count its instructions: {why}"));
        }
        let estimate = estimate.scaled(1.0 / self.operations.max(1) as f64);
        let figure = Figure { quantity: Quantity::SteppedInstructions, estimate, verdict };
        self.measured.push(Measured { figure, costs: Vec::new() });
    }

    /// Returns what this process counted.
    pub(super) fn counted(&self) -> again::Row {
        let repeated = |measured: &Measured| {
            let Figure { quantity, estimate, verdict } = measured.figure;
            let is_counted =
                matches!(quantity, Quantity::Event(Event::INSTRUCTIONS | Event::BRANCHES));
            let is_known = !matches!(verdict, Verdict::Unstable(_));
            (is_counted && is_known).then(|| (quantity.to_string(), estimate))
        };
        again::Row {
            stepped: self.stepped.clone(),
            counts: self.measured.iter().filter_map(repeated).collect(),
        }
    }

    /// Widens the figures of counters that other processes count otherwise.
    pub(super) fn join_counts(&mut self, others: &[again::Row], target: f64) {
        let is_trusted = |figure: &Figure| !matches!(figure.verdict, Verdict::Unstable(_));
        let figures = self.measured.iter_mut().map(|measured| &mut measured.figure);
        for figure in figures.filter(|figure| is_trusted(figure)) {
            let name = figure.quantity.to_string();
            let of_others: Vec<Estimate> = others
                .iter()
                .filter_map(|row| row.counts.iter().find(|(known, _)| *known == name))
                .map(|(_, estimate)| *estimate)
                .collect();
            if let Some((estimate, verdict)) = stepped::joined(&figure.estimate, &of_others, target)
            {
                (figure.estimate, figure.verdict) = (estimate, verdict);
            }
        }
    }

    /// Counts the instructions by single-stepping.
    pub(super) fn step(
        &mut self,
        stepper: &mut Stepper,
        machine: &mut Machine<'_>,
        purpose: Purpose,
    ) {
        let Some(counted) = self.guarded(|task| stepper.count(&mut *task.code)) else { return };
        match counted {
            Ok((counted, recorded)) => {
                (self.stepped, self.recorded) = (Some(counted), recorded);
                let is_figure = purpose == Purpose::Figure && !stepper.is_other;
                if is_figure && self.code.multiple() == 1 {
                    let found =
                        self.guarded(|task| has_rarer_path(&mut machine.around(&mut *task.code)));
                    self.has_rarer_path = found == Some(true);
                }
            }
            Err(why) => {
                self.row.no_functions = Some(why.to_string());
                if purpose == Purpose::Figure {
                    self.row.notes.push(format!("instructions were not stepped: {why}"));
                    self.row.not_stepped = Some(why.to_string());
                }
            }
        }
    }

    /// Marks the counts of this thread alone, if other threads worked.
    pub(super) fn mark_what_others_did(&mut self, scope: Scope) {
        let Some(share) = self.others.share() else { return };
        let percent = share * 100.0;
        let figures = self.measured.iter_mut().map(|measured| &mut measured.figure);
        for figure in figures.chain(&mut self.parts) {
            let is_stepped = figure.quantity == Quantity::SteppedInstructions;
            let is_of_one = is_stepped || scope == Scope::Thread;
            if is_of_one && figure.quantity != Quantity::Time {
                figure.verdict = Verdict::Unstable(Cause::OtherThreads { percent, is_stepped });
            }
        }
    }

    /// Adds the parts of the pipeline slots.
    pub(super) fn add_parts_of_slots(&mut self, topdown: &Topdown, target: f64) {
        if self.code.has_fence() {
            let note = "most pipeline slots are the fence's, so their parts are not shown. Measure the throughput";
            self.row.notes.push(note.into());
            return;
        }
        let Some((mut figures, disagreement)) = self.turns.figures(topdown, target) else {
            self.row.notes.push("the slots of the top-down method could not be counted".into());
            return;
        };
        if self.rounds_disagree {
            let verdict = Verdict::Unstable(Cause::RoundsDisagree);
            figures.iter_mut().for_each(|figure| figure.verdict = verdict);
        }
        self.parts = figures;
        self.row.notes.extend(disagreement.map(|why| format!("top-down counts disagree: {why}")));
    }

    /// Returns the row, with its figures in the order of the events. The ratio comes after the instructions.
    pub(super) fn finished(self, events: &[Event]) -> Row {
        let mut row = self.row;
        if let Some(message) = &row.panicked {
            row.notes.insert(0, format!("its code panicked: {message}"));
            return row;
        }
        row.figures = self.measured.into_iter().map(|measured| measured.figure).collect();
        row.figures.extend(self.parts);
        let (instructions, cycles) = (row.event(Event::INSTRUCTIONS), row.event(Event::CYCLES));
        if let (Some(instructions), Some(cycles)) = (instructions, cycles) {
            let ratio = instructions.ratio_to(cycles, Quantity::InstructionsPerCycle);
            row.figures.extend(ratio);
        }
        let place = |event| events.iter().position(|known| *known == event);
        row.figures.sort_by_key(|figure| match figure.quantity {
            Quantity::Time => (None, 0),
            Quantity::Event(event) => (place(event), 0),
            Quantity::SteppedInstructions => (place(Event::INSTRUCTIONS), 0),
            Quantity::InstructionsPerCycle => (place(Event::INSTRUCTIONS), 1),
            // After all events, in their own order.
            part => (Some(usize::MAX), QUANTITIES.iter().position(|it| *it == part).unwrap_or(0)),
        });
        row
    }
}

/// Whether two rounds counted as many instructions.
fn agree(first: Option<Estimate>, this: Option<Estimate>) -> bool {
    match (first, this) {
        (Some(first), Some(this)) => this.low <= first.high && first.low <= this.high,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_agree_if_their_intervals_meet() {
        let of = |low, high| Some(Estimate { value: (low + high) / 2.0, low, high });
        assert!(agree(of(100.0, 100.0), of(100.0, 100.0)));
        assert!(agree(of(100.0, 102.0), of(101.0, 105.0)));
        assert!(!agree(of(100.0, 100.0), of(101.0, 101.0)));
        assert!(!agree(of(103.0, 104.0), of(100.0, 102.0)));
        assert!(agree(None, of(1.0, 2.0)) && agree(of(1.0, 2.0), None));
    }
}
