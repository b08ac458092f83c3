//! The results of a benchmark, and the file they are saved in.

use crate::saved;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The file beside criterion's own.
pub(crate) const FILE: &str = "counters.json";

/// The version of the file's format.
const VERSION: u64 = 1;

/// What was counted in a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Results {
    /// The name of the program.
    pub(crate) program: String,
    /// When the program's first report came, in milliseconds since 1970.
    pub(crate) run: u64,
    /// The processor. None if its name is not known.
    pub(crate) processor: Option<String>,
    /// What drove criterion: an event, or `time`.
    pub(crate) measured: String,
    /// Why time drove criterion.
    pub(crate) without_counters: Option<String>,
    /// The number of iterations of each sample, and what criterion was told of it.
    pub(crate) iterations: Vec<f64>,
    pub(crate) values: Vec<f64>,
    pub(crate) counters: Vec<Counted>,
    /// The number of samples that are estimates.
    pub(crate) estimates: u64,
    /// The number of samples in which something is missing.
    pub(crate) incomplete: u64,
}

/// The result of an event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counted {
    pub(crate) event: String,
    pub(crate) unit: String,
    /// Per iteration.
    pub(crate) per_iteration: Interval,
    /// The counts of whole samples.
    pub(crate) counts: Vec<u64>,
}

/// A median and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

/// The number of values below which no two of them are a 95 % interval of the median.
pub(crate) const FEWEST: usize = 6;

impl Interval {
    /// Returns the median of the values and its interval, whose ends are two of the values. With fewer than [`FEWEST`], the
    /// interval has all of them, and a lower confidence.
    pub(crate) fn of(mut values: Vec<f64>) -> Interval {
        values.sort_unstable_by(f64::total_cmp);
        let at = |place: usize| values.get(place).copied().unwrap_or(0.0);
        let last = values.len().saturating_sub(1);
        let left_out = left_out(values.len());
        Interval {
            low: at(left_out),
            median: f64::midpoint(at(last / 2), at(values.len() / 2)),
            high: at(last - left_out),
        }
    }
}

/// Returns how many of `count` sorted values are below the 95 % interval of their median, and above it.
///
/// Each value is below the population's median with probability 1/2. The interval starts at the value with rank `r` if
/// fewer than `r` successes in `count` trials have a probability of at most 2.5 %.
fn left_out(count: usize) -> usize {
    if count > 1_000 {
        // 2^-count is no normal number. The normal approximation differs by less than one rank.
        let count = count as f64;
        return (count / 2.0 - 0.98 * count.sqrt() - 1.0) as usize;
    }
    let (mut exactly, mut at_most) = (0.5_f64.powi(count as i32), 0.0);
    for successes in 0..count {
        at_most += exactly;
        if at_most > 0.025 {
            return successes.saturating_sub(1);
        }
        exactly *= (count - successes) as f64 / (successes + 1) as f64;
    }
    0
}

impl Counted {
    pub(crate) fn new(event: String, unit: &str, iterations: &[f64], counts: Vec<u64>) -> Counted {
        let each = counts.iter().zip(iterations).map(|(count, n)| *count as f64 / n).collect();
        Counted { event, unit: unit.into(), per_iteration: Interval::of(each), counts }
    }
}

impl Results {
    pub(crate) fn counted(&self, event: &str) -> Option<&Counted> {
        self.counters.iter().find(|counted| counted.event == event)
    }

    /// Writes the results to the directory of a baseline. If that fails, removes earlier ones.
    pub(crate) fn save(&self, directory: &Path) -> std::io::Result<()> {
        fs::create_dir_all(directory)?;
        // In one step: another process may read it.
        let path = directory.join(format!("{FILE}.{}", std::process::id()));
        let written = fs::write(&path, self.json().to_string());
        written.and_then(|()| fs::rename(&path, directory.join(FILE))).inspect_err(|_| {
            drop(fs::remove_file(&path));
            Results::remove(directory);
        })
    }

    /// Removes the results from the directory of a baseline.
    pub(crate) fn remove(directory: &Path) {
        drop(fs::remove_file(directory.join(FILE)));
    }

