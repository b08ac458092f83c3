//! The threads of this process, from `/proc`.
#![forbid(unsafe_code)]

use super::{EIO, Errno, Unreadable, read_file};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One directory for each thread.
const THREADS: &str = "/proc/self/task";
/// A limit above the size of a file of a thread, in bytes.
const FILE_LIMIT: u64 = 1 << 16;

/// Lists the threads. One that begins or ends meanwhile may be missing, and so may another one after it.
pub(crate) fn listed() -> Result<Vec<u32>, Unreadable> {
    let path = Path::new(THREADS);
    let unreadable = |error: io::Error| Unreadable::new(path, &error);
    let mut threads = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        threads.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(threads)
}

/// Whether the numbers in the list are those that the kernel's calls take here: `/proc` is of this PID namespace. True if that is
/// not known.
pub(crate) fn are_numbered_here() -> bool {
    let link = fs::read_link("/proc/thread-self");
    let number = link.ok().and_then(|link| link.file_name()?.to_str()?.parse::<u32>().ok());
    number.is_none_or(|number| number == super::thread_id())
}

/// Returns the number of threads at this moment.
pub(crate) fn count() -> Result<usize, Unreadable> {
    let path = PathBuf::from("/proc/self/status");
    let text = read_file(&path, FILE_LIMIT).map_err(|error| Unreadable::new(&path, &error))?;
    let text = String::from_utf8_lossy(text.as_deref().unwrap_or_default());
    let count = text.lines().find_map(|line| line.strip_prefix("Threads:")?.trim().parse().ok());
    count.ok_or(Unreadable { path, errno: Errno(EIO) })
}

/// Whether a thread sleeps or is stopped in a way that a system call which starts a thread never does, or has ended. False if that
/// is not known.
///
/// A debugger may stop a thread inside of that call, but only before or after the kernel makes the new thread.
pub(crate) fn is_asleep(thread: u32) -> bool {
    let path = Path::new(THREADS).join(format!("{thread}/stat"));
    let Ok(Some(text)) = read_file(&path, FILE_LIMIT) else { return false };
    // The thread's name is in parentheses, and may contain some.
    let text = String::from_utf8_lossy(&text);
    text.rsplit_once(')')
        .is_some_and(|(_, rest)| rest.trim_start().starts_with(['S', 'T', 't', 'Z', 'X']))
}
