//! What was recorded in an interval.

use crate::batch::Batch;
use crate::output::perfetto::Missing;
use crate::output::prometheus::Format;
use crate::output::{self, PerfettoTrace, Report, ThreadInfo};
#[cfg(doc)]
use crate::record::Flags;
use crate::recording::{Record, SlowSpan};
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// What was recorded between two calls of [`Spans::take`](crate::Spans::take): a report, records and slow spans, of the same
/// spans.
///
/// It owns them, so it can be sent to another thread, and the recording goes on.
#[derive(Clone)]
pub struct Interval {
    batch: Batch,
}

impl Interval {
    pub(super) fn new(batch: Batch) -> Interval {
        Interval { batch }
    }

    /// Adds a later interval of the same recording, so that each second can have a line of its own, and the whole run a page.
    ///
    /// At most as many records and slow spans are kept as of one interval: with `slowest(3)`, three of the whole run. The statistics
    /// are those of both. Add intervals in chronological order.
    ///
    /// ```
    /// use rdpmc_spans::{Settings, span};
    ///
    /// let mut spans = Settings::new().slowest(3).start()?;
    /// let mut run = spans.take();
    /// for second in 0..3 {
    ///     drop(span!("frame", second));
    ///     let interval = spans.take();
    ///     println!("{}", interval.line("frame"));
    ///     run.merge(&interval)?;
    /// }
    /// assert_eq!(run.report().rows[0].count, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`OtherRecording`] if the intervals are of two recordings. Then nothing is added.
    pub fn merge(&mut self, later: &Interval) -> Result<(), OtherRecording> {
        if !self.batch.is_of_recording_of(&later.batch) {
            return Err(OtherRecording(()));
        }
        self.batch.merge(&later.batch);
        Ok(())
    }

    /// Returns the table.
    pub fn report(&self) -> Report {
        Report::new(&self.batch)
    }

