//! What was measured.

use crate::arguments::Format;
use crate::events::sets::Missing;
use crate::judging::comparison::RowComparison;
use crate::judging::row::Row;
use rdpmc::{Event, Scope};
use rdpmc_report::gate::{Comparison, Limits, Side, bench_json, compare, files};
use std::path::Path;

/// The rows that [`Bench::run`](crate::Bench::run) measured, and their comparisons. `Display` writes them as a Markdown table.
#[derive(Clone, Debug)]
pub struct Results {
    pub(crate) events: Vec<Event>,
    pub(crate) missing: Vec<Missing>,
    pub(crate) rows: Vec<Row>,
    pub(crate) comparisons: Vec<RowComparison>,
    pub(crate) program: String,
    pub(crate) processor: Option<String>,
    pub(crate) scope: Scope,
    /// How they are printed.
    pub(crate) format: Format,
    /// Whether they are of a measurement. Those of a test run are not saved.
    pub(crate) are_kept: bool,
    /// Whether the functions of the rows are shown.
    pub(crate) shows_functions: bool,
    /// Whether the CPU counts twice behind atomic operations. None if that is not known.
    pub(crate) spec_lock_map: Option<bool>,
}

impl Results {
    /// Returns the results of these rows.
    pub(crate) fn new(
        events: Vec<Event>,
        missing: Vec<Missing>,
        rows: Vec<Row>,
        comparisons: Vec<RowComparison>,
        scope: Scope,
    ) -> Results {
        Results {
            events,
            missing,
            rows,
            comparisons,
            program: bench_json::program(),
            processor: rdpmc_report::gate::cpu_identity(),
            scope,
            spec_lock_map: rdpmc::machine::spec_lock_map(),
            format: Format::Table,
            shows_functions: false,
            are_kept: true,
        }
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

    /// Returns the comparison of a row. None if it is not compared.
    pub(crate) fn comparison_of(&self, place: usize) -> Option<&RowComparison> {
        self.comparisons.iter().find(|comparison| comparison.place == place)
    }

    /// Returns the comparison of the row of this name. None if it is not compared.
    pub fn comparison(&self, row: &str) -> Option<&RowComparison> {
        self.comparisons.iter().find(|comparison| comparison.row == row)
    }

    /// Returns whose work was counted.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns the events that could not be counted here, and why.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Writes the results to a file, as JSON, for [`check`](Results::check) and the command `rdpmc-gate`. The file is replaced in one
    /// step, so an earlier one remains if that fails.
    ///
    /// Does nothing in a test run (`--test`), whose rows have no figures.
    ///
    /// # Errors
    /// Those of writing the file.
    pub fn save(&self, path: impl AsRef<Path>) -> std::io::Result<()> {
        if !self.are_kept {
            return Ok(());
        }
        files::replace(path.as_ref(), self.json().as_bytes())
    }

    /// Compares the results with those of a file that [`save`](Results::save) wrote.
    ///
    /// - Instructions, stepped instructions and branches are compared by default. If they are exact in both results, one more is a
    ///   regression. Otherwise the intervals have to be apart, and the values by more than 0.001 %.
    /// - Other figures depend on more than the code. They are compared if the [`Limits`] name them: `cycles`, `ns`, `page-faults`.
    /// - Unstable figures are never a regression. They are not compared.
    ///
    /// A test run (`--test`) has nothing to compare, and passes.
    ///
    /// To compare the time of two builds, run both as one experiment: `rdpmc-bench compare OLD NEW`.
    ///
    /// ```no_run
    /// use rdpmc_bench::{Bench, Comparison, Limits};
    ///
    /// fn main() -> Comparison {
    ///     let mut bench = Bench::new().expect("Linux");
    ///     bench.row("parse").latency(|| std::hint::black_box("12345").parse::<u32>());
    ///     let comparison = bench.run().check("baseline.json", &Limits::new());
    ///     println!("{comparison}");
    ///     comparison // the exit status
    /// }
    /// ```
    pub fn check(&self, path: impl AsRef<Path>, limits: &Limits) -> Comparison {
        if !self.are_kept {
            return Comparison::of_a_test();
        }
        let mut now = Side { label: "this run".into(), ..Side::default() };
        let json = serde_json::from_str(&self.json());
        match json.map_err(|why| why.to_string()).and_then(|json| bench_json::rows(&json)) {
            Ok(rows) => now.rows = rows,
            Err(why) => now.obstacles.push(format!("in this run, {why}")),
        }
        compare(&bench_json::load(path.as_ref()), &now, limits)
    }
}
