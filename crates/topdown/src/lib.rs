//! Where the pipeline slots of a thread's own code go, by counters that user space reads: for the crate [`rdpmc`].
//!
//! Each cycle of a core has a fixed number of pipeline slots, 4 to 10. The top-down method divides them into four parts:
//!
//! | part | the slot | what to look at next |
//! |---|---|---|
//! | retiring | did work that counted | fewer instructions, wider ones |
//! | bad speculation | did work that was discarded | branches that are hard to predict, machine clears |
//! | front end | had no operation to start | instruction cache misses, long or many code paths |
//! | back end | had an operation that could not start | cache misses (memory), chains of dependent operations, division |
//!
//! [`Topdown`] opens the events and computes the parts. [`Formula`] has the events and the arithmetic for those who open them
//! themselves. `rdpmc-bench`, `rdpmc-spans` and `rdpmc-criterion` use it with their feature `topdown`.
//!
//! # CPUs
//!
//! Intel's Skylake to Cascade Lake, Ice Lake and later; its E-cores from Gracemont to Darkmont; AMD's Zen 4 and 5; Arm's Neoverse N2, N3, V1, V2
//! and V3. The events are ordinary ones, which any unprivileged program can count, also in a virtual machine that has as many counters. Intel's
//! `PERF_METRICS` is not used: its eight bits are too coarse for short code, and virtual machines do not have it.
//!
//! - Skylake to Cascade Lake: the slots that the core's other hardware thread uses are in the back end's part.
//! - AMD: those slots are [`Level1::rest`].
//! - The memory's part of the back end is known on Intel's P-cores from Golden Cove to Redwood Cove, and on AMD with 7 counters: in
//!   `rdpmc-bench`, which counts in rounds.
#![deny(unsafe_code)]

// Data flows up: `level1` is the result, `family` has the CPUs' formulas, `this_cpu` finds this one, `formula` joins them, and
// `topdown` counts.

mod error;
mod family;
mod formula;
mod level1;
mod this_cpu;
mod topdown;

pub use error::TopdownError;
pub use formula::Formula;
pub use level1::{Category, Level1, Part};
pub use topdown::Topdown;

/// The README's example is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
