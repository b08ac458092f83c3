//! The centre of a sample and its interval.

use crate::code::Content;
use crate::sample::Sample;

/// A centre and its 95 % interval.
///
/// The samples of a row are spread over the whole run of the program. They are divided into eight slices, in the order in
/// which they were taken. The interval goes from the lowest to the highest of the eight slices' results. So it covers
/// what changes during a run: the frequency, neighbours on the core, other processes.
///
/// - The centre of a time or of cycles is the median. Its interval is at least ± 0.1 %, which is how far the results of
///   several processes of one binary are apart on a quiet machine, because each places its memory differently.
/// - The centre of other counts is the mean, so that rare events have their share.
/// - A ratio of two figures, such as instructions per cycle, has an interval of at least 90 %.
///
/// It does not cover a machine that changes after the run, nor another binary: the addresses of code and data may change
/// the result by some percent. With fewer than six samples, the ends are infinite.
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

/// The number of slices. The median of what the slices measure is outside of all eight with a probability of 2 / 2^8, less
/// than 1 %, if they are independent. The rest of 5 % is for those that are not.
pub(crate) const SLICES: usize = 8;
/// The number of samples below which there is no interval. Each is a slice, and 2 / 2^6 is 3 %.
pub(crate) const FEWEST: usize = 6;
/// How far the results of several processes are apart, relative to the result: see `examples/coverage.rs`.
pub(crate) const PLACEMENT: f64 = 0.001;

/// Returns the parts of the samples for which results are computed.
pub(crate) fn slices<T>(all: &[T]) -> impl Iterator<Item = &[T]> {
    let count = all.len().min(SLICES);
    let end = move |slice: usize| all.len() * slice / count;
    (0..count).filter_map(move |slice| all.get(end(slice)..end(slice + 1)))
}

/// Returns the median. None if there are no values.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some((values.get(last / 2)? + values.get(values.len() / 2)?) / 2.0)
}

/// Returns the time or the cycles of a run. None without samples.
///
/// A turn of the loop takes the run, and what the loop's own instructions add to it. That is between nothing, if the CPU
/// executes them beside a run that waits, and the cost of an empty turn. What one more copy of the code costs has no
/// part of it, so the difference to a turn is the loop's part. But a loop with two copies is other machine code, and may be
/// slower or faster for reasons of its own. So the difference counts only as far as an empty turn can explain it.
pub(crate) fn speed(samples: &[&Sample], place: usize) -> Option<Estimate> {
    let turns = Turns::of(samples, place)?;
    let centre = |samples: &[&Sample]| Some(turns.median(samples)? - turns.overhead(samples));
    let value = centre(samples)?;
    if samples.len() < FEWEST {
        return Some(Estimate { value, low: f64::NEG_INFINITY, high: f64::INFINITY });
    }
    let estimate = Estimate::of_slices(value, slices(samples).filter_map(centre));
    Some(estimate.widened(PLACEMENT * value.abs()))
}

/// Returns the time or the cycles of a run of code that takes several paths. Its interval has the means of the slices as well,
/// because samples differ in how often they take each path. None without samples.
pub(crate) fn speed_of_paths(samples: &[&Sample], place: usize) -> Option<Estimate> {
    let (estimate, turns) = (speed(samples, place)?, Turns::of(samples, place)?);
    let overhead = turns.overhead(samples);
    let means = slices(samples).filter_map(|slice| Some(turns.mean(slice)? - overhead));
    let Estimate { low, high, .. } = Estimate::of_slices(estimate.value, means);
    Some(Estimate { low: estimate.low.min(low), high: estimate.high.max(high), ..estimate })
}

/// The turns of a row's samples, which have the reads and the ends of the loops in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    place: usize,
    /// What these add to a loop of work.
    pub(crate) ends: f64,
    /// What these add to a loop of nothing.
    empty_ends: f64,
}

impl Turns {
    /// None without samples.
    pub(crate) fn of(samples: &[&Sample], place: usize) -> Option<Turns> {
        let ends = |content| median(samples.iter().map(|sample| sample.ends(place, content)));
        Some(Turns { place, ends: ends(Content::Work)?, empty_ends: ends(Content::Nothing)? })
    }

    /// Returns the value of a turn of a sample.
    pub(crate) fn turn(&self, sample: &Sample) -> f64 {
        sample.turn(self.place, Content::Work, self.ends)
    }

    pub(crate) fn median(&self, samples: &[&Sample]) -> Option<f64> {
        median(samples.iter().map(|sample| self.turn(sample)))
    }

    /// The mean of the differences of the loops. Unlike the `ends`, it is right for a few slow runs as well.
    fn mean(&self, samples: &[&Sample]) -> Option<f64> {
        let runs: f64 = samples.iter().map(|sample| sample.k as f64).sum();
        let all: f64 = samples.iter().map(|sample| sample.difference(self.place)).sum();
        (runs > 0.0).then(|| all / runs)
    }

    /// Returns what the loop's own instructions add to a run. 0 without copies.
    pub(crate) fn overhead(&self, samples: &[&Sample]) -> f64 {
        let empty = |sample: &&Sample| sample.turn(self.place, Content::Nothing, self.empty_ends);
        let empty = median(samples.iter().map(empty));
        let copy = median(samples.iter().filter_map(|sample| sample.copy(self.place)));
        match (self.median(samples), copy, empty) {
            (Some(turn), Some(copy), Some(empty)) => (turn - copy).clamp(0.0, empty.max(0.0)),
            _ => 0.0,
        }
    }
}

/// Returns the mean time or the mean cycles of a run. None without samples.
pub(crate) fn mean_speed(samples: &[&Sample], place: usize) -> Option<f64> {
    let turns = Turns::of(samples, place)?;
    Some(turns.mean(samples)? - turns.overhead(samples))
}

/// Returns the mean count of a run. None without samples.
pub(crate) fn count(samples: &[&Sample], place: usize) -> Option<Estimate> {
    let mean = |samples: &[&Sample]| {
        let runs: f64 = samples.iter().map(|sample| sample.k as f64).sum();
        let counts: f64 = samples.iter().map(|sample| sample.run(place) * sample.k as f64).sum();
        (runs > 0.0).then_some(counts / runs)
    };
    let value = mean(samples)?;
    if samples.len() < FEWEST {
        return Some(Estimate { value, low: f64::NEG_INFINITY, high: f64::INFINITY });
    }
    Some(Estimate::of_slices(value, slices(samples).filter_map(mean)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([].into_iter()), None);
        assert_eq!(median([5.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([5.0, 1.0, 2.0, 6.0].into_iter()), Some(3.5));
    }

    #[test]
    fn slices_are_all_samples_in_order() {
        for count in [1, 6, 7, 8, 9, 100, 4_095] {
            let all: Vec<usize> = (0..count).collect();
            let parts: Vec<&[usize]> = slices(&all).collect();
            assert_eq!(parts.len(), count.min(SLICES));
            assert_eq!(parts.concat(), all);
            let lengths = || parts.iter().map(|part| part.len());
            assert!(lengths().max().unwrap() - lengths().min().unwrap() <= 1);
        }
        assert_eq!(slices::<u8>(&[]).count(), 0);
    }

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
