//! Measures a few nano- or microseconds of code with hardware performance counters: a result, its error and a verdict.
//!
//! [`Bench`] runs pieces of code and prints a table. Each figure has the 95 % interval of its median and a [`Verdict`]:
//! exact, stable, or unstable and why. It works without counters as well, and then has the time.
//!
//! # Method
//!
//! A sample is five loops, in random order: `k` turns and `2 k` turns of the code, the same of nothing, and `k` turns of two
//! copies of the code. Each sample has another `k`, so that what the code does every so many runs is not in step with
//! the loops. Samples of all rows are taken in turns, until each row has used its time.
//!
//! - The difference of the two loops of the code, divided by `k`, is the cost of a run: what both have in common, the
//!   reads of the counters and the ends of the loop, cancels.
//! - It includes the loop's own instructions. Of counts, those of the empty loops are subtracted, so they are exact. But
//!   the time and the cycles of the loop are often none at all: the CPU executes its instructions beside code that waits.
//!   One more copy of the code costs the same without the loop. So the difference to a copy is subtracted, at most as much
//!   as an empty turn costs.
//! - The interval is the range of the results of eight slices of the run: see [`Estimate`].
//!
//! Nothing is clamped: a negative figure is a finding.
//!
//! Instruction counts detect interrupts. They are whole numbers, so a sample that differs by a few instructions from the
//! most frequent count had an interrupt. It is set aside. The instructions of single runs show the code's [`Path`]s.
#![deny(unsafe_code)]

// From what to measure to the table:
//
// `bench` keeps what `row_builder` adds: a piece of `code` for each row. `sets` splits the events into those that fit together.
// `run` takes samples of all rows in turns: each is a `series` of `sample`s, which `machine` measures. `paths` looks at
// single runs. `judge` turns samples into an `estimate` and a `verdict`, without what the `fence` adds, and names `slow` loops.
// `comparison` sets two rows against each other. `results` has the `row`s, `table` prints them, and `gate` compares them with
// saved ones.

mod bench;
mod code;
mod comparison;
mod estimate;
mod fence;
mod gate;
mod judge;
mod machine;
mod paths;
mod progress;
mod results;
mod row;
mod row_builder;
mod run;
mod sample;
mod series;
mod sets;
mod slow;
mod table;
mod verdict;

pub use bench::Bench;
pub use comparison::{Difference, RowComparison};
pub use estimate::Estimate;
pub use gate::{Change, Comparison, Kind};
pub use paths::Path;
pub use results::Results;
pub use row::{Figure, Quantity, Row};
pub use row_builder::{InputRowBuilder, RowBuilder};
pub use sets::Missing;
pub use slow::Slow;
pub use verdict::{Cause, Verdict};

/// The README's example is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
