//! Spans with hardware performance counters, for programs that run all day: games, servers, trading engines.
//!
//! A span is a named section of execution. It records the duration and the counts of up to eight events. Spans nest. A lap
//! is a stage of a loop, with one read at each boundary. After a thread's first span, neither makes a system call, allocates,
//! locks or waits. Exceptions: histograms allocate at the first spans of each site, a [`Fiber`] allocates for its spans, a clock that is the
//! kernel's and conversions to a [`Moment`] call `clock_gettime`, [`Settings::causes`] makes system calls after
//! a context switch, and [`Settings::faults`] around the spans that it names.
//!
//! ```
//! use rdpmc_spans::{Settings, span};
//!
//! let mut spans = Settings::new().events(&["cycles", "instructions"]).slowest(1).start()?;
//! for frame in 0..3 {
//!     let _frame = span!("frame", frame);
//!     {
//!         let _span = span!("physics");
//!     }
//!     let _span = span!("render");
//! }
//! let interval = spans.take();
//! println!("{}", interval.report());
//! interval.write_trace(std::io::sink())?; // or `save_trace`, for https://ui.perfetto.dev
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **Between threads.** [`record!`](macro@record) records times that begin on another thread, [`polled!`] the whole times of futures.
//!   A [`Fiber`] takes its open spans to another thread.
//! - **Threads.** Each thread opens its own clock and counters at its first span, or in [`register_thread`], and records
//!   into a ring of its own. [`Spans::collect`] empties the rings from any thread. If the ring is full, the
//!   record is dropped. The report states how many were.
//! - **Intervals.** [`Spans::take`] returns an [`Interval`]: the report, the records and the slow spans since the last call.
//! - **Flags.** With counters or [`Settings::causes`], a span that the kernel disturbed by a context switch is kept and flagged,
//!   because it is the slow one that matters. Flags also mark spans that waited, were preempted, were interrupted (if
//!   `instructions:k` is among the events), not counted, or ended out of order: see [`Flags`].
//! - **Slow spans.** [`Settings::slowest`] and [`Settings::slow`] keep what ran during them, and [`SlowSpan::cause`] tells why they
//!   were slow: where the time went, what happened there, and for what it waited.
//! - **Without counters**, spans have the time alone, and the report has the reason: there is no PMU, events may not be
//!   opened, user space may not read them, or a hypervisor traps the reads. See [`TimeOnlyReason`] and [`Counters`].
//! - **Its own cost.** An empty span is measured when a thread records its first one. Where it is
//!   steady, it is subtracted from the counts, and so is that of the spans and numbers inside. Times include the cost, and the report states its mean.
//! - **`tracing`.** The feature `tracing` adds `TracingLayer`, which records the spans of the crate `tracing`.
//! - **Off.** Without a recording, or after `set_enabled(false)`, a span costs one load and one branch. Without the feature
//!   `enabled`, spans and laps generate no code, and nothing is recorded.
//!
//! # Limits
//!
//! A span belongs to the thread that began it, but for those of a [`Fiber`]. In a signal handler or an allocator, a span is lost, and counted, if it interrupts
//! the recording of another one. A handler must not record the first span of its thread in
//! a new recording: that replaces memory which the interrupted code may be using. In the child of a fork,
//! the thread's spans go on without counts, and the copy of [`Spans`] reads the child's records. At most 511 spans can be open on
//! a thread. More are counted as dropped. After 65,536 of these while none ends, the
//! open ones are given up and counted as lost.
//!
//! Code with spans may be unloaded (`dlclose`). Call [`Spans::collect`] first: it keeps the shared object of each span that it sees
//! loaded. Otherwise, the spans since the last collect are listed as `code that may have been unloaded`. So are spans of other shared
//! objects whose first collect is one of the next two, and, in the child of a fork, those of objects that the parent has not seen. A
//! plugin that is a `cdylib` has a copy of this library, and no recording: see [`is_enabled`].
#![deny(unsafe_code)]

// The folders by floor, from the ground up. A folder uses those on lower floors: `tests/repository/layers.rs` of the repository checks it.
//
// record         what is recorded of a span: its site, its flags, its words
// units          times, counts and names as a person reads them
// distribution   values in buckets
// statistics     the spans of a site
// counting       what spans count with: counters, context switches
// sink           where a finished span goes: a ring or histograms
// thread         the open spans of a thread, and the hot paths
// collect        what a thread has recorded, for the side that reads
// session        the threads of a recording: on, off, join, leave
// batch          an interval of all threads, and its slow spans
// cause          why a slow span was slow
// output         reports, traces, other formats
// recording      settings, collector, interval
// instrument     guards, laps, moments, futures, fibers, the layer for tracing

