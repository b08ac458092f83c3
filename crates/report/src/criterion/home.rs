//! criterion's directories, and those beside them for results of one kind.

use super::samples::FILE;
use crate::gate::files;
use serde_json::Value;
use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The directory of the last results of a benchmark.
pub const NEW: &str = "new";

/// The depth of `GROUP/FUNCTION/PARAMETER/new`.
const DEEPEST: u32 = 4;

/// Returns the directories with results of benchmarks below `home` whose name is wanted: `new`, or that of a baseline.
pub fn results(home: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Vec<PathBuf> {
    search(home, is_wanted).0
}

/// Returns the same, and what could not be read.
///
/// Links are followed last, and no directory is searched twice. A few links to their own directory would lead to millions.
pub(super) fn search(home: &Path, is_wanted: &dyn Fn(&str) -> bool) -> (Vec<PathBuf>, Vec<String>) {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    let (mut searched, mut left) = (HashSet::new(), VecDeque::from([(home.to_owned(), DEEPEST)]));
    while let Some((directory, deeper)) = left.pop_front() {
        let Some(deeper) = deeper.checked_sub(1) else { continue };
        if !searched.insert(directory.canonicalize().unwrap_or_else(|_| directory.clone())) {
            continue;
        }
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    unreadable.push(format!("{} cannot be read: {error}", directory.display()));
                }
                continue;
            }
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            let is_link = kind.is_symlink() && path.is_dir();
            if !kind.is_dir() && !is_link {
                continue;
            }
            if is_wanted(&entry.file_name().to_string_lossy()) && path.join(FILE).exists() {
                found.push(path.clone());
            }
            // A baseline of `parse` may also be the directory of `parse/base`.
            if is_link { left.push_back((path, deeper)) } else { left.push_front((path, deeper)) }
        }
    }
    found.sort();
    (found, unreadable)
}

/// Returns the name of the benchmark with this directory below `home`, as criterion prints it. Before criterion has written
/// that down, this is the name of the directory, in which `_` stands for characters that a file name cannot have.
pub fn name(home: &Path, benchmark: &Path) -> String {
    let of = |results: &Path| {
        let text = files::read(&results.join("benchmark.json")).ok()?;
        let json: Value = serde_json::from_slice(&text).ok()?;
        Some(json.get("title")?.as_str()?.to_owned())
    };
    let directory = || benchmark.strip_prefix(home).unwrap_or(benchmark).display().to_string();
    of(&benchmark.join(NEW)).unwrap_or_else(directory)
}

/// Returns the directory that criterion writes to by default, which it determines in this way. `cargo` is the program that
/// knows cargo's target directory: for criterion, the one that runs it.
pub fn default_home(cargo: Option<OsString>) -> PathBuf {
    if let Some(home) = env::var_os("CRITERION_HOME") {
        return home.into();
    }
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from).or_else(|| {
        let mut cargo = std::process::Command::new(cargo?);
        let said = cargo.args(["metadata", "--format-version", "1", "--no-deps"]).output().ok()?;
        let metadata: Value = serde_json::from_slice(&said.stdout).ok()?;
        Some(metadata.get("target_directory")?.as_str()?.into())
    });
    target.unwrap_or_else(|| "target".into()).join("criterion")
}

/// Returns the directory that criterion writes to in this process.
pub fn criterions_home() -> PathBuf {
    default_home(env::var_os("CARGO"))
}

/// Returns the directory for results of one kind, beside criterion's `home`: `target/criterion-cycles`. It is not below it,
/// because criterion's index of all reports there would have links to it that lead nowhere.
pub fn home_of(home: &Path, kind: &str) -> PathBuf {
    let mut name = home.file_name().unwrap_or("criterion".as_ref()).to_owned();
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    name.push("-");
    name.push(kind.replace(|character| !is_plain(character), "_"));
    home.with_file_name(name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_benchmark_has_criterions_name() {
        let home = env::temp_dir().join(format!("rdpmc-names-{}", std::process::id()));
        let directory = home.join("a_b/c");
        fs::create_dir_all(directory.join(NEW)).unwrap();
        assert_eq!(name(&home, &directory), "a_b/c");
        let id = json!({"group_id": "a/b", "full_id": "a/b/c", "directory_name": "a_b/c", "title": "a/b/c"});
        fs::write(directory.join("new/benchmark.json"), id.to_string()).unwrap();
        assert_eq!(name(&home, &directory), "a/b/c");
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn no_directory_is_searched_twice() {
        use std::os::unix::fs::symlink;

        let home = env::temp_dir().join(format!("rdpmc-links-{}", std::process::id()));
        let elsewhere = home.with_extension("elsewhere");
        for baseline in [home.join("f/new"), elsewhere.join("g/new")] {
            fs::create_dir_all(&baseline).unwrap();
            fs::write(baseline.join(FILE), "").unwrap();
        }
        symlink(&elsewhere, home.join("a link")).unwrap();
        symlink("new", home.join("f/main")).unwrap();
        // 60 links to it, each of which has 60 links to it.
        for number in 0..60 {
            symlink(".", home.join(format!("{number}"))).unwrap();
        }
        let of = |name: &str| results(&home, &|it| it == name);
        assert_eq!(of("new"), [home.join("a link/g/new"), home.join("f/new")]);
        assert_eq!(of("main"), [home.join("f/main")]);
        fs::remove_dir_all(elsewhere).unwrap();
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn each_kind_has_a_home() {
        for kind in ["cycles", "cycles:uk", "../x"] {
            let expected = format!("/target/criterion-{}", kind.replace([':', '/'], "_"));
            assert_eq!(home_of(Path::new("/target/criterion"), kind), Path::new(&expected));
        }
    }
}
