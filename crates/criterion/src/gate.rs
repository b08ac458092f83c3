//! Compares two saved baselines.

use crate::change::{Change, Percent, Verdict, repeats, usual_threshold};
use crate::results::{Counted, FILE, Results};
use crate::saved;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Termination};
use std::time::SystemTime;

/// A comparison of two baselines, for a CI job that fails if counts have grown.
///
/// The baselines are those of criterion: `cargo bench -- --save-baseline NAME` saves one, and `new` is the last run.
///
/// ```no_run
/// use rdpmc_criterion::{Comparison, Gate};
///
/// fn main() -> Comparison {
///     let comparison = Gate::new("main", "new").compare();
///     print!("{comparison}");
///     comparison // the exit status
/// }
/// ```
///
/// `rdpmc-criterion main` is the same as a command.
///
/// By default, the gate is on instructions and branches in user mode, which are equal for equal code and data. The changes of
/// other events are printed, and do not change the outcome unless they are [added](Gate::event).
#[derive(Clone, Debug)]
pub struct Gate {
    baseline: String,
    new: String,
    home: PathBuf,
    /// The events, with the relative change that is accepted. If there are none, those that repeat.
    events: Vec<(String, f64)>,
}

/// The outcome of a [`Gate`]. As the return value of `main`, it is the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing has changed. Status 0.
    Unchanged,
    /// Something has grown. Status 1.
    Regressed,
    /// Something has shrunk, and nothing has grown. Status 3.
    Improved,
    /// Nothing has grown, and something that is in the baseline could not be compared, or all of it: a run had no counters, or
    /// a benchmark is missing. Status 4.
    Incomplete,
    /// Nothing has grown, and the two runs were on different processors. Status 5.
    AnotherProcessor,
}

impl Outcome {
    /// Returns the exit status. 2 is for wrong arguments of the command.
    pub fn status(self) -> u8 {
        match self {
            Outcome::Unchanged => 0,
            Outcome::Regressed => 1,
            Outcome::Improved => 3,
            Outcome::Incomplete => 4,
            Outcome::AnotherProcessor => 5,
        }
    }
}

/// The result of a [`Gate`]. `Display` writes a line for each change, and a summary.
#[derive(Clone, Debug)]
#[must_use = "the result is lost unless it is printed or returned from main"]
pub struct Comparison {
    lines: Vec<String>,
    outcome: Outcome,
}

impl Comparison {
    /// Returns the outcome.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }
}

