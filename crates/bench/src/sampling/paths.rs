//! The paths that code takes, told apart by the instructions of single runs.

use crate::sampling::code::{Content, Random};
use crate::sampling::sample::{Measure, Shape};
use std::cmp::{Ordering, Reverse};
use std::time::{Duration, Instant};

/// Single runs, to find paths.
const RUNS: usize = 100;
/// Fewer runs show no shares.
const MIN_RUNS: usize = 4;
/// An interrupt adds an instruction, and a loop has few of them: a sample with more than this took another path.
pub(crate) const OF_INTERRUPTS: u64 = 8;
/// The share of the most frequent path below which code has several.
const MIN_SHARE: f64 = 0.9;

/// A path that the code takes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Path {
    /// The instructions of a run on this path.
    pub instructions: i64,
    /// How many of the runs took it, from 0 to 1.
    pub share: f64,
}

/// The paths of single runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Paths {
    /// Those that at least two runs took, the most frequent first.
    pub(crate) found: Vec<Path>,
    /// Whether at least a tenth of the runs took other paths than the most frequent one.
    pub(crate) are_several: bool,
}

/// Counts the instructions of single runs, for at most this time.
pub(crate) fn paths(
    measure: &mut dyn Measure,
    shape: &Shape,
    random: &mut Random,
    time: Duration,
) -> Paths {
    let Some(place) = shape.instructions else { return Paths::default() };
    let begun = Instant::now();
    let (mut work, mut nothing) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        if run >= MIN_RUNS && begun.elapsed() > time {
            break;
        }
        let mut order = [(Content::Work, &mut work), (Content::Nothing, &mut nothing)];
        random.shuffle(&mut order);
        for (content, runs) in order {
            let Some(found) = measure.measure(content, 1).filter(|found| !found.is_disturbed)
            else {
                continue;
            };
            let value = |place: usize| found.values.get(place).copied().unwrap_or(0) as i64;
            runs.push((shape.kernel.map_or(0, value), value(place)));
        }
    }
    // Without those that an interrupt added kernel instructions to. On another path, they may be the code's.
    let calm = |runs: Vec<(i64, i64)>| -> Vec<i64> {
        let least = runs.iter().map(|(kernel, _)| *kernel).min();
        let of_least = runs.iter().filter(|run| Some(run.0) == least).map(|run| run.1);
        let Some((usual, _)) = tally(of_least).first().copied() else { return Vec::new() };
        let is_calm = |run: &&(i64, i64)| {
            Some(run.0) == least || (run.1 - usual).unsigned_abs() > OF_INTERRUPTS
        };
        runs.iter().filter(is_calm).map(|(_, instructions)| *instructions).collect()
    };
    let (work, nothing) = (calm(work), calm(nothing));
    let Some((nothing, _)) = tally(nothing.into_iter()).first().copied() else {
        return Paths::default();
    };
    let all = work.len();
    let tally = tally(work.into_iter());
    let Some((most, _)) = tally.first().copied() else { return Paths::default() };
    let share = |count: usize| count as f64 / all as f64;
    // An interrupt adds an instruction to a few runs of any path, or many of the kernel.
    let is_interrupted = |(instructions, count): &(i64, usize)| {
        let is_little_more = |(path, runs): &(i64, usize)| {
            runs > count && (1..=OF_INTERRUPTS as i64).contains(&(instructions - path))
        };
        share(*count) < 0.05 && tally.iter().any(is_little_more)
            || *count == 1 && *instructions > most && shape.includes_kernel
    };
    let calm = |entry: &&(i64, usize)| !is_interrupted(entry);
    let on_others: usize = tally.iter().skip(1).filter(calm).map(|(_, count)| *count).sum();
    let found =
        tally.iter().filter(calm).filter(|(_, count)| *count >= 2).map(|(instructions, count)| {
            Path { instructions: instructions - nothing, share: share(*count) }
        });
    Paths { found: found.collect(), are_several: share(on_others) > 1.0 - MIN_SHARE }
}

