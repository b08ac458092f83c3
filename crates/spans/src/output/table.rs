//! The table of a report, in Markdown.

use crate::output::{Counts, Percentiles, Row};
use crate::units;
use rdpmc::Event;

/// The columns, and whether they are aligned to the left. The notes follow.
pub(super) const COLUMNS: [(&str, bool); 9] = [
    ("thread", true),
    ("span", true),
    ("count", false),
    ("of", true),
    ("mean", false),
    ("50 %", false),
    ("99 %", false),
    ("99.9 %", false),
    ("maximum", false),
];

/// A line: a cell for each column, the four parts of the pipeline slots if they were counted, and the note.
pub(super) struct Line {
    pub(super) cells: [String; COLUMNS.len()],
    pub(super) slots: Option<[String; 4]>,
    pub(super) note: String,
}

/// The columns of the parts of the slots, if a line has them.
pub(super) const SLOTS: [&str; 4] =
    ["retiring", "bad speculation", "frontend bound", "backend bound"];

/// Returns the table, with columns as wide as their widest cell.
pub(super) fn table(lines: &[Line]) -> String {
    let has_slots = lines.iter().any(|line| line.slots.is_some());
    let slots = SLOTS.map(|name| (name, false)).into_iter().filter(|_| has_slots);
    let columns: Vec<(&str, bool)> = COLUMNS.into_iter().chain(slots).collect();
    let cells = |line: &Line| -> Vec<String> {
        let slots = line.slots.clone().unwrap_or_default();
        line.cells.iter().cloned().chain(slots.into_iter().filter(|_| has_slots)).collect()
    };
    let mut widths: Vec<usize> = columns.iter().map(|(name, _)| name.len()).collect();
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(cells(line)) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let text = |cells: &[String], note: &str| {
        let mut line = String::new();
        for ((cell, (_, is_left)), width) in cells.iter().zip(&columns).zip(&widths) {
            line += &match is_left {
                true => format!("| {cell:width$} "),
                false => format!("| {cell:>width$} "),
            };
        }
        format!("{line}| {note}").trim_end().to_string() + "\n"
    };
    let heads: Vec<String> = columns.iter().map(|(name, _)| name.to_string()).collect();
    let mut table = text(&heads, "notes");
    for ((_, is_left), width) in columns.iter().zip(&widths) {
        table += &match is_left {
            true => format!("|:{:-<width$}-", ""),
            false => format!("|-{:-<width$}:", ""),
        };
    }
    table += "|:-\n";
    for line in lines {
        table += &text(&cells(line), &line.note);
    }
    table
}

/// Returns the lines of a row, with the names of the thread and the span.
pub(super) fn lines(row: &Row, thread: &str, span: &str) -> Vec<Line> {
    let line =
        |[count, of, mean]: [String; 3], all: &Percentiles, unit: fn(u64) -> String, note| {
            let [p50, p99, p999, max] = [all.p50, all.p99, all.p999, all.max].map(unit);
            let cells =
                [thread.to_string(), span.to_string(), count, of, mean, p50, p99, p999, max];
            Line { cells, slots: None, note }
        };
    let time = |count: u64, of: &str, mean: String, all: &Percentiles, note: String| {
        line([count.to_string(), of.to_string(), mean], all, units::time, note)
    };
    let percent = |fraction: f64| format!("{:.1} %", (fraction * 1_000.0).round() / 10.0 + 0.0);
    let slots = row.level1.map(|level1| level1.parts().map(|(_, part)| percent(part.fraction)));
    let mut lines = vec![Line {
        slots,
        ..time(row.count, "time", units::duration(row.mean()), &row.time, note(row))
    }];
    let disturbed = row.disturbed.unwrap_or(0);
    if let Some(clean) = row.time_clean.filter(|_| disturbed > 0 && disturbed < row.count) {
        let count = row.count.saturating_sub(disturbed);
        lines.push(time(count, "time, not disturbed", String::new(), &clean, String::new()));
    }
    for counts in &row.counts {
        let Counts { event, percentiles, .. } = counts;
        let note = match *event {
            Event::CYCLES => row.ipc().map(|ipc| format!("{ipc:.2} instructions per cycle")),
            Event::INSTRUCTIONS => None,
            event => {
                let rate = row.per_thousand(event);
                rate.map(|rate| format!("{rate:.3} per 1,000 instructions"))
            }
        };
        let note = note.unwrap_or_default();
        let mean = counts.mean().map(|mean| units::count(mean.round() as u64)).unwrap_or_default();
        lines.push(line([String::new(), event.to_string(), mean], percentiles, units::count, note));
    }
    lines
}

/// Returns total and own time, and how many spans have which flag.
fn note(row: &Row) -> String {
    let mut note = format!("total {}", units::duration(row.total));
    if row.own != row.total {
        note += &format!(", own {}", units::duration(row.own));
    }
    match row.disturbed {
        None if row.is_recorded_time => {}
        None => note += ", disturbed -",
        Some(0) => {}
        Some(disturbed) => note += &format!(", {disturbed} disturbed"),
    }
    if let Some((busy, polls)) = row.busy.zip(row.polls) {
        note += &format!(", {} in {}", units::duration(busy), units::number_of(polls, "poll"));
    }
    let flags = [
        (row.waited.unwrap_or(0), "waited"),
        (row.preempted.unwrap_or(0), "preempted"),
        (row.interrupted.unwrap_or(0), "interrupted"),
        (row.not_counted, "not counted"),
        (row.multiplexed, "multiplexed"),
        (row.out_of_order, "out of order"),
    ];
    for (count, flag) in flags.into_iter().filter(|(count, _)| *count > 0) {
        note += &format!(", {count} {flag}");
    }
    if let Some(off_cpu) = row.off_cpu.filter(|off_cpu| !off_cpu.is_zero()) {
        note += &format!(", {} off the CPU", units::duration(off_cpu));
        if let Some(runnable) = row.runnable.filter(|runnable| !runnable.is_zero()) {
            note += &format!(" ({} of it ready to run)", units::duration(runnable));
        }
    }
    if let Some((what, level1)) = row.level1.and_then(|it| Some((it.rest_is()?, it))) {
        note += &format!(", {:.1} % of the slots {what}", level1.rest * 100.0);
    }
    if let Some(why) = row.level1.and_then(|level1| level1.disagreement()) {
        note += &format!(", top-down counts disagree: {why}");
    }
    if let Some((above, disturbed)) = row.slowest_disturbed.filter(|(above, _)| *above > 0) {
        note += &format!(", {disturbed} of {above} above 99.9 % disturbed or interrupted");
    }
    note
}
