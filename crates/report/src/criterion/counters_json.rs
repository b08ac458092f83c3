//! The results of a benchmark, and the file they are saved in.

use crate::gate::files;
use crate::gate::functions::Functions;
use crate::gate::stepped::certainty;
use crate::gate::{Certainty, Figure, SCOPE_PROCESS, SCOPE_THREAD};
use crate::gate::{Interval, MIN_VALUES};
use crate::gate::{STEPPED_INSTRUCTIONS, repeats};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The file beside criterion's own.
const FILE: &str = "counters.json";

/// The version of the file's format.
const VERSION: u64 = 2;

/// The most instructions that are left of the cost of reading in a sample, after its minimum was subtracted. The number of
/// iterations in a sample depends on time, so the share of these in an iteration differs between runs.
const EDGES: f64 = 16.0;

/// Why counts of one thread are not compared.
const OTHER_THREADS: &str = "other threads of the process worked, and are not counted";
const DIFFERS: &str = "its instructions differ between processes";

/// What was counted in a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// The name of the program.
    pub program: String,
    /// When the program's first report came, in milliseconds since 1970.
    pub run: u64,
    /// The processor. None if its name is not known.
    pub processor: Option<String>,
    /// What drove criterion: an event, or `time`.
    pub measured: String,
    /// Why time drove criterion.
    pub without_counters: Option<String>,
    /// Why instructions were not stepped, where stepping takes the place of a counter.
    pub not_stepped: Option<String>,
    /// Why the stepped instructions cannot be compared. None if they can.
    pub stepped_doubt: Option<String>,
    /// How many iterations were stepped, in all processes.
    pub stepped_iterations: u64,
    /// Where the stepped instructions are. None if that is not known.
    pub functions: Option<Functions>,
    /// The compiler and its flags. None if they are not known.
    pub build: Option<String>,
    /// Another program whose results were in their place. It has a benchmark of the same name.
    pub shared_with: Option<String>,
    /// The number of iterations of each sample.
    pub iterations: Vec<f64>,
    /// What criterion was told of each sample.
    pub values: Vec<f64>,
    /// The counted events.
    pub counters: Vec<Counted>,
    /// Whether the counts are those of all threads of the process.
    pub is_of_process: bool,
    /// The share of the CPU time that other threads had, whether they are counted or not. None if it was at most a thousandth, or if it
    /// is not known.
    pub other_threads: Option<f64>,
    /// Whether the CPU counted twice behind atomic operations (SpecLockMap). None if that is not known.
    pub spec_lock_map: Option<bool>,
    /// The number of samples that are estimates.
    pub estimates: u64,
    /// The number of samples in which something is missing.
    pub incomplete: u64,
}

/// The result of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// The event.
    pub event: String,
    /// Its unit.
    pub unit: String,
    /// Per iteration.
    pub per_iteration: Interval,
    /// The counts of whole samples. None of instructions that were stepped, which are those of the warm-up.
    pub counts: Vec<u64>,
    /// The interval with the counts of other processes. None if they agree with this one, or if there are none.
    pub of_processes: Option<Interval>,
}

impl Counted {
    /// Returns the result of these counts.
    pub fn new(event: String, unit: &str, iterations: &[f64], counts: Vec<u64>) -> Counted {
        let each = counts.iter().zip(iterations).map(|(count, n)| *count as f64 / n);
        let each: Vec<f64> = each.collect();
        Counted {
            event,
            unit: unit.into(),
            per_iteration: Interval::from_values(&each),
            counts,
            of_processes: None,
        }
    }

    /// Returns the result of stepping.
    pub fn stepped(per_iteration: Interval) -> Counted {
        let (event, unit) = (STEPPED_INSTRUCTIONS.into(), "instructions".into());
        Counted { event, unit, per_iteration, counts: Vec::new(), of_processes: None }
    }

    /// Returns the result of stepping as a figure.
    fn stepped_figure(&self) -> Figure {
        let Interval { low, median, high } = self.per_iteration;
        let (name, certainty) = (self.event.clone(), certainty(&self.per_iteration));
        Figure { name, value: median, low, high, certainty, slack: 0.0, doubt: None }
    }
}

impl Results {
    /// Returns the result of an event. None if it was not counted.
    pub fn counted(&self, event: &str) -> Option<&Counted> {
        self.counters.iter().find(|counted| counted.event == event)
    }

    /// Whether other threads worked, and an event's result does not have their events.
    pub fn lacks_threads(&self, event: &str) -> bool {
        let is_of_one = event == STEPPED_INSTRUCTIONS || !self.is_of_process;
        is_of_one && self.other_threads.is_some()
    }

