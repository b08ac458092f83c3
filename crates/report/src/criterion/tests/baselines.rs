#![allow(clippy::unwrap_used)]

use super::super::Counted;
use super::*;
use crate::gate::Status;
use std::fs;

/// A directory with those of criterion, removed when this is dropped.
struct Target(PathBuf);

impl Drop for Target {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Target {
    fn new(name: &str) -> Target {
        let path = std::env::temp_dir().join(format!("rdpmc-gate-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Target(path)
    }

    /// Saves results of a benchmark: of a run in `main`, and of the next in `pr`.
    fn save(&self, benchmark: &str, measured: &str, counts: [u64; 2]) {
        for (run, (baseline, count)) in (1..).zip(["main", "pr"].into_iter().zip(counts)) {
            let directory = self.0.join(benchmark).join(baseline);
            let (iterations, values) = (vec![1.0; 10], vec![count as f64; 10]);
            let counted = Counted::new("instructions".into(), "", &iterations, vec![count; 10]);
            fs::create_dir_all(&directory).unwrap();
            let samples = serde_json::json!({ "iters": iterations, "times": values });
            fs::write(directory.join("sample.json"), samples.to_string()).unwrap();
            let results = Results {
                program: "parsing".into(),
                run,
                processor: Some("one".into()),
                measured: measured.into(),
                without_counters: None,
                not_stepped: None,
                stepped_doubt: None,
                stepped_iterations: 0,
                functions: None,
                build: None,
                shared_with: None,
                iterations,
                values,
                counters: vec![counted],
                is_of_process: false,
                other_threads: None,
                spec_lock_map: None,
                estimates: 0,
                incomplete: 0,
            };
            results.save(&directory).unwrap();
        }
    }

    fn compare(&self) -> Comparison {
        Gate::new("main", "pr").home(self.0.join("criterion")).compare()
    }
}

#[test]
#[cfg_attr(miri, ignore = "starts a program")]
fn results_in_the_directory_of_another_kind_are_noticed() {
    let target = Target::new("kinds");
    target.save("criterion-instructions/g/f", "instructions", [100, 100]);
    assert_eq!(target.compare().status(), Status::Passed);
    // A copy has no results of its own.
    target.save("criterion-old/g/f", "instructions", [100, 200]);
    assert_eq!(target.compare().status(), Status::Passed);
    target.save("criterion-instructions/g/h", "cycles", [100, 200]);
    let comparison = target.compare();
    assert_eq!(comparison.status(), Status::Incomplete, "{comparison}");
    let line = "g/h: main was measured by cycles, and ";
    assert!(comparison.obstacles().any(|it| it.starts_with(line)), "{comparison}");
}
