//! The centre of a sample and its interval.

use crate::sampling::code::Content;
use crate::sampling::sample::{Sample, Shape};
use rdpmc_report::gate::{MIN_VALUES, median, slices};

/// A centre and its 95 % interval.
///
/// The samples of a row are spread over the whole run of the program. They are divided into eight slices, in the order in
/// which they were taken. The interval goes from the lowest to the highest of the eight slices' results. So it covers
/// what changes during a run: the frequency, neighbours on the core, other processes.
///
/// - The centre of a time or of cycles is the median, so a rare slow run does not change it: see
///   [`Cause::HeavyTail`](crate::Cause::HeavyTail) and [`Row::slow`](crate::Row::slow). Its interval is at least ± 0.1 %.
/// - The centre of other counts is the mean, so that rare events have their share.
/// - Instructions per cycle have an interval of at least 90 %, because both figures have errors.
///
/// It does not cover:
/// - another process of this binary. Each process has its stack and heap at other addresses, which may change the result by
///   several percent. `rdpmc-bench compare` measures several processes.
/// - another binary, in which the code has other addresses.
/// - another day, with another frequency or other neighbours.
///
/// With fewer than six samples, the ends are infinite.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Estimate {
    /// The centre.
    pub value: f64,
    /// The lower end of the interval. Negative infinity if there were fewer than six samples.
    pub low: f64,
    /// The upper end of the interval. Infinity if there were fewer than six samples.
    pub high: f64,
}

impl Estimate {
    /// Returns the larger distance from the centre to an end of the interval.
    pub fn error(&self) -> f64 {
        (self.value - self.low).max(self.high - self.value)
    }

    /// Whether `value` is in the interval.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Returns a number that is known exactly.
    pub(crate) fn exactly(value: f64) -> Estimate {
        Estimate { value, low: value, high: value }
    }

    /// Returns the centre, with the range of the slices' centres and its own as the interval.
    pub(crate) fn of_slices(value: f64, slices: impl Iterator<Item = f64>) -> Estimate {
        let ends = (value, value);
        let (low, high) = slices.fold(ends, |(low, high), it| (low.min(it), high.max(it)));
        Estimate { value, low, high }
    }

    /// Returns the difference to another estimate.
    pub(crate) fn less(self, other: &Estimate) -> Estimate {
        Estimate {
            value: self.value - other.value,
            low: self.low - other.high,
            high: self.high - other.low,
        }
    }

    /// Returns this estimate with a wider interval.
    pub(crate) fn widened(self, by: f64) -> Estimate {
        Estimate { low: self.low - by, high: self.high + by, ..self }
    }

