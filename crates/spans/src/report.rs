//! The table of a recording.

use crate::Site;
use crate::histogram::Distribution;
use crate::record::{Flags, MAX_DEPTH};
use crate::spans::{Spans, ThreadInfo, Timeline};
use crate::stats::SiteStats;
use rdpmc::Event;
use rdpmc::clock::{ClockKind, Conversion};
use std::fmt;
use std::ptr;
use std::time::Duration;

/// What was recorded, by thread and site: from [`Spans::report`]. Printing it prints a table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The threads, in the order of their first spans.
    pub threads: Vec<ThreadInfo>,
    /// A row for each site of each thread.
    pub rows: Vec<Row>,
    /// The source of the times.
    pub clock: ClockKind,
    /// The maximum error of the times, relative to CLOCK_MONOTONIC_RAW: see [`rdpmc::Clock::error_bound`]. None if it is
    /// unknown.
    pub clock_error: Option<Duration>,
    /// The number of spans that were lost, other than by a full ring:
    /// - Their thread was starting or ending, or had no clock.
    /// - Their recording had ended.
    /// - They ended out of order, after a later span had taken their memory.
    pub lost: u64,
    not_contained: Option<String>,
}

/// The spans of one site on one thread.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Row {
    /// The thread's number.
    pub thread: u32,
    /// The name of the site.
    pub name: &'static str,
    /// The source location.
    pub site: &'static Site,
    /// The number of spans.
    pub count: u64,
    /// How many of them the kernel disturbed: see [`Flags::DISTURBED`]. They are in all other figures, too.
    pub disturbed: u64,
    /// How many of them have no counts, although events were counted: see [`Flags::NOT_COUNTED`].
    pub not_counted: u64,
    /// How many of them were interrupted: see [`Flags::INTERRUPTED`].
    pub interrupted: u64,
    /// How many of them have counts that are too low: see [`Flags::MULTIPLEXED`].
    pub multiplexed: u64,
    /// How many of them ended out of order: see [`Flags::OUT_OF_ORDER`].
    pub out_of_order: u64,
    /// The sum of their times.
    pub total: Duration,
    /// `total` without the time of the spans inside them. Laps are not subtracted. For laps, it is `total`.
    pub own: Duration,
    /// The times, in nanoseconds.
    pub time: Percentiles,
    /// The times of the disturbed ones alone. 0 if there are none.
    pub time_disturbed: Percentiles,
    /// The counts of each event, and their sum. Those without counts are left out.
    pub counts: Vec<(Event, Percentiles, u64)>,
}

/// A distribution of times or counts. Percentiles of counts below 256 are exact, others too high by less than 1 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Percentiles {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The 99.9th percentile.
    pub p999: u64,
    /// The maximum. Exact, except of histograms that were cleared.
    pub max: u64,
}

impl Percentiles {
    fn of(distribution: &Distribution) -> Percentiles {
        Percentiles {
            p50: distribution.quantile(0.5),
            p99: distribution.quantile(0.99),
            p999: distribution.quantile(0.999),
            max: distribution.max(),
        }
    }

    fn map(self, each: impl Fn(u64) -> u64) -> Percentiles {
        let Percentiles { p50, p99, p999, max } = self;
        Percentiles { p50: each(p50), p99: each(p99), p999: each(p999), max: each(max) }
    }
}

impl Row {
    /// Returns the sum of an event's counts. None if it was not counted.
    pub fn sum(&self, event: Event) -> Option<u64> {
        self.counts.iter().find(|(counted, ..)| *counted == event).map(|(.., sum)| *sum)
    }

    /// Returns the instructions per cycle. None if they, or cycles, were not counted.
    pub fn ipc(&self) -> Option<f64> {
        let [instructions, cycles] = [self.sum(Event::INSTRUCTIONS)?, self.sum(Event::CYCLES)?];
        (cycles > 0).then(|| instructions as f64 / cycles as f64)
    }

    /// Returns how often an event happened in 1,000 instructions. None if it, or instructions, were not counted.
    pub fn per_thousand(&self, event: Event) -> Option<f64> {
        let [count, instructions] = [self.sum(event)?, self.sum(Event::INSTRUCTIONS)?];
        (instructions > 0).then(|| count as f64 * 1000.0 / instructions as f64)
    }