    /// Returns an event's result for a comparison.
    pub fn figure(&self, counted: &Counted) -> Figure {
        let lacks_threads = self.lacks_threads(&counted.event);
        if counted.event == STEPPED_INSTRUCTIONS {
            let figure = counted.stepped_figure();
            let doubt = self.stepped_doubt.clone();
            let doubt = doubt.or_else(|| lacks_threads.then(|| OTHER_THREADS.to_owned()));
            let certainty = if doubt.is_some() { Certainty::Unstable } else { figure.certainty };
            return Figure { certainty, doubt, ..figure };
        }
        let Counted { event, per_iteration: Interval { low, median, high }, of_processes, .. } =
            counted;
        let name = event.clone();
        let is_inexact = self.estimates > 0 || self.incomplete > 0;
        // The range of a few samples may be narrow by chance. But if instructions are equal in two, they repeat.
        // Branches are not compared with other processes. They differ with the instructions.
        let is_of_process = |counted: &Counted| counted.of_processes.is_some();
        let differs =
            of_processes.is_none() && repeats(event) && self.counters.iter().any(is_of_process);
        let (certainty, wider) = match self.iterations.len() {
            _ if is_inexact || lacks_threads || differs => (Certainty::Unstable, 0.0),
            MIN_VALUES.. => (Certainty::Stable, 0.0),
            2.. if repeats(event) => (Certainty::Stable, 10.0 * (high - low)),
            _ => (Certainty::Unstable, 0.0),
        };
        let doubt = match differs {
            true => Some(DIFFERS.to_owned()),
            false => lacks_threads.then(|| OTHER_THREADS.to_owned()),
        };
        let slack = if repeats(event) { EDGES / self.typical_iterations() } else { 0.0 };
        let (low, high) = match of_processes {
            Some(all) => (low.min(all.low), high.max(all.high)),
            None => (*low, *high),
        };
        Figure {
            name,
            value: *median,
            low: low - wider,
            high: high + wider,
            certainty,
            slack,
            doubt,
        }
    }

    /// Returns the median number of iterations in a sample.
    fn typical_iterations(&self) -> f64 {
        Interval::from_values(&self.iterations).median.max(1.0)
    }

    /// Writes the results to the directory of a baseline. If that fails, removes earlier ones, which are of other samples.
    ///
    /// # Errors
    /// Those of writing.
    pub fn save(&self, directory: &Path) -> std::io::Result<()> {
        fs::create_dir_all(directory)?;
        let text = self.json().to_string();
        files::replace(&directory.join(FILE), text.as_bytes())
            .inspect_err(|_| Results::remove(directory))
    }

    /// Removes the results from the directory of a baseline.
    pub fn remove(directory: &Path) {
        drop(fs::remove_file(directory.join(FILE)));
    }

