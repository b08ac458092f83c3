//! Where a clock's time comes from, and why not from the control page.

use super::{OpenError, SyscallReason};
use crate::kernel::{Message, Unreadable, has_message, say};
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
    Calibrated(ClockReason),
    /// CLOCK_MONOTONIC_RAW by `clock_gettime`, for this reason. A tick is a nanosecond. A clock that had a page
    /// before continues its timeline.
    Kernel(ClockReason),
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

/// Why a [`Clock`](crate::Clock) has no time from the control page. The first four reasons are those of a calibrated clock, the
/// others those of the kernel's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockReason {
    /// The page has no conversion (`cap_user_time_zero` is 0): the kernel's scheduler uses another clock.
    NotOffered,
    /// No event can be opened, and so there is no page.
    NoEvent(OpenError),
    /// The page cannot be mapped.
    NotMapped(SyscallReason),
    /// This process is a fork of the one that opened the clock.
    Forked,
    /// This library knows no tick counter of this CPU.
    NotHere,
    /// This thread has forbidden itself to read the tick counter (`PR_SET_TSC`).
    Forbidden,
    /// The CPU does not advertise a constant-rate tick counter (invariant TSC), or the counter did not advance when
    /// sampled.
    NotInvariant,
    /// The kernel does not list the tick counter as a clock source: the kernel found it to be wrong, or was told so
    /// (`tsc=unstable`).
    NotTrusted,
    /// The kernel's list of clock sources cannot be read, and no earlier clock of this process was trusted.
    Unreadable(Unreadable),
}

has_message!(ClockReason);

impl ClockReason {
    fn message(&self) -> Message {
        match self {
            ClockReason::NotOffered => say!(
                "the kernel's scheduler clock is not the tick counter (usual in virtual machines)",
                "No action needed"
            ),
            ClockReason::NoEvent(error) => error.message(),
            ClockReason::NotMapped(reason) => reason.message(),
            ClockReason::Forked => say!(
                "this process is a fork of the one that opened the clock",
                "Open a new clock in this process"
            ),
            ClockReason::NotHere => {
                say!("this library knows no tick counter of this CPU", "No action needed")
            }
            ClockReason::Forbidden => say!(
                "this thread may not read the tick counter",
                "Allow it with prctl(PR_SET_TSC, PR_TSC_ENABLE), then open the clock again"
            ),
            ClockReason::NotInvariant => say!(
                "the CPU does not advertise a constant-rate tick counter (no `nonstop_tsc` in /proc/cpuinfo on \
                 x86-64), or the counter stood still",
                "In a virtual machine, enable the feature in the hypervisor (QEMU: `-cpu host,+invtsc`)"
            ),
            ClockReason::NotTrusted => say!(
                "the kernel does not list the tick counter in /sys/devices/system/clocksource/\
                 clocksource0/available_clocksource",
                "Its log has the cause (`dmesg | grep -i tsc`)"
            ),
            ClockReason::Unreadable(unreadable) => unreadable
                .message()
                .after("nothing shows whether the kernel trusts the tick counter: ".into()),
        }
    }
}
