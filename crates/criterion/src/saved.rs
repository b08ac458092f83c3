//! The files that criterion writes: where they are, and which of them are new.

use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, fs, io};

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
#[derive(Debug, PartialEq)]
pub(crate) struct Run {
    /// The benchmark's directory.
    pub(crate) directory: PathBuf,
    /// The number of iterations of each sample.
    pub(crate) iterations: Vec<f64>,
}

/// Why it is not known what criterion has saved.
#[derive(Debug, PartialEq)]
pub(crate) struct Unknown {
    pub(crate) why: String,
    /// The directories of benchmarks with new samples. Counts in them are of an earlier run.
    pub(crate) directories: Vec<PathBuf>,
}

/// The samples of a `sample.json`.
#[derive(Debug)]
struct Samples {
    iterations: Vec<f64>,
    values: Vec<f64>,
}

impl Samples {
    fn load(path: &Path) -> Option<Samples> {
        let json: Value = serde_json::from_slice(&read(path).ok()?).ok()?;
        let numbers = |name: &str| -> Option<Vec<f64>> {
            json.get(name)?.as_array()?.iter().map(Value::as_f64).collect()
        };
        let (iterations, values) = (numbers("iters")?, numbers("times")?);
        let is_whole = !iterations.is_empty()
            && iterations.len() == values.len()
            && iterations.iter().all(|count| *count >= 1.0);
        is_whole.then_some(Samples { iterations, values })
    }

    fn have(&self, values: &[f64]) -> bool {
        let mut pairs = self.values.iter().zip(values);
        self.values.len() == values.len() && pairs.all(|(saved, value)| is_equal(*saved, *value))
    }
}

/// Reads a file. An error if it is not a regular one, which might never end.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    fs::read(path)
}

/// Whether criterion's samples in the directory of a baseline have these iteration counts and values, or these and a few
/// others.
pub(crate) fn has_samples(results: &Path, iterations: &[f64], values: &[f64]) -> bool {
    let Some(saved) = Samples::load(&results.join(SAMPLES)) else { return false };
    let mut saved = saved.iterations.iter().zip(&saved.values);
    let mut ours = iterations.iter().zip(values);
    let is_same = |(saved, value): (&f64, &f64), ours: (&f64, &f64)| {
        saved == ours.0 && is_equal(*value, *ours.1)
    };
    iterations.len() == values.len() && ours.all(|ours| saved.any(|saved| is_same(saved, ours)))
}

/// Whether a saved value is this one. It has been converted to decimal and back.
fn is_equal(saved: f64, value: f64) -> bool {
    (saved - value).abs() <= value * 1e-15
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

    /// Returns what has been saved below `home` since. An error if that is nothing, or not only one benchmark, or not one
    /// with the `values` of all samples that were taken.
    pub(crate) fn run_since(&self, home: &Path, values: &[f64]) -> Result<Run, Unknown> {
        let now = Saved::below(home);
        let is_new = |(path, version): &(&PathBuf, &Version)| self.0.get(*path) != Some(*version);
        let changed: Vec<&PathBuf> = now.0.iter().filter(is_new).map(|(path, _)| path).collect();
        let unknown = |why: String| {
            let directory = |path: &&PathBuf| Some(path.parent()?.parent()?.to_owned());
            Unknown { why, directories: changed.iter().filter_map(directory).collect() }
        };
        let path = match changed.as_slice() {
            [path] => path,
            [] => return Err(unknown(format!("criterion saved no samples in {}", home.display()))),
            _ => return Err(unknown(others(home))),
        };
        let mut samples = Samples::load(path).ok_or_else(|| unknown(others(home)))?;
        // criterion saves a single long sample as two (`--quick`).
        if [values.len(), samples.values.len()] == [1, 2] {
            samples.iterations.truncate(1);
            samples.values.truncate(1);
        }
        // Earlier samples are from its search for a number of iterations.
        let last = values.len().checked_sub(samples.values.len());
        if !last.and_then(|first| values.get(first..)).is_some_and(|values| samples.have(values)) {
            return Err(unknown(others(home)));
        }
        let directory = path.ancestors().nth(2).unwrap_or(home).to_owned();
        Ok(Run { directory, iterations: samples.iterations })
    }
}

fn others(home: &Path) -> String {
    let home = home.display();
    format!("others save results in {home} at the same time. Run one `cargo bench` at a time")
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
        let path = entry.path();
        let is_directory =
            |kind: fs::FileType| kind.is_dir() || (kind.is_symlink() && path.is_dir());
        if !entry.file_type().is_ok_and(is_directory) {
            continue;
        }
        if is_wanted(&entry.file_name().to_string_lossy()) && path.join(SAMPLES).exists() {
            found.push(path.clone());
        }
        // A baseline of `parse` may also be the directory of `parse/base`.
        search(&path, is_wanted, deeper, found);
    }
}

