//! Measures a few nano- or microseconds of code with hardware performance counters: a result, its error and a verdict.
//!
//! [`Bench`] runs pieces of code and prints a table. Each figure has a 95 % interval and a [`Verdict`]: exact, stable, or
//! unstable and why. Times and cycles are medians, other counts are means. Without counters, it has the time and stepped
//! instructions.
//!
//! # Method
//!
//! A sample is five loops, in random order: `k` turns and `2 k` turns of the code, the same of nothing, and `k` turns of two
//! copies of the code. Each sample has another `k`, and another number of runs before it. So work that comes in every 100th
//! run, for example, is not in step with the loops. Samples of all rows are taken in turns, and those of each row are spread over
//! the whole run.
//!
//! - The difference of the two loops of the code, divided by `k`, is the cost of a run: what both have in common, the
//!   reads of the counters and the ends of the loop, cancels.
//! - It includes the loop's own instructions. Their counts are those of the empty loops, and are subtracted. Their time is
//!   often 0, because the CPU executes them while the code waits. A second copy of the code in the loop costs a run without
//!   the loop's instructions. So the difference between a turn and a copy is subtracted, at most the cost of an empty turn.
//! - The interval is the range of the results of eight slices of the run: see [`Estimate`].
//!
//! Nothing is clamped: a negative figure is a finding.
//!
//! Instruction counts detect interrupts. They are whole numbers, so a sample that differs by a few instructions from the
//! most frequent count had an interrupt. It is set aside. The instructions of single runs show the code's [`Path`]s.
//!
//! # What it cannot tell
//!
//! - Without instruction counts, rare slow runs of the code look like interrupts. They are reported if they add 5 % to the mean.
//! - Where the kernel is counted with the code (riscv64), that limit is 1 % of the instructions.
//! - A path that is at most eight instructions longer, and that few samples have, passes for an interrupt.
#![deny(unsafe_code)]

// From what to measure to the table:
//
// `bench` keeps a `plan`, to which `row_builder` adds a piece of `code` for each row. `sets` splits the events into those that fit together.
// `start` does what the `arguments` ask for. `run` takes samples of all rows in turns: each is a `series` of `sample`s, which `machine` measures. `paths` looks at
// single runs. `judge` turns samples into an `estimate` and a `verdict`, without what the `fence` adds, and names `slow` loops. `guard` catches a panic of a row.
// `stepped` counts instructions where no counter does, and `again` has other processes do so. `comparison` sets two rows against each other.
// `leader` is the connection to `programs`, which runs two programs in turns. `results` has the `row`s, `table` prints them, `plot` and `page` show
// how the samples are distributed (`bins`). `rdpmc-gate`
// compares them with saved ones.

mod again;
mod arguments;
mod bench;
mod bins;
mod code;
mod comparison;
mod counters;
mod estimate;
mod fence;
mod guard;
mod judge;
mod leader;
mod machine;
mod page;
mod paths;
mod plan;
mod plot;
#[cfg(unix)]
mod programs;
mod progress;
mod results;
mod row;
mod row_builder;
mod run;
mod sample;
mod series;
mod sets;
mod slow;
mod start;
mod stepped;
mod table;
#[cfg_attr(not(feature = "topdown"), allow(dead_code, reason = "`Bench::topdown` alone makes one"))]
mod topdown;
mod verdict;

pub use bench::Bench;
pub use comparison::{Difference, RowComparison};
pub use estimate::Estimate;
pub use fence::Fence;
pub use paths::Path;
#[cfg(unix)]
pub use programs::{CompareError, ComparedPrograms, Programs};
pub use rdpmc::Scope;
pub use rdpmc_report::gate::{Compared, Comparison, Limits, Outcome, Status, Values};
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
