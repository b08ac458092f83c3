//! Hardware performance counters as measurements for criterion 0.8: cycles, instructions or any other event in place
//! of wall time, or several events in one run. Needs Rust 1.86.
//!
//! ```
//! use criterion::{criterion_group, criterion_main};
//! use rdpmc::Event;
//! use rdpmc_criterion::Criterion;
//! use std::hint::black_box;
//!
//! fn parsing(criterion: &mut Criterion) {
//!     criterion.bench_function("parsing", |bencher| {
//!         bencher.iter(|| black_box("12345").parse::<u32>());
//!     });
//! }
//!
//! criterion_group! {
//!     name = benches;
//!     config = rdpmc_criterion::counters([Event::INSTRUCTIONS, Event::CYCLES]);
//!     targets = parsing
//! }
//! criterion_main!(benches);
//! ```
//!
//! [`counters`] measures events, or time where they cannot be counted. [`CounterMeasurement`] (one event),
//! [`ClockMeasurement`] (time without a system call) and [`WithCounters`] (further events beside another measurement) are
//! measurements for `Criterion::with_measurement`.
//!
//! # What is measured
//!
//! The constructor opens the counters and the clock. They are read from user space at the start and the end of each
//! sample (of each batch with `iter_batched`). A read takes no system call, except:
//! - if the kernel counts the event;
//! - while other events have the counters;
//! - if the kernel's page for the counter has no clock, after other events have had the counters.
//!
//! The constructor also measures the cost of reading, which is subtracted from each count. criterion's own loop is
//! not subtracted: one to three instructions for each iteration.
//!
//! The cost that is subtracted is the minimum of 100 empty batches. On an out-of-order CPU, reading usually costs more: batches with
//! nothing in them had 14 cycles with one event, and 53 with three. The 90th percentile of empty batches, taken in criterion's way,
//! is the floor. If it may be a tenth of a result or more, a line `floor:` says so. Larger batches help.
//!
//! Counters belong to the thread that opened them. That thread must run the benchmarks, as it does with criterion's
//! macros. **The work of other threads is not counted**, while the clock includes it. If they had more than a thousandth of the CPU time
//! from a benchmark's first iteration to its last sample, the line `other threads:` says so. Neither this crate nor the gate compares the
//! benchmark's counts then. criterion itself compares what drives it, as always.
//! What a benchmark does outside of its iterations, such as a setup by several threads, is part of that time.
//! [`Builder::scope`] counts all threads of the process.
//!
//! [`counters`] calls [`contain_faults`](rdpmc::contain_faults). Call it yourself before you open another measurement, as for
//! any counter whose read may fault: on riscv64, on machines with several core types, and if user access may be revoked.
//!
//! If a counter counts instructions, this program is started again after each benchmark, and each process counts its first iterations. If the
//! count is constant in each process, but differs between processes, a line `processes:` says so. The gate then compares the interval of all
//! processes: see [`Builder::processes`].
//!
//! # Without a counter of instructions
//!
//! If [`counters`] has [`Event::INSTRUCTIONS`](rdpmc::Event::INSTRUCTIONS) and they cannot be counted, because most virtual machines
//! have no PMU, the CPU steps through the first iterations of each benchmark. This needs x86-64 or arm64 Linux: see [`rdpmc_step`].
//! The figure is `stepped-instructions`, which is never compared with that of a counter.
//!
//! - The first batches of criterion's warm-up are stepped: those with 1, 2, 4 and 8 iterations, and up to 128 of short code. The figure is the
//!   difference of two batches per iteration. If all differences agree, but for the first one, it is exact, and otherwise a range. With
//!   `iter_batched`, it is the mean of a batch. Batches with several iterations in an interval are left out (from 16 iterations on with
//!   `BatchSize::SmallInput`), because criterion has other code for them.
//! - After the benchmark, this program is started again, and each process counts its first batches: see [`Builder::processes`]. Where they
//!   differ, the figure is a range.
//! - The figure has the instructions that a counter would count: those of the iteration and of criterion's loop, in user mode, on this
//!   thread. The cost of measuring is subtracted. `iter_batched` has one iteration in each of the first intervals and more
//!   later, so its figure can differ by a few instructions from that of a counter.
//! - Stepping takes a second for each benchmark at most, or the number of seconds in `RDPMC_STEP_SECONDS`, or
//!   [`time_to_step`](Builder::time_to_step). 0 switches it off. A longer benchmark has a line that says so.
//! - criterion derives the number of iterations in a sample from its warm-up, so at most a third of that is stepped. The samples have up
//!   to a third fewer iterations. criterion does not tell a measurement about its warm-up time, which is taken for that of the
//!   argument `--warm-up-time`, for 3 seconds, or for that of the benchmark before if it was shorter. If the first benchmark has
//!   a shorter one, its samples have few iterations, and a line `stepping:` says so.
//! - If the warm-up is shorter than three times the time for stepping, another process counts instead of this one, with a warm-up that is long
//!   enough. It is given the argument `--warm-up-time`, so a warm-up time that a group has set is a limit.
//! - If stepping fails, the line `Not counted by stepping:` has the reason. There is none with `--quick`, which has no
//!   warm-up, and none with `--test` and `--profile-time`. Only programs with the argument `--bench`, which cargo passes, are stepped.
//!
//! # Reports
//!
//! Each event has its unit: cycles, kcycles, instructions, misses, ns. Rare events are printed as their number in 1,000
//! iterations (`misses/1000 iter`) or in a million. A [`Throughput`](criterion::Throughput) becomes a rate, such as B/cycle
//! or elem/1000 instructions. `time:` is criterion's label for every measurement.
//!
//! criterion compares a benchmark with the last result saved under its name, whatever that measured. [`counters`] has a
//! directory for each kind of results. For other measurements, give the groups other names, or set `CRITERION_HOME`.
//!
//! criterion's files contain the plain counts, with two exceptions:
//! - criterion refuses to report a sample of 0, which is a valid result of a rare event. Its files have a stand-in of at most
//!   2^-40, which is printed as 0. Rates and changes that criterion derives from it have many digits and no meaning.
//! - criterion panics when it plots the comparison of samples that are all equal, as exact counts are. Every second sample is
//!   increased by 1e-12 of its value (2e-12 in a `WithCounters`). If overflow checks are on (`cargo bench --profile dev`), the plotting
//!   library panics nevertheless. In Cargo.toml, `[profile.dev.package.plotters]` with `overflow-checks = false` avoids that.
//!
//! If other events also use the PMU's counters, the measured events may lack theirs for part of a sample. The count
//! is then an [estimate](rdpmc::Reading::scaled) for the whole sample. The number of estimates is printed with the
//! report. A sample is also an estimate if the cost of a read has changed since it was measured: user access was
//! revoked, and reads are system calls.
//!
//! The number of incomplete samples is printed, too. In these, something could not be counted, and counts as 0.
//!
//! # Additional counters
//!
//! The events that [`counters`] and [`WithCounters`] count beside the measurement are printed before criterion's report of the
//! same benchmark:
//!
//! ```text
//! planted/iter/10         cycles: [78.000 cycles 78.000 cycles 78.000 cycles]
//!                         change: [+4.0000% +4.0000% +4.0000%]
//!                         Performance has regressed.
//! planted/iter/10         time:   [26.000 instructions 26.000 instructions 26.000 instructions]
//!                         change: [+4.0000% +4.0000% +4.0000%] (p = 0.00 < 0.05)
//!                         Performance has regressed.
//! ```
//!
//! - The figures are the median of the samples per iteration, between the ends of its 95 % interval. The ends are two of the
//!   samples, so no distribution is assumed. With fewer than six samples (`--quick` has two), they are the extremes.
//! - If at most a tenth of the samples is not exact, these are left out.
//! - The change is relative to the baseline with which criterion compares: the last run, or that of `--baseline`. Its interval
//!   goes from the change between the old high and the new low to the change between the old low and the new high.
//! - The verdict is a regression or an improvement if two things are true. The intervals do not overlap. The medians differ by more
//!   than 0.001 % (instructions, branches) or 1 % (other events). Up to 16
//!   instructions or branches per sample may come from reading, and are not a change.
//! - With fewer than six samples there is no verdict on a change. For instructions and branches, two samples are enough if the
//!   medians differ by more than ten times the width of both intervals.
//! - Before criterion has written down the name of a benchmark, this program is started once with `--list`, which prints the names. If it cannot
//!   be, `_` stands for characters that a file name cannot have.
//! - `--save-baseline`, `--baseline`, `--quiet` and `--output-format` are followed as criterion does, from the program's arguments. The
//!   functions `Criterion::save_baseline` and `retain_baseline` are not followed. A baseline that is loaded in place of a run
//!   (`--load-baseline`) has no figures here. [`Gate`] compares two saved ones.
//!
//! Beside criterion's `sample.json`, in `new` and in the baseline, `counters.json` has the counts of whole samples:
//!
//! ```text
//! {"version": 2, "program": "parsing", "run": 1795467600000, "processor": "x86_64, …", "measured": "instructions",
//!  "without_counters": null, "not_stepped": null, "stepped_doubt": null, "stepped_iterations": 0, "build": "rustc 1.95.0 …", "shared_with": null,
//!  "iters": [91.0, 182.0, …], "times": [2366.0, 4732.0, …],
//!  "counters": [{"event": "instructions", "unit": "instructions", "median": 26.0, "low": 26.0, "high": 26.0,
//!                "counts": [2366, 4732, …], "of_processes": null}, …],
//!  "scope": "thread", "other_threads": null, "spec_lock_map": null, "estimates": 0, "incomplete": 0}
//! ```
//!
//! `stepped-instructions` are among `counters`, and have no `counts`, because they are those of the warm-up. `of_processes` has the ends `low` and
//! `high` of the instructions in all processes, if these differ.
//! `iters` and `times` are those of `sample.json`. `run` is the time of the program's first report in milliseconds since 1970.
//! `without_counters` and `not_stepped` are the reasons why counters or steps are missing.
//! `stepped_doubt` is why the stepped instructions are not compared, and `stepped_iterations` the number of iterations in all processes.
//! `build` is the compiler with its flags.
//! `shared_with` is another program whose results were in the same directory, because it has a benchmark of the same name.
//! `scope` is whose work is counted: `thread` or `process`. `other_threads` is the part of the CPU time that other threads had, or null
//! if that was at most a thousandth, or is not known.
//! `spec_lock_map` is whether this CPU counts twice behind atomic operations.
//! `estimates` and `incomplete` are the numbers of samples that are not exact.
//!
//! ## Iteration counts
//!
//! criterion tells a measurement neither the name of a benchmark nor the number of iterations of a sample. The file `sample.json`
//! has the numbers, and its directory has the name. criterion writes it just before a report. The library lists these files when a
//! benchmark begins. When the report begins, it takes the one that has changed. It does not search for values, so benchmarks with
//! equal counts are not confused.
//!
//! The line `counters: not known` is printed in place of figures in these cases:
//! - Another `cargo bench` uses the directory: two files have changed, or the one has other samples than were taken.
//! - criterion saved nothing (`--discard-baseline`, `cargo criterion`), or saved elsewhere (`output_directory`).
//!
//! The alternative is a function over `Bencher::iter_custom`, which is told the number. It would have to replace `iter` and
//! `iter_batched` in every benchmark.

#![forbid(unsafe_code)]

mod arguments;
mod batches;
mod clock;
mod counter;
mod counters_or_time;
mod functions;
mod meter;
mod names;
mod new_samples;
mod notes;
mod of_processes;
mod other_processes;
mod page;
mod print;
mod report;
mod sized_meter;
mod stand_ins;
mod stepped;
mod threads_meter;
mod topdown;
mod units;
mod with_counters;

pub use clock::ClockMeasurement;
pub use counter::CounterMeasurement;
pub use counters_or_time::{
    Bencher, BenchmarkGroup, Builder, CountersOrTime, Criterion, Measured, Started, counters,
    cycles, instructions,
};
pub use meter::Counts;
pub use rdpmc::Scope;
pub use rdpmc_report::criterion::Gate;
pub use rdpmc_report::gate::{Compared, Comparison, Limits, Outcome, Status, Values};
pub use with_counters::WithCounters;

#[doc(hidden)]
pub use criterion as __criterion;

/// The README's example is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
