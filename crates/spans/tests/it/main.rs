//! The tests of recordings, but for those that need a process of their own.
#![cfg(all(target_os = "linux", feature = "enabled"))]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
#![allow(unsafe_code)]
#![allow(clippy::disallowed_types, reason = "no child of a fork comes here")]

#[path = "../recording/mod.rs"]
mod recording;

mod causes;
#[cfg(feature = "hdrhistogram")]
mod hdr_log;
mod histograms;
mod nesting;
#[cfg(feature = "otlp")]
mod otlp;
mod output;
mod perfetto;
mod recorded;
mod recordings;
mod signals;
mod slow;
mod threads;

use rdpmc_testing::turn;
