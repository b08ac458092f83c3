//! Errors of an open counter.

use super::{Error, ErrorKind};
use crate::kernel::{self, EACCES, ENOSYS, EPERM, Errno};
use std::fmt;
use std::io;

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

impl ReadError {
    /// Makes an error of a call with the counter's descriptor.
    pub(crate) fn of_call(call: &'static str, errno: Errno) -> ReadError {
        match errno {
            Errno(kernel::EBADF) => ReadError::Closed,
            errno => ReadError::System { call, errno },
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Error::from(*self).fmt(f)
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Error {
        match error {
            ReadError::ErrorState => Error::new(
                ErrorKind::ErrorState,
                "the pinned event has no counter and is in error state",
                "Pin fewer events, then call enable() again",
            ),
            ReadError::Forked => Error::new(
                ErrorKind::Forked,
                "this process is a fork, and the counter counts the parent's thread",
                "Open a new counter in this process",
            ),
            ReadError::Closed => Error::new(
                ErrorKind::Closed,
                "other code of this process has closed the counter's descriptor",
                "Find the call with `strace -f -e trace=close,close_range,dup2,dup3`, and open the counter \
                 after it",
            ),
            ReadError::System { call, errno } => {
                let (cause, remedy) = match errno.0 {
                    EPERM | EACCES | ENOSYS => (
                        "{0} of the counter was denied ({errno}), as by a seccomp filter or a security module",
                        "Allow the call in the sandbox, or run outside of it",
                    ),
                    _ => (
                        "{0} failed with {errno}, which is not known to occur",
                        "Please report it with the kernel's version",
                    ),
                };
                Error::new(ErrorKind::System, cause, remedy).with(&call).errno_is(errno)
            }
        }
    }
}

impl From<ReadError> for io::Error {
    /// Converts as [`Error`] does.
    fn from(error: ReadError) -> io::Error {
        Error::from(error).into()
    }
}
