//! Compares two saved baselines.

use crate::change::{Change, Percent, Verdict, repeats, usual_threshold};
use crate::results::{Counted, Results};
use crate::saved::{self, home_of};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Termination};

/// A comparison of two baselines, for a CI job that fails if counts have grown.
///
/// The baselines are those of criterion: `cargo bench -- --save-baseline NAME` saves one, and `new` is the last run.
///
/// ```no_run
/// use rdpmc_criterion::{Comparison, Gate};
///
/// fn main() -> Comparison {
///     let comparison = Gate::new("main", "new").compare();
///     println!("{comparison}");
///     comparison // the exit status
/// }
/// ```
///
/// `rdpmc-criterion main` is the same as a command.
///
/// The gate is on instructions and branches in user mode, which are equal for equal code and data. The changes of other events
/// are printed, and do not change the outcome unless they are [added](Gate::event).
///
/// A benchmark that did not run again keeps its last results, also under the name `new`. Remove criterion's directories before a run
/// if benchmarks may have disappeared.
#[derive(Clone, Debug)]
pub struct Gate {
    baseline: String,
    new: String,
    home: PathBuf,
    /// The events, with the relative change that is accepted.
    events: Vec<(String, f64)>,
}

/// The outcome of a [`Gate`]. As the return value of `main`, it is the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// No gated figure has changed. Status 0.
    Unchanged,
    /// A gated figure has grown. Status 1.
    Regressed,
    /// A gated figure has shrunk, and none has grown. Status 3.
    Improved,
    /// No gated figure has grown, and some could not be compared because a run had no counters. Status 4.
    NoCounters,
    /// No gated figure has grown, and the two runs were on different CPU models. Status 5.
    AnotherProcessor,
    /// No gated figure has grown, and some are missing: of a benchmark or an event that is in the baseline only, or of samples
    /// that are not exact. Status 6.
    Incomplete,
}

impl Outcome {
    /// Returns the exit status. 2 is for wrong arguments of the command.
    pub fn status(self) -> u8 {
        match self {
            Outcome::Unchanged => 0,
            Outcome::Regressed => 1,
            Outcome::Improved => 3,
            Outcome::NoCounters => 4,
            Outcome::AnotherProcessor => 5,
            Outcome::Incomplete => 6,
        }
    }
}

