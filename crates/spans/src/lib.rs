//! Spans with hardware performance counters, for programs that run all day: games, servers, trading engines.
//!
//! A span is a named section of execution. It records the duration and the counts of up to eight events. Spans nest. A lap
//! is a stage of a loop, with one read at each boundary. After a thread's first span, neither makes a system call, allocates,
//! locks or waits. Exceptions: histograms allocate at the first spans of each site, a clock that is the kernel's is read by
//! `clock_gettime`, [`Settings::causes`] makes system calls after
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
//! A span belongs to the thread that began it. In a signal handler or an allocator, a span is lost, and counted, if it interrupts
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
// instrument     guards, laps, futures, the layer for tracing

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
pub use instrument::{Laps, NumberedSpan, Polled, Span, Stage};
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
/// The name is a constant expression of type `&'static str`. A span nests in the spans that are open on its thread.
///
/// A second argument, of type `u64`, is a number of the program's, which traces, records and slow spans have:
///
/// ```
/// # use rdpmc_spans::span;
/// for frame in 0..3 {
///     let _frame = span!("frame", frame);
/// }
/// ```
#[macro_export]
macro_rules! span {
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

/// Returns a future that records a span for each time it is polled.
///
/// ```
/// # let work = async {};
/// let future = rdpmc_spans::polled!("request", work);
/// # drop(future);
/// ```
#[macro_export]
macro_rules! polled {
    ($name:expr, $future:expr $(,)?) => {{
        static SITE: $crate::Site = $crate::Site::new($name, file!(), line!());
        $crate::Polled::new(&SITE, $future)
    }};
}
