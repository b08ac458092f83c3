//! A measurement of one event.

use crate::meter::{Cost, Counts, Meter, empty_batches, empty_samples, floor};
use crate::notes::{Batches, SampleNotes};
use crate::print;
use crate::stand_ins::StandIns;
use crate::units::Unit;
use criterion::measurement::{Measurement, ValueFormatter};
use rdpmc::Error;
use rdpmc::messages::name_of;
use rdpmc::{Event, Group};
use std::cell::Cell;

/// A measurement of one event for criterion.
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
/// It belongs to the thread that opened it, and so does the `Criterion` that has it:
///
/// ```compile_fail,E0277
/// fn only_if_send<T: Send>() {}
/// only_if_send::<rdpmc_criterion::CounterMeasurement>();
/// ```
#[derive(Debug)]
pub struct CounterMeasurement {
    meter: Meter<1>,
    overhead: Cost<1>,
    /// What may be left of a batch with nothing in it.
    floor: u64,
    unit: &'static Unit,
    notes: SampleNotes,
    batches: Cell<Batches>,
    stand_ins: StandIns,
}

impl CounterMeasurement {
    /// Opens a measurement of [`Event::CYCLES`] in user mode.
    ///
    /// # Errors
    /// As [`open`](CounterMeasurement::open).
    pub fn cycles() -> Result<CounterMeasurement, Error> {
        CounterMeasurement::open(Event::CYCLES)
    }

    /// Opens a measurement of [`Event::INSTRUCTIONS`] in user mode.
    ///
    /// # Errors
    /// As [`open`](CounterMeasurement::open).
    pub fn instructions() -> Result<CounterMeasurement, Error> {
        CounterMeasurement::open(Event::INSTRUCTIONS)
    }

    /// Opens a measurement of `event` for this thread, as [`Group::open`] does. Reads the counter some hundred
    /// times, to measure the cost of a read.
    ///
    /// # Errors
    /// As [`Group::open`].
    pub fn open(event: Event) -> Result<CounterMeasurement, Error> {
        Ok(CounterMeasurement::from(Group::open([event])?))
    }
}

/// Makes a measurement of a [group](rdpmc::Group) of one event with other settings, for example one that counts the kernel,
/// too. The group must be enabled.
///
/// If other events have the PMU's counters for long, the cost of measuring stays unknown, and all samples are
/// estimates.
impl From<Group<1>> for CounterMeasurement {
    fn from(group: Group<1>) -> CounterMeasurement {
        let [event] = group.events();
        let unit = Unit::for_event(event);
        let mut counter = CounterMeasurement {
            meter: Meter::new(group),
            overhead: Cost::Wanted,
            floor: 0,
            unit,
            notes: SampleNotes::default(),
            batches: Cell::default(),
            stand_ins: StandIns::default(),
        };
        counter.overhead = Cost::measure(|| empty_samples(&counter));
        [counter.floor] = floor(empty_batches(&counter));
        counter.meter.take_error();
        counter
    }
}

/// Measures one interval at a time, as criterion does: an `end` belongs to the last `start`.
impl Measurement for CounterMeasurement {
    type Intermediate = ();
    type Value = Counts<1>;

    #[inline(always)]
    fn start(&self) {
        self.meter.start();
    }

    #[inline(always)]
    fn end(&self, (): ()) -> Counts<1> {
        self.meter.end().less(&self.overhead)
    }

    fn add(&self, first: &Counts<1>, second: &Counts<1>) -> Counts<1> {
        first.plus(second)
    }

    fn zero(&self) -> Counts<1> {
        Counts::NONE
    }

    fn to_f64(&self, sample: &Counts<1>) -> f64 {
        self.notes.take(sample);
        let [count] = sample.counts();
        self.batches.set(self.batches.get().plus(count, sample.intervals()));
        self.stand_ins.sample(count as f64)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        let [event] = self.meter.group().events();
        let name = name_of(event);
        let mut lines = self.notes.lines(&name, self.meter.take_error());
        lines.extend(self.batches.take().close_to(self.floor, self.unit, &name));
        print::before_the_report(&[], None, &lines);
        self.stand_ins.report();
        self.unit
    }
}