    fn of(thread: u32, stats: &SiteStats, events: &[Event], conversion: &Conversion) -> Row {
        let mut distributions = stats.distributions.iter().map(Percentiles::of);
        let ns = |ticks: Percentiles| ticks.map(|ticks| conversion.delta_ns(ticks));
        let time = ns(distributions.next().unwrap_or_default());
        let counts = events.iter().zip(distributions).zip(stats.counts);
        let not_counted = stats.with(Flags::NOT_COUNTED);
        Row {
            thread,
            name: stats.site.name(),
            site: stats.site,
            count: stats.count,
            disturbed: stats.with(Flags::DISTURBED),
            not_counted,
            interrupted: stats.with(Flags::INTERRUPTED),
            multiplexed: stats.with(Flags::MULTIPLEXED),
            out_of_order: stats.with(Flags::OUT_OF_ORDER),
            total: conversion.duration(stats.ticks),
            own: conversion.duration(stats.ticks.saturating_sub(stats.of_children)),
            time,
            time_disturbed: ns(Percentiles::of(&stats.disturbed)),
            counts: match stats.count > not_counted {
                true => counts.map(|((event, all), sum)| (*event, all, sum)).collect(),
                false => Vec::new(),
            },
        }
    }
}

impl Report {
    pub(crate) fn new(spans: &Spans) -> Report {
        let time: &Timeline = spans.time();
        let threads = spans.all_threads();
        let rows = threads.iter().flat_map(|thread| {
            let (info, conversion) = (thread.info(time), thread.conversion(time));
            thread
                .sites()
                .into_iter()
                .map(move |stats| Row::of(info.number, &stats, &info.events, &conversion))
        });
        Report {
            rows: rows.collect(),
            threads: spans.threads(),
            clock: time.kind.clone(),
            clock_error: time.error,
            lost: spans.lost(),
            not_contained: spans.not_contained.clone(),
        }
    }
}

impl Report {
    /// Returns a thread's name, with its number if another has the same name.
    fn name_of(&self, thread: &ThreadInfo) -> String {
        let name = cell(&thread.name);
        match self.threads.iter().filter(|other| other.name == thread.name).count() {
            ..=1 => name,
            _ => format!("{name} ({})", thread.number),
        }
    }

    /// Returns a span's name, with its source location if spans of another location have the same name.
    fn name_of_span(&self, row: &Row) -> String {
        let name = cell(row.name);
        let is_same = |other: &Row| other.name == row.name && !ptr::eq(other.site, row.site);
        match self.rows.iter().any(is_same) {
            false => name,
            true => format!("{name} ({}:{})", cell(row.site.file()), row.site.line()),
        }
    }
}

/// Writes a name without control characters, and without what would end a cell.
fn cell(name: &str) -> String {
    let escaped: String = name.chars().flat_map(char::escape_debug).collect();
    escaped.replace("\\'", "'").replace("\\\"", "\"").replace('|', "\\|")
}

/// The columns of the table, and whether they are aligned to the left. The notes follow.
const COLUMNS: [(&str, bool); 8] = [
    ("thread", true),
    ("span", true),
    ("count", false),
    ("unit", true),
    ("50 %", false),
    ("99 %", false),
    ("99.9 %", false),
    ("maximum", false),
];