    /// Reads the results from the directory of a baseline. None if it has none.
    ///
    /// # Errors
    /// Says that they are damaged.
    pub fn load(directory: &Path) -> Result<Option<Results>, String> {
        let path = directory.join(FILE);
        let text = match files::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
        };
        let json = files::json(&text).ok();
        let results = json.and_then(|json| Results::from_json(&json));
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
                "of_processes": counted.of_processes.map(|all| json!({ "low": all.low, "high": all.high })),
            })
        };
        json!({
            "version": VERSION,
            "program": self.program,
            "run": self.run,
            "processor": self.processor,
            "measured": self.measured,
            "shared_with": self.shared_with,
            "without_counters": self.without_counters,
            "not_stepped": self.not_stepped,
            "stepped_doubt": self.stepped_doubt,
            "stepped_iterations": self.stepped_iterations,
            "functions": self.functions.as_ref().map(Functions::to_json),
            "build": self.build,
            "iters": self.iterations,
            "times": self.values,
            "counters": self.counters.iter().map(counted).collect::<Vec<_>>(),
            "scope": if self.is_of_process { SCOPE_PROCESS } else { SCOPE_THREAD },
            "other_threads": self.other_threads,
            "spec_lock_map": self.spec_lock_map,
            "estimates": self.estimates,
            "incomplete": self.incomplete,
        })
    }

    fn from_json(json: &Value) -> Option<Results> {
        let text = |json: &Value, name: &str| Some(json.get(name)?.as_str()?.to_owned());
        let numbers = |name: &str| -> Option<Vec<f64>> {
            json.get(name)?.as_array()?.iter().map(Value::as_f64).collect()
        };
        let (iterations, values) = (numbers("iters")?, numbers("times")?);
        let stepped = |json: &Value| {
            let number = |name: &str| json.get(name)?.as_f64();
            let (low, median, high) = (number("low")?, number("median")?, number("high")?);
            let is_interval = 0.0 <= low && low <= median && median <= high;
            is_interval.then(|| Counted::stepped(Interval { low, median, high }))
        };
        // The median and its interval are for other readers. They follow from the counts.
        let counted = |json: &Value| {
            if text(json, "event")? == STEPPED_INSTRUCTIONS {
                return stepped(json);
            }
            let counts = json.get("counts")?.as_array()?.iter().map(Value::as_u64);
            let counts: Vec<u64> = counts.collect::<Option<_>>()?;
            (counts.len() == iterations.len()).then_some(())?;
            let counted =
                Counted::new(text(json, "event")?, &text(json, "unit")?, &iterations, counts);
            let median = counted.per_iteration.median;
            let of_processes = match json.get("of_processes") {
                None | Some(Value::Null) => None,
                Some(all) => {
                    let number = |name: &str| all.get(name)?.as_f64();
                    let (low, high) = (number("low")?, number("high")?);
                    (low <= high).then_some(())?;
                    Some(Interval { low, median, high })
                }
            };
            Some(Counted { of_processes, ..counted })
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
            not_stepped: text(json, "not_stepped"),
            stepped_doubt: text(json, "stepped_doubt"),
            stepped_iterations: json.get("stepped_iterations").and_then(Value::as_u64).unwrap_or(0),
            functions: json.get("functions").and_then(Functions::from_json),
            build: text(json, "build"),
            shared_with: text(json, "shared_with"),
            counters: counters.collect::<Option<_>>()?,
            iterations,
            values,
            // Version 2 began without these two.
            is_of_process: match json.get("scope").map(Value::as_str) {
                None | Some(Some(SCOPE_THREAD)) => false,
                Some(Some(SCOPE_PROCESS)) => true,
                Some(_) => return None,
            },
            other_threads: match json.get("other_threads") {
                None | Some(Value::Null) => None,
                Some(share) => Some(share.as_f64().filter(|share| (0.0..=1.0).contains(share))?),
            },
            spec_lock_map: json.get("spec_lock_map").and_then(Value::as_bool),
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
    fn what_is_saved_is_loaded() {
        let directory = std::env::temp_dir().join(format!("rdpmc-results-{}", std::process::id()));
        let counts = vec![182_460, 364_915, u64::MAX];
        let iterations = vec![91.0, 182.0, 273.0];
        let counted = Counted::new("instructions".into(), "instructions", &iterations, counts);
        let all = Interval { low: 1_990.5, median: counted.per_iteration.median, high: 1e17 };
        let counted = Counted { of_processes: Some(all), ..counted };
        let results = Results {
            program: "parsing".into(),
            run: 5,
            processor: None,
            measured: "time".into(),
            without_counters: Some("no PMU".into()),
            not_stepped: Some("too long".into()),
            stepped_doubt: Some("the code waits".into()),
            stepped_iterations: 77,
            functions: None,
            build: Some("rustc 1.95.0".into()),
            shared_with: Some("printing".into()),
            iterations,
            values: vec![0.5, 1.5, 2.5],
            counters: vec![
                counted,
                Counted::stepped(Interval { low: 26.0, median: 26.5, high: 27.0 }),
            ],
            is_of_process: true,
            other_threads: Some(0.75),
            spec_lock_map: Some(false),
            estimates: 1,
            incomplete: 0,
        };
        assert_eq!(Results::load(&directory), Ok(None));
        results.save(&directory).unwrap();
        assert_eq!(Results::load(&directory), Ok(Some(results.clone())));
        let mut json = results.json();
        // What was saved before there were scopes.
        let mut old = json.clone();
        for name in ["scope", "other_threads", "spec_lock_map"] {
            old.as_object_mut().unwrap().remove(name);
        }
        fs::write(directory.join(FILE), old.to_string()).unwrap();
        let old = Results {
            is_of_process: false,
            other_threads: None,
            spec_lock_map: None,
            ..results.clone()
        };
        assert_eq!(Results::load(&directory), Ok(Some(old)));
        for (path, wrong) in [
            ("/version", json!(1)),
            ("/counters/0/event", json!(null)),
            ("/counters/0/counts", json!([1])),
            ("/counters/0/counts/1", json!(0.5)),
            ("/counters/1/median", json!(25.0)),
            ("/counters/1/low", json!(-1.0)),
            ("/counters/1/high", json!(null)),
            ("/counters", json!({})),
            ("/scope", json!("system")),
            ("/other_threads", json!(1.5)),
            ("/other_threads", json!("all")),
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
        let nothing = json!({"version": 2, "program": "x", "run": 1, "measured": "time", "iters": [], "times": [], "counters": [], "estimates": 0, "incomplete": 0});
        let twice = results.json().to_string().replace("\"run\":5", "\"run\":5,\"run\":6");
        for damaged in [nothing.to_string(), twice, "{".into()] {
            fs::write(directory.join(FILE), damaged).unwrap();
            assert!(Results::load(&directory).is_err());
        }
        let _ = fs::remove_dir_all(&directory);
    }

    #[test]
    fn a_few_samples_are_not_trusted() {
        let of = |event: &str, counts: &[u64]| {
            let iterations = vec![100_000.0; counts.len()];
            let counted = Counted::new(event.into(), event, &iterations, counts.to_vec());
            let results = Results {
                program: "parsing".into(),
                run: 0,
                processor: None,
                measured: "instructions".into(),
                without_counters: None,
                not_stepped: None,
                stepped_doubt: None,
                stepped_iterations: 0,
                functions: None,
                build: None,
                shared_with: None,
                iterations,
                values: Vec::new(),
                counters: Vec::new(),
                is_of_process: false,
                other_threads: None,
                spec_lock_map: None,
                estimates: 0,
                incomplete: 0,
            };
            // A hostile file may have any numbers.
            for (estimates, incomplete) in [(1, 0), (0, 1), (u64::MAX, u64::MAX)] {
                let inexact = Results { estimates, incomplete, ..results.clone() };
                assert_eq!(inexact.figure(&counted).certainty, Certainty::Unstable);
            }
            // Others' events are in the counts of the process alone, and never in those of stepping.
            let stepped = Counted::stepped(Interval { low: 7.0, median: 7.0, high: 7.0 });
            for (is_of_process, counted, is_trusted) in [
                (false, &counted, false),
                (true, &counted, results.figure(&counted).certainty != Certainty::Unstable),
                (false, &stepped, false),
                (true, &stepped, false),
            ] {
                let other_threads = Some(0.5);
                let results = Results { is_of_process, other_threads, ..results.clone() };
                let certainty = results.figure(counted).certainty;
                assert_eq!(certainty != Certainty::Unstable, is_trusted);
            }
            // With what other processes counted. Branches were not compared with theirs.
            let all = Interval { low: 1.0, median: 2.0, high: 3e9 };
            let of_processes = Counted {
                of_processes: Some(all),
                event: "instructions".into(),
                ..counted.clone()
            };
            let differs = Results { counters: vec![of_processes.clone()], ..results.clone() };
            let figure = differs.figure(&of_processes);
            assert!(figure.low <= 1.0 && 3e9 <= figure.high, "{figure:?}");
            let branches = Counted { event: "branches".into(), ..counted.clone() };
            let figure = differs.figure(&branches);
            assert_eq!(
                (figure.certainty, figure.doubt.as_deref()),
                (Certainty::Unstable, Some(DIFFERS))
            );
            results.figure(&counted)
        };
        let certainty = |event, samples| of(event, &vec![200_000; samples]).certainty;
        assert_eq!(
            [1, 2, 5, 6].map(|samples| certainty("cycles", samples)),
            [Certainty::Unstable, Certainty::Unstable, Certainty::Unstable, Certainty::Stable]
        );
        // Instructions repeat, so two samples show whether they do here.
        assert_eq!(
            [1, 2].map(|samples| certainty("branches", samples)),
            [Certainty::Unstable, Certainty::Stable]
        );
        let two = of("instructions", &[200_000, 200_010]);
        assert!((two.high - two.low - 0.0021).abs() < 1e-9, "{two:?}");
        assert!((two.slack - 0.00016).abs() < 1e-9 && of("page-faults", &[1; 10]).slack == 0.0);
    }

    #[test]
    fn stepped_instructions_are_exact_if_they_are_equal() {
        let of =
            |low, high| Counted::stepped(Interval { low, median: high, high }).stepped_figure();
        assert_eq!(of(26.0, 26.0).certainty, Certainty::Exact);
        assert_eq!(of(0.0, 0.0).certainty, Certainty::Exact);
        assert_eq!(of(1_000.0, 1_001.0).certainty, Certainty::Stable);
        assert_eq!((of(1_000.0, 1_001.0).low, of(1_000.0, 1_001.0).high), (1_000.0, 1_001.0));
        assert_eq!(of(26.0, 80.0).certainty, Certainty::Stable);
        assert_eq!(of(-30.0, 26.0).certainty, Certainty::Stable);
    }
}
