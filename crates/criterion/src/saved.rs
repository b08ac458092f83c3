//! The files that criterion writes: where they are, and which of them are new.

use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, fs};

/// The file with the samples of a benchmark.
const SAMPLES: &str = "sample.json";

/// The directory of the last results of a benchmark.
const NEW: &str = "new";

/// The depth of `GROUP/FUNCTION/PARAMETER/new`.
const DEEPEST: u32 = 4;

/// The samples that criterion has saved below a directory, with what changes when one is written.
///
/// criterion does not tell a measurement about its benchmarks. The one whose file has changed since the benchmark began is
/// the one that has run.
#[derive(Debug, Default)]
pub(crate) struct Saved(BTreeMap<PathBuf, Version>);

/// The modification time of a file, and its size.
type Version = (Option<SystemTime>, u64);

/// What criterion has saved of the benchmark that has just run.
#[derive(Debug)]
pub(crate) struct Run {
    /// The benchmark's directory.
    pub(crate) directory: PathBuf,
    /// The number of iterations of each sample.
    pub(crate) iterations: Vec<f64>,
}

impl Saved {
    /// Lists the samples below `home`.
    pub(crate) fn below(home: &Path) -> Saved {
        let mut all = Saved::default();
        for directory in results(home, &|name| name == NEW) {
            let path = directory.join(SAMPLES);
            if let Ok(file) = fs::metadata(&path) {
                all.0.insert(path, (file.modified().ok(), file.len()));
            }
        }
        all
    }

    /// Returns what has been saved below `home` since. An error if that is nothing, or not only one benchmark.
    pub(crate) fn run_since(&self, home: &Path) -> Result<Run, String> {
        let now = Saved::below(home);
        let is_new = |(path, version): &(&PathBuf, &Version)| self.0.get(*path) != Some(*version);
        let mut changed = now.0.iter().filter(is_new).map(|(path, _)| path);
        let home = home.display();
        let path = changed.next().ok_or_else(|| format!("criterion saved no samples in {home}"))?;
        if changed.next().is_some() {
            let why = format!("two benchmarks have new samples in {home}");
            return Err(format!("{why}. Run one `cargo bench` at a time"));
        }
        let damaged = || format!("{} has no iteration counts", path.display());
        let iterations = iterations(path).ok_or_else(damaged)?;
        let directory = path.ancestors().nth(2).ok_or_else(damaged)?.to_owned();
        Ok(Run { directory, iterations })
    }
}

fn iterations(path: &Path) -> Option<Vec<f64>> {
    let json: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let iterations = json.get("iters")?.as_array()?;
    let iterations: Option<Vec<f64>> = iterations.iter().map(Value::as_f64).collect();
    iterations.filter(|all| !all.is_empty() && all.iter().all(|count| *count >= 1.0))
}

/// Returns the directories with results of benchmarks below `home` whose name is wanted: `new`, or that of a baseline.
pub(crate) fn results(home: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    search(home, is_wanted, DEEPEST, &mut found);
    found.sort();
    found
}

fn search(
    directory: &Path,
    is_wanted: &dyn Fn(&str) -> bool,
    deeper: u32,
    found: &mut Vec<PathBuf>,
) {
    let Some(deeper) = deeper.checked_sub(1) else { return };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        if !path.join(SAMPLES).exists() {
            search(&path, is_wanted, deeper, found);
        } else if is_wanted(&entry.file_name().to_string_lossy()) {
            found.push(path);
        }
    }
}

/// Returns the name of the benchmark with this directory below `home`, as criterion prints it. Before criterion has written
/// that down, this is the name of the directory, in which `_` stands for characters that a file name cannot have.
pub(crate) fn name(home: &Path, benchmark: &Path) -> String {
    let of = |results: &Path| {
        let text = fs::read(results.join("benchmark.json")).ok()?;
        let json: Value = serde_json::from_slice(&text).ok()?;
        Some(json.get("title")?.as_str()?.to_owned())
    };
    let directory = || benchmark.strip_prefix(home).unwrap_or(benchmark).display().to_string();
    of(&benchmark.join(NEW)).unwrap_or_else(directory)
}

