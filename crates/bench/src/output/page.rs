//! The results as a page of HTML.

use crate::judging::comparison::RowComparison;
use crate::judging::row::Row;
use crate::judging::verdict::with_digits;
use crate::output::bins::Bins;
use crate::output::results::Results;
use rdpmc_report::gate::files;
use rdpmc_report::page::{Axis, Chart, Page, Table};
use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

const RANGES: usize = 60;

impl Results {
    /// Writes a page, as HTML in one file without scripts: the table and its notes, the distribution of each row's samples and the
    /// [paths](Row::paths) of its single runs, and the differences of each pair of samples of rows that are compared.
    ///
    /// ```
    /// # let mut bench = rdpmc_bench::Bench::new()?;
    /// # bench.time_per_row(std::time::Duration::from_millis(1));
    /// bench.row("nothing").throughput(|| ());
    /// let results = bench.run();
    /// results.save_html(std::env::temp_dir().join("results.html"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of writing.
    pub fn write_html(&self, mut to: impl Write) -> io::Result<()> {
        to.write_all(self.page().to_string().as_bytes())?;
        to.flush()
    }

    /// As [`write_html`](Results::write_html), to a file. It is replaced in one step. Does nothing in a test run (`--test`).
    ///
    /// # Errors
    /// Those of writing the file.
    pub fn save_html(&self, path: impl AsRef<Path>) -> io::Result<()> {
        if !self.are_kept {
            return Ok(());
        }
        files::replace(path.as_ref(), self.page().to_string().as_bytes())
    }

    fn page(&self) -> Page {
        let mut page = Page::new("Measurements");
        page.origin(&self.program, self.processor.as_deref(), SystemTime::now());
        let mut lines = self.table(str::to_owned).into_iter();
        let head = lines.next().unwrap_or_default();
        // The name, which the text has last, is first here.
        let name_first = |line: &[String]| {
            let mut cells = line.to_vec();
            cells.rotate_right(1);
            cells
        };
        let head = name_first(&head);
        let columns = head.iter().enumerate().map(|(place, name)| (name.as_str(), place > 0));
        let mut table = Table::new(columns);
        for line in lines {
            table.row(name_first(&line));
        }
        let notes = self.notes();
        page.push(&table).list(
            notes.lines().filter(|note| !note.is_empty()).map(|note| note.trim_start_matches("- ")),
        );
        page.heading("Distributions");
        page.paragraph("A bar has the number of samples whose time is in its range. A sample is a mean over one or more runs.");
        for (place, row) in self.rows.iter().enumerate() {
            page.subheading(&format!("row-{}", place + 1), &row.name);
            distribution(&mut page, row);
            paths(&mut page, row);
            if let Some(functions) = row.functions() {
                page.paragraph("The stepped instructions of an operation, by functions:");
                page.push(&functions.table());
            }
        }
        if !self.comparisons.is_empty() {
            page.heading("Differences");
            page.paragraph(
                "A mark is the difference of two samples of the same pass, or of passes that are near.",
            );
        }
        for comparison in &self.comparisons {
            differences(&mut page, comparison);
        }
        page
    }
}

fn ns(value: f64) -> String {
    format!("{} ns", with_digits(value))
}

/// Returns how many values are not shown, because they are far from the others.
fn outside(bins: &Bins, written: fn(f64) -> String) -> String {
    match (bins.outside, bins.ends.map(written)) {
        (0, _) => String::new(),
        (outside, [min, max]) => {
            format!(
                " Not shown: {outside} outside of this range. The full range is {min} to {max}."
            )
        }
    }
}

fn distribution(page: &mut Page, row: &Row) {
    let Some(bins) = Bins::from_values(row.times(), RANGES) else {
        page.paragraph("It could not be measured.");
        return;
    };
    let mut text = format!("{} samples, median {}.", row.times().len(), ns(bins.median));
    text += &outside(&bins, ns);
    let times = Axis::linear("time of an operation").written(ns);
    let title = format!("Distribution of the times of {}", row.name);
    let mut chart = Chart::new(&title, times, Axis::linear("samples").including([0.0]));
    for (place, count) in bins.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let from = bins.low + bins.width * place as f64;
        let text = format!("{count} samples from {} to {}", ns(from), ns(from + bins.width));
        chart.bar(0, [from, from + bins.width], [0.0, *count as f64], &text);
    }
    page.paragraph(&text).push(&chart);
}

fn paths(page: &mut Page, row: &Row) {
    if row.paths().is_empty() {
        return;
    }
    let mut table = Table::new([("instructions of a run", true), ("runs", true)]);
    for path in row.paths() {
        table.row([path.instructions.to_string(), format!("{:.0} %", path.share * 100.0)]);
    }
    page.push(&table);
}

fn differences(page: &mut Page, comparison: &RowComparison) {
    page.paragraph(&format!("{}: {comparison}.", comparison.row));
    let Some((quantity, percents)) = comparison.percents() else { return };
    let Some(bins) = Bins::from_values(&percents, 1).filter(|_| percents.len() > 1) else { return };
    let written = |percent: f64| format!("{percent:+.2} %");
    let (order, percent) = (
        Axis::linear("pairs of samples, in the order in which they were taken"),
        Axis::linear(&format!("{quantity}, difference")).written(written),
    );
    let title = format!("Differences of {} to {}", comparison.row, comparison.against);
    let mut chart = Chart::new(&title, order, percent);
    let shown = percents.iter().enumerate().filter(|(_, percent)| bins.contain(**percent));
    for (place, percent) in shown {
        let at = place as f64;
        chart.bar(0, [at, at + 1.0], [*percent; 2], &written(*percent));
    }
    let name = format!("median {}", written(bins.median));
    chart.line(1, &name, [0.0, percents.len() as f64].map(|at| (at, bins.median)));
    chart.level(0.0, "as fast");
    page.push(&chart);
    page.paragraph(&format!("{} pairs.{}", percents.len(), outside(&bins, written)));
}
