//! Reads files that anyone may have put there: without waiting, regular files only, up to a limit.
#![forbid(unsafe_code)]

use super::open_file;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

/// Returns the bytes of a file, at most `limit`. None if it is not a regular file.
pub(crate) fn read_file(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    // Checked before opening, because opening a device has effects. Checked again after it, because the path may
    // lead to another file by then.
    if !fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let file = open_file(path)?;
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}