    /// Returns the records, in the order in which their spans ended: at most as many as
    /// [`Settings::keep`](crate::Settings::keep) tells. None with [`Storage::Histograms`](crate::Storage). Threads that may not
    /// read the tick counter have another clock, and an order of their own.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = Record<'_>> + ExactSizeIterator {
        self.batch.records.iter().map(|kept| Record { batch: &self.batch, kept })
    }

    /// Returns the slow spans that the settings ask for, the slowest first.
    pub fn slowest(&self) -> impl ExactSizeIterator<Item = SlowSpan<'_>> {
        self.batch.slow.iter().map(|tree| SlowSpan { batch: &self.batch, tree })
    }

    /// Returns the time from the beginning of the recording to that of the interval.
    pub fn start(&self) -> Duration {
        Duration::from_nanos(self.batch.begun)
    }

    /// Returns how long the interval is: to the look at the clock that ended it. [`Spans::take`](crate::Spans::take) may do without one for up to
    /// 10 ms.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.batch.time.latest().saturating_sub(self.batch.begun))
    }

    /// Returns what is known of the threads.
    pub fn threads(&self) -> Vec<ThreadInfo> {
        self.batch.threads.iter().map(|thread| ThreadInfo::new(thread, &self.batch.time)).collect()
    }

    /// Returns the number of spans without a record: see [`Report::lost`].
    pub fn lost(&self) -> u64 {
        self.batch.lost
    }

    /// Returns the number of records that [`records`](Interval::records) lacks: more than
    /// [`Settings::keep`](crate::Settings::keep). They are in the report. Those that
    /// [`Spans::write_perfetto`](crate::Spans::write_perfetto) has taken are not among these.
    pub fn not_kept(&self) -> u64 {
        self.batch.not_kept
    }

    /// Returns one line about the spans of a name on all threads, such as an overlay shows. It has their number, their
    /// median, 99th percentile and maximum, and why the slowest was slow.
    ///
    /// ```
    /// use rdpmc_spans::{Settings, span};
    ///
    /// let mut spans = Settings::new().slowest(1).start()?;
    /// drop(span!("frame"));
    /// println!("{}", spans.take().line("frame"));
    /// # Ok::<(), rdpmc_spans::StartError>(())
    /// ```
    pub fn line(&self, name: &str) -> String {
        output::one_line::line(&self.batch, name)
    }

    /// Writes the records as a trace in Chrome's JSON format, for <https://ui.perfetto.dev>, `chrome://tracing` and Tracy's
    /// `tracy-import-chrome`.
    ///
    /// Spans have their source locations, and their counts, numbers and flags as arguments. [Times](macro@crate::record) that the program recorded
    /// are asynchronous events, which Tracy's importer leaves out. Each thread has counter tracks: one shows the instructions
    /// per cycle, the others show each further event per 1,000 instructions. Only outermost spans are in these tracks.
    ///
    /// The trace's metadata has the number of records that were not kept, and of those that were dropped. Records that are
    /// [out of order](Flags::OUT_OF_ORDER) may overlap others on their track, and Perfetto may leave them out.
    ///
    /// # Errors
    /// Those of `to`, such as that of a full disk. What was written until then is not a complete trace. Without the feature
    /// `enabled`, there is no error: the trace is empty, and its metadata says so.
    pub fn write_trace(&self, to: impl Write) -> io::Result<()> {
        output::trace::write(&self.batch, self.batch.records.iter(), to)
    }

    /// As [`write_trace`](Interval::write_trace), to a file that it creates or replaces. If it fails, there is no file that
    /// looks like a trace, and an earlier one remains. Of a link, it replaces the file that the link leads to. A pipe, a device
    /// and `/dev/stdout` are written to. As always, writing to a pipe waits for its reader.
    ///
    /// # Errors
    /// As [`write_trace`](Interval::write_trace), and those of creating the file.
    pub fn save_trace(&self, path: impl AsRef<Path>) -> io::Result<()> {
        output::save(path.as_ref(), |to| self.write_trace(to))
    }

    /// As [`write_trace`](Interval::write_trace), with the [slow spans](Interval::slowest) alone: those inside them, and
    /// those of other threads that overlap them.
    ///
    /// # Errors
    /// As [`write_trace`](Interval::write_trace).
    pub fn write_slow_trace(&self, to: impl Write) -> io::Result<()> {
        output::trace::write(&self.batch, self.batch.slow_records().into_iter(), to)
    }

    /// As [`write_slow_trace`](Interval::write_slow_trace), to a file, as [`save_trace`](Interval::save_trace) writes it.
    ///
    /// # Errors
    /// As [`save_trace`](Interval::save_trace).
    pub fn save_slow_trace(&self, path: impl AsRef<Path>) -> io::Result<()> {
        output::save(path.as_ref(), |to| self.write_slow_trace(to))
    }

    /// Writes a page, as HTML in one file without scripts, which can be opened from disk, mailed and printed.
    ///
    /// The page has:
    /// - each slow span, with its cause and the longest spans during it, at most 200
    /// - the report's table
    /// - the times of outermost spans over the run, from the kept [records](Interval::records): at most 12 charts
    /// - the percentiles of each span
    ///
    /// ```
    /// use rdpmc_spans::{Settings, span};
    ///
    /// let mut spans = Settings::new().slowest(3).start()?;
    /// for frame in 0..100 {
    ///     let _frame = span!("frame", frame);
    /// }
    /// spans.take().save_html(std::env::temp_dir().join("frames.html"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Its size depends little on the number of records: times over the run are drawn as the range of each of 360 columns.
    ///
    /// # Errors
    /// As [`write_trace`](Interval::write_trace).
    pub fn write_html(&self, to: impl Write) -> io::Result<()> {
        output::page::write(&self.batch, to)
    }

    /// As [`write_html`](Interval::write_html), to a file, as [`save_trace`](Interval::save_trace) writes it.
    ///
    /// # Errors
    /// As [`save_trace`](Interval::save_trace).
    pub fn save_html(&self, path: impl AsRef<Path>) -> io::Result<()> {
        output::save(path.as_ref(), |to| self.write_html(to))
    }

    /// Writes the records as a trace in Perfetto's own format, which is much smaller than Chrome's: see [`PerfettoTrace`].
    ///
    /// # Errors
    /// As [`write_trace`](Interval::write_trace).
    pub fn write_perfetto(&self, to: impl Write) -> io::Result<()> {
        let mut trace = PerfettoTrace::new(to);
        self.append_perfetto(&mut trace)?;
        trace.finish().map(drop)
    }

    /// As [`write_perfetto`](Interval::write_perfetto), with the records of [`write_slow_trace`](Interval::write_slow_trace) alone. With
    /// [`Storage::Histograms`](crate::Storage), there are no others.
    ///
    /// # Errors
    /// As [`write_trace`](Interval::write_trace).
    pub fn write_slow_perfetto(&self, to: impl Write) -> io::Result<()> {
        let mut trace = PerfettoTrace::new(to);
        let records = self.batch.slow_records();
        trace.add(&self.batch, records.into_iter(), Missing::in_batch(&self.batch))?;
        trace.finish().map(drop)
    }

    /// As [`write_slow_perfetto`](Interval::write_slow_perfetto), to a file, as [`save_trace`](Interval::save_trace) writes it.
    ///
    /// # Errors
    /// As [`save_trace`](Interval::save_trace).
    pub fn save_slow_perfetto(&self, path: impl AsRef<Path>) -> io::Result<()> {
        output::save(path.as_ref(), |to| self.write_slow_perfetto(to))
    }

    /// As [`write_perfetto`](Interval::write_perfetto), to a file, as [`save_trace`](Interval::save_trace) writes it.
    ///
    /// # Errors
    /// As [`save_trace`](Interval::save_trace).
    pub fn save_perfetto(&self, path: impl AsRef<Path>) -> io::Result<()> {
        output::save(path.as_ref(), |to| self.write_perfetto(to))
    }

    /// Appends the interval's records to a trace. Append intervals in chronological order. Records that two intervals share, such as two
    /// [views](crate::Spans::view), appear twice.
    ///
    /// # Errors
    /// - Those of writing. The trace then lacks a part.
    /// - [`io::ErrorKind::InvalidInput`] if the trace has records of another recording, whose times begin at 0 as well.
    pub fn append_perfetto<W: Write>(&self, trace: &mut PerfettoTrace<W>) -> io::Result<()> {
        trace.add(&self.batch, self.batch.records.iter(), Missing::in_batch(&self.batch))
    }

    /// Writes the records as lines of JSON: one object for each, with `thread_number`, `thread`, `file`, `line`, `name`,
    /// `parent` (or null), `number` (or null), `start_ns` since the recording began, `ns`, the events' counts, and `flags`. Numbers
    /// and counts from 2^53 on are strings.
    ///
    /// # Errors
    /// As [`write_trace`](Interval::write_trace).
    pub fn write_json_lines(&self, to: impl Write) -> io::Result<()> {
        output::json::write_lines(&self.batch, to)
    }

    /// Writes the report as one JSON object: `rows` with the numbers of the table in nanoseconds, `all` with the sums of
    /// sites on several threads, `slowest`, `slow_not_kept`, `clock_step_ns`, `dropped` and `lost`. Without the feature `enabled`, it
    /// has a `note`. Numbers from 2^53 on are strings, because readers such as JavaScript and jq would change them.
    ///
    /// Each of `slowest` has the `line` of the report, `name`, `number`, `thread`, `thread_number`, `start_ns`, `ns` and `usual_ns`,
    /// and the parts of its [`Cause`](crate::Cause): `place`, `reasons`, `waited_for` and `not_kept`. A `place` has `name`, `number`,
    /// `thread`, `spans`, `usual_spans`, `is_root`, `is_own`, `ns` and `usual_ns`. A reason has `what`, such as `waited`, and `ns`, or
    /// `count` and `usual`. One of `waited_for` has `place`, `reasons` and `began_after_ns`.
    ///
    /// # Errors
    /// As [`write_trace`](Interval::write_trace).
    pub fn write_json(&self, to: impl Write) -> io::Result<()> {
        output::json::write_report(&self.batch, to)
    }

    /// Writes the spans in the text format of Prometheus (`text/plain; version=0.0.4`). A series has the spans of one name in one source
    /// file, on all threads of one name: the labels are `span`, `file` and `thread`. Threads without a name are `unnamed threads`. Of ended
    /// threads, 64 names are kept: those of further names move to `threads of other names`.
    ///
    /// | metric | what it is |
    /// |---|---|
    /// | `rdpmc_span_seconds` | the times, as a histogram. Those of several processes and machines can be added |
    /// | `rdpmc_span_quantile_seconds` | the quantiles of this process, from 50 to 99.99 %, and the maximum |
    /// | `rdpmc_span_events` | the counts of each `event`, as a summary. Of several processes, only sum and count can be added |
    /// | `rdpmc_spans_disturbed_total`, `_waited_total`, `_preempted_total`, `_interrupted_total` | how many spans, where it is known |
    /// | `rdpmc_spans_dropped_total`, `rdpmc_spans_lost_total` | spans without a record, on all threads |
    ///
    /// All histograms have the same 121 limits: four for each power of two, from 16 ns to 17 s. A quantile that Prometheus computes from
    /// them differs from the true one by at most a quarter. A value up to 1/128 above a limit may be counted below it.
    ///
    /// Scrapers expect sums that grow. Write [`Spans::view`](crate::Spans::view), or [merge](Interval::merge) each interval that the
    /// program takes into one of the whole run, and write that one. The example `scraped` does so.
    ///
    /// # Errors
    /// As [`write_trace`](Interval::write_trace).
    pub fn write_prometheus(&self, to: impl Write) -> io::Result<()> {
        output::prometheus::write(&self.batch, Format::Prometheus, to)
    }

    /// Writes the same as [`write_prometheus`](Interval::write_prometheus) in the format of OpenMetrics
    /// (`application/openmetrics-text; version=1.0.0`).
    ///
    /// # Errors
    /// As [`write_trace`](Interval::write_trace).
    pub fn write_openmetrics(&self, to: impl Write) -> io::Result<()> {
        output::prometheus::write(&self.batch, Format::OpenMetrics, to)
    }

    /// Appends the interval to a log in the format of HdrHistogram, version 2: a line for each name, with the times of all its spans in nanoseconds.
    /// The tag is the name, with `_` in place of spaces and commas. Append the intervals to one file. No header is needed. Needs the
    /// feature `hdrhistogram`.
    ///
    /// # Errors
    /// As [`write_trace`](Interval::write_trace).
    #[cfg(feature = "hdrhistogram")]
    pub fn write_hdr_log(&self, to: impl Write) -> io::Result<()> {
        output::hdr_log::write(&self.batch, self.duration(), to)
    }

    /// Writes the [slow spans](Interval::slowest) for OpenTelemetry, the slowest first: a request of OTLP, as protobuf. Send it by HTTP to
    /// `/v1/traces` of a collector, with the content type `application/x-protobuf`. `service` is the `service.name` of the resource. Needs the
    /// feature `otlp`.
    ///
    /// A slow span is a trace of its own, in which the spans inside it have the spans around them as parents. The attributes are the source
    /// location, the thread, the number, the flags, the counts, and the [cause](crate::SlowSpan::cause) of the slow one. The whole time of a future has no
    /// spans inside. Times are those of the wall clock.
    /// Identifiers are random, so what is written twice is shown twice.
    ///
    /// # Errors
    /// As [`write_trace`](Interval::write_trace).
    #[cfg(feature = "otlp")]
    pub fn write_otlp(&self, service: &str, to: impl Write) -> io::Result<()> {
        output::otlp::write(&self.batch, service, to)
    }
}

/// Why an interval cannot be added to another one: they are of two recordings, whose times begin at 0 each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherRecording(());

impl fmt::Display for OtherRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the intervals are of two recordings. Merge intervals of one recording")
    }
}

impl std::error::Error for OtherRecording {}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("records", &self.batch.records.len())
            .finish_non_exhaustive()
    }
}
