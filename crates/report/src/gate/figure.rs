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
