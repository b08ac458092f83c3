//! Finds the `sample.json` that criterion has saved of a benchmark, by its contents.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{env, fs};

/// Finds the file below `directory` that criterion has written, at `since` or later, with these samples. Returns its
/// path, and the number of iterations of each sample.
pub(crate) fn find(
    directory: &Path,
    since: SystemTime,
    measured: &[f64],
) -> Option<(PathBuf, Vec<f64>)> {
    // The time of a file may be that of the last timer tick.
    let since = since.checked_sub(Duration::from_secs(1))?;
    let mut found = Vec::new();
    saved_since(since, directory, DEEPEST, &mut found);
    found.sort();
    found.into_iter().rev().find_map(|(_, path)| {
        let json: Value = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        let numbers = |name| -> Option<Vec<f64>> {
            json.get(name)?.as_array()?.iter().map(Value::as_f64).collect()
        };
        let (iterations, times) = (numbers("iters")?, numbers("times")?);
        // The file has the last samples that were taken.
        let first = measured.len().saturating_sub(times.len());
        let ours = measured.iter().skip(first);
        // The saved values have been converted to decimal and back.
        let is_same = |(ours, saved): (&f64, &f64)| (ours - saved).abs() <= ours.abs() * 1e-12;
        let all = times.len() == iterations.len()
            && !times.is_empty()
            // `--quick` saves a single long sample as two.
            && (times.len() <= measured.len() || [times.len(), measured.len()] == [2, 1])
            && ours.zip(&times).all(is_same);
        all.then_some((path, iterations))
    })
}

/// The depth of `GROUP/FUNCTION/PARAMETER/new`.
const DEEPEST: u32 = 4;

/// Collects the files that criterion has saved below a directory, with their times.
fn saved_since(
    since: SystemTime,
    directory: &Path,
    deeper: u32,
    found: &mut Vec<(SystemTime, PathBuf)>,
) {
    let sample = directory.join("sample.json");
    if directory.ends_with("new") {
        let modified = fs::metadata(&sample).and_then(|metadata| metadata.modified());
        if let Some(modified) = modified.ok().filter(|modified| *modified >= since) {
            found.push((modified, sample));
        }
    }
    let Some(deeper) = deeper.checked_sub(1) else { return };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            saved_since(since, &entry.path(), deeper, found);
        }
    }
}

/// Returns the directory that criterion writes to, which it determines in this way.
pub(crate) fn directory() -> PathBuf {
    if let Some(home) = env::var_os("CRITERION_HOME") {
        return home.into();
    }
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from).or_else(|| {
        let mut cargo = std::process::Command::new(env::var_os("CARGO")?);
        let said = cargo.args(["metadata", "--format-version", "1", "--no-deps"]).output().ok()?;
        let metadata: Value = serde_json::from_slice(&said.stdout).ok()?;
        Some(metadata.get("target_directory")?.as_str()?.into())
    });
    target.unwrap_or_else(|| "target".into()).join("criterion")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A directory like those that criterion writes, by `GROUP/FUNCTION`.
    struct Saved(PathBuf);

    impl Saved {
        fn new() -> Saved {
            Saved(env::temp_dir().join(format!("rdpmc-saved-{}", std::process::id())))
        }

        fn save(&self, benchmark: &str, iterations: &[f64], times: &[f64]) -> PathBuf {
            let directory = self.0.join(benchmark).join("new");
            fs::create_dir_all(&directory).unwrap();
            let path = directory.join("sample.json");
            let json = json!({"sampling_mode": "Linear", "iters": iterations, "times": times});
            fs::write(&path, json.to_string()).unwrap();
            path
        }
    }

    impl Drop for Saved {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn samples_are_found_by_what_was_measured() {
        let saved = Saved::new();
        let short = saved.save("short", &[1.0, 2.0], &[10.0, 20.1]);
        let long = saved.save("group/function/7", &[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]);
        fs::create_dir_all(saved.0.join("group/function/7/base")).unwrap();
        fs::copy(&long, saved.0.join("group/function/7/base/sample.json")).unwrap();
        fs::create_dir_all(saved.0.join("broken/new")).unwrap();
        fs::write(saved.0.join("broken/new/sample.json"), "{\"iters\": 1").unwrap();
        let find = |of: &[f64]| find(&saved.0, SystemTime::now(), of);
        assert_eq!(find(&[10.0, 20.1]), Some((short.clone(), vec![1.0, 2.0])));
        assert_eq!(find(&[10.0, 20.0, 30.0]), Some((long, vec![1.0, 2.0, 3.0])));
        // The earlier samples are those of the search of `--quick`.
        assert_eq!(find(&[5.0, 10.0, 20.1]), Some((short.clone(), vec![1.0, 2.0])));
        assert_eq!(find(&[10.0, 20.0, 31.0]), None);
        assert_eq!(find(&[20.0, 30.0, 40.0, 50.0]), None);
        // A single long sample is saved as two.
        let once = saved.save("once", &[1.0, 1.0], &[7.0, 7.0_f64.next_up()]);
        assert_eq!(find(&[7.0]), Some((once, vec![1.0, 1.0])));
        assert_eq!(find(&[20.0]), None);
        // Of two equal files, the later one is found. Files from before the benchmark are not.
        let age = |path: &Path, seconds| {
            let then = SystemTime::now() - Duration::from_secs_f64(seconds);
            fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
        };
        let same = saved.save("another", &[1.0, 3.0], &[10.0, 20.1]);
        age(&same, 0.5);
        assert_eq!(find(&[10.0, 20.1]), Some((short.clone(), vec![1.0, 2.0])));
        age(&short, 0.7);
        assert_eq!(find(&[10.0, 20.1]), Some((same.clone(), vec![1.0, 3.0])));
        age(&short, 60.0);
        age(&same, 60.0);
        assert_eq!(find(&[10.0, 20.1]), None);
    }
}
