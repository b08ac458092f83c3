//! The comparison of two sets of benchmarks.

use crate::gate::bench_json::is_same_program;
use crate::gate::change::{Change, Direction};
use crate::gate::figure::{Certainty, Figure, Row, Side};
use crate::gate::functions::{FunctionChange, OWN, SYMBOLS};
use crate::gate::limits::{Limits, REPEATED, STEPPED_INSTRUCTIONS, repeats};
use crate::gate::stepped::TOO_LONG;
use std::collections::{BTreeMap, BTreeSet};
use std::process::{ExitCode, Termination};

/// What a comparison found. It is the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// Nothing is worse. Status 0.
    Passed,
    /// A figure is worse. Status 1.
    Regressed,
    /// Nothing that was compared is worse, but not all could be compared. Status 3.
    Incomplete,
}

impl Status {
    /// The exit status of a command with wrong arguments.
    pub const USAGE: u8 = 2;

    /// Returns the exit status.
    pub fn code(self) -> u8 {
        match self {
            Status::Passed => 0,
            Status::Regressed => 1,
            Status::Incomplete => 3,
        }
    }
}

/// What happened to a figure, or to a benchmark.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// It grew by more than is accepted: a regression.
    Worse,
    /// It shrank by more than is accepted.
    Better,
    /// It changed by less than is accepted.
    WithinLimit,
    /// It did not change, as far as it is known.
    Same,
    /// It is too unstable to compare.
    Unstable,
    /// Neither side has it, because a run is too long to be stepped.
    LeftOut(String),
    /// It is missing on one side, or on both although it is wanted.
    Missing(String),
    /// It cannot be compared, for this reason.
    NotComparable(String),
}

/// A figure, or a benchmark, and what happened to it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Compared {
    /// The name of the benchmark.
    pub row: String,
    /// The name of the figure. None for the whole benchmark.
    pub figure: Option<String>,
    /// The values. None if one is missing.
    pub values: Option<Values>,
    /// What happened.
    pub outcome: Outcome,
    /// Whether it counts for the status. If not, it is printed for information.
    pub is_gated: bool,
    /// Why it is unstable. None if it is not, or if the results do not say so.
    pub doubt: Option<String>,
    /// Of instructions that changed: in which functions. Empty if that is not known.
    pub functions: Vec<FunctionChange>,
}

/// Both values of a figure.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Values {
    /// The earlier value.
    pub was: f64,
    /// The later value.
    pub is: f64,
    /// The relative change in percent, as it is printed: `+4.0000%`, or `from 0`.
    pub change: String,
    /// The larger distances to the ends of their intervals.
    pub(crate) errors: [f64; 2],
}

/// A comparison of saved results. `Display` writes a line for each figure, and a summary. As the return
/// value of `main`, it is the exit status: 0 if nothing is worse, 1 for a regression, 3 if not all could be compared.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "the result is lost unless it is printed or returned from main"]
pub struct Comparison {
    pub(crate) compared: Vec<Compared>,
    /// Why one side is not whole, or cannot be compared.
    pub(crate) obstacles: BTreeSet<String>,
    /// Why a side has no counters, or no stepped instructions.
    pub(crate) reasons: BTreeSet<String>,
    pub(crate) labels: [String; 2],
    pub(crate) limits: Limits,
    /// Whether nothing was measured, because this is a test run.
    is_of_a_test: bool,
}

/// The figures that are instructions.
const INSTRUCTIONS: [&str; 2] = ["instructions", STEPPED_INSTRUCTIONS];

