//! The paths that code takes, told apart by the instructions of single runs.

use crate::code::Random;
use crate::pairs::{Content, Measure, Shape};
use std::time::{Duration, Instant};

/// Single runs, to find paths.
const RUNS: usize = 100;
/// Fewer runs show no shares.
const FEWEST: usize = 4;
/// An interrupt adds an instruction, and a loop has few of them: a pair with more than this is another path.
pub(crate) const OF_INTERRUPTS: u64 = 8;
/// The share of the most frequent path below which code has several.
const MOST: f64 = 0.9;

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
        if run >= FEWEST && begun.elapsed() > time {
            break;
        }
        let mut order = [Content::Work, Content::Nothing];
        random.shuffle(&mut order);
        for content in order {
            let Some(found) = measure.measure(content, 1).filter(|found| !found.is_disturbed)
            else {
                continue;
            };
            let value = |place: usize| found.values.get(place).copied().unwrap_or(0) as i64;
            let run = (shape.kernel.map_or(0, value), value(place));
            match content {
                Content::Work => work.push(run),
                Content::Nothing => nothing.push(run),
            }
        }
    }
    // Without those that an interrupt added kernel instructions to.
    let calm = |runs: Vec<(i64, i64)>| -> Vec<i64> {
        let least = runs.iter().map(|(kernel, _)| *kernel).min();
        let is_calm = |run: &&(i64, i64)| Some(run.0) == least;
        runs.iter().filter(is_calm).map(|(_, instructions)| *instructions).collect()
    };
    let (mut work, mut nothing) = (calm(work), calm(nothing));
    let Some((nothing, _)) = tally(&mut nothing).first().copied() else { return Paths::default() };
    let all = work.len();
    let tally = tally(&mut work);
    let Some((most, _)) = tally.first().copied() else { return Paths::default() };
    let share = |count: usize| count as f64 / all as f64;
    // An interrupt adds an instruction to a few, or many of the kernel.
    let is_interrupted = |(instructions, count): &(i64, usize)| {
        let more = instructions - most;
        share(*count) < 0.05 && (1..=OF_INTERRUPTS as i64).contains(&more)
            || *count == 1 && more > 0 && shape.includes_kernel
    };
    let calm = |entry: &&(i64, usize)| !is_interrupted(entry);
    let on_others: usize = tally.iter().skip(1).filter(calm).map(|(_, count)| *count).sum();
    let found =
        tally.iter().filter(calm).filter(|(_, count)| *count >= 2).map(|(instructions, count)| {
            Path { instructions: instructions - nothing, share: share(*count) }
        });
    Paths { found: found.collect(), are_several: share(on_others) > 1.0 - MOST }
}

/// Returns each value and how often it occurs, the most frequent first.
pub(crate) fn tally(values: &mut [i64]) -> Vec<(i64, usize)> {
    values.sort_unstable();
    let mut tally: Vec<(i64, usize)> = Vec::new();
    for value in values {
        match tally.last_mut() {
            Some((last, count)) if last == value => *count += 1,
            _ => tally.push((*value, 1)),
        }
    }
    tally.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    tally
}
