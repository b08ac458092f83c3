//! Errors of an open counter.

use crate::kernel::{self, EACCES, ENOSYS, EPERM, Errno, Message, has_message, say};

/// Why an open counter or group could not be read, started, stopped or reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The event is pinned and in error state: it could not get a counter, or lost it.
    ErrorState,
    /// This process is a fork of the one that opened the counter.
    Forked,
    /// Other code of this process has closed a descriptor of the counter or group, and its number may be another file's now
    /// (`close_range`, `closefrom`, `dup2`): see [closed descriptors](crate::Counter#closed-descriptors).
    Closed,
    /// The system call failed for a reason that is not known to occur, or a sandbox has denied it.
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
            ReadError::ErrorState | ReadError::Forked | ReadError::Closed => None,
        }
    }
}

has_message!(ReadError);

impl ReadError {
    /// Makes an error of a call with the counter's descriptor.
    pub(crate) fn of_call(call: &'static str, errno: Errno) -> ReadError {
        match errno {
            Errno(kernel::EBADF) => ReadError::Closed,
            errno => ReadError::System { call, errno },
        }
    }

    pub(crate) fn message(&self) -> Message {
        match self {
            ReadError::ErrorState => say!(
                "the pinned event has no counter and is in error state",
                "Pin fewer events, then call enable() again"
            ),
            ReadError::Forked => say!(
                "this process is a fork, and the counter counts the parent's thread",
                "Open a new counter in this process"
            ),
            ReadError::Closed => say!(
                "other code of this process has closed the counter's descriptor",
                "Find the call with `strace -f -e trace=close,close_range,dup2,dup3`, and open the \
                 counter after it"
            ),
            ReadError::System { call, errno: errno @ Errno(EPERM | EACCES | ENOSYS) } => say!(
                "{call} of the counter was denied ({errno}), as by a seccomp filter or a security module",
                "Allow the call in the sandbox, or run outside of it"
            ),
            ReadError::System { call, errno } => say!(
                "{call} failed with {errno}, which is not known to occur",
                "Please report it with the kernel's version"
            ),
        }
    }
}
