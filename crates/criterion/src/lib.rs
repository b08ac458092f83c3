//! criterion's measurements: cycles, instructions and whatever else can be counted in place of wall
//! time, and several of them in one run. With the feature `criterion`, for criterion 0.8, which needs
//! Rust 1.86.
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
//!     Err(why) => println!("{why}"), // e.g. that this virtual machine has no PMU
//! }
//! ```
//!
//! What drives criterion is [`CounterMeasurement`], one event; or [`ClockMeasurement`], the time without a system call; or
//! criterion's own `WallTime`. [`WithCounters`] with it, further events can be counted, and are printed below:
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
//! Cycles with instructions along, of 1,000 rounds of a loop of two instructions, are reported as follows, by
//! `tests/vm/run x86_64-intel criterion` on an emulated machine, where an instruction takes 3 cycles:
//!
//! ```text
//! cycles/countdown/1000   time:   [6.0150 kcycles 6.0150 kcycles 6.0150 kcycles]
//!                         thrpt:  [0.1663 elem/cycle 0.1663 elem/cycle 0.1663 elem/cycle]
//!                  counters: 2.0050 kinstructions
//! ```
//!
//! `time:` is criterion's own word for whatever is measured.
//!
//! # What is measured
//!
//! The counters and the clock are opened once, in the constructor, and read from user space at the start
//! and the end of each sample (of each batch with `iter_batched`): no system call, unless the event is
//! one that the kernel counts, or others have the counters just then (or, if the page has no clock, have
//! ever had them). What that costs is measured in the constructor and taken off. criterion's
//! own loop is not: an instruction or three for each iteration.
//!
//! Counters belong to the thread that opened them, which has to be the one that runs the benchmarks, as
//! it is with criterion's macros. **What other threads do for the benchmark is not counted**; the clock
//! goes on meanwhile.
//!
//! Call [`contain_faults`](rdpmc::contain_faults) first, as for everything that reads counters where a read may
//! fault: on riscv64, on machines with several core types, and where user access may be revoked.
//!
//! # What becomes of it
//!
//! Events have their units, with SI prefixes: cycles, kcycles, instructions, misses, ns. A
//! [`Throughput`](criterion::Throughput) becomes a rate, such as B/cycle or elem/kinstruction. What
//! criterion writes into files is the plain count.
//!
//! criterion compares with what it saved last under the same name, whatever that measured: with another
//! measurement, let the groups have other names, or set `CRITERION_HOME`. A benchmark that is to go by time where
//! there are no counters is generic over [`Measurement`]: see `examples/criterion.rs`.
//!
//! A count of 0, of a rare event, say, is a result like any other, but criterion refuses to report a
//! sample of 0: for its files, the first of a benchmark is 9.1e-13 (2^-40) and the others less, and they are
//! printed as 0, and rates by them as very large. criterion may call the first an outlier, and a change from
//! nothing to something is of many digits. (`--quick` saves two samples only: there, nothing may seem to have
//! become more or less.)
//!
//! If others want the PMU's counters too, the events may have been without theirs for part of a sample.
//! Its count is then an estimate for all of it ([as of a reading](rdpmc::Reading::scaled)), and how many
//! there were is said below the report. So it is where reading came to cost otherwise than when that was
//! measured: by system call, since user access was revoked. And so are samples of which something could not
//! be counted: what is missing counts as nothing.

#![forbid(unsafe_code)]

mod meter;
mod notes;
mod saved;
mod units;
mod with_counters;
mod zeros;

pub use meter::Counts;
pub use with_counters::WithCounters;

use criterion::measurement::{Measurement, ValueFormatter};
use meter::{Cost, Meter, empty_samples};
use notes::SampleNotes;
use rdpmc::clock::ClockKind;
use rdpmc::error::OpenError;
use rdpmc::{Clock, Counter, Event};
use units::Unit;
use zeros::ZeroGuard;

/// One event drives criterion.
///
/// ```
/// use criterion::Criterion;
/// use rdpmc_criterion::CounterMeasurement;
///
/// fn instructions() -> Result<Criterion<CounterMeasurement>, rdpmc::Error> {
///     Ok(Criterion::default().with_measurement(CounterMeasurement::instructions()?))
/// }
/// # let _ = instructions;
/// ```
///
/// It stays on the thread that opened it, and so does the `Criterion` that has it:
///
/// ```compile_fail,E0277
/// fn only_if_send<T: Send>() {}
/// only_if_send::<rdpmc_criterion::CounterMeasurement>();
/// ```
#[derive(Debug)]
pub struct CounterMeasurement {
    meter: Meter<1>,
    unit: &'static Unit,
    notes: SampleNotes,
    zeros: ZeroGuard,
}

impl CounterMeasurement {
    /// [`Event::CYCLES`], in user mode.
    ///
    /// # Errors
    /// As [`open`](CounterMeasurement::open).
    pub fn cycles() -> Result<CounterMeasurement, OpenError> {
        CounterMeasurement::open(Event::CYCLES)
    }

