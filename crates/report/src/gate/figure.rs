//! What is compared: the figures of a benchmark.

use crate::gate::functions::Functions;
use std::collections::BTreeMap;

/// How far a figure can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// All samples agree to the last unit.
    Exact,
    /// The interval can be trusted.
    Stable,
    /// It cannot be.
    Unstable,
}

/// A figure of a benchmark, for example its instructions.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name: that of an event, or `ns`.
    pub name: String,
    /// The value.
    pub value: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end of its interval.
    pub high: f64,
    /// How far it can be trusted.
    pub certainty: Certainty,
    /// What the measurement itself may have added, in the figure's unit.
    pub slack: f64,
    /// Why it cannot be trusted. None if it can, or if that is not known.
    pub doubt: Option<String>,
}

/// Returns the name of an event in tables and files: that which perf gives it, or what the user has `written` if it would be a number
/// (`r243`, `cpu/event=0x43/`).
pub fn event_name(of_perf: String, written: String) -> String {
    let plain = of_perf.split(':').next().unwrap_or_default();
    let is_raw = plain
        .strip_prefix('r')
        .is_some_and(|code| !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if is_raw || plain.contains('/') { written } else { of_perf }
}

/// The results of a benchmark.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Tells the benchmark apart from all others. Its name may not.
    pub key: String,
    /// Its name.
    pub name: String,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// The program that measured it.
    pub program: String,
    /// The processor. None if its name is not known.
    pub processor: Option<String>,
    /// The compiler and its flags. None if they are not known.
    pub build: Option<String>,
    /// Why it cannot be compared.
    pub obstacle: Option<String>,
    /// Why it has no counts.
    pub without_counters: Option<String>,
    /// Why its instructions were not stepped.
    pub not_stepped: Option<String>,
    /// Where its instructions went. None if that is not known.
    pub functions: Option<Functions>,
    /// Whether its counts are those of all threads of the process.
    pub is_of_process: bool,
    /// Whether the CPU counted twice behind atomic operations (SpecLockMap). None if that is not known.
    pub spec_lock_map: Option<bool>,
}

/// A file's name for the scope of counts of one thread.
pub const SCOPE_THREAD: &str = "thread";
/// A file's name for the scope of counts of all threads of the process.
pub const SCOPE_PROCESS: &str = "process";

impl Row {
    /// Returns the figure of this name. None if there is none.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Returns all figures by their names. A hostile file may have thousands of them.
    pub(crate) fn by_name(&self) -> BTreeMap<&str, &Figure> {
        self.figures.iter().map(|figure| (figure.name.as_str(), figure)).collect()
    }
}

/// All results on one side of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// What it is called in messages: a file, or the name of a baseline.
    pub label: String,
    /// The benchmarks.
    pub rows: Vec<Row>,
    /// Why there are none, or not all.
    pub obstacles: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::event_name;

    #[test]
    fn only_numbers_have_the_name_that_the_user_wrote() {
        let of = |of_perf: &str, written: &str| event_name(of_perf.into(), written.into());
        assert_eq!(of("branches", "branch-instructions"), "branches");
        assert_eq!(of("ref-cycles", "ref-cycles:u"), "ref-cycles");
        assert_eq!(
            of("r243", "ls_dmnd_fills_from_sys.local_ccx"),
            "ls_dmnd_fills_from_sys.local_ccx"
        );
        assert_eq!(of("r1c2:k", "retired:k"), "retired:k");
        assert_eq!(
            of("4/config=0x1c6,config1=0x13/", "frontend_retired.l2_miss"),
            "frontend_retired.l2_miss"
        );
    }
}