/// The result of a [`Gate`]. `Display` writes a line for each figure, and a summary.
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

    /// Gates on this event as well, by its name in the reports. `tolerance` is the relative change to accept: 0.05 for 5 %.
    /// None is the threshold of the reports: 0.001 % for instructions and branches, and 1 % for other events.
    pub fn event(mut self, event: &str, tolerance: impl Into<Option<f64>>) -> Gate {
        let tolerance = tolerance.into().unwrap_or_else(|| usual_threshold(event));
        self.events.push((event.into(), tolerance.max(0.0)));
        self
    }

    /// Reads and compares the results.
    pub fn compare(&self) -> Comparison {
        let mut report = Report::default();
        let old = self.saved_as(&self.baseline, &mut report);
        let new = self.saved_as(&self.new, &mut report);
        for (name, all) in [(&self.baseline, &old), (&self.new, &new)] {
            if all.is_empty() {
                report.incomplete(format!(
                    "Nothing is saved as {name} in {0} or {0}-*. Save it with `cargo bench -- --save-baseline {name}`.",
                    self.home.display()
                ));
            }
        }
        for old in &old {
            let is_same = |new: &&Entry| new.home == old.home && new.path == old.path;
            match new.iter().find(is_same) {
                Some(new) => self.compare_benchmark(old, new, &mut report),
                None => self.missing(old, &new, &mut report),
            }
        }
        for new in &new {
            if !old.is_empty() && !old.iter().any(|old| old.path == new.path) {
                report.lines.push(format!("{}: not in {}", new.name, self.baseline));
            }
        }
        let all = || old.iter().chain(&new);
        for (event, _) in &self.events {
            if !all().any(|entry| entry.results.counted(event).is_some())
                && all().all(|entry| !entry.is_time())
            {
                report.incomplete(format!(
                    "No benchmark has {event}. Use a name that the reports print."
                ));
            }
        }
        if report.compared() == 0 {
            old.iter().for_each(|entry| report.explain(&self.baseline, entry));
            new.iter().for_each(|entry| report.explain(&self.new, entry));
        }
        report.finish(self)
    }

    /// Returns all results that are saved under a name.
    fn saved_as(&self, baseline: &str, report: &mut Report) -> Vec<Entry> {
        let mut all: Vec<Entry> = Vec::new();
        for home in self.homes() {
            for directory in saved::results(&home, &|name| name == baseline) {
                let benchmark = directory.parent().unwrap_or(&directory);
                let name = saved::name(&home, benchmark);
                let loaded = Results::load(&directory);
                // A copy of such a directory is not one.
                let is_ours =
                    |measured: &str| home == self.home || home == home_of(&self.home, measured);
                match loaded {
                    Ok(Some(results)) if !is_ours(&results.measured) => {}
                    Ok(Some(results))
                        if saved::has_samples(&directory, &results.iterations, &results.values) =>
                    {
                        let path = benchmark.strip_prefix(&home).unwrap_or(benchmark).to_owned();
                        all.push(Entry { home: home.clone(), path, name, results });
                    }
                    Ok(Some(_)) => {
                        report.incomplete(format!(
                            "{name}: the counters of {baseline} are of an earlier run"
                        ));
                    }
                    // criterion's own directory may have other results.
                    Ok(None) if home == self.home => {}
                    Ok(None) => {
                        report.incomplete(format!("{name}: no counters are saved in {baseline}"))
                    }
                    Err(why) => report.incomplete(format!("{name}: {why}. Save it again")),
                }
            }
        }
        // A program that has measured something else since has left its earlier results in another directory.
        let newer = |entry: &Entry| {
            all.iter().find(|other| {
                other.path == entry.path
                    && other.results.program == entry.results.program
                    && other.results.run > entry.results.run
            })
        };
        let mut left_out = Vec::new();
        for (place, entry) in all.iter().enumerate() {
            let Some(newer) = newer(entry) else { continue };
            left_out.push(place);
            // Results by time and results by counters are not compared anyway.
            if !entry.is_time() && !newer.is_time() {
                let (name, was, is) =
                    (&entry.name, &entry.results.measured, &newer.results.measured);
                let line = format!("{name}: {baseline} was measured by {was}, and later by {is}");
                report.incomplete(format!("{line}. Remove {}", entry.home.display()));
            }
        }
        let places = all.into_iter().enumerate();
        places.filter(|(place, _)| !left_out.contains(place)).map(|(_, entry)| entry).collect()
    }

    /// Returns criterion's directory, and those beside it for each kind of results.
    fn homes(&self) -> Vec<PathBuf> {
        let prefix = home_of(&self.home, "");
        let prefix = prefix.file_name().unwrap_or_default().to_string_lossy();
        let parent = match self.home.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut homes = vec![self.home.clone()];
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_string_lossy().starts_with(&*prefix) && entry.path().is_dir() {
                homes.push(self.home.with_file_name(name));
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
                report
                    .processors
                    .insert(format!("The runs were on different processors: {old}, and {new}."));
                return;
            }
            _ => {
                report.processors.insert("The processor of a run is not known.".into());
                return;
            }
        }
        let compared = report.compared();
        for before in &old.results.counters {
            let event = &before.event;
            let tolerance = self.tolerance(event);
            let uncertain = |entry: &Entry| entry.results.estimates + entry.results.incomplete > 0;
            let missing = match new.results.counted(event) {
                None => format!("not in {}", self.new),
                Some(_) if uncertain(old) => {
                    format!("samples of {} are estimates or incomplete", self.baseline)
                }
                Some(_) if uncertain(new) => {
                    format!("samples of {} are estimates or incomplete", self.new)
                }
                Some(after) => {
                    let threshold = tolerance.unwrap_or_else(|| usual_threshold(event));
                    let change =
                        Change::between((&old.results, before), (&new.results, after), threshold);
                    report.add(name, before, after, &change, tolerance.is_some());
                    continue;
                }
            };
            report.lines.push(format!("{name}, {event}: {missing}"));
            report.is_incomplete |= tolerance.is_some();
        }
        for after in &new.results.counters {
            if old.results.counted(&after.event).is_none() {
                report.lines.push(format!("{name}, {}: not in {}", after.event, self.baseline));
            }
        }
        if report.compared() == compared {
            report.explain(&self.baseline, old);
            report.explain(&self.new, new);
        }
    }

    /// A benchmark has no results of this kind in the new run.
    fn missing(&self, old: &Entry, new: &[Entry], report: &mut Report) {
        let name = &old.name;
        let Some(other) = new.iter().find(|new| new.path == old.path) else {
            return report.incomplete(format!("{name}: not in {}", self.new));
        };
        let [was, is] = [old, other].map(|entry| &entry.results.measured);
        let line =
            format!("{name}: {} was measured by {was}, and {} by {is}", self.baseline, self.new);
        if old.is_time() || other.is_time() {
            report.lines.push(line);
            report.explain(&self.baseline, old);
            report.explain(&self.new, other);
        } else {
            report.incomplete(line);
        }
    }

    /// Returns the relative change to accept. None if the event is not gated.
    fn tolerance(&self, event: &str) -> Option<f64> {
        let added = self.events.iter().rev().find(|(name, _)| name == event);
        let usual = repeats(event).then(|| usual_threshold(event));
        added.map(|(_, tolerance)| *tolerance).or(usual)
    }
}