/// Writes the table in Markdown, with columns as wide as their widest cell.
fn write_table(f: &mut fmt::Formatter<'_>, lines: &[([String; 8], String)]) -> fmt::Result {
    let mut widths = COLUMNS.map(|(name, _)| name.len());
    for (cells, _) in lines {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for ((name, is_left), width) in COLUMNS.iter().zip(widths) {
        match is_left {
            true => write!(f, "| {name:width$} ")?,
            false => write!(f, "| {name:>width$} ")?,
        }
    }
    writeln!(f, "| notes")?;
    for ((_, is_left), width) in COLUMNS.iter().zip(widths) {
        match is_left {
            true => write!(f, "|:{:-<width$}-", "")?,
            false => write!(f, "|-{:-<width$}:", "")?,
        }
    }
    writeln!(f, "|:-")?;
    for (cells, note) in lines {
        for ((cell, (_, is_left)), width) in cells.iter().zip(COLUMNS).zip(widths) {
            match is_left {
                true => write!(f, "| {cell:width$} ")?,
                false => write!(f, "| {cell:>width$} ")?,
            }
        }
        writeln!(f, "| {note}")?;
    }
    Ok(())
}

impl Row {
    /// Returns the lines of the table, with the names of the thread and the span.
    fn lines(&self, thread: &str, span: &str) -> Vec<([String; 8], String)> {
        let line = |count: String, unit: String, all: &Percentiles, note: String| {
            let [p50, p99, p999, max] =
                [all.p50, all.p99, all.p999, all.max].map(|n| n.to_string());
            ([thread.to_string(), span.to_string(), count, unit, p50, p99, p999, max], note)
        };
        let mut lines = vec![line(self.count.to_string(), "ns".into(), &self.time, self.note())];
        if self.disturbed > 0 {
            let note = "of these: disturbed".to_string();
            lines.push(line(self.disturbed.to_string(), "ns".into(), &self.time_disturbed, note));
        }
        for (event, all, _) in &self.counts {
            let note = match *event {
                Event::CYCLES => self.ipc().map(|ipc| format!("{ipc:.2} instructions per cycle")),
                Event::INSTRUCTIONS => None,
                event => {
                    let rate = self.per_thousand(event);
                    rate.map(|rate| format!("{rate:.3} per 1,000 instructions"))
                }
            };
            lines.push(line(String::new(), event.to_string(), all, note.unwrap_or_default()));
        }
        lines
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.rows.iter().flat_map(|row| {
            let thread = self.threads.iter().find(|thread| thread.number == row.thread);
            let thread = thread.map_or(String::new(), |thread| self.name_of(thread));
            row.lines(&thread, &self.name_of_span(row))
        });
        write_table(f, &lines.collect::<Vec<_>>())?;
        writeln!(f)?;
        let range = |of: fn(&ThreadInfo) -> Duration| {
            let times = self.threads.iter().map(|thread| of(thread).as_nanos());
            let (least, most) = (times.clone().min()?, times.max()?);
            Some(if least == most { least.to_string() } else { format!("{least} to {most}") })
        };
        let [span, lap] = [range(|thread| thread.empty_span), range(|thread| thread.empty_lap)];
        if let (Some(span), Some(lap)) = (span, lap) {
            writeln!(f, "Times include the recording: {span} ns for a span, {lap} ns for a lap.")?;
        }
        // The threads often have the same notes.
        let mut notes: Vec<(String, Vec<String>)> = Vec::new();
        for thread in &self.threads {
            for note in thread.notes() {
                match notes.iter_mut().find(|(known, _)| *known == note) {
                    Some((_, threads)) => threads.push(self.name_of(thread)),
                    None => notes.push((note, vec![self.name_of(thread)])),
                }
            }
        }
        for (note, threads) in &notes {
            writeln!(f, "{}: {note}", threads.join(", "))?;
        }
        if self.lost > 0 {
            writeln!(f, "{} spans were lost: see `Report::lost`.", self.lost)?;
        }
        if let Some(why) = &self.not_contained {
            writeln!(f, "A counter read that faults would end the process: {why}.")?;
        }
        writeln!(f, "The time comes from {}.", self.clock)?;
        match self.clock_error {
            Some(error) => writeln!(f, "Its error is at most {} ns.", error.as_nanos()),
            None => Ok(()),
        }
    }
}

impl Row {
    /// Returns total and own time, and how many spans have which flag.
    fn note(&self) -> String {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        let mut note = format!(
            "total {:.3} ms, own {:.3} ms",
            milliseconds(self.total),
            milliseconds(self.own)
        );
        let flags = [
            (self.disturbed, "disturbed"),
            (self.interrupted, "interrupted"),
            (self.not_counted, "not counted"),
            (self.multiplexed, "multiplexed"),
            (self.out_of_order, "out of order"),
        ];
        for (count, flag) in flags.into_iter().filter(|(count, _)| *count > 0) {
            note.push_str(&format!(", {count} {flag}"));
        }
        note
    }
}

impl ThreadInfo {
    /// Returns what is to be known of this thread's figures, one sentence or two each.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        notes.extend(self.time_only.as_ref().map(|why| format!("Time only: {why}.")));
        let empty = &self.empty_span_counts;
        let constant =
            empty.iter().filter_map(|(event, count)| Some(format!("{} {event}", (*count)?)));
        let constant = constant.collect::<Vec<_>>().join(", ");
        let varying = empty.iter().filter(|(_, count)| count.is_none());
        let varying = varying.map(|(event, _)| event.to_string()).collect::<Vec<_>>().join(", ");
        notes.extend((!constant.is_empty()).then(|| match self.is_in_histograms {
            false => format!("The counts of an empty span are subtracted: {constant}."),
            true => format!("The counts include those of an empty span: {constant}."),
        }));
        notes.extend((!varying.is_empty()).then(|| {
            format!("The cost of an empty span in {varying} varies, and is not subtracted.")
        }));
        notes.extend(self.missing.iter().map(|(event, why)| format!("Without {event}: {why}.")));
        if self.time_only.is_none() {
            notes.extend(self.unknown.iter().map(|why| format!("Not counted: {why}.")));
        }
        if self.counts_all_privilege_levels {
            notes.push("The counts include the kernel's.".to_string());
        }
        if self.dropped > 0 {
            let dropped = self.dropped;
            notes.push(format!(
                "{dropped} records were dropped: the ring was full, or more than {MAX_DEPTH} spans were open. Collect more often, or use a larger ring."
            ));
        }
        notes
    }
}