/// Whether runs are slower in long loops than in short ones: whether some that are too rare for the short loops take a third of the time.
///
/// Short loops have about as many runs as are stepped. Of each kind, the fastest of several counts: other programs slow the others down. So the
/// long ones must be short enough that most are not interrupted. The kinds take turns, so a change of the frequency is in both.
pub(crate) fn has_rarer_path(measure: &mut dyn Measure) -> bool {
    const SHORT: u64 = 256;
    const LONGER: u64 = 16;
    const PAIRS: usize = 9;
    const SLOWER: f64 = 1.5;
    const LONGEST: Duration = Duration::from_micros(300);
    let loops = [
        (Content::Work, SHORT),
        (Content::Nothing, SHORT),
        (Content::Work, SHORT * LONGER),
        (Content::Nothing, SHORT * LONGER),
    ];
    let (mut least, mut fastest) = ([f64::INFINITY; 4], Duration::MAX);
    for _ in 0..PAIRS {
        let begun = Instant::now();
        for (least, (content, turns)) in least.iter_mut().zip(loops) {
            let Some(found) = measure.measure(content, turns) else { return false };
            let [.., ticks] = found.values;
            *least = least.min(ticks as f64 / turns as f64);
        }
        fastest = fastest.min(begun.elapsed());
        if fastest > LONGEST {
            return false;
        }
    }
    let [work, nothing, long_work, long_nothing] = least;
    let (short, long) = (work - nothing, long_work - long_nothing);
    short > 0.0 && long > SLOWER * short
}

/// Returns each value and how often it occurs, the most frequent first.
pub(crate) fn tally<T: PartialOrd>(values: impl Iterator<Item = T>) -> Vec<(T, usize)> {
    let mut values: Vec<T> = values.collect();
    values.sort_by(|one, other| one.partial_cmp(other).unwrap_or(Ordering::Equal));
    let mut tally: Vec<(T, usize)> = Vec::new();
    for value in values {
        match tally.last_mut() {
            Some((last, count)) if *last == value => *count += 1,
            _ => tally.push((value, 1)),
        }
    }
    tally.sort_by_key(|(_, count)| Reverse(*count));
    tally
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::sample::{Loop, TICKS, VALUES};

    /// A run takes 10, and each `period`-th one `longer`. A loop takes 200 more.
    struct Machine {
        period: u64,
        longer: u64,
        runs: u64,
        /// The loop that is disturbed.
        disturbed: u64,
        loops: u64,
    }

    impl Measure for Machine {
        fn measure(&mut self, content: Content, turns: u64) -> Option<Loop> {
            let mut values = [0; VALUES];
            self.loops += 1;
            let mut ticks = 200 + turns + if self.loops == self.disturbed { 100_000 } else { 0 };
            if content == Content::Work {
                let before = self.runs / self.period;
                self.runs += turns;
                ticks += 10 * turns + self.longer * (self.runs / self.period - before);
            }
            *values.get_mut(TICKS)? = ticks;
            Some(Loop { values, is_disturbed: false })
        }
    }

    #[test]
    fn long_loops_show_what_short_ones_lack() {
        let beside = |period, longer, disturbed| {
            has_rarer_path(&mut Machine { period, longer, runs: 0, disturbed, loops: 0 })
        };
        let of = |period, longer| beside(period, longer, 0);
        assert!(of(1_000, 100_000) && of(3_001, 1_000_000));
        // It adds little, or is in the short loops as well.
        assert!(!of(1_000, 1_000) && !of(1, 100_000) && !of(100, 100_000) && !of(1_000, 0));
        // Whichever loop another program disturbs.
        for disturbed in 1..=36 {
            assert!(!beside(1_000, 0, disturbed) && beside(1_000, 100_000, disturbed));
        }
    }
}