mod batch;
mod cause;
mod collect;
mod counting;
mod distribution;
mod instrument;
mod output;
mod record;
mod recording;
mod session;
mod sink;
mod statistics;
mod thread;
mod units;

pub use cause::{Cause, Holder, Place, Reason};
pub use counting::{Counters, TimeOnlyReason};
pub use distribution::{Distribution, DistributionError};
#[cfg(feature = "tracing")]
pub use instrument::TracingLayer;
pub use instrument::{
    EnteredFiber, Fiber, Laps, Moment, NumberedSpan, Polled, Span, SpanSince, Stage, Times,
    record_time,
};
pub use output::{Counts, Percentiles, PerfettoTrace, Report, Row, ThreadInfo};
pub use record::{Flags, MAX_EVENTS, Site};
pub use recording::{Interval, OtherRecording, Record, Settings, SlowSpan, Spans, StartError};
pub use session::{Storage, is_enabled, register_thread, register_thread_with, set_enabled};

/// The crate of the counters, whose types are in this interface: `Event`, `Clock` and errors.
pub use rdpmc;

#[cfg(test)]
mod tests;

/// The README's example is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Begins a span that ends when the result is dropped.
///
/// ```
/// use rdpmc_spans::span;
///
/// fn step() {
///     let _span = span!("physics");
///     // ...
/// }
/// # step();
/// ```
///
/// The name is a constant expression of type `&'static str`. For names that are known at run time, use a number, or
/// `TracingLayer::names_from`. A span nests in the spans that are open on its thread.
///
/// A second argument, of type `u64`, is a number of the program's, which traces, records and slow spans have:
///
/// ```
/// # use rdpmc_spans::span;
/// for frame in 0..3 {
///     let _frame = span!("frame", frame);
/// }
/// ```
///
/// With `since`, it is no span but a [recorded time](macro@crate::record): it has no counts and nests in nothing. It begins at a [`Moment`], an
/// [`Instant`](std::time::Instant) or a [`SystemTime`](std::time::SystemTime), and ends when the result is dropped, on any thread:
///
/// ```
/// # use rdpmc_spans::{Moment, span};
/// let (sent, id) = (Moment::now(), 17); // on the thread that sends
/// std::thread::spawn(move || {
///     let _whole = span!("tick to trade", id, since = sent); // or without a number
///     // ...
/// });
/// ```
#[macro_export]
macro_rules! span {
    ($name:expr, since = $since:expr $(,)?) => {{
        static SITE: $crate::Site = $crate::Site::new($name, file!(), line!());
        $crate::SpanSince::new(&SITE, $since, None)
    }};
    ($name:expr, $number:expr, since = $since:expr $(,)?) => {{
        static SITE: $crate::Site = $crate::Site::new($name, file!(), line!());
        $crate::SpanSince::new(&SITE, $since, Some($number))
    }};
    ($name:expr, $number:expr $(,)?) => {{
        static SITE: $crate::Site = $crate::Site::new($name, file!(), line!());
        $crate::Span::enter_numbered(&SITE, $number)
    }};
    ($name:expr $(,)?) => {{
        static SITE: $crate::Site = $crate::Site::new($name, file!(), line!());
        $crate::Span::enter(&SITE)
    }};
}

/// Defines an enum of the stages of a loop, for [`Laps::next`](crate::Laps::next).
///
/// ```
/// rdpmc_spans::stages!(enum Stage { Decode = "decode", Decide = "decide" });
/// ```
#[macro_export]
macro_rules! stages {
    ($(#[$meta:meta])* $visibility:vis enum $stages:ident { $($stage:ident = $name:expr),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $stages {
            $(#[allow(missing_docs)] $stage),+
        }

        impl $crate::Stage for $stages {
            #[inline(always)]
            fn site(self) -> &'static $crate::Site {
                match self {
                    $($stages::$stage => {
                        static SITE: $crate::Site = $crate::Site::new($name, file!(), line!());
                        &SITE
                    })+
                }
            }
        }
    };
}