/// Returns the directory that criterion writes to by default, which it determines in this way. `cargo` is the program that
/// knows cargo's target directory: for criterion, the one that runs it.
pub(crate) fn default_home(cargo: Option<OsString>) -> PathBuf {
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
pub(crate) fn criterions_home() -> PathBuf {
    default_home(env::var_os("CARGO"))
}

/// Returns the directory for results of one kind, beside criterion's `home`: `target/criterion-cycles`. It is not below it,
/// because criterion's index of all reports there would have links to it that lead nowhere.
pub(crate) fn home_of(home: &Path, kind: &str) -> PathBuf {
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

    /// A directory like those that criterion writes, by `GROUP/FUNCTION`.
    struct Home(PathBuf);

    impl Home {
        fn new() -> Home {
            Home(env::temp_dir().join(format!("rdpmc-saved-{}", std::process::id())))
        }

        fn save(&self, benchmark: &str, iterations: &[f64]) -> PathBuf {
            let directory = self.0.join(benchmark);
            fs::create_dir_all(directory.join(NEW)).unwrap();
            let json = json!({"sampling_mode": "Linear", "iters": iterations, "times": [0.5, 0.5]});
            fs::write(directory.join(NEW).join(SAMPLES), json.to_string()).unwrap();
            directory
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_file_that_changed_is_that_of_the_run() {
        let home = Home::new();
        let since =
            |before: &Saved| before.run_since(&home.0).map(|run| (run.directory, run.iterations));
        let before = Saved::below(&home.0);
        assert!(since(&before).unwrap_err().contains("saved no samples"));
        // All have equal samples.
        let short = home.save("short", &[1.0, 2.0]);
        assert_eq!(since(&before), Ok((short.clone(), vec![1.0, 2.0])));
        let before = Saved::below(&home.0);
        assert!(since(&before).is_err());
        let long = home.save("group/function/7", &[1.0, 2.0]);
        assert_eq!(since(&before), Ok((long.clone(), vec![1.0, 2.0])));
        // A copy in a baseline is not a run. A benchmark may be called `new`.
        let before = Saved::below(&home.0);
        fs::create_dir_all(long.join("base")).unwrap();
        fs::copy(long.join(NEW).join(SAMPLES), long.join("base").join(SAMPLES)).unwrap();
        let new = home.save("group/new", &[3.0]);
        assert_eq!(since(&before), Ok((new, vec![3.0])));
        // A benchmark that has run before.
        let before = Saved::below(&home.0);
        home.save("short", &[1.0, 2.0]);
        // As if some time had passed: files have the time of the last tick of a clock.
        let file = fs::File::options().write(true).open(short.join("new/sample.json")).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(since(&before), Ok((short, vec![1.0, 2.0])));
        // Two of them, and files that are damaged.
        home.save("group/function/7", &[5.0]);
        assert!(since(&before).unwrap_err().contains("two benchmarks have new samples"));
        let before = Saved::below(&home.0);
        home.save("broken", &[0.0]);
        assert!(since(&before).unwrap_err().contains("no iteration counts"));
        fs::write(home.0.join("broken/new/sample.json"), "{\"iters\": [1").unwrap();
        assert!(since(&before).unwrap_err().contains("no iteration counts"));
    }

    #[test]
    fn a_benchmark_has_criterions_name() {
        let home = Home(env::temp_dir().join(format!("rdpmc-names-{}", std::process::id())));
        let directory = home.save("a_b/c", &[1.0]);
        assert_eq!(name(&home.0, &directory), "a_b/c");
        let id = json!({"group_id": "a/b", "full_id": "a/b/c", "directory_name": "a_b/c", "title": "a/b/c"});
        fs::write(directory.join("new/benchmark.json"), id.to_string()).unwrap();
        assert_eq!(name(&home.0, &directory), "a/b/c");
    }

    #[test]
    fn each_kind_has_a_home() {
        for kind in ["cycles", "cycles:uk", "../x"] {
            let expected = format!("/target/criterion-{}", kind.replace([':', '/'], "_"));
            assert_eq!(home_of(Path::new("/target/criterion"), kind), Path::new(&expected));
        }
    }
}
