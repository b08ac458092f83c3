//! The report of an interval.

use crate::batch::Batch;
use crate::cause::Usual;
use crate::output::row::of_several_threads;
use crate::output::slow_line;
use crate::output::table::{lines, table};
use crate::output::{Row, ThreadInfo};
use crate::units;
use rdpmc::clock::ClockKind;
use std::fmt;
use std::ptr;
use std::time::Duration;

/// What was recorded, by thread and site: from [`Interval::report`](crate::Interval::report). Printing it prints the table, the
/// slow spans and the notes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The threads, in the order of their first spans. Ended threads of one name are one entry.
    pub threads: Vec<ThreadInfo>,
    /// A row for each site of each thread.
    pub rows: Vec<Row>,
    /// A row for each site with spans on several threads, with the sums.
    pub all: Vec<Row>,
    /// The source of the times.
    pub clock: ClockKind,
    /// The maximum error of the times, relative to CLOCK_MONOTONIC_RAW: see [`rdpmc::Clock::error_bound`]. None if it is
    /// unknown.
    pub clock_error: Option<Duration>,
    /// The step of the clock: see [`rdpmc::Clock::step`]. A single time is a multiple of it. 0 for steps below a nanosecond.
    pub clock_step: Duration,
    /// The number of spans and laps that were lost, other than by a full ring:
    /// - Their thread was starting or ending, or had no clock.
    /// - They were in a signal handler or in an allocator that interrupted the recording of another span.
    /// - Their recording had ended.
    /// - They ended out of order, after a later span had taken their memory.
    /// - They ended while their [`Fiber`](crate::Fiber) was out, or in another recording.
    /// - [Recorded times](macro@crate::record): an end is of a thread with another clock, or they are longer than years. Whole times of futures: a poll is.
    pub lost: u64,
    /// The number of slow spans that are not kept. They are in the rows.
    /// - Those over their limits, beyond the longest 1,000.
    /// - With [`Storage::Histograms`](crate::Storage), outermost spans that were slow, or had slow ones inside, and found the
    ///   ring of slow spans full. Call [`Spans::collect`](crate::Spans::collect) more often to keep them.
    /// - With this storage, those of ended threads beyond 16,384 records.
    pub slow_not_kept: u64,
    pub(super) slowest: Vec<String>,
    pub(super) not_contained: Option<String>,
    /// Names in the settings that no span has.
    pub(super) unknown_names: Vec<String>,
}

impl Report {
    pub(crate) fn new(batch: &Batch) -> Report {
        let usual = Usual::new(batch);
        let rows = batch.threads.iter().flat_map(|thread| {
            thread.sites.iter().map(move |stats| Row::new(thread, stats, &batch.time))
        });
        Report {
            rows: rows.collect(),
            all: of_several_threads(batch),
            threads: batch
                .threads
                .iter()
                .map(|thread| ThreadInfo::new(thread, &batch.time))
                .collect(),
            clock: batch.time.kind.clone(),
            clock_error: batch.time.error,
            clock_step: batch.time.step,
            lost: batch.lost,
            slowest: batch.slow.iter().map(|tree| slow_line::line(&usual, tree)).collect(),
            slow_not_kept: batch.slow_not_kept,
            not_contained: batch.not_contained.clone(),
            unknown_names: batch.unknown_names(),
        }
    }

    /// Returns a line for each slow span, the slowest first: its time, its number, and why it was slow.
    pub fn slowest(&self) -> &[String] {
        &self.slowest
    }

    /// Returns the table alone, for programs that print one often.
    pub fn table(&self) -> String {
        let lines = self.rows.iter().chain(&self.all).flat_map(|row| {
            lines(row, &self.thread_of(row, units::cell), &self.span_of(row, units::cell))
        });
        table(&lines.collect::<Vec<_>>())
    }

    /// Returns the name of a row's thread, as it is `written`, with its number if another has the same name.
    pub(super) fn thread_of(&self, row: &Row, written: fn(&str) -> String) -> String {
        let name = written(&row.thread_name);
        let same = self.threads.iter().filter(|other| other.name == row.thread_name).count();
        match row.thread {
            Some(number) if same > 1 => format!("{name} ({number})"),
            None if same > 1 => format!("{name} (ended)"),
            _ => name,
        }
    }

    /// Returns a span's name, as it is `written`, with its source location if spans of another location have the same name.
    pub(super) fn span_of(&self, row: &Row, written: fn(&str) -> String) -> String {
        let name = written(row.name);
        let is_same = |other: &Row| other.name == row.name && !ptr::eq(other.site, row.site);
        match self.rows.iter().any(is_same) {
            false => name,
            true => format!("{name} ({}:{})", written(row.site.file()), row.site.line()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table())?;
        if !self.slowest.is_empty() {
            writeln!(f, "\nThe slowest:")?;
        }
        for (place, line) in self.slowest.iter().enumerate() {
            writeln!(f, "{}. {line}", place + 1)?;
        }
        writeln!(f)?;
        self.notes().iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}
