//! How a counter is read.

use super::{Error, ErrorKind, ReadError};
use std::fmt;

/// How a counter is read now, from [`Counter::access`](crate::Counter::access).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// From user space: [`read_user`](crate::Counter::read_user) returns the count.
    UserSpace,
    /// By `read(2)`, a system call, for this reason. If its kind is [`ErrorKind::ErrorState`] or [`ErrorKind::Closed`], the
    /// system call returns that error, and no count.
    SystemCall(Error),
    /// Not at all: this process is a fork of the one that opened the counter.
    Forked,
}

impl Access {
    /// Returns the kind of the reason for system calls. None for the other two ways.
    pub fn why_system_call(&self) -> Option<ErrorKind> {
        match self {
            Access::SystemCall(why) => Some(why.kind()),
            Access::UserSpace | Access::Forked => None,
        }
    }
}

impl fmt::Debug for Access {
    /// Writes the kind of the reason, e.g. `SystemCall(SoftwareEvent)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::UserSpace => f.write_str("UserSpace"),
            Access::SystemCall(why) => write!(f, "SystemCall({:?})", why.kind()),
            Access::Forked => f.write_str("Forked"),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::UserSpace => write!(f, "read from user space"),
            Access::SystemCall(why) => {
                let is_read = !matches!(why.kind(), ErrorKind::ErrorState | ErrorKind::Closed);
                write!(f, "{}: {why}", if is_read { "read by system call" } else { "not read" })
            }
            Access::Forked => ReadError::Forked.fmt(f),
        }
    }
}