/// Records a time that is not that of a span of this thread, such as the wait in a queue or a latency.
///
/// ```
/// use rdpmc_spans::{Moment, record};
/// use std::time::{Duration, Instant};
///
/// let due = Instant::now();
/// let sent = Moment::now(); // on the thread that sends
/// // ... on the thread that receives:
/// let taken = Moment::now();
/// record!("queue", sent..taken);
/// record!("latency", sent..); // until now
/// record!("late", due.., 17); // with a number of the program's
/// record!("answer", Duration::from_micros(120)); // until now, and 120 µs long
/// ```
///
/// The name is as that of [`span!`](crate::span). The time is in the report, in its percentiles, in Prometheus and in traces, on a track of its
/// own. It has no counts, is not subtracted from another's own time, and is not one of the slowest outermost spans.
///
/// [`Settings::slow`] keeps it if it is slow. Its cause is searched in the spans of the recording thread within this time: in the outermost ones, in
/// those inside the last of these, and in those inside the one that is open. With [`Storage::Histograms`], which keep slow spans only, it is searched in
/// slow ones, in the one that is open, and in the last one until a span of the next has ended.
///
/// The calling thread records it. [`register_thread`] avoids the cost of a first span there. With moments, it costs about as much as a span. An
/// `Instant` or a `SystemTime` adds some 300 ns. Its instructions are in the counts of the span around it. An end before the begin makes a time of 0. A time of more than years, by a wrong timestamp, is
/// [lost](Report::lost).
///
/// # Coordinated omission
///
/// A loop that takes a request when it has finished the one before measures the time in which it works. If it stalls, the requests that should
/// have come meanwhile are missing, and percentiles look better than users find them. Record from when each request should have begun:
///
/// ```
/// use rdpmc_spans::record;
/// use std::time::{Duration, Instant};
///
/// let (begun, period) = (Instant::now(), Duration::from_micros(100));
/// for request in 0..3 {
///     let intended = begun + period * request;
///     while Instant::now() < intended {}
///     // ... the request
///     record!("request", intended..);
/// }
/// ```
///
/// This is right where requests come by a schedule or from outside. It is wrong for back-to-back work, such as frames of a game: use
/// [`span!`](crate::span) there.
#[macro_export]
macro_rules! record {
    ($name:expr, $time:expr, $number:expr $(,)?) => {{
        static SITE: $crate::Site = $crate::Site::new($name, file!(), line!());
        $crate::record_time(&SITE, $time, Some($number))
    }};
    ($name:expr, $time:expr $(,)?) => {{
        static SITE: $crate::Site = $crate::Site::new($name, file!(), line!());
        $crate::record_time(&SITE, $time, None)
    }};
}

/// Returns a future with a span for each poll, and a record of its whole time.
///
/// ```
/// # let work = async {};
/// let future = rdpmc_spans::polled!("request", work);
/// # drop(future);
/// ```
///
/// - `request` has the polls. Each is a span of the thread that polls, with its counts.
/// - `request (whole)` is a [recorded time](macro@crate::record) for each future: from this call until it completes or is dropped. It has the
///   [time of its polls](Record::busy) and [their number](Record::polls). The thread that ends the future records it.
///
/// With three arguments, the second is a number of the program's, which all these records have: `polled!("request", id, work)`. No whole time is
/// recorded if spans were off when the future was made or polled. A poll costs two reads of the clock more than its span.
#[macro_export]
macro_rules! polled {
    ($name:expr, $number:expr, $future:expr $(,)?) => {
        // First, where the names of the constants below are not known to them.
        match ($number, $future) {
            (number, future) => $crate::polled!(@ $name, Some(number), future),
        }
    };
    ($name:expr, $future:expr $(,)?) => {
        match $future {
            future => $crate::polled!(@ $name, None, future),
        }
    };
    (@ $name:expr, $number:expr, $future:ident) => {{
        const __RDPMC_SPANS_NAME: &str = $name;
        const __RDPMC_SPANS_WHOLE: [u8; $crate::Site::whole_len(__RDPMC_SPANS_NAME)] =
            $crate::Site::whole_name(__RDPMC_SPANS_NAME);
        static __RDPMC_SPANS_SITES: [$crate::Site; 2] = [
            $crate::Site::new(__RDPMC_SPANS_NAME, file!(), line!()),
            $crate::Site::new_whole(&__RDPMC_SPANS_WHOLE, __RDPMC_SPANS_NAME, file!(), line!()),
        ];
        let [polls, whole] = &__RDPMC_SPANS_SITES;
        $crate::Polled::new([polls, whole], $number, $future)
    }};
}
