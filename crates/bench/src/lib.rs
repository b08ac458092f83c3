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

// From what to measure to the table. Each folder needs those above it in this list:
//
// events    which events fit the counters together, and these counters
// sampling  loops around a piece of code, samples of them, the paths of single runs
// judging   from samples to figures: estimates, verdicts, what a fence adds, rows, one row against another
// stepping  instructions where no counter counts them, also in other processes
// plan      what a `Bench` has collected: events, settings, a piece of code for each row
// output    the results as a table, JSON, plots and a page
// running   all rows of a plan in turns, as the program's arguments ask for
// bench     the type that collects a plan and runs it
// programs  two programs in turns, for `rdpmc-bench compare`

mod arguments;
mod bench;
mod events;
mod judging;
mod output;
mod plan;
#[cfg(unix)]
mod programs;
mod running;
mod sampling;
mod stepping;

pub use bench::Bench;
pub use events::sets::Missing;
pub use judging::comparison::{Difference, RowComparison};
pub use judging::estimate::Estimate;
pub use judging::fence::Fence;
pub use judging::row::{Figure, Quantity, Row};
pub use judging::slow::Slow;
pub use judging::verdict::{Cause, Verdict};
pub use output::results::Results;
pub use plan::row_builder::{InputRowBuilder, RowBuilder};
#[cfg(unix)]
pub use programs::{CompareError, ComparedPrograms, Programs};
pub use rdpmc::Scope;
pub use rdpmc_report::gate::{Compared, Comparison, Limits, Outcome, Status, Values};
pub use sampling::paths::Path;

/// The README's example is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
