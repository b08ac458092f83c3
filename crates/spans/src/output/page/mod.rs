//! A page that shows an interval, and why its slow spans were slow.

mod over_time;
mod percentiles;
mod slow;

use crate::batch::Batch;
use crate::output::slow_line;
use crate::output::table::{COLUMNS, SLOTS, lines};
use crate::output::{NOTHING, Report, Row, process_name};
use crate::units;
use rdpmc_report::page::{Page, Table};
use std::io::{self, Write};

/// Writes the page.
pub(crate) fn write(batch: &Batch, mut to: impl Write) -> io::Result<()> {
    let report = Report::new(batch);
    let mut page = Page::new(&format!("Spans of {}", process_name()));
    page.origin(&process_name(), None, batch.time.wall(end_of(batch)));
    page.paragraph(&summary(batch, &report));
    NOTHING.into_iter().for_each(|why| {
        page.paragraph(why);
    });
    if !batch.slow.is_empty() {
        page.heading("Slow spans");
        page.paragraph(
            "The slowest first. Inner spans that took at least three times their median are highlighted.",
        );
        slow::add(&mut page, batch);
    }
    page.heading("All spans").push(&table(&report)).list(report.notes());
    page.heading("Over time");
    over_time::add(&mut page, batch);
    page.heading("Percentiles");
    percentiles::add(&mut page, &report);
    to.write_all(page.to_string().as_bytes())?;
    to.flush()
}

/// Returns when the last span ended, in nanoseconds since the recording began.
fn end_of(batch: &Batch) -> u64 {
    let slow = batch.slow.iter().map(|tree| &tree.root);
    batch
        .records
        .iter()
        .next_back()
        .into_iter()
        .chain(slow)
        .map(|kept| batch.time.nanoseconds(kept)[1])
        .max()
        .unwrap_or(0)
}

/// Returns what was recorded, and when.
fn summary(batch: &Batch, report: &Report) -> String {
    let spans = report.rows.iter().map(|row| row.count).sum();
    let threads: u64 = report.threads.iter().map(|thread| thread.ended.max(1)).sum();
    let mut text =
        format!("{} on {}.", units::number_of(spans, "span"), units::number_of(threads, "thread"));
    let ends = || batch.records.iter().map(|kept| batch.time.nanoseconds(kept));
    let (first, last) = (ends().map(|[start, _]| start).min(), ends().map(|[_, end]| end).max());
    if let (Some(first), Some(last)) = (first, last) {
        text += &format!(
            " {} from {} to {}, in {}.",
            units::number_of(batch.records.len() as u64, "kept record"),
            slow_line::wall_clock(batch, first),
            slow_line::wall_clock(batch, last),
            units::time(last.saturating_sub(first))
        );
    }
    if batch.not_kept > 0 {
        text += &format!(" Not kept: {}.", units::number_of(batch.not_kept, "earlier record"));
    }
    text
}

/// Returns the report's table.
fn table(report: &Report) -> Table {
    let lines = || {
        let rows = report.rows.iter().chain(&report.all);
        rows.flat_map(|row| {
            lines(row, &report.thread_of(row, str::to_owned), &report.span_of(row, str::to_owned))
        })
    };
    let has_slots = lines().any(|line| line.slots.is_some());
    let columns = COLUMNS.into_iter().map(|(name, is_left)| (name, !is_left));
    let slots = SLOTS.into_iter().filter(|_| has_slots).map(|name| (name, true));
    let mut table = Table::new(columns.chain(slots).chain([("notes", false)]));
    for line in lines() {
        let slots = line.slots.unwrap_or_default().into_iter().filter(|_| has_slots);
        table.row(line.cells.into_iter().chain(slots).chain([line.note]));
    }
    table
}

/// Returns what the sections call a row.
fn name_of(report: &Report, row: &Row) -> String {
    let [span, thread] = [report.span_of(row, str::to_owned), report.thread_of(row, str::to_owned)];
    format!("{span} on {thread}")
}
