//! The figures of a number of samples, and how far they can be trusted.

use crate::judging::estimate::{self, Estimate};
use crate::judging::fence::FenceCost;
use crate::judging::verdict::{Cause, Verdict};
use crate::sampling::paths::{OF_INTERRUPTS, Paths, tally};
use crate::sampling::sample::{Sample, Shape, TICKS, VALUES};
use rdpmc_report::gate::{MIN_VALUES, SLICES, median};

/// What the fence after each run adds to each value. None for values to which it adds nothing, or if there is no fence.
pub(crate) type FenceCosts = [Option<FenceCost>; VALUES];

/// Interrupts explain a mean that is up to this many times the median.
const HEAVY: f64 = 1.05;
/// The same of counts that include the kernel's.
const HEAVY_COUNT: f64 = 1.01;

/// What samples say.
#[derive(Clone, Debug)]
pub(crate) struct Judged<'a> {
    /// For each count and the ticks (in nanoseconds), per run. None for places that are not used, and without samples.
    pub(crate) figures: [Option<(Estimate, Verdict)>; VALUES],
    /// The samples that were not set aside.
    pub(crate) kept: Vec<&'a Sample>,
    /// All samples but those in which another program had the CPU. Their mean has the rare runs that the median does not
    /// show: those that wait, and those that enter the kernel.
    pub(crate) whole: Vec<&'a Sample>,
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
    let too_few_calm = calm.len() < MIN_VALUES && switched > 0;
    let calm = if too_few_calm { samples.iter().collect() } else { calm };
    let whole: Vec<&Sample> = match too_few_calm {
        true => samples.iter().collect(),
        false => {
            samples.iter().filter(|sample| !sample.is_disturbed || sample.has_blocked).collect()
        }
    };
    let blocked = samples.iter().filter(|sample| sample.is_disturbed && sample.has_blocked).count();
    let Witnessed { kept, interrupted, has_rare_path, varies } =
        witnessed(calm, shape, paths.are_several);
    let are_several = paths.are_several || has_rare_path || varies;
    let everything: Vec<&Sample> = samples.iter().collect();
    let many = |count: usize| count * 4 > all;
    let mut figures: [Option<(Estimate, Verdict)>; VALUES] = [None; VALUES];
    // The time comes last, and looks at the cycles.
    for place in (0..VALUES).filter(|place| *place < shape.counts || *place == TICKS) {
        let is_time = place == TICKS;
        let measures_speed = is_time || shape.cycles == Some(place);
        let enough = if is_time { 0.1 } else { 0.5 };
        // A context switch changes no count of the kernel's.
        let counted = if shape.is_software && !is_time { &everything } else { &kept };
        let Some(Found { estimate, is_exact, mean }) =
            found(counted, &whole, place, shape, fence, varies)
        else {
            continue;
        };
        if kept.len() < MIN_VALUES {
            set(&mut figures, place, estimate, Verdict::Unstable(Cause::Unreadable));
            continue;
        }
        let stands_still = |place: usize| samples.iter().all(|sample| sample.long(place) == 0);
        let is_dead = shape.instructions.is_some_and(stands_still)
            || shape.cycles == Some(place) && stands_still(place);
        let is_witness = shape.instructions == Some(place);
        let accepted = (target * estimate.value.abs()).max(enough * target / 0.01);
        let is_narrow = estimate.error() <= accepted;
        let heavy = if measures_speed { HEAVY } else { HEAVY_COUNT };
        let verdict = if is_dead && !is_time {
            Verdict::Unstable(Cause::DoesNotCount)
        } else if too_few_calm && (measures_speed || !shape.is_software) {
            Verdict::Unstable(Cause::ContextSwitches { samples: switched, of: all })
        } else if measures_speed && estimate.value < enough {
            Verdict::Unstable(Cause::TooShort)
        } else if is_witness && has_rare_path {
            Verdict::Unstable(Cause::SeveralPaths)
        } else if measures_speed && many(blocked) {
            Verdict::Unstable(Cause::ContextSwitches { samples: switched, of: all })
        } else if !estimate.contains(mean)
            && (has_rare_path
                || varies && !paths.are_several
                || mean > estimate.value * heavy
                || mean * heavy < estimate.value)
        {
            Verdict::Unstable(Cause::HeavyTail { mean })
        } else if is_exact {
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
            let rare = || (!measures_speed).then(|| rare(counted, place)).flatten();
            Verdict::Unstable(if are_several {
                Cause::SeveralPaths
            } else if many(switched) {
                Cause::ContextSwitches { samples: switched, of: all }
            } else if many(interrupted) {
                Cause::Interrupts { samples: interrupted, of: all }
            } else if let Some(percent) = frequency() {
                Cause::Frequency { percent }
            } else if let Some(samples) = rare() {
                Cause::Rare { samples, of: counted.len() }
            } else if measures_speed && estimate.low <= 0.0 {
                Cause::TooShort
            } else {
                Cause::Varies
            })
        };
        set(&mut figures, place, estimate, verdict);
    }
    Judged { figures, kept, whole }
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
    whole: &[&Sample],
    place: usize,
    shape: &Shape,
    fence: &FenceCosts,
    varies: bool,
) -> Option<Found> {
    let is_time = place == TICKS;
    let is_speed = is_time || shape.cycles == Some(place);
    let first = kept.first()?.run(place);
    let is_exact = !is_time
        && kept.len() >= MIN_VALUES
        && kept.iter().all(|sample| sample.run(place) == first);
    let fence = fence.get(place).copied().flatten();
    let fence = fence.map(|fence| fence.in_loop_of(kept, place, shape));
    let without_fence = |estimate: Estimate| match fence {
        Some(fence) => estimate.less(&fence),
        None => estimate,
    };
    // Runs that enter the kernel may be in those samples only that were set aside.
    let mean = match () {
        () if is_speed && !is_exact => {
            let mean = estimate::mean_speed(kept, whole, place, shape)?;
            without_fence(Estimate::exactly(mean)).value
        }
        () if is_speed || shape.includes_kernel => estimate::count(whole, place, shape)?.value,
        () if is_exact => first,
        () => estimate::count(kept, place, shape)?.value,
    };
    let unit = if is_time { shape.ns_per_tick } else { 1.0 };
    let mean = mean * unit;
    if is_exact {
        return Some(Found { estimate: Estimate::exactly(first), is_exact, mean });
    }
    if !is_speed {
        return Some(Found { estimate: estimate::count(kept, place, shape)?, is_exact, mean });
    }
    let shortest = kept.iter().map(|sample| sample.k).min()?;
    // The clock advances in steps, the time does not.
    let step = if is_time { shape.step / shortest as f64 } else { 0.0 };
    let speed = if varies { estimate::speed_of_paths } else { estimate::speed };
    let estimate = without_fence(speed(kept, place, shape)?.widened(step));
    Some(Found { estimate: estimate.scaled(unit), is_exact, mean })
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
    let (_, times) = most_frequent(kept, place)?;
    let others = kept.len() - times;
    (others < 4 * SLICES && others * 4 < kept.len()).then_some(others)
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

/// One interrupt in this many, at most, comes between the reads of two counters: they are a few instructions apart, and a loop has
/// thousands.
const BETWEEN_READS: usize = 8;

/// Sets aside the samples that had an interrupt: those whose instructions, of the kernel or of the code, are not those of most
/// samples. Exceptions:
/// - A sample that differs by more than [`OF_INTERRUPTS`] of the code's instructions took another path, and is kept. Nor does
///   any kernel count matter then: the code itself may enter the kernel.
/// - No sample is set aside for the code's instructions if single runs took several paths, or if it would be more than a
///   quarter of them: interrupts come less often.
/// - Nor if there is no majority.
fn witnessed<'a>(samples: Vec<&'a Sample>, shape: &Shape, are_several: bool) -> Witnessed<'a> {
    let all = samples.len();
    let (mut kept, mut has_rare_path, mut varies) = (samples, false, false);
    for place in [shape.kernel, shape.instructions].into_iter().flatten() {
        let is_witness = shape.instructions == Some(place);
        let (Some((mode, times)), Some((usual, _))) = (
            most_frequent(&kept, place),
            most_frequent(&kept, shape.instructions.unwrap_or(place)),
        ) else {
            continue;
        };
        let is_far = |sample: &Sample| {
            // Interrupts add any number of the kernel's instructions.
            let instructions = shape.instructions.filter(|_| !shape.includes_kernel);
            // The parts of an instruction that the division has rounded are no difference.
            let difference =
                instructions.map(|it| ((sample.run(it) - usual) * sample.k as f64).abs());
            difference.is_some_and(|difference| difference > OF_INTERRUPTS as f64 + 0.5)
        };
        let is_most = times * 2 > kept.len();
        let are_far = kept.iter().filter(|sample| is_far(sample)).count();
        let others = kept.iter().filter(|sample| sample.run(place) != mode && !is_far(sample));
        let are_many = others.count() * 4 > kept.len();
        if is_witness && (are_several || are_many || are_far > 0 && !is_most) {
            varies = times < kept.len();
        } else if is_witness || is_most && are_far == 0 {
            has_rare_path |= are_far > 0;
            if times >= MIN_VALUES {
                kept.retain(|sample| sample.run(place) == mode || is_far(sample));
            }
        }
    }
    // An interrupt between two reads is in the count of the second one alone. Cycles that are otherwise the same to the last
    // unit show it.
    let most = (all - kept.len()).div_ceil(BETWEEN_READS);
    let cycles = shape.cycles.filter(|_| !has_rare_path && !varies);
    let usual = cycles.and_then(|place| {
        let (mode, times) = most_frequent(&kept, place)?;
        (kept.len() - times <= most).then_some((place, mode))
    });
    if let Some((place, mode)) = usual {
        kept.retain(|sample| sample.run(place) == mode);
    }
    Witnessed { interrupted: all - kept.len(), kept, has_rare_path, varies }
}

/// Returns the value that most samples have, and how many do. None without samples.
fn most_frequent(samples: &[&Sample], place: usize) -> Option<(f64, usize)> {
    tally(samples.iter().map(|sample| sample.run(place))).first().copied()
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
