//! One round: pairs of one set of events, until the figures are good enough or the time is used up.

use crate::code::Random;
use crate::estimate::FEWEST;
use crate::judge::{Judged, judge};
use crate::pairs::{Measure, Pair, Shape, TICKS, pair};
use crate::paths::{Paths, paths};
use crate::verdict::Verdict;
use std::time::{Duration, Instant};

/// The pairs to take before the figures are judged. With 67, the interval covers 95.02 %.
pub(crate) const PAIRS: usize = 67;
/// The maximum number of pairs of a round.
const MOST_PAIRS: usize = PAIRS * 16;
/// `k` doubles only while a pair takes less than this. Interrupts hit most loops that are longer.
const LONGEST: Duration = Duration::from_millis(1);
/// The first short loop takes at least this long.
const SHORTEST: Duration = Duration::from_micros(1);

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) time: Duration,
    /// The number of runs in a short loop. None to find it.
    pub(crate) k: Option<u64>,
    pub(crate) multiple: u64,
    /// The relative error that is good enough.
    pub(crate) target: f64,
}

/// What a round has found.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) judged: Judged,
    pub(crate) paths: Paths,
    pub(crate) k: u64,
}

/// Measures a round. Calls `progress` between its loops.
pub(crate) fn round(
    measure: &mut dyn Measure,
    shape: &Shape,
    effort: &Effort,
    progress: &mut dyn FnMut(),
) -> Round {
    let begun = Instant::now();
    let left = || effort.time.saturating_sub(begun.elapsed());
    let mut random = Random::new();
    let (mut k, paths) = match effort.k {
        Some(k) => (k, Paths::default()),
        None => {
            let k = first_length(measure, shape, effort.multiple.max(1), effort.time / 4);
            (k, paths(measure, shape, &mut random, effort.time / 4))
        }
    };
    let mut pairs: Vec<Pair> = Vec::with_capacity(PAIRS);
    let (mut wanted, mut is_last) = (PAIRS, effort.k.is_some());
    loop {
        let level = Instant::now();
        let (before, mut unreadable) = (pairs.len(), 0);
        while pairs.len() < before + wanted && unreadable < PAIRS {
            progress();
            match pair(measure, k, &mut random) {
                Some(pair) => pairs.push(pair),
                None => unreadable += 1,
            }
            if pairs.len() > FEWEST && left().is_zero() {
                break;
            }
        }
        let judged = judge(&pairs, shape, k, effort.target, &paths);
        let a_pair =
            level.elapsed() / u32::try_from(pairs.len() - before).unwrap_or(u32::MAX).max(1);
        let a_level = a_pair.saturating_mul(PAIRS as u32);
        if is_last || unreadable == PAIRS || left() < a_level {
            return Round { judged, paths, k };
        }
        let again = a_pair.saturating_mul(pairs.len() as u32);
        if is_good_enough(&judged, shape, effort.target) && left() >= again {
            // An interval that was chosen for its width does not cover what it says. New pairs do, as many.
            (wanted, is_last) = (pairs.len(), true);
            pairs.clear();
        } else if a_pair < LONGEST && left() > a_level.saturating_mul(2) && k < 1 << 40 {
            // In longer loops, the reads' noise weighs less.
            k = k.saturating_mul(2);
            pairs.clear();
        } else if pairs.len() >= MOST_PAIRS {
            return Round { judged, paths, k };
        }
    }
}

/// Whether the round can end. If cycles are counted, they decide, and go on to a quarter of a cycle or a fiftieth of
/// the target, so that repeated results agree. Otherwise the time decides, and goes on to half of the target.
fn is_good_enough(judged: &Judged, shape: &Shape, target: f64) -> bool {
    let is_close = |place: usize, relative: f64, absolute: f64| match judged.figures.get(place) {
        Some(Some((estimate, Verdict::Exact | Verdict::Stable))) => {
            estimate.error() <= (estimate.value.abs() * relative).max(absolute)
        }
        _ => false,
    };
    match shape.cycles {
        Some(place) => {
            is_close(TICKS, f64::INFINITY, 0.0) && is_close(place, target / 50.0, target / 0.04)
        }
        None => is_close(TICKS, target / 2.0, target / 0.2),
    }
}

/// Returns the length of the first short loop, in at most this time. Its runs warm the caches.
fn first_length(measure: &mut dyn Measure, shape: &Shape, multiple: u64, time: Duration) -> u64 {
    use crate::pairs::Content::{Nothing, Work};
    let begun = Instant::now();
    let mut k = multiple;
    loop {
        let mut least = u64::MAX;
        for _ in 0..3 {
            for content in [Work, Nothing] {
                if let (Work, Some(found)) = (content, measure.measure(content, k)) {
                    let [.., ticks] = found.values;
                    least = least.min(ticks);
                }
            }
        }
        let ns = least as f64 * shape.ns_per_tick;
        let is_long = ns >= SHORTEST.as_nanos() as f64 || begun.elapsed() > time;
        if least == u64::MAX || is_long || k >= 1 << 30 {
            // An even number, so that code that alternates between two paths does the same in each loop.
            return if k % 2 == 0 { k } else { k.saturating_mul(2) };
        }
        k = k.saturating_mul(2);
    }
}

#[cfg(test)]
#[path = "tests/simulated.rs"]
mod simulated;