    /// [`Event::INSTRUCTIONS`], in user mode.
    ///
    /// # Errors
    /// As [`open`](CounterMeasurement::open).
    pub fn instructions() -> Result<CounterMeasurement, OpenError> {
        CounterMeasurement::open(Event::INSTRUCTIONS)
    }

    /// Any event, opened as [`Counter::open`](crate::CounterMeasurement::open) does, for this thread. Reads the
    /// counter some hundred times, to know what that costs.
    ///
    /// # Errors
    /// As [`Counter::open`](crate::CounterMeasurement::open).
    pub fn open(event: Event) -> Result<CounterMeasurement, OpenError> {
        Ok(CounterMeasurement::from(Counter::open(event)?))
    }
}

/// From a [counter](rdpmc::Counter) that was opened otherwise, to count the kernel as well, say. It has to be enabled. If others have the
/// PMU's counters for a long while, what measuring costs is not found out, and all samples are estimates.
impl From<Counter> for CounterMeasurement {
    fn from(counter: Counter) -> CounterMeasurement {
        let unit = Unit::of(counter.event());
        let meter = Meter::new(counter.into_group());
        let (notes, zeros) = (SampleNotes::default(), ZeroGuard::default());
        let mut counter = CounterMeasurement { meter, unit, notes, zeros };
        let overhead = Cost::of(|| empty_samples(&counter));
        counter.meter.take_off(overhead);
        counter
    }
}

/// One stretch at a time, as criterion does it: an `end` belongs to the last `start`.
impl Measurement for CounterMeasurement {
    type Intermediate = ();
    type Value = Counts<1>;

    #[inline(always)]
    fn start(&self) {
        self.meter.start();
    }

    #[inline(always)]
    fn end(&self, (): ()) -> Counts<1> {
        self.meter.end()
    }

    fn add(&self, first: &Counts<1>, second: &Counts<1>) -> Counts<1> {
        first.plus(second)
    }

    fn zero(&self) -> Counts<1> {
        self.notes.say(&self.meter);
        Counts::NONE
    }

    fn to_f64(&self, sample: &Counts<1>) -> f64 {
        self.notes.take(sample);
        let [count] = sample.counts();
        self.zeros.sample(count as f64)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        self.notes.say(&self.meter);
        self.notes.report();
        self.zeros.report();
        self.unit
    }
}

impl Drop for CounterMeasurement {
    fn drop(&mut self) {
        self.notes.say(&self.meter);
    }
}

/// Time drives criterion, without a system call: [`rdpmc::Clock`](rdpmc::Clock). In nanoseconds, as
/// criterion's `WallTime` is; but what the reading costs is taken off.
///
/// ```
/// use criterion::Criterion;
/// use rdpmc_criterion::ClockMeasurement;
///
/// let criterion: Criterion<ClockMeasurement> = Criterion::default().with_measurement(ClockMeasurement::open()?);
/// # let _ = criterion;
/// # Ok::<(), rdpmc::Error>(())
/// ```
#[derive(Debug)]
pub struct ClockMeasurement {
    clock: Clock,
    overhead: u64,
    zeros: ZeroGuard,
}

impl ClockMeasurement {
    /// Opens a clock for this thread, as [`Clock::open`](rdpmc::Clock::open) does, and reads it some
    /// hundred times, to know what that costs.
    ///
    /// # Errors
    /// As [`Clock::open`](rdpmc::Clock::open).
    pub fn open() -> Result<ClockMeasurement, OpenError> {
        Ok(ClockMeasurement::from(Clock::open()?))
    }

    /// What the clock goes by, as [`Clock::kind`](rdpmc::Clock::kind): if it is the kernel, reading it is a
    /// call of `clock_gettime`.
    pub fn kind(&self) -> ClockKind {
        self.clock.kind()
    }
}

impl From<Clock> for ClockMeasurement {
    fn from(clock: Clock) -> ClockMeasurement {
        let mut clock = ClockMeasurement { clock, overhead: 0, zeros: ZeroGuard::default() };
        clock.overhead = empty_samples(&clock).into_iter().min().unwrap_or(0);
        clock
    }
}

impl Measurement for ClockMeasurement {
    /// Nanoseconds on the clock's timeline.
    type Intermediate = u64;
    /// Nanoseconds.
    type Value = u64;

    // Not inlined, as Meter's are not.
    #[inline(never)]
    fn start(&self) -> u64 {
        self.clock.ordered().now()
    }

    #[inline(never)]
    fn end(&self, start: u64) -> u64 {
        self.clock.ordered().now().saturating_sub(start).saturating_sub(self.overhead)
    }

    fn add(&self, first: &u64, second: &u64) -> u64 {
        first.saturating_add(*second)
    }

    fn zero(&self) -> u64 {
        0
    }

    fn to_f64(&self, sample: &u64) -> f64 {
        self.zeros.sample(*sample as f64)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        self.zeros.report();
        &Unit::Time
    }
}
