//! The tests that need more of the repository than the package has.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[path = "../machines/mod.rs"]
mod machines;
#[cfg(target_os = "linux")]
#[path = "../perf/mod.rs"]
mod perf;
#[path = "../skips/mod.rs"]
mod skips;

mod contained_faults;
mod documents;
mod layers;
mod moved_counters;
mod names;
#[cfg(target_os = "linux")]
mod names_by_perf;
