//! What `rdpmc-bench`, `rdpmc-criterion` and `rdpmc-spans` have in common: the comparison of saved results, and HTML pages.
//!
//! The command `rdpmc-gate` and [`page`] are for any program. The rest of the library is internal to `rdpmc-bench` and `rdpmc-criterion`, and
//! may change with each minor version: what a program needs of it, they export.
//!
//! - [`page`] writes tables and charts as a page in one file.
#![cfg_attr(
    feature = "gate",
    doc = "- [`gate`] has the interval of a median, the results of a benchmark and their comparison (feature `gate`)."
)]
#![cfg_attr(
    feature = "criterion",
    doc = "- [`criterion`] reads the results that are saved beside those of criterion (feature `criterion`)."
)]
#![forbid(unsafe_code)]

#[cfg(feature = "criterion")]
pub mod criterion;
#[cfg(feature = "gate")]
pub mod gate;
pub mod page;

/// The README's example is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
