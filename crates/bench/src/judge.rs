//! The figures of a number of samples, and how far they can be trusted.

use crate::estimate::{self, Estimate, FEWEST, median};
use crate::fence::FenceCost;
use crate::paths::{OF_INTERRUPTS, Paths, tally};
use crate::sample::{Sample, Shape, TICKS, VALUES};
use crate::verdict::{Cause, Verdict};

/// What the fence after each run adds to each value. None for values to which it adds nothing, or if there is no fence.
pub(crate) type FenceCosts = [Option<FenceCost>; VALUES];

/// Without instructions, interrupts explain a mean that is up to this many times the median.
const HEAVY: f64 = 1.05;

/// What samples say.
#[derive(Clone, Debug)]
pub(crate) struct Judged<'a> {
    /// For each count and the ticks (in nanoseconds), per run. None for places that are not used, and without samples.
    pub(crate) figures: [Option<(Estimate, Verdict)>; VALUES],
    /// The samples that were not set aside.
    pub(crate) kept: Vec<&'a Sample>,
}

/// Sets disturbed samples aside, and estimates each value per run.
pub(crate) fn judge<'a>(
    samples: &'a [Sample],
    shape: &Shape,
    target: f64,
    paths: &Paths,
    fence: &FenceCosts,
) -> Judged<'a> {
    let all = samples.len();
    let calm: Vec<&Sample> = samples.iter().filter(|sample| !sample.is_disturbed).collect();
    let switched = all - calm.len();
    // If too few are left, those with a context switch are better than none.
    let too_few_calm = calm.len() < FEWEST && switched > 0;
    let calm = if too_few_calm { samples.iter().collect() } else { calm };
    let Witnessed { kept, interrupted, has_rare_path, varies } =
        witnessed(calm, shape, paths.are_several);
    let are_several = paths.are_several || has_rare_path || varies;
    let many = |count: usize| count * 4 > all;
    let mut figures: [Option<(Estimate, Verdict)>; VALUES] = [None; VALUES];
    // The time comes last, and looks at the cycles.
    for place in (0..VALUES).filter(|place| *place < shape.counts || *place == TICKS) {
        let is_time = place == TICKS;
        let measures_speed = is_time || shape.cycles == Some(place);
        let enough = if is_time { 0.1 } else { 0.5 };
        let Some(Found { estimate, is_exact, mean }) = found(&kept, place, shape, fence, varies)
        else {
            continue;
        };
        if kept.len() < FEWEST {
            set(&mut figures, place, estimate, Verdict::Unstable(Cause::Unreadable));
            continue;
        }
        let stands_still = |place: usize| samples.iter().all(|sample| sample.long(place) == 0);
        let is_dead = shape.instructions.is_some_and(stands_still)
            || shape.cycles == Some(place) && stands_still(place);
        let is_witness = shape.instructions == Some(place);
        let accepted = (target * estimate.value.abs()).max(enough * target / 0.01);
        let is_narrow = estimate.error() <= accepted;
        let verdict = if is_dead && !is_time {
            Verdict::Unstable(Cause::DoesNotCount)
        } else if too_few_calm {
            Verdict::Unstable(Cause::ContextSwitches { samples: switched, of: all })
        } else if measures_speed && estimate.value < enough {
            Verdict::Unstable(Cause::TooShort)
        } else if is_witness && has_rare_path {
            Verdict::Unstable(Cause::SeveralPaths)
        } else if is_exact {
            Verdict::Exact
        } else if !estimate.contains(mean)
            && (varies && !paths.are_several || mean > estimate.value * HEAVY)
        {
            Verdict::Unstable(Cause::HeavyTail { mean })
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
            let rare = || (!measures_speed).then(|| rare(&kept, place)).flatten();
            Verdict::Unstable(if are_several {
                Cause::SeveralPaths
            } else if many(switched) {
                Cause::ContextSwitches { samples: switched, of: all }
            } else if many(interrupted) {
                Cause::Interrupts { samples: interrupted, of: all }
            } else if let Some(percent) = frequency() {
                Cause::Frequency { percent }
            } else if let Some(samples) = rare() {
                Cause::Rare { samples, of: kept.len() }
            } else if measures_speed && estimate.low <= 0.0 {
                Cause::TooShort
            } else {
                Cause::Varies
            })
        };
        set(&mut figures, place, estimate, verdict);
    }
    Judged { figures, kept }
}

/// An estimate per run.
struct Found {
    estimate: Estimate,
    /// Whether all samples agree to the last unit.
    is_exact: bool,
    mean: f64,
}

