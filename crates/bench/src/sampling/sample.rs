//! One sample: a few loops of the code, in random order, whose differences are the cost of a run.

// A loop of 2 k turns and one of k have the reads of the counters and the ends of the loop in common. Their difference is k
// runs, with the loop's own instructions. Whether these cost time beside the code is what a loop with two copies of the
// code shows: k turns with a run more each. See `estimate`.

use crate::sampling::code::{Content, Random};

/// The maximum number of values in a loop's measurement: the counts of a group, and the ticks.
pub(crate) const VALUES: usize = 9;
/// The place of the ticks among the values.
pub(crate) const TICKS: usize = VALUES - 1;

/// What the values of a loop are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The number of counts, before the ticks.
    pub(crate) counts: usize,
    /// The place of the instruction count: the witness.
    pub(crate) instructions: Option<usize>,
    /// The place of the kernel's instruction count, which interrupts add to.
    pub(crate) kernel: Option<usize>,
    /// The place of the cycles.
    pub(crate) cycles: Option<usize>,
    /// Whether the instructions of the kernel are counted together with those of the code.
    pub(crate) includes_kernel: bool,
    /// Whether all counts are the kernel's own: page faults, for example.
    pub(crate) is_software: bool,
    pub(crate) ns_per_tick: f64,
    /// The step of the tick counter, in ticks.
    pub(crate) step: f64,
}

/// What one loop took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Loop {
    pub(crate) values: [u64; VALUES],
    /// Whether the kernel switched the thread or moved a counter during the loop.
    pub(crate) is_disturbed: bool,
}

/// Measures loops. Tests put recorded noise in the place of a machine.
pub(crate) trait Measure {
    /// Measures a loop of `turns` turns. None if the counters cannot be read now.
    fn measure(&mut self, content: Content, turns: u64) -> Option<Loop>;
}

/// The loops of one sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Its place among the samples of all rows, which are taken in turns.
    pub(crate) pass: u32,
    /// The turns of the short loops.
    pub(crate) k: u64,
    /// The work: `k` turns, and `2 k`.
    short: [u64; VALUES],
    long: [u64; VALUES],
    /// Two copies of the work, `k` turns. None if they were not measured.
    twice: Option<[u64; VALUES]>,
    /// Nothing: `k` turns, and `2 k`.
    empty_short: [u64; VALUES],
    empty_long: [u64; VALUES],
    pub(crate) is_disturbed: bool,
    /// Whether the code gave up the CPU, for example by sleeping.
    pub(crate) has_blocked: bool,
}

impl Sample {
    /// Returns what the reads of the counters and the ends of the loop add to a loop of work, or of nothing.
    pub(crate) fn ends(&self, place: usize, content: Content) -> f64 {
        let (short, long) = self.pair(place, content);
        2.0 * short - long
    }

    /// Returns the value of a turn, with what the loop's own instructions add. `ends` are not part of it.
    pub(crate) fn turn(&self, place: usize, content: Content, ends: f64) -> f64 {
        let (short, long) = self.pair(place, content);
        (short + long - 2.0 * ends) / (3.0 * self.k as f64)
    }

    /// Returns the difference of the loops of work: the value of `k` turns.
    pub(crate) fn difference(&self, place: usize) -> f64 {
        difference(place, &self.long, &self.short) as f64
    }

    /// Returns the value of one more copy of the code in each turn. None if it was not measured.
    pub(crate) fn copy(&self, place: usize) -> Option<f64> {
        let twice = at(place, self.twice.as_ref()?);
        Some(twice.wrapping_sub(at(place, &self.short)) as i64 as f64 / self.k as f64)
    }

    fn pair(&self, place: usize, content: Content) -> (f64, f64) {
        let (short, long) = match content {
            Content::Nothing => (&self.empty_short, &self.empty_long),
            _ => (&self.short, &self.long),
        };
        (at(place, short) as f64, at(place, long) as f64)
    }

    /// Returns the value of a run, less that of an empty turn. Equal rates are equal numbers: the differences are
    /// below 2^53, and a division of whole numbers is rounded once.
    pub(crate) fn run(&self, place: usize) -> f64 {
        let turns = difference(place, &self.long, &self.short);
        let empty = difference(place, &self.empty_long, &self.empty_short);
        turns.wrapping_sub(empty) as f64 / self.k as f64
    }

    /// Returns the values of all 3 `k` runs, less those of the empty turns.
    pub(crate) fn all_runs(&self, place: usize) -> f64 {
        let of = |content| {
            let (short, long) = self.pair(place, content);
            short + long
        };
        of(Content::Work) - of(Content::Nothing)
    }

