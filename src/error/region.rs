//! Errors of making a region.

use super::{NamedEvent, SyscallReason};
use crate::kernel::{Message, Unreadable, has_message, say};

/// Why a [`Region`](crate::Region) could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegionError {
    /// A region reads its counters in user space, and this is not possible.
    #[non_exhaustive]
    UserReadUnavailable {
        /// The first event that user space cannot read.
        event: NamedEvent,
        /// The reason.
        reason: SyscallReason,
    },
    /// Reading a counter at the end of a region may fault on this machine.
    /// Call [`contain_faults`](crate::contain_faults) first.
    FaultsNotContained,
    /// This process is a fork of the one that opened the counters.
    Forked,
    /// The kernel's list of PMUs could not be read. It tells whether there are several core types.
    Unreadable(Unreadable),
}

impl std::error::Error for RegionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RegionError::Unreadable(unreadable) => Some(&unreadable.errno),
            RegionError::UserReadUnavailable {
                reason: SyscallReason::NotMapped { errno }, ..
            } => Some(errno),
            _ => None,
        }
    }
}

impl From<Unreadable> for RegionError {
    fn from(unreadable: Unreadable) -> RegionError {
        RegionError::Unreadable(unreadable)
    }
}

has_message!(RegionError);

impl RegionError {
    fn message(&self) -> Message {
        match self {
            RegionError::UserReadUnavailable { event, reason: SyscallReason::SoftwareEvent } => {
                say!(
                    "a region reads its counters in user space, and the kernel counts {event} in \
                     software",
                    "Take the difference of two reads, or choose a hardware event"
                )
            }
            RegionError::UserReadUnavailable { event, reason } => {
                let what = format!(
                    "a region reads its counters in user space, and {event} cannot be read there: "
                );
                reason.message().after(what)
            }
            RegionError::FaultsNotContained => say!(
                "on this machine a counter may be gone when a region ends, and reading it then \
                 faults",
                "Call rdpmc::contain_faults() before making regions"
            ),
            RegionError::Forked => super::ReadError::Forked.message(),
            RegionError::Unreadable(unreadable) => unreadable.message(),
        }
    }
}