    /// Returns this estimate in another unit. `factor` is positive.
    pub(crate) fn scaled(self, factor: f64) -> Estimate {
        Estimate { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }

    /// Returns the ratio to another estimate. Its interval contains the ratio of the medians whenever both intervals
    /// contain theirs, so in at least 90 % of cases. None unless the other's interval is above 0.
    pub fn ratio_to(&self, other: &Estimate) -> Option<Estimate> {
        if other.low <= 0.0 {
            return None;
        }
        // A negative number is closer to 0 if it is divided by more.
        let by = |end: f64, for_negative: f64, for_positive: f64| {
            end / if end < 0.0 { for_negative } else { for_positive }
        };
        Some(Estimate {
            value: self.value / other.value,
            low: by(self.low, other.low, other.high),
            high: by(self.high, other.high, other.low),
        })
    }
}

/// The relative error that remains on a quiet machine, where all slices agree: see `benches/truth.rs`.
pub(crate) const LEAST_ERROR: f64 = 0.001;

/// Three quarters of the loops' ends are this close to their median, relative to the short loops, if all runs are alike.
const SPREAD_OF_ENDS: f64 = 0.02;

/// Returns the time or the cycles of a run. None without samples.
///
/// A turn of the loop costs the run and the loop's own instructions. These cost nothing if the CPU executes them while the run
/// waits, and at most as much as an empty turn. A second copy of the code in the loop costs a run alone. So the loop's part is a
/// turn minus a copy. A loop with two copies is other machine code, which may be slower or faster for reasons of its own.
/// Therefore the loop's part is at least 0 and at most an empty turn. If instructions are counted, the additional ones of a copy
/// are subtracted from it, at the mean rate of the code.
pub(crate) fn speed(samples: &[&Sample], place: usize, shape: &Shape) -> Option<Estimate> {
    let turns = Turns::from_samples(samples, place, shape)?;
    let centre = |samples: &[&Sample]| Some(turns.median(samples)? - turns.overhead(samples));
    let value = centre(samples)?;
    if samples.len() < MIN_VALUES {
        return Some(Estimate { value, low: f64::NEG_INFINITY, high: f64::INFINITY });
    }
    let estimate = Estimate::of_slices(value, slices(samples).filter_map(centre));
    Some(estimate.widened(LEAST_ERROR * value.abs()))
}

/// Returns the time or the cycles of a run of code that takes several paths. Its interval has the means of the slices as well,
/// because samples differ in how often they take each path. So do copies, and what the loop adds may be anything between
/// nothing and an empty turn. None without samples.
pub(crate) fn speed_of_paths(samples: &[&Sample], place: usize, shape: &Shape) -> Option<Estimate> {
    let estimate = speed(samples, place, shape)?;
    let turns = Turns::from_samples(samples, place, shape)?;
    let overhead = turns.overhead(samples);
    let empty = turns.empty(samples)?.max(overhead);
    let means = slices(samples).filter_map(|slice| Some(turns.mean(slice)? - overhead));
    let Estimate { low, high, .. } = Estimate::of_slices(estimate.value, means);
    let (low, high) = (estimate.low.min(low), estimate.high.max(high));
    Some(Estimate { low: low - (empty - overhead), high: high + overhead, ..estimate })
}

/// The turns of a row's samples, which have the reads and the ends of the loops in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    place: usize,
    /// The place of the instruction count.
    instructions: Option<usize>,
    /// What these add to a loop of work.
    pub(crate) ends: f64,
    /// What these add to a loop of nothing.
    empty_ends: f64,
}

impl Turns {
    /// None without samples.
    pub(crate) fn from_samples(samples: &[&Sample], place: usize, shape: &Shape) -> Option<Turns> {
        let all = |content| samples.iter().map(move |sample| sample.ends(place, content));
        let ends = |content| median(all(content));
        let (own, empty_ends) = (ends(Content::Work)?, ends(Content::Nothing)?);
        // Where runs differ, so do loops, and not by their ends.
        let mut spread: Vec<f64> = all(Content::Work).map(|ends| (ends - own).abs()).collect();
        spread.sort_unstable_by(f64::total_cmp);
        let spread = *spread.get(spread.len() * 3 / 4)?;
        let short = median(samples.iter().map(|sample| sample.short(place)))?;
        let is_plausible =
            spread <= short * SPREAD_OF_ENDS && (own - empty_ends).abs() <= short / 4.0;
        let ends = if is_plausible { own } else { empty_ends };
        Some(Turns { place, instructions: shape.instructions, ends, empty_ends })
    }

    /// Returns the value of a turn of a sample.
    pub(crate) fn turn(&self, sample: &Sample) -> f64 {
        sample.turn(self.place, Content::Work, self.ends)
    }

    pub(crate) fn median(&self, samples: &[&Sample]) -> Option<f64> {
        median(samples.iter().map(|sample| self.turn(sample)))
    }

    /// The mean of all turns. Runs that differ cannot be told from the ends of a loop, so the ends are those of the empty loops.
    fn mean(&self, samples: &[&Sample]) -> Option<f64> {
        let runs: f64 = samples.iter().map(|sample| sample.k as f64).sum();
        let turn = |sample: &&Sample| {
            sample.turn(self.place, Content::Work, self.empty_ends) * sample.k as f64
        };
        let all: f64 = samples.iter().map(turn).sum();
        (runs > 0.0).then(|| all / runs)
    }

    /// Returns the value of an empty turn.
    pub(crate) fn empty(&self, samples: &[&Sample]) -> Option<f64> {
        let empty = |sample: &&Sample| sample.turn(self.place, Content::Nothing, self.empty_ends);
        median(samples.iter().map(empty))
    }

