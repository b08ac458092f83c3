//! Why spans are recorded without counters.

use rdpmc::Error;
use rdpmc::error::ErrorKind;
use std::fmt;
use std::time::Duration;

/// Why the spans of a thread have no counts, but time only.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TimeOnlyReason {
    /// [`Settings`](crate::Settings) have no events, or [`Counters::Never`](crate::Counters).
    NotRequested,
    /// None of the requested names is an event of this machine. This is the first one's error.
    Name(Error),
    /// Only the parts of the pipeline slots were requested, and they cannot be counted: the reason.
    Topdown(String),
    /// None of the events could be opened. This is the first one's error.
    Open(Error),
    /// User space cannot read the counters. Spans make no system calls.
    NotReadable(Error),
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
            TimeOnlyReason::Name(why) | TimeOnlyReason::Open(why) => match remedy(why.kind()) {
                Some(remedy) => write!(f, "{}. {remedy}", why.cause()),
                None => why.fmt(f),
            },
            TimeOnlyReason::Topdown(why) => write!(f, "top-down is not counted: {why}"),
            TimeOnlyReason::NotReadable(why) if why.kind() == ErrorKind::SoftwareEvent => f.write_str(
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

/// Returns what to do about a PMU that is missing: the library advises software events, and spans cannot read them. None for other
/// errors, whose own remedy is right.
fn remedy(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::NoPmu { is_guest_of_hybrid: true, .. } => "Run on the host",
        ErrorKind::NoPmu { is_wsl: true, .. } => {
            "Remove `hardwarePerformanceCounters=false` from .wslconfig if it is there, and run `wsl --shutdown`. If no PMU \
             appears, run on Linux without Windows"
        }
        ErrorKind::NoPmu { is_virtual: true, .. } => {
            "Enable the virtual PMU in the hypervisor, or run on the host"
        }
        ErrorKind::NoPmu { .. } => "Use another machine",
        ErrorKind::NoPmuList => "Mount /sys in this container or chroot to learn the cause",
        _ => return None,
    })
}
