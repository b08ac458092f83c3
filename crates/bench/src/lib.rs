//! Measures a few nano- or microseconds of code with hardware performance counters.
//!
//! [`sample`] runs code in a [region](rdpmc::Region) many times, subtracts the cost of an empty region, and returns
//! [`Samples`] with quantiles. [`sample_by_difference`] compares two runs with one, for code of a few instructions.
#![forbid(unsafe_code)]

mod samples;

pub use samples::{Samples, sample, sample_by_difference};

/// The README's example is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