/// Compares two sets of benchmarks.
pub fn compare(old: &Side, new: &Side, limits: &Limits) -> Comparison {
    let mut found = Comparison {
        compared: Vec::new(),
        obstacles: old.obstacles.iter().chain(&new.obstacles).cloned().collect(),
        reasons: BTreeSet::new(),
        labels: [old.label.clone(), new.label.clone()],
        limits: limits.clone(),
        is_of_a_test: false,
    };
    let [of_old, of_new] = [old, new].map(|side| {
        let mut rows: BTreeMap<&str, &Row> = BTreeMap::new();
        for row in &side.rows {
            if rows.contains_key(row.key.as_str()) {
                found.obstacles.insert(format!(
                    "{}: two benchmarks have the name {}. Rename one of them",
                    side.label, row.name
                ));
            } else {
                rows.insert(&row.key, row);
            }
        }
        rows
    });
    let rows = || old.rows.iter().chain(&new.rows);
    let figures = || rows().flat_map(|row| &row.figures).map(|figure| figure.name.as_str());
    let known: BTreeSet<&str> = figures().collect();
    let (wanted, unknown): (BTreeSet<&str>, BTreeSet<&str>) =
        limits.named().partition(|name| known.contains(name));
    // Benchmarks with instructions and benchmarks without them are not measured alike.
    let usual = INSTRUCTIONS.into_iter().filter(|it| known.contains(it));
    let wanted: BTreeSet<&str> = wanted.into_iter().chain(usual).collect();
    for was in &old.rows {
        match of_new.get(was.key.as_str()) {
            Some(is) => found.add_rows(was, is, &wanted),
            None => found.add_missing(was, &new.label),
        }
    }
    for is in new.rows.iter().filter(|is| !of_old.contains_key(is.key.as_str())) {
        found.add_missing(is, &old.label);
    }
    for name in unknown.into_iter().filter(|_| !known.is_empty()) {
        let known = known.iter().copied().collect::<Vec<_>>().join(", ");
        found.obstacles.insert(format!("No benchmark has {name}. The results have: {known}"));
    }
    let is_known = |name: &&str| rows().any(|row| row.name == *name);
    for name in limits.may_lack().filter(|name| !is_known(name)) {
        found
            .obstacles
            .insert(format!("No benchmark is called {name}. Use a name that the results have"));
    }
    if found.count(|it| it.is_gated && it.values.is_some()) == 0 {
        for (row, side) in
            old.rows.iter().map(|row| (row, old)).chain(new.rows.iter().map(|row| (row, new)))
        {
            found.explain(row, &side.label);
        }
    }
    found
}

/// Why results are not compared.
pub(crate) const SCOPES_DIFFER: &str =
    "one of the results counts one thread, and the other all threads. Measure both with one scope";

/// What results of such a CPU need.
pub const SPEC_LOCK_MAP: &str = "If this CPU rolls back code after an atomic operation, it counts the instructions and branches twice (SpecLockMap). \
     `rdpmc-doctor` has the remedy";

impl Comparison {
    /// Returns a comparison that passes: nothing was measured, and nothing was to be measured.
    #[doc(hidden)]
    pub fn of_a_test() -> Comparison {
        Comparison {
            compared: Vec::new(),
            obstacles: BTreeSet::new(),
            reasons: BTreeSet::new(),
            labels: Default::default(),
            limits: Limits::new(),
            is_of_a_test: true,
        }
    }

    fn add(&mut self, row: &str, figure: Option<&str>, outcome: Outcome, is_gated: bool) {
        let (row, figure) = (row.to_owned(), figure.map(str::to_owned));
        let (values, doubt) = (None, None);
        let functions = Vec::new();
        self.compared.push(Compared { row, figure, values, outcome, is_gated, doubt, functions });
    }

    fn add_missing(&mut self, row: &Row, label: &str) {
        self.add(&row.name, None, Outcome::Missing(format!("not in {label}")), true);
    }

