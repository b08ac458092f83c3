//! Spans with hardware performance counters, for programs that run all day: games, servers, trading engines.
//!
//! A span is a named section of execution. It records the duration and the counts of up to eight events. Spans nest. A lap
//! is a stage of a loop, with one read at each boundary. After a thread's first span, neither makes a system call, allocates,
//! locks or waits. Exceptions: histograms allocate at the first span of each site, and a clock that is the kernel's is read
//! by `clock_gettime`.
//!
//! ```
//! use rdpmc::Event;
//! use rdpmc_spans::{Settings, span};
//!
//! let mut spans = Settings::new().events(&[Event::CYCLES, Event::INSTRUCTIONS]).start()?;
//! for _ in 0..3 {
//!     let _frame = span!("frame");
//!     {
//!         let _span = span!("physics");
//!     }
//!     let _span = span!("render");
//! }
//! println!("{}", spans.report());
//! spans.write_trace(std::io::sink())?; // a file, for https://ui.perfetto.dev
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **Threads.** Each thread opens its own clock and counters at its first span, or in [`register_thread`], and records
//!   into a ring of its own. [`Spans::collect`] empties the rings from any thread. If the ring is full, the
//!   record is dropped. The report states how many were.
//! - **Flags.** With counters, a span that the kernel disturbed by a context switch is kept and flagged, because it is the slow
//!   one that matters. Flags also mark spans that were interrupted (if `instructions:k` is among the events), not counted, or ended out
//!   of order: see [`Flags`].
//! - **Without counters**, spans have the time alone, and the report has the reason: there is no PMU, events may not be
//!   opened, user space may not read them, or a hypervisor traps the reads. See [`TimeOnlyReason`] and [`Counters`].
//! - **Its own cost.** An empty span is measured when a thread records its first one. The constant part is
//!   subtracted from the counts, including the cost of nested spans, except in histograms. Times include the cost, and the
//!   report states it.
//! - **`tracing`.** The feature `tracing` adds `TracingLayer`, which records the spans of the crate `tracing`.
//! - **Off.** Without a recording, or after `set_enabled(false)`, a span costs one load and one branch. Without the feature
//!   `enabled`, nothing of it is in the binary.
//!
//! # Limits
//!
//! A span belongs to the thread that began it. Signal handlers must not begin or end spans of the thread that they
//! interrupt. In the child of a fork, the thread's spans go on without counts, and the copy of [`Spans`] reads the child's
//! records. At most 511 spans can be open on a thread. More are counted as dropped.
#![deny(unsafe_code)]

// site, record         what a span is named after, and what is recorded of it
// span, laps, tracing  the interface of instrumented code
// local                a thread's state, and the hot path
// counting, ring       its counters and its records
// histogram            statistics in place of single records
// settings, session    what is recorded, and how threads join
// cost                 what spans and laps cost on a thread
// spans, stats         the collector, and its statistics
// report, trace        the output
// time_only            why there are no counts
// off                  replaces all of these without the feature `enabled`

mod site;
pub use site::Site;

#[cfg(feature = "enabled")]
mod cost;
#[cfg(feature = "enabled")]
mod counting;
#[cfg(feature = "enabled")]
mod histogram;
#[cfg(feature = "enabled")]
mod laps;
#[cfg(feature = "enabled")]
mod local;
#[cfg(feature = "enabled")]
mod record;
#[cfg(feature = "enabled")]
mod report;
#[cfg(feature = "enabled")]
mod ring;
#[cfg(feature = "enabled")]
mod session;
#[cfg(feature = "enabled")]
mod settings;
#[cfg(feature = "enabled")]
mod span;
#[cfg(feature = "enabled")]
mod spans;
#[cfg(feature = "enabled")]
mod stats;
#[cfg(feature = "enabled")]
mod time_only;
#[cfg(feature = "enabled")]
mod trace;
#[cfg(all(feature = "enabled", feature = "tracing"))]
mod tracing;

#[cfg(feature = "enabled")]
pub use {
    laps::{Laps, Stage},
    record::{Flags, MAX_EVENTS, Record},
    report::{Percentiles, Report, Row},
    session::{is_enabled, register_thread, set_enabled},
    settings::{Counters, Settings, Storage},
    span::Span,
    spans::{Spans, StartError, ThreadInfo},
    time_only::TimeOnlyReason,
};

#[cfg(all(feature = "enabled", feature = "tracing"))]
pub use tracing::TracingLayer;

#[cfg(not(feature = "enabled"))]
mod off;
#[cfg(not(feature = "enabled"))]
pub use off::*;

#[cfg(all(test, feature = "enabled"))]
mod tests;

/// The README's example is compiled and run with the others.
#[cfg(all(doctest, feature = "enabled"))]
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
#[macro_export]
macro_rules! span {
    ($name:expr) => {{
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
