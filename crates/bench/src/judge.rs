//! The figures of a number of pairs, and how far they can be trusted.

use crate::estimate::{self, Estimate, FEWEST};
use crate::pairs::{Pair, Shape, TICKS, VALUES};
use crate::paths::{OF_INTERRUPTS, Paths, tally};
use crate::verdict::{Cause, Verdict};

/// What pairs say.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    /// For each count and the ticks (in nanoseconds), per run. None for places that are not used, and without pairs.
    pub(crate) figures: [Option<(Estimate, Verdict)>; VALUES],
    pub(crate) pairs: usize,
    pub(crate) set_aside: usize,
}

/// Sets disturbed pairs aside, and estimates each value per run.
pub(crate) fn judge(pairs: &[Pair], shape: &Shape, k: u64, target: f64, paths: &Paths) -> Judged {
    let all = pairs.len();
    let calm: Vec<&Pair> = pairs.iter().filter(|pair| !pair.is_disturbed).collect();
    let switched = all - calm.len();
    // If too few are left, those with a context switch are better than none.
    let too_few_calm = calm.len() < FEWEST && switched > 0;
    let calm = if too_few_calm { pairs.iter().collect() } else { calm };
    let Witnessed { kept, interrupted, has_rare_path, varies } =
        witnessed(calm, shape, paths.are_several);
    let are_several = paths.are_several || has_rare_path || varies;
    let many = |count: usize| count * 4 > all;
    let mut figures: [Option<(Estimate, Verdict)>; VALUES] = [None; VALUES];
    // The time comes last, and looks at the cycles.
    for place in (0..VALUES).filter(|place| *place < shape.counts || *place == TICKS) {
        let is_time = place == TICKS;
        let measures_speed = is_time || shape.cycles == Some(place);
        let unit = if is_time { shape.ns_per_tick } else { 1.0 };
        let enough = if is_time { 0.1 } else { 0.5 };
        let mut values: Vec<i64> =
            kept.iter().filter_map(|pair| pair.differences.get(place)).copied().collect();
        if values.is_empty() {
            continue;
        }
        let Some(mut estimate) = estimate::median(&mut values) else {
            let mean = values.iter().map(|value| *value as f64).sum::<f64>() / values.len() as f64;
            let unknown = Estimate { value: mean, low: f64::NEG_INFINITY, high: f64::INFINITY };
            let per_run = unknown.scaled(unit / k as f64);
            set(&mut figures, place, per_run, Verdict::Unstable(Cause::Unreadable));
            continue;
        };
        let all_agree = values.first() == values.last();
        if is_time {
            // The counter advances in steps, the time does not.
            estimate.low -= shape.step;
            estimate.high += shape.step;
        }
        let estimate = estimate.scaled(unit / k as f64);
        let stands_still = |place: usize| {
            pairs.iter().all(|pair| pair.long.get(place).is_none_or(|count| *count == 0))
        };
        let is_dead = shape.instructions.is_some_and(stands_still)
            || shape.cycles == Some(place) && stands_still(place);
        let is_witness = shape.instructions == Some(place);
        let accepted = (target * estimate.value.abs()).max(enough * target / 0.01);
        let is_narrow = estimate.error() <= accepted;
        let verdict = if is_dead && !is_time {
            Verdict::Unstable(Cause::DoesNotCount)
        } else if too_few_calm {
            Verdict::Unstable(Cause::ContextSwitches { pairs: switched, of: all })
        } else if measures_speed && estimate.value < enough {
            Verdict::Unstable(Cause::TooShort)
        } else if is_witness && has_rare_path {
            Verdict::Unstable(Cause::SeveralPaths)
        } else if all_agree && !is_time {
            Verdict::Exact
        } else if is_narrow {
            Verdict::Stable
        } else {
            let steady_cycles = || {
                let cycles = figures.get(shape.cycles?).copied().flatten();
                matches!(cycles, Some((_, Verdict::Exact | Verdict::Stable)))
                    .then_some(shape.cycles?)
            };
            let frequency = || {
                let cycles = steady_cycles().filter(|_| is_time)?;
                frequency(&kept, cycles).filter(|percent| *percent > 2.0)
            };
            Verdict::Unstable(if are_several {
                Cause::SeveralPaths
            } else if many(switched) {
                Cause::ContextSwitches { pairs: switched, of: all }
            } else if many(interrupted) {
                Cause::Interrupts { pairs: interrupted, of: all }
            } else if let Some(percent) = frequency() {
                Cause::Frequency { percent }
            } else if measures_speed && estimate.low <= 0.0 {
                Cause::TooShort
            } else {
                Cause::Varies
            })
        };
        set(&mut figures, place, estimate, verdict);
    }
    Judged { figures, pairs: all, set_aside: all - kept.len() }
}

