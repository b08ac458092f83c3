//! A measurement of time.

use crate::meter::{empty_batches, percentile_90};
use crate::notes::Batches;
use crate::print;
use crate::stand_ins::StandIns;
use crate::units::Unit;
use criterion::measurement::{Measurement, ValueFormatter};
use rdpmc::Clock;
use rdpmc::Error;
use rdpmc::clock::ClockKind;
use std::cell::Cell;
use std::hint::black_box;

/// A measurement of time for criterion, without a system call.
///
/// Uses [`rdpmc::Clock`]. Times are in nanoseconds, as criterion's `WallTime` has them, but the cost of
/// reading is subtracted.
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
    /// What may be left of an interval with nothing in it.
    floor: u64,
    /// The intervals since the last sample.
    intervals: Cell<u64>,
    batches: Cell<Batches>,
    stand_ins: StandIns,
}

impl ClockMeasurement {
    /// Opens a clock for this thread, as [`Clock::open`](rdpmc::Clock::open) does. Reads it some hundred times, to
    /// measure the cost of a read.
    ///
    /// # Errors
    /// As [`Clock::open`](rdpmc::Clock::open).
    pub fn open() -> Result<ClockMeasurement, Error> {
        Ok(ClockMeasurement::from(Clock::open()?))
    }

    /// Returns the clock's source, as [`Clock::kind`](rdpmc::Clock::kind) does. If it is `Kernel`, each read calls
    /// `clock_gettime`.
    pub fn kind(&self) -> ClockKind {
        self.clock.kind()
    }
}

impl From<Clock> for ClockMeasurement {
    fn from(clock: Clock) -> ClockMeasurement {
        let mut clock = ClockMeasurement {
            clock,
            overhead: 0,
            floor: 0,
            intervals: Cell::new(0),
            batches: Cell::default(),
            stand_ins: StandIns::default(),
        };
        clock.overhead = clock.mean_of_nothing();
        clock.floor = percentile_90(empty_batches(&clock));
        clock
    }
}

impl ClockMeasurement {
    /// Returns the mean time of an interval with nothing in it, in nanoseconds, while `overhead` is 0. The mean, because an
    /// interval may be shorter than a step of the clock. The median of several means, because an interrupt may disturb some.
    fn mean_of_nothing(&self) -> u64 {
        const INTERVALS: u64 = 64;
        let mut sums = [0_u64; 5];
        for sum in &mut sums {
            for number in 0..INTERVALS {
                *sum = sum.saturating_add(self.end(black_box(self.start())));
                // Intervals at equal distances could all begin at the same point of a step.
                (0..number).for_each(|_| black_box(()));
            }
        }
        sums.sort_unstable();
        let [_, _, median, _, _] = sums;
        (median + INTERVALS / 2) / INTERVALS
    }
}

impl Measurement for ClockMeasurement {
    /// Nanoseconds on the clock's timeline.
    type Intermediate = u64;
    /// Nanoseconds.
    type Value = u64;

    // Not inlined: the instructions between the two reads are then equal everywhere, and can be subtracted.
    #[inline(never)]
    fn start(&self) -> u64 {
        self.clock.now_ordered()
    }

    #[inline(never)]
    fn end(&self, start: u64) -> u64 {
        let end = self.clock.now_ordered();
        self.intervals.set(self.intervals.get() + 1);
        end.saturating_sub(start).saturating_sub(self.overhead)
    }

    fn add(&self, first: &u64, second: &u64) -> u64 {
        first.saturating_add(*second)
    }

    fn zero(&self) -> u64 {
        self.intervals.set(0);
        0
    }

    fn to_f64(&self, sample: &u64) -> f64 {
        self.batches.set(self.batches.get().plus(*sample, self.intervals.take()));
        self.stand_ins.sample(*sample as f64)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        print::before_the_report(&[], None, self.note().as_slice());
        &Unit::Time
    }
}

impl ClockMeasurement {
    /// Returns the note on a benchmark, and begins another one.
    pub(crate) fn note(&self) -> Option<String> {
        self.stand_ins.report();
        self.batches.take().close_to(self.floor, &Unit::Time, "the clock")
    }
}