/// Returns the name of the benchmark with this directory below `home`, as criterion prints it. Before criterion has written
/// that down, this is the name of the directory, in which `_` stands for characters that a file name cannot have.
pub(crate) fn name(home: &Path, benchmark: &Path) -> String {
    let of = |results: &Path| {
        let text = read(&results.join("benchmark.json")).ok()?;
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

        fn save(&self, benchmark: &str, iterations: &[f64], values: &[f64]) -> PathBuf {
            let directory = self.0.join(benchmark);
            fs::create_dir_all(directory.join(NEW)).unwrap();
            let json = json!({"sampling_mode": "Linear", "iters": iterations, "times": values});
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
        let values = [0.1, 0.2];
        let since = |before: &Saved| before.run_since(&home.0, &values);
        let run = |directory: &PathBuf| {
            Ok(Run { directory: directory.clone(), iterations: vec![1.0, 2.0] })
        };
        let before = Saved::below(&home.0);
        assert!(since(&before).unwrap_err().why.contains("saved no samples"));
        // All have equal samples.
        let short = home.save("short", &[1.0, 2.0], &values);
        assert_eq!(since(&before), run(&short));
        let before = Saved::below(&home.0);
        assert!(since(&before).is_err());
        let long = home.save("group/function/7", &[1.0, 2.0], &values);
        assert_eq!(since(&before), run(&long));
        // A copy in a baseline is not a run. A benchmark may be called `new`, or as a baseline of another.
        let before = Saved::below(&home.0);
        fs::create_dir_all(long.join("base")).unwrap();
        fs::copy(long.join(NEW).join(SAMPLES), long.join("base").join(SAMPLES)).unwrap();
        for name in ["group/new", "short/base", "short/new"] {
            let before = if name == "group/new" { &before } else { &Saved::below(&home.0) };
            let nested = home.save(name, &[1.0, 2.0], &values);
            assert_eq!(since(before), run(&nested), "{name}");
        }
        // A benchmark that has run before.
        let before = Saved::below(&home.0);
        home.save("short", &[1.0, 2.0], &values);
        // As if some time had passed: files have the time of the last tick of a clock.
        let file = fs::File::options().write(true).open(short.join("new/sample.json")).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(since(&before), run(&short));
        // The last samples of a search, and a single one that is saved as two.
        let last = before.run_since(&home.0, &[0.05, 0.1, 0.2]);
        assert_eq!(last, run(&short));
        let next = 0.1_f64.next_up();
        home.save("short", &[1.0, 1.0], &[0.1, next]);
        let once = before.run_since(&home.0, &[0.1]).map(|run| run.iterations);
        assert_eq!(once, Ok(vec![1.0]));
        // Another process has run the same benchmark, or another one.
        let busy = "others save results in ";
        home.save("short", &[3.0, 6.0], &[0.3, 0.6]);
        assert!(since(&before).unwrap_err().why.starts_with(busy));
        home.save("short", &[1.0, 2.0, 3.0], &[0.1, 0.2, 0.3]);
        assert!(since(&before).unwrap_err().why.starts_with(busy));
        home.save("short", &[1.0, 2.0], &values);
        home.save("group/function/7", &[5.0, 6.0, 7.0], &values);
        assert!(since(&before).unwrap_err().why.starts_with(busy));
        assert_eq!(since(&before).unwrap_err().directories, [long, short]);
        // Files that are damaged, or are none.
        let before = Saved::below(&home.0);
        home.save("broken", &[0.0, 1.0], &values);
        assert!(since(&before).unwrap_err().why.starts_with(busy));
        fs::write(home.0.join("broken/new/sample.json"), "{\"iters\": [1").unwrap();
        assert!(since(&before).unwrap_err().why.starts_with(busy));
        assert!(read(&home.0).is_err());
    }

    #[test]
    fn counts_belong_to_samples() {
        let home = Home(env::temp_dir().join(format!("rdpmc-iterations-{}", std::process::id())));
        let new = home.save("x", &[1.0, 2.0, 3.0], &[0.1, 0.2, 0.3]).join(NEW);
        let has = |iterations: &[f64], values: &[f64]| has_samples(&new, iterations, values);
        assert!(has(&[1.0, 2.0, 3.0], &[0.1, 0.2, 0.3]) && has(&[1.0, 3.0], &[0.1, 0.3]));
        assert!(
            !has(&[3.0, 1.0], &[0.3, 0.1])
                && !has(&[4.0], &[0.1])
                && !has(&[1.0, 1.0], &[0.1, 0.1])
        );
        assert!(!has(&[1.0, 2.0, 3.0], &[0.1, 0.2, 0.4]) && !has(&[1.0], &[]));
        assert!(!has_samples(&home.0, &[1.0], &[0.1]));
    }

    #[test]
    fn a_benchmark_has_criterions_name() {
        let home = Home(env::temp_dir().join(format!("rdpmc-names-{}", std::process::id())));
        let directory = home.save("a_b/c", &[1.0], &[0.1]);
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
