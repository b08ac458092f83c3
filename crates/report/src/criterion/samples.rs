//! The samples that criterion saves.

use crate::gate::files;
use serde_json::Value;
use std::path::Path;

/// The file with the samples of a benchmark.
pub const FILE: &str = "sample.json";

/// The samples of a `sample.json`.
#[derive(Debug)]
pub struct Samples {
    /// The number of iterations of each sample.
    pub iterations: Vec<f64>,
    /// What criterion was told of each.
    pub values: Vec<f64>,
}

impl Samples {
    /// Reads the samples. None if the file is not whole.
    pub fn load(path: &Path) -> Option<Samples> {
        let json: Value = serde_json::from_slice(&files::read(path).ok()?).ok()?;
        let numbers = |name: &str| -> Option<Vec<f64>> {
            json.get(name)?.as_array()?.iter().map(Value::as_f64).collect()
        };
        let (iterations, values) = (numbers("iters")?, numbers("times")?);
        let is_whole = !iterations.is_empty()
            && iterations.len() == values.len()
            && iterations.iter().all(|count| *count >= 1.0);
        is_whole.then_some(Samples { iterations, values })
    }

    /// Whether these are the values.
    pub fn have(&self, values: &[f64]) -> bool {
        let mut pairs = self.values.iter().zip(values);
        self.values.len() == values.len() && pairs.all(|(saved, value)| is_equal(*saved, *value))
    }
}

/// Whether criterion's samples in the directory of a baseline have these iteration counts and values, or these and a few
/// others.
pub fn has_samples(results: &Path, iterations: &[f64], values: &[f64]) -> bool {
    let Some(saved) = Samples::load(&results.join(FILE)) else { return false };
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::{env, fs};

    #[test]
    fn counts_belong_to_samples() {
        let home = env::temp_dir().join(format!("rdpmc-iterations-{}", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        let text = "{\"iters\": [1, 2, 3], \"times\": [0.1, 0.2, 0.3]}";
        fs::write(home.join(FILE), text).unwrap();
        let has = |iterations: &[f64], values: &[f64]| has_samples(&home, iterations, values);
        assert!(has(&[1.0, 2.0, 3.0], &[0.1, 0.2, 0.3]) && has(&[1.0, 3.0], &[0.1, 0.3]));
        assert!(
            !has(&[3.0, 1.0], &[0.3, 0.1])
                && !has(&[4.0], &[0.1])
                && !has(&[1.0, 1.0], &[0.1, 0.1])
        );
        assert!(!has(&[1.0, 2.0, 3.0], &[0.1, 0.2, 0.4]) && !has(&[1.0], &[]));
        assert!(!has_samples(&home.join("nowhere"), &[1.0], &[0.1]));
        fs::remove_dir_all(home).unwrap();
    }
}
