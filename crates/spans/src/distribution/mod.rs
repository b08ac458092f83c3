//! Distributions of times and counts.

mod buckets;

pub(crate) use buckets::{BUCKETS, bucket, values};

use rdpmc::clock::Conversion;
use std::fmt;

/// A distribution of times in nanoseconds, or of counts.
///
/// Values are in buckets, as in HdrHistogram. Counts below 256, and times below 256 ticks of the clock, have a bucket of their
/// own, so their quantiles are exact. Others are too high by less than 1/128.
///
/// Takes 8 bytes for each bucket up to that of the maximum: at most 58 KiB.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    buckets: Vec<u64>,
    count: u64,
    max: u64,
    /// Of ticks. None for counts.
    ticks: Option<Ticks>,
}

/// The unit of ticks.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    /// Of a tick counter, otherwise of the kernel's clock.
    are_of_a_counter: bool,
    /// Of the latest calibration.
    conversion: Conversion,
}

/// Why two distributions have no sum or no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DistributionError {
    /// One is of times and the other of counts, or their clocks differ.
    OtherUnit,
    /// The distribution that was to be subtracted has values that the other has not.
    NotContained,
}

impl fmt::Display for DistributionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DistributionError::OtherUnit => {
                "the distributions have different units. Combine only times of the same clock, or only counts"
            }
            DistributionError::NotContained => {
                "the subtracted distribution has values that the other has not. Subtract an earlier state of the same distribution"
            }
        })
    }
}

impl std::error::Error for DistributionError {}

impl Distribution {
    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the `q`-quantile: the smallest value that at least `q` of all values do not exceed. `q` is from 0 to 1.
    ///
    /// It is the highest value of its bucket, and at most the maximum. None if there are no values, or `q` is not from 0
    /// to 1. Takes some microseconds.
    ///
    /// ```
    /// use rdpmc_spans::{Settings, span};
    ///
    /// let mut spans = Settings::new().start()?;
    /// drop(span!("a"));
    /// let report = spans.report();
    /// println!("{:?} ns", report.rows[0].distribution.quantile(0.9999));
    /// # Ok::<(), rdpmc_spans::StartError>(())
    /// ```
    pub fn quantile(&self, q: f64) -> Option<u64> {
        if self.count == 0 || !(0.0..=1.0).contains(&q) {
            return None;
        }
        let rank = ((q * self.count as f64).ceil() as u64).clamp(1, self.count);
        let mut before = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            before += count;
            if before >= rank {
                let [_, highest] = values(bucket);
                return Some(self.converted(highest.min(self.max)));
            }
        }
        None
    }

    /// Returns the largest value. None if there are no values. Exact, unless others were subtracted.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then(|| self.converted(self.max))
    }

    /// Returns the lowest and the highest value of each bucket that has values, and their number, in order.
    pub fn iter(&self) -> impl Iterator<Item = ([u64; 2], u64)> + '_ {
        let used = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(bucket, count)| {
            let [lowest, highest] = values(bucket);
            ([lowest, highest.min(self.max)].map(|value| self.converted(value)), *count)
        })
    }

    /// Adds the values of another distribution.
    ///
    /// # Errors
    /// [`DistributionError::OtherUnit`]: one is of times and the other of counts, or their clocks differ.
    pub fn merge(&mut self, other: &Distribution) -> Result<(), DistributionError> {
        self.has_unit_of(other)?;
        if other.count > 0 {
            self.ticks = other.ticks;
        }
        for (bucket, count) in other.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            self.add(bucket, *count);
        }
        self.max = self.max.max(other.max);
        Ok(())
    }

    /// Removes the values of another distribution, such as an earlier state of this one. The new maximum is the highest
    /// value of its bucket.
    ///
    /// # Errors
    /// Nothing is removed if it fails.
    /// - [`DistributionError::OtherUnit`]: one is of times and the other of counts, or their clocks differ.
    /// - [`DistributionError::NotContained`]: the other has values that this one has not.
    pub fn subtract(&mut self, other: &Distribution) -> Result<(), DistributionError> {
        self.has_unit_of(other)?;
        let mut rest = self.clone();
        for (bucket, count) in other.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let known = rest.buckets.get_mut(bucket).ok_or(DistributionError::NotContained)?;
            *known = known.checked_sub(*count).ok_or(DistributionError::NotContained)?;
            rest.count = rest.count.saturating_sub(*count);
        }
        let highest = rest.buckets.iter().rposition(|count| *count > 0);
        rest.buckets.truncate(highest.map_or(0, |bucket| bucket + 1));
        rest.max = highest.map_or(0, |bucket| values(bucket)[1].min(self.max));
        *self = rest;
        Ok(())
    }

    /// Returns the number of values whose buckets are above that of `value`.
    pub fn count_above(&self, value: u64) -> u64 {
        let above = |[lowest, _]: [u64; 2]| lowest > value;
        self.iter().filter(|(values, _)| above(*values)).map(|(_, count)| count).sum()
    }

    pub(crate) fn record(&mut self, value: u64) {
        self.add(bucket(value), 1);
        self.max = self.max.max(value);
    }

    /// Adds values of a bucket. The maximum stays as it is: see `raise_max`.
    pub(crate) fn add(&mut self, bucket: usize, count: u64) {
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        if let Some(known) = self.buckets.get_mut(bucket) {
            *known = known.saturating_add(count);
            self.count = self.count.saturating_add(count);
        }
    }

    pub(crate) fn raise_max(&mut self, value: u64) {
        self.max = self.max.max(value);
    }

    /// Sets that the values are ticks.
    #[must_use]
    pub(crate) fn of_ticks(
        mut self,
        are_of_a_counter: bool,
        conversion: Conversion,
    ) -> Distribution {
        self.ticks = Some(Ticks { are_of_a_counter, conversion });
        self
    }

    fn converted(&self, value: u64) -> u64 {
        self.ticks.map_or(value, |ticks| ticks.conversion.delta_ns(value))
    }

    fn has_unit_of(&self, other: &Distribution) -> Result<(), DistributionError> {
        let unit = |of: &Distribution| of.ticks.map(|ticks| ticks.are_of_a_counter);
        let is_same = unit(self) == unit(other) || self.count == 0 || other.count == 0;
        is_same.then_some(()).ok_or(DistributionError::OtherUnit)
    }
}
