//! A count with its enabled and running time.

use crate::open::Counts;
use std::time::Duration;

/// A count and its times, from [`Counter::reading`](crate::Counter::reading) or
/// [`Group::reading`](crate::Group::reading).
///
/// When more events are open than the PMU has counters, the kernel lets them take turns (multiplexing). The running
/// time is then less than the enabled time, and `value` is the count during the running time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// The count during the running time.
    pub value: u64,
    /// In nanoseconds, as the kernel reports it. `time_running` is the part of it with a counter.
    pub(crate) time_enabled: u64,
    pub(crate) time_running: u64,
}

impl Reading {
    /// Makes a `Reading` from a count and its times. Useful for counts that were added up, for example. Times are
    /// limited to 584 years.
    pub fn new(value: u64, time_enabled: Duration, time_running: Duration) -> Reading {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Reading {
            value,
            time_enabled: nanoseconds(time_enabled),
            time_running: nanoseconds(time_running),
        }
    }

    /// Returns how long this thread ran with the event enabled.
    pub fn time_enabled(&self) -> Duration {
        Duration::from_nanos(self.time_enabled)
    }

    /// Returns for how much of [`time_enabled`](Reading::time_enabled) the event was on a hardware counter.
    pub fn time_running(&self) -> Duration {
        Duration::from_nanos(self.time_running)
    }

    /// Returns the difference from `earlier`, of the count and of both times. The result can be checked for
    /// multiplexing and [scaled](Reading::scaled) independently of the two readings. No system call.
    ///
    /// None if the count is lower than in `earlier`: the counter was [reset](crate::Counter::reset) in between, or
    /// `earlier` is the later one. A reset after which the count has grown past `earlier` is not noticed. Times are
    /// clamped at 0, because user space and the kernel round differently, by a nanosecond or two.
    ///
    /// ```
    /// use rdpmc::{Counter, Event};
    ///
    /// if let Ok(faults) = Counter::open(Event::PAGE_FAULTS) {
    ///     let before = faults.reading()?;
    ///     drop(std::hint::black_box(vec![1; 1_000_000]));
    ///     let during = faults.reading()?.since(&before).expect("nobody has reset it");
    ///     println!("{} page faults in {:?}", during.value, during.time_enabled());
    /// }
    /// # Ok::<(), rdpmc::Error>(())
    /// ```
    pub fn since(&self, earlier: &Reading) -> Option<Reading> {
        Some(Reading {
            value: self.value.checked_sub(earlier.value)?,
            time_enabled: self.time_enabled.saturating_sub(earlier.time_enabled),
            time_running: self.time_running.saturating_sub(earlier.time_running),
        })
    }

    /// Returns whether the event had no counter for part of the time, so that `value` is not the whole count. Some kernels
    /// report a running time above the enabled time: then it had one throughout.
    pub fn is_multiplexed(&self) -> bool {
        self.time_running < self.time_enabled
    }

    /// Estimates the count for the whole enabled time, rounded down: `value` × enabled time ÷ running time,
    /// computed in 128 bits. At least `value`.
    ///
    /// None if the event never had a counter, or if the estimate exceeds 64 bits.
    pub fn scaled(&self) -> Option<u64> {
        scale(self.value, self.time_enabled, self.time_running)
    }
}

/// Returns a reading for each count, and after the last event, of zeros.
pub(super) fn readings_of(counts: Counts) -> impl Iterator<Item = Reading> {
    let Counts { values, time_enabled, time_running } = counts;
    values.into_iter().map(move |value| Reading { value, time_enabled, time_running })
}

/// Scales a count from `running` to `enabled` nanoseconds, rounded down. None if the event never ran, or if the
/// estimate does not fit in 64 bits.
pub(crate) fn scale(value: u64, enabled: u64, running: u64) -> Option<u64> {
    let enabled = enabled.max(running);
    let estimate = (u128::from(value) * u128::from(enabled)).checked_div(u128::from(running))?;
    u64::try_from(estimate).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(value: u64, time_enabled: u64, time_running: u64) -> Reading {
        Reading { value, time_enabled, time_running }
    }

    #[test]
    fn a_difference_is_scaled_by_itself() {
        // No counter for half of the first microsecond, a counter for all of the second one.
        let (first, second) = (reading(500, 1_000, 500), reading(1_500, 2_000, 1_500));
        let difference = second.since(&first);
        assert_eq!(difference, Some(reading(1_000, 1_000, 1_000)));
        assert_eq!(difference.map(|both| both.is_multiplexed()), Some(false));
        assert_eq!(difference.and_then(|both| both.scaled()), Some(1_000));
        // The difference of the two estimates is another number.
        assert_eq!(second.scaled().zip(first.scaled()), Some((2_000, 1_000)));
        let third = reading(1_600, 3_000, 1_750);
        assert_eq!(third.since(&second).and_then(|both| both.scaled()), Some(400));
    }

    #[test]
    fn a_running_time_above_the_enabled_time_scales_nothing() {
        let odd = reading(1_000, 2_000, 2_500);
        assert!(!odd.is_multiplexed());
        assert_eq!(odd.scaled(), Some(1_000));
        let later = reading(3_000, 4_000, 4_500);
        assert_eq!(later.since(&odd).and_then(|both| both.scaled()), Some(2_000));
        assert_eq!(reading(5, 0, 0).scaled(), None);
    }

    #[test]
    fn what_goes_back_is_no_difference() {
        let (first, second) = (reading(500, 1_000, 1_000), reading(10, 2_000, 2_000));
        assert_eq!(second.since(&first), None);
        assert_eq!(first.since(&first), Some(reading(0, 0, 0)));
        let hair = reading(501, 999, 999);
        assert_eq!(hair.since(&first), Some(reading(1, 0, 0)));
    }
}