impl Termination for Comparison {
    fn report(self) -> ExitCode {
        ExitCode::from(self.outcome.status())
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl Gate {
    /// Returns a comparison of the results `new` with those of `baseline`.
    pub fn new(baseline: &str, new: &str) -> Gate {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let home = saved::default_home(Some(cargo));
        Gate { baseline: baseline.into(), new: new.into(), home, events: Vec::new() }
    }

    /// Sets criterion's directory. By default it is that of criterion: `CRITERION_HOME`, or `criterion` in cargo's target
    /// directory. Results in the directories beside it (`criterion-instructions`) are compared as well.
    pub fn home(self, home: impl Into<PathBuf>) -> Gate {
        Gate { home: home.into(), ..self }
    }

    /// Gates on this event, by its name in the reports. `tolerance` is the relative change to accept: 0.05 for 5 %. None is
    /// the threshold of the reports: 0.001 % for instructions and branches, and 1 % for other events. The default events
    /// are gated only if they are added as well.
    pub fn event(mut self, event: &str, tolerance: impl Into<Option<f64>>) -> Gate {
        let tolerance = tolerance.into().unwrap_or_else(|| usual_threshold(event));
        self.events.push((event.into(), tolerance));
        self
    }

    /// Reads and compares the results.
    pub fn compare(&self) -> Comparison {
        let mut report = Report::default();
        let old = self.saved_as(&self.baseline, &mut report);
        let new = self.saved_as(&self.new, &mut report);
        for (name, all) in [(&self.baseline, &old), (&self.new, &new)] {
            if all.is_empty() {
                report.lines.push(format!(
                    "Nothing has counters in baseline {name} in {0} or {0}-*. Save it with `cargo bench -- --save-baseline`.",
                    self.home.display()
                ));
            }
        }
        for old in &old {
            let is_same = |new: &&Entry| new.home == old.home && new.name == old.name;
            match new.iter().find(is_same) {
                Some(new) => self.compare_benchmark(old, new, &mut report),
                None => report.missing(self, old, &new),
            }
        }
        if report.compared() == 0 {
            for (baseline, entries) in [(&self.baseline, &old), (&self.new, &new)] {
                entries.iter().for_each(|entry| report.explain(baseline, entry));
            }
        }
        report.finish(self)
    }

    /// Returns all results that are saved under a name.
    fn saved_as(&self, baseline: &str, report: &mut Report) -> Vec<Entry> {
        let mut all = Vec::new();
        for home in self.homes() {
            for directory in saved::results(&home, &|name| name == baseline) {
                let benchmark = directory.parent().unwrap_or(&directory);
                let name = saved::name(&home, benchmark);
                match Results::load(&directory) {
                    Ok(Some(results)) => {
                        let file = std::fs::metadata(directory.join(FILE));
                        let at = file.and_then(|file| file.modified()).ok();
                        all.push(Entry { home: home.clone(), name, at, results });
                    }
                    Ok(None) => {}
                    Err(why) => {
                        report.is_incomplete = true;
                        report.lines.push(format!("{name}: {why}. Save it again."));
                    }
                }
            }
        }
        // On a machine that has lost its counters, or has got some, the results of before are outdated.
        let is_current = |entry: &Entry| {
            !all.iter().any(|other| {
                other.name == entry.name
                    && other.is_time() != entry.is_time()
                    && other.at > entry.at
            })
        };
        let current: Vec<bool> = all.iter().map(is_current).collect();
        let kept = all.into_iter().zip(current).filter(|(_, is_current)| *is_current);
        kept.map(|(entry, _)| entry).collect()
    }

    /// Returns criterion's directory, and those beside it for each kind of results.
    fn homes(&self) -> Vec<PathBuf> {
        let mut prefix = self.home.file_name().unwrap_or_default().to_owned();
        prefix.push("-");
        let prefix = prefix.to_string_lossy().into_owned();
        let parent = match self.home.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut homes = vec![self.home.clone()];
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) && entry.path().is_dir() {
                homes.push(entry.path());
            }
        }
        homes.sort();
        homes
    }

    fn compare_benchmark(&self, old: &Entry, new: &Entry, report: &mut Report) {
        let name = &new.name;
        match (&old.results.processor, &new.results.processor) {
            (Some(old), Some(new)) if old == new => {}
            (Some(old), Some(new)) => {
                report.processors.insert(format!("{old}, and now {new}"));
                return;
            }
            _ => {
                report.processors.insert("not known".into());
                return;
            }
        }
        for counted in &new.results.counters {
            let event = &counted.event;
            let gated = self.tolerance(event);
            let Some(before) = old.results.counted(event) else {
                report.lines.push(format!("{name}, {event}: not in {}", self.baseline));
                continue;
            };
            let estimates = |entry: &Entry| entry.results.estimates + entry.results.incomplete > 0;
            if estimates(old) || estimates(new) {
                report.lines.push(format!("{name}, {event}: samples are estimates or incomplete"));
                report.is_incomplete |= gated.is_some();
                continue;
            }
            let threshold = gated.unwrap_or_else(|| usual_threshold(event));
            let change =
                Change::between((&old.results, before), (&new.results, counted), threshold);
            report.add(name, before, counted, &change, gated.is_some());
        }
        for before in &old.results.counters {
            if new.results.counted(&before.event).is_none() {
                report.lines.push(format!("{name}, {}: not in {}", before.event, self.new));
                report.is_incomplete |= self.tolerance(&before.event).is_some();
            }
        }
    }

    /// Returns the relative change to accept. None if the event is not gated.
    fn tolerance(&self, event: &str) -> Option<f64> {
        if self.events.is_empty() {
            return repeats(event).then(|| usual_threshold(event));
        }
        let found = self.events.iter().find(|(name, _)| name == event);
        found.map(|(_, tolerance)| tolerance.max(0.0))
    }
}

