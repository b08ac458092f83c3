//! What to measure, and how: what a `Bench` has collected.

pub(crate) mod row_builder;

use crate::events::sets::{Missing, Set};
use crate::judging::topdown::Topdown;
use crate::sampling::code::Loops;
use rdpmc::{Clock, Event, Scope};
use std::fmt;
use std::time::Duration;

/// The rows of a `Bench`, the events and the settings.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) clock: Clock,
    pub(crate) sets: Vec<Set>,
    pub(crate) events: Vec<Event>,
    pub(crate) missing: Vec<Missing>,
    /// Where the slots go, if that was asked for.
    pub(crate) topdown: Option<Topdown>,
    pub(crate) entries: Vec<Entry<'a>>,
    /// The row that others are compared with.
    pub(crate) baseline: Option<String>,
    pub(crate) time_per_row: Duration,
    /// Zero to step nothing.
    pub(crate) time_to_step: Duration,
    /// In how many processes instructions are stepped.
    pub(crate) processes: u32,
    pub(crate) target: f64,
    /// Whether the results show in which functions the instructions are.
    pub(crate) shows_functions: bool,
    /// Whether `run` reads the arguments of the program.
    pub(crate) reads_arguments: bool,
    /// Whose work is counted.
    pub(crate) scope: Scope,
}

/// A row to measure.
pub(crate) struct Entry<'a> {
    pub(crate) name: String,
    pub(crate) operations: u64,
    /// The row that this one is compared with.
    pub(crate) against: Option<String>,
    /// None if there are no inputs.
    pub(crate) code: Option<Box<dyn Loops + 'a>>,
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entry").field(&self.name).finish()
    }
}