    fn add_rows(&mut self, was: &Row, is: &Row, wanted: &BTreeSet<&str>) {
        let name = &is.name;
        let [of_was, of_is] = [was, is].map(Row::by_name);
        let reason =
            [was, is].into_iter().find_map(|row| row.obstacle.clone()).or_else(|| {
                match (&was.processor, &is.processor) {
                    (Some(was), Some(is)) if was == is => None,
                    (Some(was), Some(is)) => {
                        Some(format!("measured on different processors: {was}, and {is}"))
                    }
                    _ => Some("the processor of a result is not known".into()),
                }
            });
        let reason = reason.or_else(|| {
            (!is_same_program(&was.program, &is.program)).then(|| {
                format!("measured by different programs, {} and {}. Give the benchmarks different names", was.program, is.program)
            })
        });
        let reason = reason
            .or_else(|| (was.is_of_process != is.is_of_process).then(|| SCOPES_DIFFER.into()));
        let reason = reason.or_else(|| {
            let both = was.spec_lock_map.zip(is.spec_lock_map);
            both.is_some_and(|(was, is)| was != is).then(|| {
                "SpecLockMap was in effect in one of the results alone, so the CPU counts otherwise. \
                 Measure again with one setting of the machine"
                    .into()
            })
        });
        let builds = was.build.as_ref().zip(is.build.as_ref());
        if let Some((of_was, of_is)) = builds.filter(|(of_was, of_is)| of_was != of_is) {
            let [old, new] = &self.labels;
            self.reasons.insert(format!(
                "{old} was built by {of_was}, and {new} by {of_is}. A change may come from the compiler"
            ));
        }
        if was.spec_lock_map.or(is.spec_lock_map) == Some(true) {
            self.reasons.insert(SPEC_LOCK_MAP.to_owned());
        }
        let reason = reason.or_else(|| {
            let is_twice = of_was.len() < was.figures.len() || of_is.len() < is.figures.len();
            is_twice.then(|| "it has two figures of one name. Count each event once".into())
        });
        if let Some(reason) = reason {
            return self.add(name, None, Outcome::NotComparable(reason), true);
        }
        let [old, new] = self.labels.clone();
        let before = self.compared.len();
        for of_old in &was.figures {
            match of_is.get(of_old.name.as_str()) {
                Some(of_new) => self.add_figures([was, is], of_old, of_new),
                None => self.add_missing_figure(is, &of_old.name, &new),
            }
        }
        for of_new in is.figures.iter().filter(|it| !of_was.contains_key(it.name.as_str())) {
            self.add_missing_figure(was, &of_new.name, &old);
        }
        // A benchmark without any figures cannot be accepted as one in which some are missing.
        let has_figures = !of_was.is_empty() || !of_is.is_empty();
        let is_lacking = |name: &&&str| !of_was.contains_key(**name) && !of_is.contains_key(**name);
        let too_long =
            [was, is].map(|row| row.not_stepped.as_ref().filter(|why| why.contains(TOO_LONG)));
        let mut is_left_out = false;
        for figure in wanted.iter().filter(is_lacking).filter(|_| has_figures) {
            if let (&STEPPED_INSTRUCTIONS, [Some(_), Some(why)]) = (figure, too_long) {
                self.add(name, Some(figure), Outcome::LeftOut(why.clone()), false);
                is_left_out = true;
                continue;
            }
            let outcome = Outcome::Missing(format!("in neither {old} nor {new}"));
            self.add(name, Some(figure), outcome, true);
            for (row, label) in [(was, &old), (is, &new)] {
                match *figure {
                    STEPPED_INSTRUCTIONS if row.not_stepped.is_some() => {
                        self.explain_stepping(row, label);
                    }
                    figure if repeats(figure) => self.explain_counters(row, label),
                    _ => {}
                }
            }
        }
        let is_compared = self.compared.iter().skip(before).any(|compared| {
            let figure = compared.figure.as_deref();
            compared.is_gated
                && figure.is_some_and(|name| self.limits.limit_of(name, false).is_some())
        });
        if !is_compared && !is_left_out {
            self.explain(was, &old);
            self.explain(is, &new);
            let others = self.limits.named().filter(|name| !repeats(name));
            let figures: Vec<&str> = REPEATED.into_iter().chain(others).collect();
            let reason = format!("it has no {}", figures.join(", "));
            self.add(name, None, Outcome::NotComparable(reason), true);
        }
    }

    fn add_missing_figure(&mut self, row: &Row, figure: &str, label: &str) {
        self.add(&row.name, Some(figure), Outcome::Missing(format!("not in {label}")), true);
        match figure {
            STEPPED_INSTRUCTIONS => self.explain_stepping(row, label),
            figure if repeats(figure) => self.explain_counters(row, label),
            _ => {}
        }
    }

    fn add_figures(&mut self, [of_was, of_is]: [&Row; 2], was: &Figure, is: &Figure) {
        let is_exact = [was, is].iter().all(|figure| figure.certainty == Certainty::Exact);
        let limit = self.limits.limit_of(&is.name, is_exact);
        let change = Change::between(was, is, limit.unwrap_or_else(|| Limits::usual(&is.name)));
        let outcome = match change.direction {
            Direction::More => Outcome::Worse,
            Direction::Less => Outcome::Better,
            Direction::WithinLimit => Outcome::WithinLimit,
            Direction::Same => Outcome::Same,
            Direction::Unknown => Outcome::Unstable,
        };
        let is_gated = limit.is_some();
        if is_gated || matches!(outcome, Outcome::Worse | Outcome::Better) {
            let error = |it: &Figure| (it.value - it.low).max(it.high - it.value);
            let doubt = is.doubt.clone().or_else(|| was.doubt.clone());
            let functions = match outcome {
                Outcome::Worse | Outcome::Better | Outcome::WithinLimit => {
                    self.changes_of_functions([of_was, of_is], was, is)
                }
                _ => Vec::new(),
            };
            self.compared.push(Compared {
                row: of_is.name.clone(),
                figure: Some(is.name.clone()),
                functions,
                values: Some(Values {
                    was: was.value,
                    is: is.value,
                    change: change.percent(),
                    errors: [error(was), error(is)],
                }),
                doubt: doubt.filter(|_| outcome == Outcome::Unstable),
                outcome,
                is_gated,
            });
        }
    }

