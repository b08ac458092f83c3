//! Whether other processes measure into the same directory.
//!
//! criterion reads and writes there as if it were alone. Its samples of another process may have the counts of this one by
//! chance, at another number of iterations, so that nothing in them shows whose they are.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fs, process};

/// The directory with a file for each process that has measured.
///
/// The file's name has the number of the process, and the time at which it began. Its contents do not matter. So a process
/// that ends while it makes the file leaves the whole name or none.
const FOLDER: &str = ".rdpmc-criterion";

/// Marks that this process measures into `home`, and forgets those that have ended. Does nothing on other systems than Linux.
pub(crate) fn enter(home: &Path) {
    let Some(this) = Mark::of_process("self") else { return };
    let folder = home.join(FOLDER);
    let _ = fs::create_dir_all(&folder);
    let _ = fs::File::create(folder.join(this.name()));
    for (mark, path) in marks(&folder) {
        // A later process may have the same number.
        if Mark::of_process(&mark.id.to_string()) != Some(mark) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Whether another process has measured into `home` since `enter`, or does so.
pub(crate) fn has_others(home: &Path) -> bool {
    let this = Mark::of_process("self");
    marks(&home.join(FOLDER)).any(|(mark, _)| Some(mark) != this)
}

/// Returns the marks in this directory. Other files are none of this module's.
fn marks(folder: &Path) -> impl Iterator<Item = (Mark, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((Mark::parse(&entry.file_name())?, entry.path())))
}

/// Distinguishes a process from all others since the system was started.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mark {
    id: u32,
    /// The time at which it began, in ticks since boot.
    start: u64,
}

impl Mark {
    /// Returns the mark of a running process: `self`, or a number.
    fn of_process(process: &str) -> Option<Mark> {
        // The fields behind the name in parentheses, which may have any bytes.
        const START: usize = 22;
        const AFTER_NAME: usize = 3;
        let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
        let start = rest.split_ascii_whitespace().nth(START - AFTER_NAME)?.parse().ok()?;
        let id = if process == "self" { process::id() } else { process.parse().ok()? };
        Some(Mark { id, start })
    }

    fn name(&self) -> String {
        format!("{}-{}", self.id, self.start)
    }

    fn parse(name: &OsStr) -> Option<Mark> {
        let (id, start) = name.to_str()?.split_once('-')?;
        Some(Mark { id: id.parse().ok()?, start: start.parse().ok()? })
    }
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A home that is removed when this is dropped.
    struct Home(PathBuf);

    impl Home {
        fn new(test: &str) -> Home {
            let home = std::env::temp_dir().join(format!("rdpmc-{test}-{}", process::id()));
            fs::create_dir_all(home.join(FOLDER)).unwrap();
            Home(home)
        }

        fn add(&self, name: &str, contents: &str) {
            fs::write(self.0.join(FOLDER).join(name), contents).unwrap();
        }

        fn has(&self, name: &str) -> bool {
            self.0.join(FOLDER).join(name).exists()
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn others_are_seen_while_they_run_and_once_after() {
        let home = Home::new("others");
        enter(&home.0);
        assert!(!has_others(&home.0));
        let mut other = process::Command::new("sleep").arg("1000").spawn().unwrap();
        let mark = Mark::of_process(&other.id().to_string()).unwrap();
        home.add(&mark.name(), "");
        enter(&home.0);
        assert!(has_others(&home.0), "it runs");
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(has_others(&home.0), "it ran since `enter`");
        enter(&home.0);
        assert!(!has_others(&home.0), "it has ended");
    }

    #[test]
    fn a_number_that_another_process_had_is_not_that_process() {
        let home = Home::new("numbers");
        let this = Mark::of_process("self").unwrap();
        // One that ended before this process began, and process 1 before the system was started again.
        let ended = [Mark { start: this.start - 1, ..this }, Mark { id: 1, start: u64::MAX }];
        ended.iter().for_each(|mark| home.add(&mark.name(), ""));
        assert!(has_others(&home.0));
        enter(&home.0);
        assert!(!has_others(&home.0));
        assert!(home.has(&this.name()) && !ended.iter().any(|mark| home.has(&mark.name())));
    }

    /// Only names count, so no contents make a process of a file, or none of a process.
    #[test]
    fn files_that_are_empty_or_torn() {
        let home = Home::new("torn");
        let runs = Mark::of_process("1").unwrap();
        for contents in ["", "1", "no time", "123456 "] {
            home.add(&runs.name(), contents);
            enter(&home.0);
            assert!(has_others(&home.0), "{contents:?}");
            fs::remove_file(home.0.join(FOLDER).join(runs.name())).unwrap();
            // What is not a mark is no process's, also with the number of one that runs.
            for name in ["1", "1-", "-1", "1-2-3", "1.new", "no number"] {
                home.add(name, contents);
                enter(&home.0);
                assert!(!has_others(&home.0), "{name}: {contents:?}");
            }
        }
    }
}
