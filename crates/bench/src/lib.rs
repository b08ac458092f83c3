//! Measures a few nano- or microseconds of code with hardware performance counters: a result, its error and a verdict.
//!
//! [`Bench`] runs pieces of code and prints a table. Each figure has the 95 % interval of its median and a [`Verdict`]:
//! exact, stable, or unstable and why. It works without counters as well, and then has the time.
//!
//! # Method
//!
//! A pair is a loop of `k` runs and one of `2 k` runs, in random order. Their difference divided by `k` is the cost of
//! a run: what both have in common, the reads of the counters and the ends of the loop, cancels. The same is done for
//! nothing at the same call site, and subtracted. Nothing is clamped: a negative figure is a finding.
//!
//! Instruction counts detect interrupts. They are whole numbers, so a pair that differs by a few instructions from the
//! most frequent count had an interrupt. It is set aside. The instructions of single runs show the code's [`Path`]s.
//!
//! `k` doubles until a pair takes a millisecond. After that, pairs are added. The row ends when the error of the cycles
//! is at most 0.02 % or a quarter of a cycle, or when the time is used up. Without cycles, the limits are 0.5 % or
//! 0.05 ns of the time.
#![deny(unsafe_code)]

// `code` has the loops, `machine` measures one of them, `pairs` and `rounds` take the differences, `paths` looks at
// single runs, `judge` turns pairs into an `estimate` and a `verdict`. `bench` is the runner, `sets` splits its events,
// `table` prints its `row`s, and `gate` compares them with saved ones.

mod bench;
mod code;
mod estimate;
mod gate;
mod judge;
mod machine;
mod pairs;
mod paths;
mod progress;
mod rounds;
mod row;
mod sets;
mod table;
mod verdict;

pub use bench::{Bench, InputRowBuilder, RowBuilder};
pub use estimate::Estimate;
pub use gate::{Change, Comparison, Kind};
pub use paths::Path;
pub use row::{Figure, Quantity, Row};
pub use sets::Missing;
pub use verdict::{Cause, Verdict};

/// The README's example is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