fn set(
    figures: &mut [Option<(Estimate, Verdict)>; VALUES],
    place: usize,
    estimate: Estimate,
    verdict: Verdict,
) {
    if let Some(figure) = figures.get_mut(place) {
        *figure = Some((estimate, verdict));
    }
}

/// Pairs, as the instructions tell them apart.
struct Witnessed<'a> {
    kept: Vec<&'a Pair>,
    interrupted: usize,
    /// Whether some have too many or too few instructions for an interrupt, and most do not. They are kept.
    has_rare_path: bool,
    /// Whether no number of instructions is that of most pairs.
    varies: bool,
}

/// Sets aside pairs whose instructions, of the kernel or of the code, differ from the most frequent count. Exceptions:
/// - A pair that differs by more than [`OF_INTERRUPTS`] took another path, and is kept.
/// - No pair is set aside for the code's instructions if single runs took several paths.
/// - Nor if a pair differs by more than [`OF_INTERRUPTS`] and there is no majority.
fn witnessed<'a>(pairs: Vec<&'a Pair>, shape: &Shape, are_several: bool) -> Witnessed<'a> {
    let all = pairs.len();
    let (mut kept, mut has_rare_path, mut varies) = (pairs, false, false);
    for place in [shape.kernel, shape.instructions].into_iter().flatten() {
        let is_witness = shape.instructions == Some(place);
        let count = |pair: &Pair| pair.differences.get(place).copied().unwrap_or(0);
        let mut counts: Vec<i64> = kept.iter().map(|pair| count(pair)).collect();
        let Some((mode, times)) = tally(&mut counts).first().copied() else { continue };
        let is_far = |pair: &Pair| {
            let of_interrupts = if shape.includes_kernel { u64::MAX } else { OF_INTERRUPTS };
            is_witness && count(pair).abs_diff(mode) > of_interrupts
        };
        let is_most = times * 2 > kept.len();
        let are_far = kept.iter().any(|pair| is_far(pair));
        if is_witness && (are_several || are_far && !is_most) {
            varies = times < kept.len();
        } else if times >= FEWEST {
            has_rare_path |= are_far;
            kept.retain(|pair| count(pair) == mode || is_far(pair));
        }
    }
    Witnessed { interrupted: all - kept.len(), kept, has_rare_path, varies }
}

/// Returns the change of cycles per tick in percent: the difference between the pairs' first and second half, or the
/// range above the median, whichever is more. (Below, an interrupt adds to the time.) None if too few are known.
fn frequency(pairs: &[&Pair], cycles: usize) -> Option<f64> {
    let of = |pair: &&Pair| {
        let [.., ticks] = pair.long;
        let cycles = *pair.long.get(cycles)?;
        (ticks > 0).then(|| cycles as f64 / ticks as f64)
    };
    let quantile = |rates: &mut Vec<f64>, tenth: usize| {
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len().checked_sub(1)? * tenth / 10).copied()
    };
    let mut rates: Vec<f64> = pairs.iter().filter_map(of).collect();
    let mut second = rates.split_off(rates.len() / 2);
    let halves = (quantile(&mut rates, 5)?, quantile(&mut second, 5)?);
    rates.append(&mut second);
    let (median, high) = (quantile(&mut rates, 5)?, quantile(&mut rates, 9)?);
    let change = (high - median).max((halves.0 - halves.1).abs());
    (median > 0.0).then(|| change / median * 100.0)
}
