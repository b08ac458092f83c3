//! Further events, counted beside the measurement that drives criterion.

use crate::meter::{Cost, Counts, Meter, empty_batches, empty_samples, floor};
use crate::report::Recorder;
use crate::stand_ins::StandIns;
use criterion::measurement::{Measurement, ValueFormatter};
use rdpmc::Error;
use rdpmc::{Event, Group};

/// A measurement `M` that drives criterion, with a group of `N` further events.
///
/// Prints the counts of these events before each benchmark's report, and saves them beside criterion's files: see
/// [the crate's page](crate#additional-counters).
///
/// ```
/// use criterion::Criterion;
/// use rdpmc::Event;
/// use rdpmc_criterion::{ClockMeasurement, WithCounters};
/// use std::hint::black_box;
///
/// # fn main() -> Result<(), rdpmc::Error> {
/// # if rdpmc::Counter::open(Event::PAGE_FAULTS).is_err() { return Ok(()) }
/// let time = WithCounters::open(ClockMeasurement::open()?, [Event::PAGE_FAULTS, Event::CONTEXT_SWITCHES])?;
/// let mut criterion = Criterion::default().with_measurement(time);
/// # use std::time::Duration;
/// # criterion = criterion.without_plots().nresamples(1_001).sample_size(10);
/// # criterion = criterion.warm_up_time(Duration::from_millis(1));
/// # criterion = criterion.measurement_time(Duration::from_millis(1));
/// criterion.bench_function("a vector's life", |bencher| {
///     bencher.iter(|| vec![0; black_box(100)]);
/// });
/// # Ok(())
/// # }
/// ```
///
/// The events are a group: counted together or not at all. `M` is read between the readings of the group, so it does not
/// count them. If `M` loses its counter, its reads are system calls, which the events count.
///
/// The results are in the directory that criterion writes to by default (`CRITERION_HOME`, `CARGO_TARGET_DIR` or cargo's own). A
/// `WithCounters` of a `WithCounters` is of little use, because there is one `counters.json`.
#[derive(Debug)]
pub struct WithCounters<M: Measurement, const N: usize> {
    primary: M,
    meter: Meter<N>,
    overhead: Cost<N>,
    stand_ins: StandIns,
    recorder: Recorder,
}

impl<M: Measurement, const N: usize> WithCounters<M, N> {
    /// Opens `events` for this thread, as [`Group::open`] does, to count them beside `primary`. Reads them some
    /// hundred times, to measure the cost of a read.
    ///
    /// # Errors
    /// As [`Group::open`].
    pub fn open(primary: M, events: [Event; N]) -> Result<WithCounters<M, N>, Error> {
        Ok(WithCounters::with_group(primary, Group::open(events)?))
    }

    /// Counts a group with other settings beside `primary`, for example one that counts the kernel, too.
    pub fn with_group(primary: M, group: Group<N>) -> WithCounters<M, N> {
        let mut all = WithCounters {
            primary,
            recorder: Recorder::new(&group.events()),
            meter: Meter::new(group),
            overhead: Cost::Wanted,
            stand_ins: StandIns::default(),
        };
        // Includes the cost of measuring with `primary`.
        let counts =
            |all: Vec<(Counts<N>, M::Value)>| all.into_iter().map(|(counts, _)| counts).collect();
        all.overhead = Cost::measure(|| counts(empty_samples(&all)));
        all.recorder.set_floor(floor(counts(empty_batches(&all))));
        all.meter.take_error();
        all
    }
}

impl<M: Measurement, const N: usize> Measurement for WithCounters<M, N> {
    type Intermediate = M::Intermediate;
    type Value = (Counts<N>, M::Value);

    #[inline(always)]
    fn start(&self) -> M::Intermediate {
        self.meter.start();
        self.primary.start()
    }

    #[inline(always)]
    fn end(&self, start: M::Intermediate) -> Self::Value {
        let primary = self.primary.end(start);
        (self.meter.end().less(&self.overhead), primary)
    }

    fn add(&self, first: &Self::Value, second: &Self::Value) -> Self::Value {
        (first.0.plus(&second.0), self.primary.add(&first.1, &second.1))
    }

    fn zero(&self) -> Self::Value {
        self.recorder.begin(false);
        (Counts::NONE, self.primary.zero())
    }

    fn to_f64(&self, sample: &Self::Value) -> f64 {
        let value = self.stand_ins.sample(self.primary.to_f64(&sample.1));
        self.recorder.take(sample.0, value);
        value
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        let formatter = self.primary.formatter();
        let unit = formatter.scale_for_machines(&mut []);
        self.recorder.report(unit, self.meter.take_error(), None, None);
        self.stand_ins.report();
        formatter
    }
}