/// None without samples.
fn found(
    kept: &[&Sample],
    place: usize,
    shape: &Shape,
    fence: &FenceCosts,
    varies: bool,
) -> Option<Found> {
    let is_time = place == TICKS;
    let first = kept.first()?.run(place);
    let is_exact =
        !is_time && kept.len() >= FEWEST && kept.iter().all(|sample| sample.run(place) == first);
    if is_exact {
        return Some(Found { estimate: Estimate::exactly(first), is_exact, mean: first });
    }
    let fence = fence.get(place).copied().flatten();
    let without_fence = |estimate: Estimate| match fence {
        Some(fence) => estimate.less(&fence.after_a_chain),
        None => estimate,
    };
    if !is_time && shape.cycles != Some(place) {
        let estimate = estimate::count(kept, place)?;
        return Some(Found { estimate, is_exact, mean: estimate.value });
    }
    let unit = if is_time { shape.ns_per_tick } else { 1.0 };
    let shortest = kept.iter().map(|sample| sample.k).min()?;
    // The clock advances in steps, the time does not.
    let step = if is_time { shape.step / shortest as f64 } else { 0.0 };
    let speed = if varies { estimate::speed_of_paths } else { estimate::speed };
    let estimate = without_fence(speed(kept, place)?.widened(step));
    let mean = estimate::mean_speed(kept, place)?;
    let mean = without_fence(Estimate::exactly(mean)).value;
    Some(Found { estimate: estimate.scaled(unit), is_exact, mean: mean * unit })
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

/// Returns how many samples have counts other than the most frequent one. None unless they are so few that a slice may
/// have none.
fn rare(kept: &[&Sample], place: usize) -> Option<usize> {
    let (_, times) = tally(kept.iter().map(|sample| sample.run(place))).first().copied()?;
    let others = kept.len() - times;
    (others < 4 * estimate::SLICES && others * 4 < kept.len()).then_some(others)
}

/// Samples, as the instructions tell them apart.
struct Witnessed<'a> {
    kept: Vec<&'a Sample>,
    interrupted: usize,
    /// Whether some have too many or too few instructions for an interrupt, and most do not. They are kept.
    has_rare_path: bool,
    /// Whether no number of instructions is that of most samples.
    varies: bool,
}

/// Sets aside samples whose instructions, of the kernel or of the code, differ from the most frequent count. Exceptions:
/// - A sample that differs by more than [`OF_INTERRUPTS`] took another path, and is kept.
/// - No sample is set aside for the code's instructions if single runs took several paths, or if it would be more than a
///   quarter of them: interrupts come less often.
/// - Nor if a sample differs by more than [`OF_INTERRUPTS`] and there is no majority.
fn witnessed<'a>(samples: Vec<&'a Sample>, shape: &Shape, are_several: bool) -> Witnessed<'a> {
    let all = samples.len();
    let (mut kept, mut has_rare_path, mut varies) = (samples, false, false);
    for place in [shape.kernel, shape.instructions].into_iter().flatten() {
        let is_witness = shape.instructions == Some(place);
        let Some((mode, times)) =
            tally(kept.iter().map(|sample| sample.run(place))).first().copied()
        else {
            continue;
        };
        let is_far = |sample: &Sample| {
            let of_interrupts =
                if shape.includes_kernel { f64::INFINITY } else { OF_INTERRUPTS as f64 };
            // The parts of an instruction that the division has rounded are no difference.
            let difference = ((sample.run(place) - mode) * sample.k as f64).abs();
            is_witness && difference > of_interrupts + 0.5
        };
        let is_most = times * 2 > kept.len();
        let are_far = kept.iter().filter(|sample| is_far(sample)).count();
        let are_near = kept.len() - times - are_far;
        let are_no_interrupts = !shape.includes_kernel && are_near * 4 > kept.len();
        if is_witness && (are_several || are_no_interrupts || are_far > 0 && !is_most) {
            varies = times < kept.len();
        } else if times >= FEWEST {
            has_rare_path |= are_far > 0;
            kept.retain(|sample| sample.run(place) == mode || is_far(sample));
        }
    }
    Witnessed { interrupted: all - kept.len(), kept, has_rare_path, varies }
}

/// Returns the change of cycles per tick in percent: the difference between the samples' first and second half, or the
/// range above the median, whichever is more. (Below, an interrupt adds to the time.) None if too few are known.
fn frequency(samples: &[&Sample], cycles: usize) -> Option<f64> {
    let of = |sample: &&Sample| {
        let ticks = sample.long(TICKS);
        (ticks > 0).then(|| sample.long(cycles) as f64 / ticks as f64)
    };
    let mut rates: Vec<f64> = samples.iter().filter_map(of).collect();
    let (first, second) = rates.split_at(rates.len() / 2);
    let halves = median(first.iter().copied())? - median(second.iter().copied())?;
    rates.sort_by(f64::total_cmp);
    let high = *rates.get((rates.len() - 1) * 9 / 10)?;
    let median = median(rates.into_iter())?;
    let change = (high - median).max(halves.abs());
    (median > 0.0).then(|| change / median * 100.0)
}