/// Results of a benchmark.
#[derive(Debug)]
struct Entry {
    home: PathBuf,
    /// The benchmark's directory below `home`. Unlike its name, it is unique.
    path: PathBuf,
    name: String,
    results: Results,
}

impl Entry {
    /// Whether time was measured because counters could not be.
    fn is_time(&self) -> bool {
        self.results.without_counters.is_some()
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
    /// Why results of different runs are not comparable.
    processors: BTreeSet<String>,
    /// Why a run has no counters.
    without_counters: BTreeSet<String>,
}

impl Report {
    fn incomplete(&mut self, line: String) {
        self.is_incomplete = true;
        self.lines.push(line);
    }

    fn add(&mut self, name: &str, old: &Counted, new: &Counted, change: &Change, is_gated: bool) {
        let verdict = match (change.verdict, is_gated) {
            (Verdict::Regressed, true) => "regression",
            (Verdict::Improved, true) => "improvement",
            (Verdict::Regressed, false) => "more, not gated",
            (Verdict::Improved, false) => "less, not gated",
            (Verdict::Unchanged | Verdict::WithinThreshold, true) => "no change",
            (Verdict::Uncertain, true) => "too few samples to tell",
            (Verdict::Unchanged | Verdict::WithinThreshold | Verdict::Uncertain, false) => return,
        };
        match change.verdict {
            _ if !is_gated => {}
            Verdict::Regressed => self.regressed += 1,
            Verdict::Improved => self.improved += 1,
            Verdict::Unchanged | Verdict::WithinThreshold => self.unchanged += 1,
            Verdict::Uncertain => self.is_incomplete = true,
        }
        let [was, is] = [old, new].map(|counted| number(counted.per_iteration.median));
        let percent = change.median().map_or("from 0".into(), |more| Percent(more).to_string());
        self.lines.push(format!("{name}, {}: {is}, was {was} ({percent}): {verdict}", new.event));
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
        let outcome = if self.regressed > 0 {
            Outcome::Regressed
        } else if !self.processors.is_empty() {
            Outcome::AnotherProcessor
        } else if self.is_incomplete {
            Outcome::Incomplete
        } else if !self.without_counters.is_empty() {
            Outcome::NoCounters
        } else if self.compared() == 0 {
            Outcome::Incomplete
        } else if self.improved > 0 {
            Outcome::Improved
        } else {
            Outcome::Unchanged
        };
        self.lines.extend(std::mem::take(&mut self.processors));
        self.lines.extend(std::mem::take(&mut self.without_counters));
        self.lines.push(match self.compared() {
            0 => {
                let added: String = gate.events.iter().map(|(name, _)| format!(" or {name}")).collect();
                let (old, new) = (&gate.baseline, &gate.new);
                format!("Nothing to compare: no benchmark has instructions or branches{added} in both {old} and {new}.")
            }
            compared => format!(
                "Figures compared: {compared}. Regressions: {}. Improvements: {}.",
                self.regressed, self.improved
            ),
        });
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