    /// Returns what the loop's own instructions add to a run. 0 without copies.
    pub(crate) fn overhead(&self, samples: &[&Sample]) -> f64 {
        let empty = self.empty(samples);
        let copy = median(samples.iter().filter_map(|sample| sample.copy(self.place)));
        match (self.median(samples), copy, empty) {
            (Some(turn), Some(copy), Some(empty)) => {
                let copy = copy - turn * self.added_by_copy(samples);
                (turn - copy).clamp(0.0, empty.max(0.0))
            }
            _ => 0.0,
        }
    }

    /// Returns how many instructions a copy has more than a run, relative to a turn: the compiler may fetch the second input in
    /// another way. 0 if instructions are not counted.
    fn added_by_copy(&self, samples: &[&Sample]) -> f64 {
        let of = |value: &dyn Fn(&Sample, usize) -> Option<f64>| {
            median(samples.iter().filter_map(|sample| value(sample, self.instructions?)))
        };
        let copy = of(&|sample, place| sample.copy(place));
        let run = of(&|sample, place| Some(sample.run(place)));
        let turn = of(&|sample, place| Some(sample.difference(place) / sample.k as f64));
        match (copy, run, turn) {
            (Some(copy), Some(run), Some(turn)) if turn > 0.0 => ((copy - run) / turn).max(0.0),
            _ => 0.0,
        }
    }
}

/// Returns the mean time or the mean cycles of a run in the `whole` samples, which include the `kept` ones. None without samples.
pub(crate) fn mean_speed(
    kept: &[&Sample],
    whole: &[&Sample],
    place: usize,
    shape: &Shape,
) -> Option<f64> {
    let turns = Turns::from_samples(kept, place, shape)?;
    Some(turns.mean(whole)? - turns.overhead(kept))
}

/// Returns the mean count of a run. None without samples.
pub(crate) fn count(samples: &[&Sample], place: usize, shape: &Shape) -> Option<Estimate> {
    let mean = |samples: &[&Sample]| {
        let runs: f64 = samples.iter().map(|sample| sample.k as f64).sum();
        let all: f64 = match shape.is_software {
            // The ends of a loop have no page fault, so all runs count.
            true => samples.iter().map(|sample| sample.all_runs(place) / 3.0).sum(),
            false => samples.iter().map(|sample| sample.run(place) * sample.k as f64).sum(),
        };
        (runs > 0.0).then_some(all / runs)
    };
    let value = mean(samples)?;
    if samples.len() < MIN_VALUES {
        return Some(Estimate { value, low: f64::NEG_INFINITY, high: f64::INFINITY });
    }
    Some(Estimate::of_slices(value, slices(samples).filter_map(mean)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_the_range_of_the_slices() {
        let estimate = Estimate::of_slices(3.0, [4.0, 2.5, 3.0].into_iter());
        assert_eq!(estimate, Estimate { value: 3.0, low: 2.5, high: 4.0 });
        assert_eq!(
            (estimate.error(), estimate.contains(4.0), estimate.contains(2.0)),
            (1.0, true, false)
        );
        assert_eq!(Estimate::of_slices(3.0, [].into_iter()), Estimate::exactly(3.0));
        assert_eq!(estimate.widened(1.0), Estimate { value: 3.0, low: 1.5, high: 5.0 });
    }

    #[test]
    fn a_ratio_contains_all_ratios() {
        let [of, to] = [(10.0, 9.0, 11.0), (4.0, 2.0, 5.0)].map(|(value, low, high)| Estimate {
            value,
            low,
            high,
        });
        assert_eq!(of.ratio_to(&to), Some(Estimate { value: 2.5, low: 1.8, high: 5.5 }));
        let negative = Estimate { value: -1.0, low: -2.0, high: -0.5 };
        let ratio = negative.ratio_to(&to).unwrap();
        assert_eq!((ratio.low, ratio.high), (-1.0, -0.1));
        assert_eq!(to.ratio_to(&negative), None);
        assert_eq!(of.ratio_to(&Estimate { value: 1.0, low: 0.0, high: 2.0 }), None);
    }
}
