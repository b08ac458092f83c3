//! The error of a file that cannot be read.

use super::*;
use std::io;
use std::path::{Path, PathBuf};

/// Where the list of clock sources is.
const CLOCKS: &str = "/sys/devices/system/clocksource";

/// A file or directory of `/sys` or `/proc` that could not be read: of the PMU list, the list of clock sources, or the list of threads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unreadable {
    /// The file or directory.
    pub path: PathBuf,
    /// The kernel's answer. `EFBIG` if this library stopped because there is more to read than any kernel shows.
    pub errno: Errno,
}

impl std::error::Error for Unreadable {}

impl Unreadable {
    pub(crate) fn new(path: &Path, error: &io::Error) -> Unreadable {
        Unreadable { path: path.to_owned(), errno: Errno(error.raw_os_error().unwrap_or(EIO)) }
    }
}

has_message!(Unreadable);

impl Unreadable {
    pub(crate) fn message(&self) -> Message {
        let remedy = match self.errno.0 {
            EMFILE => "This process has no file descriptor left: raise `ulimit -n` or close files",
            ENFILE => {
                "This machine has no file descriptor left: raise `sysctl fs.file-max` or close files"
            }
            ENOMEM => "There is no memory for it: free some and try again",
            EACCES | EPERM => "Give this process read access to it, and to what it links to",
            ENOENT | ENOTDIR if self.path.starts_with("/proc") => {
                "Make it visible in this container or chroot (mount /proc)"
            }
            ENOENT | ENOTDIR if self.path.starts_with(CLOCKS) => {
                "Make it visible in this container or chroot (mount /sys), or open a clock before \
                 entering it"
            }
            ENOENT | ENOTDIR => "Make it visible in this container or chroot (mount /sys)",
            EFBIG => "There is more in it than any kernel shows: pass another directory",
            _ => "Try again, and if it stays so, report it with the kernel's version",
        };
        let path = self.path.display();
        say!("{path} cannot be read ({})", "{remedy}", self.errno)
    }
}