/// Results of a benchmark.
struct Entry {
    home: PathBuf,
    name: String,
    /// When they were saved.
    at: Option<SystemTime>,
    results: Results,
}

impl Entry {
    fn is_time(&self) -> bool {
        self.results.measured == "time"
    }
}

/// What has been found so far.
#[derive(Default)]
struct Report {
    lines: Vec<String>,
    /// The figures of gated events, by verdict.
    unchanged: usize,
    improved: usize,
    regressed: usize,
    is_incomplete: bool,
    /// Pairs of processors that differ.
    processors: BTreeSet<String>,
    /// Why a run has no counters.
    without_counters: BTreeSet<String>,
}

impl Report {
    fn add(&mut self, name: &str, old: &Counted, new: &Counted, change: &Change, is_gated: bool) {
        let verdict = match (change.verdict, is_gated) {
            (Verdict::Regressed, true) => "regression",
            (Verdict::Improved, true) => "improvement",
            (Verdict::Regressed, false) => "more, not gated",
            (Verdict::Improved, false) => "less, not gated",
            (Verdict::Unchanged | Verdict::WithinThreshold, _) => "",
        };
        match change.verdict {
            _ if !is_gated => {}
            Verdict::Regressed => self.regressed += 1,
            Verdict::Improved => self.improved += 1,
            Verdict::Unchanged | Verdict::WithinThreshold => self.unchanged += 1,
        }
        if !verdict.is_empty() {
            let [was, is] = [old, new].map(|counted| number(counted.per_iteration.median));
            let percent = change.median().map_or("from 0".into(), |more| Percent(more).to_string());
            self.lines
                .push(format!("{name}, {}: {is}, was {was} ({percent}): {verdict}", new.event));
        }
    }

    /// A benchmark has no results of this kind in the new run.
    fn missing(&mut self, gate: &Gate, old: &Entry, new: &[Entry]) {
        self.is_incomplete = true;
        let Some(other) = new.iter().find(|new| new.name == old.name) else {
            self.lines.push(format!("{}: not in {}", old.name, gate.new));
            return;
        };
        let [was, is] = [old, other].map(|entry| &entry.results.measured);
        self.lines
            .push(format!("{}: {} has {was}, and {} has {is}", old.name, gate.baseline, gate.new));
        self.explain(&gate.baseline, old);
        self.explain(&gate.new, other);
    }

    /// Adds why a run has no counters.
    fn explain(&mut self, baseline: &str, entry: &Entry) {
        if let Some(why) = &entry.results.without_counters {
            self.without_counters.insert(format!("{baseline} has no counters: {why}."));
        }
    }

    /// Returns the number of figures of gated events that were compared.
    fn compared(&self) -> usize {
        self.unchanged + self.improved + self.regressed
    }

    fn finish(mut self, gate: &Gate) -> Comparison {
        let compared = self.compared();
        for processors in &self.processors {
            self.lines.push(format!("The runs were on different processors: {processors}."));
        }
        self.lines.extend(std::mem::take(&mut self.without_counters));
        let gated = match gate.events.as_slice() {
            [] => "instructions or branches".into(),
            some => some.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" or "),
        };
        self.lines.push(match compared {
            0 => format!(
                "Nothing to compare: no benchmark has {gated} in both {} and {}.",
                gate.baseline, gate.new
            ),
            _ => format!(
                "{compared} figures compared: {} regressions, {} improvements.",
                self.regressed, self.improved
            ),
        });
        let outcome = if self.regressed > 0 {
            Outcome::Regressed
        } else if !self.processors.is_empty() {
            Outcome::AnotherProcessor
        } else if self.is_incomplete || compared == 0 {
            Outcome::Incomplete
        } else if self.improved > 0 {
            Outcome::Improved
        } else {
            Outcome::Unchanged
        };
        Comparison { lines: self.lines, outcome }
    }
}

/// Returns a count with as many digits as a change of one thousandth needs.
fn number(value: f64) -> String {
    match value {
        large if large >= 1e6 => format!("{large:.0}"),
        some if some >= 1.0 => format!("{some:.3}"),
        0.0 => "0".into(),
        few => format!("{few:.3e}"),
    }
}