    /// Reads the results from the directory of a baseline. None if it has none. An error if they are damaged.
    pub(crate) fn load(directory: &Path) -> Result<Option<Results>, String> {
        let path = directory.join(FILE);
        let text = match saved::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
        };
        let json: Option<Value> = serde_json::from_slice(&text).ok();
        let results = json.and_then(|json| Results::of(&json));
        results
            .map(Some)
            .ok_or_else(|| format!("{} is damaged, or of another version", path.display()))
    }

    fn json(&self) -> Value {
        let counted = |counted: &Counted| {
            let Interval { low, median, high } = counted.per_iteration;
            json!({
                "event": counted.event, "unit": counted.unit,
                "median": median, "low": low, "high": high,
                "counts": counted.counts,
            })
        };
        json!({
            "version": VERSION,
            "program": self.program,
            "run": self.run,
            "processor": self.processor,
            "measured": self.measured,
            "without_counters": self.without_counters,
            "iters": self.iterations,
            "times": self.values,
            "counters": self.counters.iter().map(counted).collect::<Vec<_>>(),
            "estimates": self.estimates,
            "incomplete": self.incomplete,
        })
    }

    fn of(json: &Value) -> Option<Results> {
        let text = |json: &Value, name: &str| Some(json.get(name)?.as_str()?.to_owned());
        let numbers = |name: &str| -> Option<Vec<f64>> {
            json.get(name)?.as_array()?.iter().map(Value::as_f64).collect()
        };
        let (iterations, values) = (numbers("iters")?, numbers("times")?);
        // The median and its interval are for other readers. They follow from the counts.
        let counted = |json: &Value| {
            let counts = json.get("counts")?.as_array()?.iter().map(Value::as_u64);
            let counts: Vec<u64> = counts.collect::<Option<_>>()?;
            (counts.len() == iterations.len()).then_some(())?;
            Some(Counted::new(text(json, "event")?, &text(json, "unit")?, &iterations, counts))
        };
        if json.get("version")?.as_u64()? != VERSION {
            return None;
        }
        let counters = json.get("counters")?.as_array()?.iter().map(counted);
        (!iterations.is_empty() && iterations.iter().all(|count| *count >= 1.0)).then_some(())?;
        Some(Results {
            program: text(json, "program")?,
            run: json.get("run")?.as_u64()?,
            processor: text(json, "processor"),
            measured: text(json, "measured")?,
            without_counters: text(json, "without_counters"),
            counters: counters.collect::<Option<_>>()?,
            iterations,
            values,
            estimates: json.get("estimates")?.as_u64()?,
            incomplete: json.get("incomplete")?.as_u64()?,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        // By tables of the sign test, for 2.5 % at each end.
        for (count, out) in
            [(0, 0), (1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (10, 1), (20, 5), (63, 23), (100, 39)]
        {
            assert_eq!(left_out(count), out, "{count}");
        }
        // On both sides of the approximation.
        assert_eq!([left_out(1_000), left_out(1_001)], [468, 468]);
        let of = |values: &[f64]| {
            let Interval { low, median, high } = Interval::of(values.to_vec());
            (low, median, high)
        };
        assert_eq!(of(&[]), (0.0, 0.0, 0.0));
        assert_eq!(of(&[3.0]), (3.0, 3.0, 3.0));
        assert_eq!(of(&[4.0, 1.0]), (1.0, 2.5, 4.0));
        assert_eq!(of(&[9.0, 1.0, 2.0]), (1.0, 2.0, 9.0));
        assert_eq!(of(&[5.0, 1.0, 2.0, 9.0, 3.0, 4.0, 8.0, 6.0, 7.0]), (2.0, 5.0, 8.0));
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let directory = std::env::temp_dir().join(format!("rdpmc-results-{}", std::process::id()));
        let counts = vec![182_460, 364_915, u64::MAX];
        let iterations = vec![91.0, 182.0, 273.0];
        let counted = Counted::new("instructions".into(), "instructions", &iterations, counts);
        let results = Results {
            program: "parsing".into(),
            run: 5,
            processor: None,
            measured: "time".into(),
            without_counters: Some("no PMU".into()),
            iterations,
            values: vec![0.5, 1.5, 2.5],
            counters: vec![counted],
            estimates: 1,
            incomplete: 0,
        };
        assert_eq!(Results::load(&directory), Ok(None));
        results.save(&directory).unwrap();
        assert_eq!(Results::load(&directory), Ok(Some(results.clone())));
        let mut json = results.json();
        for (path, wrong) in [
            ("/version", json!(2)),
            ("/counters/0/event", json!(null)),
            ("/counters/0/counts", json!([1])),
            ("/counters/0/counts/1", json!(0.5)),
            ("/counters", json!({})),
            ("/iters/0", json!("1")),
            ("/iters/0", json!(0.0)),
            ("/run", json!("today")),
        ] {
            let right = std::mem::replace(json.pointer_mut(path).unwrap(), wrong);
            fs::write(directory.join(FILE), json.to_string()).unwrap();
            let why = Results::load(&directory).unwrap_err();
            assert!(why.ends_with("is damaged, or of another version"), "{path}: {why}");
            *json.pointer_mut(path).unwrap() = right;
        }
        let nothing = json!({"version": 1, "program": "x", "run": 1, "measured": "time", "iters": [], "times": [], "counters": [], "estimates": 0, "incomplete": 0});
        for damaged in [nothing.to_string(), "{".into()] {
            fs::write(directory.join(FILE), damaged).unwrap();
            assert!(Results::load(&directory).is_err());
        }
        let _ = fs::remove_dir_all(&directory);
    }
}
