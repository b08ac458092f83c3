//! Whether other processes measure into the same directory.
//!
//! criterion reads and writes there as if it were alone. Its samples of another process may have the counts of this one by
//! chance, at another number of iterations, so that nothing in them shows whose they are.

use std::path::{Path, PathBuf};
use std::{fs, process};

/// The directory with a file for each process that has measured: its name is that of the process, its text the time at which
/// the process began.
const FOLDER: &str = ".rdpmc-criterion";

/// Marks that this process measures into `home`, and forgets those that have ended. Does nothing on other systems than Linux.
pub(crate) fn enter(home: &Path) {
    let Some(start) = start_of("self") else { return };
    let folder = home.join(FOLDER);
    let _ = fs::create_dir_all(&folder);
    for (id, path) in others(&folder) {
        // One that is empty is being written.
        let marked = fs::read_to_string(&path).unwrap_or_default();
        if !marked.is_empty() && start_of(&id.to_string()).as_ref() != Some(&marked) {
            let _ = fs::remove_file(path);
        }
    }
    let _ = fs::write(folder.join(process::id().to_string()), start);
}

/// Whether another process has measured into `home` since `enter`, or does so.
pub(crate) fn has_others(home: &Path) -> bool {
    others(&home.join(FOLDER)).next().is_some()
}

fn others(folder: &Path) -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path()));
    entries.filter_map(of).filter(|(id, _)| *id != process::id())
}

/// Returns the time at which a process began, in ticks since boot: a field of its `stat`, behind the name in parentheses.
fn start_of(process: &str) -> Option<String> {
    const FIELD: usize = 22;
    const AFTER_NAME: usize = 3;
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(FIELD - AFTER_NAME).map(str::to_owned)
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn others_are_seen_while_they_run_and_once_after() {
        let home = std::env::temp_dir().join(format!("rdpmc-alone-{}", process::id()));
        let mark = |id: u32, start: &str| {
            fs::write(home.join(FOLDER).join(id.to_string()), start).unwrap()
        };
        enter(&home);
        assert!(!has_others(&home));
        let mut other = process::Command::new("sleep").arg("1000").spawn().unwrap();
        let start = start_of(&other.id().to_string()).unwrap();
        mark(other.id(), &start);
        enter(&home);
        assert!(has_others(&home), "it runs");
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(has_others(&home), "it ran since `enter`");
        enter(&home);
        assert!(!has_others(&home), "it has ended");
        // Another process has its number now.
        mark(1, "a time at which it did not begin");
        enter(&home);
        assert!(!has_others(&home));
        fs::remove_dir_all(&home).unwrap();
    }
}