    /// Returns in which functions a figure of instructions changed, if that is known.
    fn changes_of_functions(
        &mut self,
        [of_was, of_is]: [&Row; 2],
        was: &Figure,
        is: &Figure,
    ) -> Vec<FunctionChange> {
        // What was stepped explains a counter's figure only if there is no stepped figure to explain.
        let has_stepped = of_is.figure(STEPPED_INSTRUCTIONS).is_some();
        let wanted = if has_stepped { STEPPED_INSTRUCTIONS } else { "instructions" };
        let both = of_was.functions.as_ref().zip(of_is.functions.as_ref());
        let Some((old, new)) = both.filter(|_| is.name == wanted && is.value != was.value) else {
            return Vec::new();
        };
        if let Some(why) = old.why_not_compared(new) {
            self.reasons.insert(format!("Functions are not compared: {why}"));
            return Vec::new();
        }
        let changes = old.changes(new);
        if new.source == SYMBOLS && changes.iter().any(|change| change.name == OWN) {
            self.reasons.insert(format!(
                "With `debug = 1` in `[profile.bench]`, functions that were inlined into {OWN} have their names. Save both results anew then"
            ));
        }
        changes
    }

    fn explain(&mut self, row: &Row, label: &str) {
        // Steps are as good as counters.
        if row.figure(STEPPED_INSTRUCTIONS).is_none() {
            self.explain_counters(row, label);
            self.explain_stepping(row, label);
        }
    }

    fn explain_counters(&mut self, row: &Row, label: &str) {
        if let Some(why) = &row.without_counters {
            self.reasons.insert(format!("{label} has no counters: {why}"));
        }
    }

    fn explain_stepping(&mut self, row: &Row, label: &str) {
        if let Some(why) = &row.not_stepped {
            let name = &row.name;
            self.reasons.insert(format!("No {STEPPED_INSTRUCTIONS} of {name} in {label}: {why}"));
        }
    }

    pub(crate) fn count(&self, is: impl Fn(&Compared) -> bool) -> usize {
        self.compared.iter().filter(|compared| is(compared)).count()
    }

    /// Returns the number of figures that were compared and count for the status.
    pub(crate) fn comparisons(&self) -> usize {
        let is_known = |outcome: &Outcome| {
            matches!(
                outcome,
                Outcome::Worse | Outcome::Better | Outcome::WithinLimit | Outcome::Same
            )
        };
        self.count(|it| it.is_gated && is_known(&it.outcome))
    }

    /// Returns the number of figures that are unstable, and accepted.
    pub(crate) fn accepted_as_unstable(&self) -> usize {
        let is_unstable = |it: &Compared| it.is_gated && it.outcome == Outcome::Unstable;
        if self.limits.allows_unstable { self.count(is_unstable) } else { 0 }
    }

    /// Returns the figures, and the benchmarks that could not be compared.
    pub fn compared(&self) -> &[Compared] {
        &self.compared
    }

    /// Returns why results are missing as a whole.
    pub fn obstacles(&self) -> impl Iterator<Item = &str> {
        self.obstacles.iter().map(String::as_str)
    }

    /// Whether this keeps the comparison from being complete.
    pub(crate) fn is_open(&self, compared: &Compared) -> bool {
        compared.is_gated
            && match compared.outcome {
                Outcome::Missing(_) => !self.limits.allows_missing_of(&compared.row),
                Outcome::Unstable => !self.limits.allows_unstable,
                Outcome::NotComparable(_) => true,
                _ => false,
            }
    }

    /// Returns the exit status.
    pub fn status(&self) -> Status {
        if self.is_of_a_test {
            Status::Passed
        } else if self.count(|it| it.is_gated && it.outcome == Outcome::Worse) > 0 {
            Status::Regressed
        } else if !self.obstacles.is_empty()
            || self.comparisons() + self.accepted_as_unstable() == 0
            || self.count(|it| self.is_open(it)) > 0
        {
            Status::Incomplete
        } else {
            Status::Passed
        }
    }
}

impl Termination for Comparison {
    fn report(self) -> ExitCode {
        ExitCode::from(self.status().code())
    }
}

#[cfg(test)]
#[path = "tests/comparison.rs"]
mod tests;
