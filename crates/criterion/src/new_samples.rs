//! Which of the files that criterion writes are new.

use crate::other_processes;
use rdpmc_report::criterion::home::{NEW, results};
use rdpmc_report::criterion::samples::{FILE, Samples};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

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

impl Saved {
    /// Lists the samples below `home`.
    pub(crate) fn below(home: &Path) -> Saved {
        let mut all = Saved::default();
        for directory in results(home, &|name| name == NEW) {
            let path = directory.join(FILE);
            if let Ok(file) = fs::metadata(&path) {
                all.0.insert(path, (file.modified().ok(), file.len()));
            }
        }
        all
    }

    /// Returns what has been saved below `home` since. An error if that is nothing, or not only one benchmark, or not one
    /// with the `values` of all samples that were taken, or if another process may have saved it.
    pub(crate) fn run_since(&self, home: &Path, values: &[f64]) -> Result<Run, Unknown> {
        let now = Saved::below(home);
        let is_new = |(path, version): &(&PathBuf, &Version)| self.0.get(*path) != Some(*version);
        let changed: Vec<&PathBuf> = now.0.iter().filter(is_new).map(|(path, _)| path).collect();
        let unknown = |why: String| {
            let directory = |path: &&PathBuf| Some(path.parent()?.parent()?.to_owned());
            Unknown { why, directories: changed.iter().filter_map(directory).collect() }
        };
        if other_processes::has_others(home) {
            return Err(unknown(others(home)));
        }
        let path = match changed.as_slice() {
            [path] => path,
            [] => return Err(unknown(format!("criterion saved no samples in {}", home.display()))),
            _ => return Err(unknown(others(home))),
        };
        let mut samples = Samples::load(path).ok_or_else(|| unknown(damaged(path)))?;
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

fn damaged(path: &Path) -> String {
    let path = path.display();
    format!(
        "{path} is damaged. Free space if the disk is full, and run one `cargo bench` at a time"
    )
}

fn others(home: &Path) -> String {
    let home = home.display();
    format!("others save results in {home} at the same time. Run one `cargo bench` at a time")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::env;

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
            fs::write(directory.join(NEW).join(FILE), json.to_string()).unwrap();
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
        fs::copy(long.join(NEW).join(FILE), long.join("base").join(FILE)).unwrap();
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
        assert!(since(&before).unwrap_err().why.contains("sample.json is damaged. Free space"));
        fs::write(home.0.join("broken/new/sample.json"), "{\"iters\": [1").unwrap();
        assert!(since(&before).unwrap_err().why.contains("sample.json is damaged. Free space"));
    }
}
