//! Hardware performance counters as measurements for criterion 0.8: cycles, instructions or any other event in place
//! of wall time, or several events in one run. Needs Rust 1.86.
//!
//! ```
//! use criterion::Criterion;
//! use rdpmc_criterion::CounterMeasurement;
//! use std::hint::black_box;
//!
//! fn parsing(criterion: &mut Criterion<CounterMeasurement>) {
//!     criterion.bench_function("parsing", |bencher| {
//!         bencher.iter(|| black_box("12345").parse::<u32>());
//!     });
//! }
//!
//! match CounterMeasurement::cycles() {
//!     Ok(cycles) => {
//!         let criterion = Criterion::default().with_measurement(cycles);
//!         parsing(&mut criterion.configure_from_args()); // so that `cargo bench -- FILTER` works
//!     }
//!     Err(why) => println!("{why}"), // for example, this VM has no PMU
//! }
//! ```
//!
//! One measurement drives criterion: [`CounterMeasurement`] (one event), [`ClockMeasurement`] (time without a system
//! call), or criterion's own `WallTime`. [`WithCounters`] adds further events, and prints them below each report:
//!
//! ```
//! use criterion::Criterion;
//! use rdpmc::Event;
//! use rdpmc_criterion::{ClockMeasurement, WithCounters};
//! use std::hint::black_box;
//!
//! # fn main() -> Result<(), rdpmc::Error> {
//! # if rdpmc::Counter::open(Event::PAGE_FAULTS).is_err() { return Ok(()) }
//! let time = WithCounters::open(ClockMeasurement::open()?, [Event::PAGE_FAULTS, Event::CONTEXT_SWITCHES])?;
//! let mut criterion = Criterion::default().with_measurement(time);
//! # use std::time::Duration;
//! # criterion = criterion.without_plots().nresamples(1_001).sample_size(10);
//! # criterion = criterion.warm_up_time(Duration::from_millis(1));
//! # criterion = criterion.measurement_time(Duration::from_millis(1));
//! criterion.bench_function("a vector's life", |bencher| {
//!     bencher.iter(|| vec![0; black_box(100)]);
//! });
//! # Ok(())
//! # }
//! ```
//!
//! The following report has cycles, with instructions as a further event, for 1,000 rounds of a loop of two
//! instructions. It is from `tests/vm/run x86_64-intel criterion`, on an emulated machine where an instruction takes
//! 3 cycles:
//!
//! ```text
//! cycles/countdown/1000   time:   [6.0150 kcycles 6.0150 kcycles 6.0150 kcycles]
//!                         thrpt:  [0.1663 elem/cycle 0.1663 elem/cycle 0.1663 elem/cycle]
//!               counters: 2.0050 kinstructions
//! ```
//!
//! `time:` is criterion's label for every measurement.
//!
//! # What is measured
//!
//! The constructor opens the counters and the clock. They are read from user space at the start and the end of each
//! sample (of each batch with `iter_batched`). A read takes no system call, except:
//! - if the kernel counts the event;
//! - while other events have the counters;
//! - if the page has no clock, after other events have had the counters.
//!
//! The constructor also measures the cost of reading, which is subtracted from each count. criterion's own loop is
//! not subtracted: one to three instructions for each iteration.
//!
//! Counters belong to the thread that opened them. That thread must run the benchmarks, as it does with criterion's
//! macros. **The work of other threads is not counted**, while the clock includes it.
//!
//! Call [`contain_faults`](rdpmc::contain_faults) first, as for any counter whose read may fault: on riscv64, on
//! machines with several core types, and if user access may be revoked.
//!
//! # Reports
//!
//! Each event has its unit: cycles, kcycles, instructions, misses, ns. Rare events are printed as their number in 1,000
//! iterations (`misses/1000 iter`) or in a million. A [`Throughput`](criterion::Throughput) becomes a rate, such as B/cycle
//! or elem/1000 instructions. criterion's files contain the plain counts.
//!
//! criterion compares a benchmark with the last result saved under its name, whatever that measured. For another
//! measurement, give the groups other names, or set `CRITERION_HOME`. A benchmark that uses time on machines without
//! counters is generic over [`Measurement`]: see `examples/criterion.rs`.
//!
//! A count of 0, for example of a rare event, is a valid result. criterion refuses to report a sample of 0, so its
//! files have stand-ins. The first such sample of a benchmark is 9.1e-13 (2^-40), and the others are less. They are
//! printed as 0, and the rates derived from them as very large.
//!
//! criterion may call the first stand-in an outlier. It prints a change from 0 to another count with many digits.
//! `--quick` saves only two samples, so a count that stays 0 may seem to have changed.
//!
//! If other events also use the PMU's counters, the measured events may lack theirs for part of a sample. The count
//! is then an [estimate](rdpmc::Reading::scaled) for the whole sample. The number of estimates is printed below the
//! report. A sample is also an estimate if the cost of a read has changed since it was measured: user access was
//! revoked, and reads are system calls.
//!
//! The number of incomplete samples is printed, too. In these, something could not be counted, and counts as 0.

#![forbid(unsafe_code)]

mod arguments;
mod change;
mod clock;
mod counter;
mod counters_or_time;
mod gate;
mod meter;
mod notes;
mod print;
mod recorder;
mod results;
mod samples;
mod saved;
mod sized_meter;
mod units;
mod with_counters;

pub use clock::ClockMeasurement;
pub use counter::CounterMeasurement;
pub use counters_or_time::{
    CountersOrTime, Criterion, Measured, Started, counters, cycles, instructions,
};
pub use gate::{Comparison, Gate, Outcome};
pub use meter::Counts;
pub use with_counters::WithCounters;

/// The README's example is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
