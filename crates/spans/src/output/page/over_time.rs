//! The times of outermost spans over the run.

use crate::batch::Batch;
use crate::collect::Kept;
use crate::output::slow_line;
use crate::units;
use rdpmc_report::page::{Axis, Chart, Page, Table};
use std::collections::HashMap;

/// The columns of a chart. Each has the range of the times of the spans that began in it.
const COLUMNS: u64 = 360;
/// The most charts: those of the spans with the most time.
const CHARTS: usize = 12;

/// The spans of a site on a thread.
struct Spans<'a> {
    columns: HashMap<u64, Column<'a>>,
    total: u64,
    first: &'a Kept,
}

struct Column<'a> {
    shortest: u64,
    longest: u64,
    /// The longest one.
    kept: &'a Kept,
    spans: u64,
}

/// Adds a chart for each outermost span.
pub(super) fn add(page: &mut Page, batch: &Batch) {
    let ends = |kept: &Kept| batch.time.nanoseconds(kept);
    let begin = batch.records.iter().map(|kept| ends(kept)[0]).min().unwrap_or(0);
    let end = batch.records.iter().map(|kept| ends(kept)[0]).max().unwrap_or(0);
    let seconds = |ns: u64| ns as f64 / 1e9;
    let width = (end - begin).div_ceil(COLUMNS).max(1);
    let mut all: HashMap<(u32, usize), Spans<'_>> = HashMap::new();
    for kept in batch.records.iter().filter(|kept| kept.raw.depth == 1) {
        let time = batch.time.conversion(&kept.thread).delta_ns(kept.raw.time());
        let key = (kept.thread.number, std::ptr::from_ref(kept.raw.site).addr());
        let spans = all.entry(key).or_insert_with(|| Spans {
            columns: HashMap::new(),
            total: 0,
            first: kept,
        });
        spans.total = spans.total.saturating_add(time);
        let column = (ends(kept)[0] - begin) / width;
        let column = spans.columns.entry(column).or_insert(Column {
            shortest: time,
            longest: time,
            kept,
            spans: 0,
        });
        column.spans += 1;
        column.shortest = column.shortest.min(time);
        if time > column.longest {
            (column.longest, column.kept) = (time, kept);
        }
    }
    if all.is_empty() {
        page.paragraph(
            "No records of outermost spans are kept. `Storage::Histograms` keeps none, and a trace that is written while the program runs takes them.",
        );
    }
    if batch.written > 0 {
        let written = units::number_of(batch.written, "record");
        page.paragraph(&format!("Not in these charts: {written}, written to a trace."));
    }
    let mut all: Vec<Spans<'_>> = all.into_values().collect();
    all.sort_by_key(|spans| (std::cmp::Reverse(spans.total), spans.first.raw.ticks));
    for (color, spans) in all.iter().take(CHARTS).enumerate() {
        let name = format!("{} on {}", spans.first.raw.site.name(), spans.first.thread.name);
        let time = Axis::log("time").whole().written(|ns| units::time(ns as u64));
        let when = Axis::linear("seconds since the recording began");
        let when = when.including([begin, end].map(seconds));
        let mut chart = Chart::new(&format!("Times of {name} over the run"), when, time);
        let mut table = Table::new([
            ("seconds", true),
            ("spans", true),
            ("minimum", true),
            ("maximum", true),
            ("longest span", false),
        ]);
        let mut columns: Vec<(&u64, &Column<'_>)> = spans.columns.iter().collect();
        columns.sort_by_key(|(place, _)| **place);
        for (place, column) in columns {
            let from = begin.saturating_add(place * width);
            let [at, _] = ends(column.kept);
            let longest = format!(
                "{}, {} at {}",
                slow_line::name(column.kept),
                units::time(column.longest),
                slow_line::wall_clock(batch, at)
            );
            let text = match column.spans {
                1 => longest,
                spans => format!("{spans} spans, the longest: {longest}"),
            };
            let times = [column.shortest, column.longest].map(|ns| ns as f64);
            let [shortest, most] = [column.shortest, column.longest].map(units::time);
            let cells = [format!("{:.6}", seconds(from)), column.spans.to_string(), shortest, most];
            table.row(cells.into_iter().chain([slow_line::name(column.kept)]));
            chart.bar(color, [seconds(from), seconds(from.saturating_add(width))], times, &text);
        }
        let is_of_these = |kept: &Kept| {
            kept.thread.number == spans.first.thread.number
                && std::ptr::eq(kept.raw.site, spans.first.raw.site)
        };
        for (place, tree) in
            batch.slow.iter().enumerate().filter(|(_, tree)| is_of_these(&tree.root))
        {
            let time = batch.time.conversion(&tree.root.thread).delta_ns(tree.root.raw.time());
            let (at, to) =
                ((seconds(ends(&tree.root)[0]), time as f64), format!("#slow-{}", place + 1));
            chart.dot(at, &format!("{}, {}", slow_line::name(&tree.root), units::time(time)), &to);
        }
        let has_slow = batch.slow.iter().any(|tree| is_of_these(&tree.root));
        let dots = if has_slow { " Dots are the slow spans above." } else { "" };
        page.paragraph(&format!(
            "{name}. Each bar has the minimum and maximum time of the spans that began in its part of the run.{dots}"
        ));
        page.push(&chart).folded(&format!("{name} over the run, as a table"), &[&table]);
    }
    if all.len() > CHARTS {
        let more = units::number_of((all.len() - CHARTS) as u64, "other outermost span");
        page.paragraph(&format!("Not shown: {more} with less time."));
    }
}
