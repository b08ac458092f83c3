//! A count, and how long it was counted.

use crate::math;

/// A count and the times it took, from [`Counter::reading`](crate::Counter::reading) or
/// [`Group::reading`](crate::Group::reading).
///
/// When more events are open than the PMU has counters, the kernel lets them take turns
/// (multiplexing): then `time_running` is less than `time_enabled`, and `value` is what was
/// counted during the former.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// Events counted while a counter was there to count them.
    pub value: u64,
    /// Nanoseconds this thread ran with the event enabled (`time_enabled`).
    pub time_enabled: u64,
    /// Nanoseconds of which the event had a counter (`time_running`).
    pub time_running: u64,
}

impl Reading {
    /// Returns the difference from `earlier`: events and nanoseconds, which can be judged and
    /// [scaled](Reading::scaled) by themselves. No system call.
    ///
    /// None if the count is less than it was then, because the counter was
    /// [reset](crate::Counter::reset) in between or `earlier` is not earlier. After a reset, a count may have
    /// grown past what it was then: the difference is of no use then, nor is that of two counters. Times are clamped at 0, because
    /// user space and the kernel round differently, by a nanosecond or two.
    ///
    /// ```
    /// use rdpmc::{Counter, Event};
    ///
    /// if let Ok(faults) = Counter::open(Event::PAGE_FAULTS) {
    ///     let before = faults.reading()?;
    ///     drop(std::hint::black_box(vec![1; 1_000_000]));
    ///     let during = faults.reading()?.since(&before).expect("nobody has reset it");
    ///     println!("{} page faults in {} ns", during.value, during.time_enabled);
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

    /// Whether the event was without a counter part of the time, so that `value` is not all.
    pub fn is_multiplexed(&self) -> bool {
        self.time_running != self.time_enabled
    }

    /// An estimate of the events in all of `time_enabled`, rounded down: `value` times
    /// `time_enabled` over `time_running`, exact in 128 bits.
    ///
    /// None if the event never had a counter, or if the estimate exceeds 64 bits.
    pub fn scaled(&self) -> Option<u64> {
        math::scale(self.value, self.time_enabled, self.time_running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(value: u64, time_enabled: u64, time_running: u64) -> Reading {
        Reading { value, time_enabled, time_running }
    }

    #[test]
    fn a_difference_is_scaled_by_itself() {
        // Half of the first second without a counter, all of the next one with it.
        let (first, second) = (reading(500, 1_000, 500), reading(1_500, 2_000, 1_500));
        let difference = second.since(&first);
        assert_eq!(difference, Some(reading(1_000, 1_000, 1_000)));
        assert_eq!(difference.map(|both| both.is_multiplexed()), Some(false));
        assert_eq!(difference.and_then(|both| both.scaled()), Some(1_000));
        // The whole is not: its estimate less that of the beginning is another number.
        assert_eq!(second.scaled().zip(first.scaled()), Some((2_000, 1_000)));
        let third = reading(1_600, 3_000, 1_750);
        assert_eq!(third.since(&second).and_then(|both| both.scaled()), Some(400));
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
