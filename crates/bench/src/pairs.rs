//! Loops of `k` runs and of `2 k` runs, of the work and of nothing, in random order.

// The difference of a long loop and a short one contains neither the reads of the counters nor the ends of the loop.
// The same difference for loops of nothing is the cost of the loop itself.

use crate::code::Random;

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
    pub(crate) ns_per_tick: f64,
    /// The step of the tick counter, in ticks.
    pub(crate) step: f64,
}

/// What a loop contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Work,
    Nothing,
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
    /// Measures a loop of `runs` runs. None if the counters cannot be read now.
    fn measure(&mut self, content: Content, runs: u64) -> Option<Loop>;
}

/// The four loops of one pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// What `k` runs of the work took, exactly: (long - short) - (long - short of nothing).
    pub(crate) differences: [i64; VALUES],
    /// The long loop of the work.
    pub(crate) long: [u64; VALUES],
    pub(crate) is_disturbed: bool,
}

/// Measures a pair of `k` and `2 k` runs. None if the counters cannot be read.
pub(crate) fn pair(measure: &mut dyn Measure, k: u64, random: &mut Random) -> Option<Pair> {
    let long = k.saturating_mul(2);
    let mut order = [
        (Content::Work, k, 0),
        (Content::Work, long, 1),
        (Content::Nothing, k, 2),
        (Content::Nothing, long, 3),
    ];
    random.shuffle(&mut order);
    let mut found = [Loop::default(); 4];
    for (content, runs, place) in order {
        let measured = measure.measure(content, runs)?;
        if let Some(into) = found.get_mut(place) {
            *into = measured;
        }
    }
    let [short, long, empty_short, empty_long] = found;
    let work = less(&long, &short);
    let nothing = less(&empty_long, &empty_short);
    let mut differences = work;
    for (difference, nothing) in differences.iter_mut().zip(nothing) {
        *difference = difference.wrapping_sub(nothing);
    }
    let is_disturbed =
        [short, long, empty_short, empty_long].iter().any(|measured| measured.is_disturbed);
    Some(Pair { differences, long: long.values, is_disturbed })
}

fn less(long: &Loop, short: &Loop) -> [i64; VALUES] {
    let mut difference = [0; VALUES];
    for ((difference, long), short) in difference.iter_mut().zip(long.values).zip(short.values) {
        *difference = long.wrapping_sub(short) as i64;
    }
    difference
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    /// A machine on which a run takes 7, a run of nothing 2, and a read 1,000.
    struct Constant {
        loops: Vec<(Content, u64)>,
    }

    impl Measure for Constant {
        fn measure(&mut self, content: Content, runs: u64) -> Option<Loop> {
            self.loops.push((content, runs));
            let each = if content == Content::Work { 7 + 2 } else { 2 };
            Some(Loop { values: [1_000 + each * runs; VALUES], is_disturbed: runs == 6 })
        }
    }

    #[test]
    fn a_pair_has_the_work_alone_and_comes_in_any_order() {
        let mut machine = Constant { loops: Vec::new() };
        let mut random = Random::new();
        let mut firsts = Vec::new();
        for _ in 0..100 {
            machine.loops.clear();
            let pair = pair(&mut machine, 5, &mut random).unwrap();
            assert_eq!(pair.differences, [35; VALUES]);
            assert_eq!((pair.long, pair.is_disturbed), ([1_090; VALUES], false));
            firsts.push(machine.loops[0]);
            machine.loops.sort_by_key(|(content, runs)| (*content == Content::Nothing, *runs));
            let all = [
                (Content::Work, 5),
                (Content::Work, 10),
                (Content::Nothing, 5),
                (Content::Nothing, 10),
            ];
            assert_eq!(machine.loops, all);
        }
        for first in [(Content::Work, 5), (Content::Nothing, 10)] {
            assert!(firsts.iter().filter(|found| **found == first).count() > 10);
        }
        assert!(pair(&mut machine, 3, &mut random).unwrap().is_disturbed);
    }
}
