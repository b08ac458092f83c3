//! What was measured.

use crate::comparison::RowComparison;
use crate::row::Row;
use crate::sets::Missing;
use rdpmc::Event;

/// The rows that [`Bench::run`](crate::Bench::run) measured, and their comparisons. `Display` writes them as a Markdown table.
#[derive(Clone, Debug)]
pub struct Results {
    pub(crate) events: Vec<Event>,
    pub(crate) missing: Vec<Missing>,
    pub(crate) rows: Vec<Row>,
    pub(crate) comparisons: Vec<RowComparison>,
    pub(crate) processor: Option<String>,
}

impl Results {
    pub(crate) fn new(
        events: Vec<Event>,
        missing: Vec<Missing>,
        rows: Vec<Row>,
        comparisons: Vec<RowComparison>,
    ) -> Results {
        Results { events, missing, rows, comparisons, processor: rdpmc::doctor::cpu_identity() }
    }

    /// Returns the rows, in the order of the program.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the row of this name. None if there is none.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// Returns the comparisons that [`against`](crate::RowBuilder::against) and
    /// [`baseline`](crate::Bench::baseline) asked for, in the order of the rows.
    pub fn comparisons(&self) -> &[RowComparison] {
        &self.comparisons
    }

    /// Returns the comparison of the row of this name. None if it is not compared.
    pub fn comparison(&self, row: &str) -> Option<&RowComparison> {
        self.comparisons.iter().find(|comparison| comparison.row == row)
    }

    /// Returns the events that could not be counted here, and why.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }
}