    /// Returns the value of the short loop of work.
    pub(crate) fn short(&self, place: usize) -> f64 {
        at(place, &self.short) as f64
    }

    /// Returns the count of the long loop of work.
    pub(crate) fn long(&self, place: usize) -> u64 {
        at(place, &self.long)
    }

    /// Returns the value of each loop of work, and its runs.
    pub(crate) fn loops(&self, place: usize) -> impl Iterator<Item = (u64, u64)> {
        let Sample { k, short, long, twice, .. } = self;
        let twice = twice.as_ref().map(|twice| (at(place, twice), 2 * k));
        [(at(place, short), *k), (at(place, long), 2 * k)].into_iter().chain(twice)
    }
}

fn at(place: usize, values: &[u64; VALUES]) -> u64 {
    values.get(place).copied().unwrap_or(0)
}

fn difference(place: usize, more: &[u64; VALUES], less: &[u64; VALUES]) -> i64 {
    at(place, more).wrapping_sub(at(place, less)) as i64
}

/// Takes a sample with short loops of `k` turns. None if the counters cannot be read.
pub(crate) fn sample(
    measure: &mut dyn Measure,
    pass: u32,
    k: u64,
    with_copies: bool,
    random: &mut Random,
) -> Option<Sample> {
    use Content::{Nothing, Twice, Work};
    let long = k.saturating_mul(2);
    let mut order =
        [(Work, k, 0), (Work, long, 1), (Nothing, k, 2), (Nothing, long, 3), (Twice, k, 4)];
    random.shuffle(&mut order);
    let mut found = [Loop::default(); 5];
    for (content, turns, place) in order {
        if content == Twice && !with_copies {
            continue;
        }
        let measured = measure.measure(content, turns)?;
        if let Some(into) = found.get_mut(place) {
            *into = measured;
        }
    }
    let is_disturbed = found.iter().any(|measured| measured.is_disturbed);
    let [short, long, empty_short, empty_long, twice] = found.map(|measured| measured.values);
    let twice = with_copies.then_some(twice);
    let has_blocked = false; // the caller knows
    Some(Sample { pass, k, short, long, twice, empty_short, empty_long, is_disturbed, has_blocked })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    /// A machine on which a run takes 7, a turn 2, and a read 1,000.
    struct Constant {
        loops: Vec<(Content, u64)>,
    }

    impl Measure for Constant {
        fn measure(&mut self, content: Content, turns: u64) -> Option<Loop> {
            self.loops.push((content, turns));
            let each = match content {
                Content::Work => 7 + 2,
                Content::Twice => 14 + 2,
                Content::Nothing => 2,
            };
            Some(Loop { values: [1_000 + each * turns; VALUES], is_disturbed: turns == 6 })
        }
    }

    #[test]
    fn a_sample_has_the_costs_apart_and_its_loops_in_any_order() {
        let mut machine = Constant { loops: Vec::new() };
        let mut random = Random::of_seed(0);
        let mut firsts = Vec::new();
        for _ in 0..100 {
            machine.loops.clear();
            let sample = sample(&mut machine, 3, 5, true, &mut random).unwrap();
            for place in [0, TICKS] {
                for (content, turn) in [(Content::Work, 9.0), (Content::Nothing, 2.0)] {
                    assert_eq!(sample.ends(place, content), 1_000.0);
                    assert_eq!(sample.turn(place, content, 1_000.0), turn);
                }
                assert_eq!((sample.copy(place), sample.run(place)), (Some(7.0), 7.0));
                assert_eq!(sample.long(place), 1_090);
                let loops: Vec<(u64, u64)> = sample.loops(place).collect();
                assert_eq!(loops, [(1_045, 5), (1_090, 10), (1_080, 10)]);
            }
            assert_eq!((sample.pass, sample.k, sample.is_disturbed), (3, 5, false));
            firsts.push(machine.loops[0]);
            machine.loops.sort_by_key(|(content, turns)| (*content as usize, *turns));
            let all = [
                (Content::Work, 5),
                (Content::Work, 10),
                (Content::Twice, 5),
                (Content::Nothing, 5),
                (Content::Nothing, 10),
            ];
            assert_eq!(machine.loops, all);
        }
        for first in [(Content::Work, 5), (Content::Twice, 5), (Content::Nothing, 10)] {
            assert!(firsts.iter().filter(|found| **found == first).count() > 10);
        }
        assert!(sample(&mut machine, 0, 3, true, &mut random).unwrap().is_disturbed);
        assert_eq!(sample(&mut machine, 0, 5, false, &mut random).unwrap().copy(0), None);
    }
}
