//! Where a clock's time comes from.

use super::Error;
use std::fmt;

/// The source of a [`Clock`](crate::Clock)'s time, from [`Clock::kind`](crate::Clock::kind).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockKind {
    /// The tick counter, converted with the parameters on a control page. Nanoseconds are on the timeline of perf's
    /// timestamps (`PERF_SAMPLE_TIME`, `perf record`'s default clock).
    Page,
    /// The tick counter, calibrated against CLOCK_MONOTONIC_RAW, for this reason. Nanoseconds are on that clock's
    /// timeline. A clock that had a page before continues its timeline.
    Calibrated(Error),
    /// CLOCK_MONOTONIC_RAW by `clock_gettime`, for this reason. A tick is a nanosecond. A clock that had a page
    /// before continues its timeline.
    Kernel(Error),
}

impl fmt::Display for ClockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClockKind::Page => write!(f, "the control page's clock, on perf's timeline"),
            ClockKind::Calibrated(reason) => {
                write!(f, "the tick counter, calibrated against CLOCK_MONOTONIC_RAW: {reason}")
            }
            ClockKind::Kernel(reason) => write!(f, "clock_gettime, CLOCK_MONOTONIC_RAW: {reason}"),
        }
    }
}
