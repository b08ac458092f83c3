//! What is shown of an interval: reports, traces, and files for other programs.

#[cfg(feature = "hdrhistogram")]
pub(crate) mod hdr_log;
pub(crate) mod json;
mod notes;
pub(crate) mod one_line;
#[cfg(feature = "otlp")]
pub(crate) mod otlp;
pub(crate) mod page;
pub(crate) mod perfetto;
pub(crate) mod prometheus;
mod rates;
mod report;
mod row;
mod slow_line;
mod table;
mod thread_info;
pub(crate) mod trace;

pub use perfetto::PerfettoTrace;
pub use report::Report;
pub use row::{Counts, Percentiles, Row};
pub use thread_info::ThreadInfo;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// What every output says where nothing can have been recorded. None with the feature `enabled`.
const NOTHING: Option<&str> = if cfg!(feature = "enabled") {
    None
} else {
    Some("Nothing is recorded: rdpmc-spans is compiled without its feature `enabled`.")
};

/// Writes a file beside `path`, and gives it that name once it is complete. Of a link, the file that it leads to is replaced.
/// What is no file, such as a pipe, is written to, and so is an open file of the process, such as `/dev/stdout`.
pub(crate) fn save(
    path: &Path,
    write: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> io::Result<()> {
    let Some(path) = file_to_replace(path)? else {
        return write(&mut fs::File::options().append(true).open(path)?);
    };
    let (part, mut file) = create_beside(&path)?;
    // The disk may be full, and some file systems say so only then.
    let written = write(&mut file).and_then(|()| file.sync_all());
    let saved = written.and_then(|()| fs::rename(&part, &path));
    if saved.is_err() {
        let _ = fs::remove_file(&part); // the first error is the one to tell
    }
    saved
}

/// Follows links. None if that is not a file, or one that may be open in this process.
fn file_to_replace(path: &Path) -> io::Result<Option<PathBuf>> {
    const MAX_LINKS: usize = 40; // as the kernel
    // The kernel refuses links of others in folders of all.
    match fs::metadata(path) {
        Ok(of) if !of.is_file() => return Ok(None),
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
        _ => {}
    }
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        if path.starts_with("/proc") || path.starts_with("/dev/fd") {
            return Ok(None);
        }
        let Ok(to) = fs::read_link(&path) else { break };
        path.pop();
        path.push(to);
    }
    Ok(Some(path))
}

/// Creates a file that no other call has, in the folder of `path`.
fn create_beside(path: &Path) -> io::Result<(PathBuf, fs::File)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut tries = 0..1_000;
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".rdpmc-spans-{}-{number}.part", std::process::id());
        let part = path.with_file_name(name);
        match fs::File::create_new(&part) {
            Ok(file) => return Ok((part, file)),
            // Of a process of the same number, which was killed or is in another container.
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists && tries.next().is_some() => {}
            Err(why) => return Err(why),
        }
    }
}

/// Writes a string in quotes, as JSON has it.
fn string(to: &mut impl Write, text: &str) -> io::Result<()> {
    Ok(serde_json::to_writer(to, text)?)
}

/// Returns the file name of the program.
fn process_name() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&path).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
