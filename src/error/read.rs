//! Errors of an open counter.

use crate::kernel::{Errno, Message, has_message, say};

/// Why an open counter or group could not be read, started, stopped or reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The event is pinned and in error state: it could not get a counter, or lost it.
    ErrorState,
    /// This process is a fork of the one that opened the counter.
    Forked,
    /// The kernel returned the counts of other events than the group was opened with: other code has closed one of their
    /// descriptors.
    #[non_exhaustive]
    Members {
        /// The number of events that the group was opened with.
        opened: usize,
        /// The number of events in the kernel's answer.
        read: u64,
        /// The length of the kernel's answer.
        bytes: usize,
    },
    /// The system call failed for a reason that is not known to occur.
    #[non_exhaustive]
    System {
        /// The system call.
        call: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReadError::System { errno, .. } => Some(errno),
            ReadError::ErrorState | ReadError::Forked | ReadError::Members { .. } => None,
        }
    }
}

has_message!(ReadError);

impl ReadError {
    pub(super) fn message(&self) -> Message {
        match self {
            ReadError::ErrorState => say!(
                "the pinned event has no counter and is in error state",
                "Pin fewer events, then call enable() again"
            ),
            ReadError::Forked => say!(
                "this process is a fork, and the counter counts the parent's thread",
                "Open a new counter in this process"
            ),
            ReadError::Members { opened, read, bytes } => say!(
                "{opened} events were opened, and the kernel now returns {read} of them in \
                 {bytes} bytes",
                "Find the code that closes file descriptors of others, then open the events again"
            ),
            ReadError::System { call, errno } => say!(
                "{call} failed with {errno}, which is not known to occur",
                "Please report it with the kernel's version"
            ),
        }
    }
}
