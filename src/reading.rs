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
