//! A file that cannot be read.

use super::*;
use std::io;
use std::path::{Path, PathBuf};

/// A file or directory of `/sys` or `/proc` that could not be read: of the PMU list, the list of clock sources, or the list of
/// threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// The file or directory.
    pub(crate) path: PathBuf,
    /// The kernel's answer. `EFBIG` if this library stopped because there is more to read than any kernel shows.
    pub(crate) errno: Errno,
}

impl Unreadable {
    pub(crate) fn new(path: &Path, error: &io::Error) -> Unreadable {
        Unreadable { path: path.to_owned(), errno: Errno(error.raw_os_error().unwrap_or(EIO)) }
    }
}
