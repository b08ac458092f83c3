//! The kernel's error numbers and their names.

use super::calls::*;
use std::fmt;
use std::io;

/// An error number of the kernel, such as `ENOENT`.
///
/// `Display` writes the name that the manual pages use. The system's own message would mislead: the `ENOENT` of
/// `perf_event_open` is not about files.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub(crate) i32);

impl Errno {
    /// Returns the number.
    pub fn raw(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            E2BIG => "E2BIG",
            EACCES => "EACCES",
            EAGAIN => "EAGAIN",
            EBADF => "EBADF",
            EBUSY => "EBUSY",
            EEXIST => "EEXIST",
            EFBIG => "EFBIG",
            EINTR => "EINTR",
            EINVAL => "EINVAL",
            EIO => "EIO",
            EMFILE => "EMFILE",
            ENFILE => "ENFILE",
            ENODEV => "ENODEV",
            ENOENT => "ENOENT",
            ENOMEM => "ENOMEM",
            ENOSPC => "ENOSPC",
            ENOSYS => "ENOSYS",
            EOPNOTSUPP => "EOPNOTSUPP",
            EPERM => "EPERM",
            other => return write!(f, "error number {other}"),
        };
        f.write_str(name)
    }
}

impl fmt::Debug for Errno {
    /// Writes the name, as `Display` does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Errno {}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> io::Error {
        io::Error::from_raw_os_error(errno.0)
    }
}
