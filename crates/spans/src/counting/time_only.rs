//! Why spans are recorded without counters.

use rdpmc::error::{NameError, OpenError, SyscallReason};
use std::fmt;
use std::time::Duration;

/// Why the spans of a thread have no counts, but time only.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TimeOnlyReason {
    /// [`Settings`](crate::Settings) have no events, or [`Counters::Never`](crate::Counters).
    NotRequested,
    /// None of the requested names is an event of this machine. This is the first one's error.
    Name(NameError),
    /// Only the parts of the pipeline slots were requested, and they cannot be counted: the reason.
    Topdown(String),
    /// None of the events could be opened. This is the first one's error.
    Open(OpenError),
    /// User space cannot read the counters. Spans make no system calls.
    NotReadable(SyscallReason),
    /// A read is trapped, for example by the hypervisor, and takes this long.
    #[non_exhaustive]
    Trapped {
        /// The median time of a read of all events.
        read: Duration,
    },
}

impl fmt::Display for TimeOnlyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimeOnlyReason::NotRequested => f.write_str("no events were requested"),
            TimeOnlyReason::Name(error @ NameError::NoPmu { is_wsl: true, .. }) => {
                write!(f, "{}. {WSL}", error.cause())
            }
            TimeOnlyReason::Open(error @ OpenError::NoPmu { is_wsl: true, .. }) => {
                write!(f, "{}. {WSL}", error.cause())
            }
            TimeOnlyReason::Name(error @ NameError::NoPmu { is_virtual, .. }) => {
                write!(f, "{}. {}", error.cause(), remedy_without_pmu(*is_virtual, false))
            }
            TimeOnlyReason::Name(error @ NameError::NoPmuList { .. }) => {
                write!(f, "{}. {MOUNT}", error.cause())
            }
            TimeOnlyReason::Name(error) => error.fmt(f),
            TimeOnlyReason::Open(
                error @ OpenError::NoPmu { is_virtual, is_guest_of_hybrid, .. },
            ) => {
                let remedy = remedy_without_pmu(*is_virtual, *is_guest_of_hybrid);
                write!(f, "{}. {remedy}", error.cause())
            }
            TimeOnlyReason::Open(error @ OpenError::NoPmuList { .. }) => {
                write!(f, "{}. {MOUNT}", error.cause())
            }
            TimeOnlyReason::Open(error) => error.fmt(f),
            TimeOnlyReason::Topdown(why) => write!(f, "top-down is not counted: {why}"),
            TimeOnlyReason::NotReadable(SyscallReason::SoftwareEvent) => f.write_str(
                "only a system call reads software events, and spans make none. Leave software events out",
            ),
            TimeOnlyReason::NotReadable(reason) => {
                write!(f, "user space cannot read the counters: {reason}")
            }
            TimeOnlyReason::Trapped { read } => write!(
                f,
                "reads of these counters are trapped here and take {} ns. To count anyway, set `Counters::Always`",
                read.as_nanos()
            ),
        }
    }
}

const WSL: &str = "Remove `hardwarePerformanceCounters=false` from .wslconfig if it is there, and run `wsl --shutdown`. If no \
                   PMU appears, run on Linux without Windows";
const MOUNT: &str = "Mount /sys in this container or chroot to learn the cause";

/// Returns what to do about a PMU that is missing. The library advises software events, and spans cannot read them.
fn remedy_without_pmu(is_virtual: bool, is_guest_of_hybrid: bool) -> &'static str {
    match (is_virtual, is_guest_of_hybrid) {
        (_, true) => "Run on the host",
        (true, false) => "Enable the virtual PMU in the hypervisor, or run on the host",
        (false, false) => "Use another machine",
    }
}
