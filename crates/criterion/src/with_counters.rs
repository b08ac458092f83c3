//! Further events, counted beside the measurement that drives criterion.

use crate::meter::{Cost, Counts, Meter, empty_samples};
use crate::recorder::Recorder;
use crate::samples::Samples;
use criterion::measurement::{Measurement, ValueFormatter};
use rdpmc::error::OpenError;
use rdpmc::{Event, Group};

/// A measurement `M` that drives criterion, with a group of `N` further events.
///
/// Prints the medians of these events below each benchmark's report, and writes all their counts to a file beside
/// criterion's own.
///
/// ```
/// use criterion::Criterion;
/// use rdpmc::Event;
/// use rdpmc_criterion::{CounterMeasurement, WithCounters};
///
/// type Measured = WithCounters<CounterMeasurement, 2>;
///
/// fn cycles_and_more() -> Result<Criterion<Measured>, rdpmc::Error> {
///     let events = [Event::INSTRUCTIONS, Event::BRANCH_MISSES];
///     Ok(Criterion::default().with_measurement(WithCounters::open(CounterMeasurement::cycles()?, events)?))
/// }
/// # let _ = cycles_and_more;
/// ```
///
/// Neither the benchmarks nor criterion's reports change. Below each report, there is a line for each event. (For the
/// last benchmark, and for one without a group, these are below the empty line that criterion ends with.)
///
/// ```text
/// cycles/countdown/1000   time:   [6.0150 kcycles 6.0150 kcycles 6.0150 kcycles]
///               counters: 2.0050 kinstructions
/// ```
///
/// The value is the median of the samples, for one iteration, with the cost of measuring subtracted. The events are a
/// group: counted together or not at all. `M` is read between the readings of the group, so it does not count them.
/// If `M` loses its counter, its reads are system calls, which the events count.
///
/// # Files
///
/// criterion does not tell a measurement how many iterations a sample has. The numbers are taken from the
/// `sample.json` that criterion has just written. It is in the directory that criterion writes to (`CRITERION_HOME`,
/// `CARGO_TARGET_DIR` or cargo's own), and is found by the measurements in it. Beside it, `counters.json` is written:
///
/// ```text
/// {"iters": [91.0, 182.0, …],
///  "counters": [{"event": "instructions", "unit": "instructions", "median": 2005.01,
///                "counts": [182460, 364915, …]}, …],
///  "estimates": 0, "incomplete": 0}
/// ```
///
/// `counts` are of whole samples, like `times` in criterion's `sample.json`. `estimates` and `incomplete` are the
/// numbers of samples that are [not exact](super#reports).
///
/// If criterion saves no samples (`--discard-baseline`, under `cargo criterion`) or saves them elsewhere
/// (`output_directory`), there is only a line that reports this. A `WithCounters` of a `WithCounters` is of little
/// use, because there is one `counters.json`.
#[derive(Debug)]
pub struct WithCounters<M: Measurement, const N: usize> {
    primary: M,
    meter: Meter<N>,
    overhead: Cost<N>,
    samples: Samples,
    recorder: Recorder,
}

impl<M: Measurement, const N: usize> WithCounters<M, N> {
    /// Opens `events` for this thread, as [`Group::open`] does, to count them beside `primary`. Reads them some
    /// hundred times, to measure the cost of a read.
    ///
    /// # Errors
    /// As [`Group::open`].
    pub fn open(primary: M, events: [Event; N]) -> Result<WithCounters<M, N>, OpenError> {
        Ok(WithCounters::of(primary, Group::open(events)?))
    }

    /// Counts a group with other settings beside `primary`, for example one that counts the kernel, too.
    pub fn of(primary: M, group: Group<N>) -> WithCounters<M, N> {
        let mut all = WithCounters {
            primary,
            recorder: Recorder::new(&group.events()),
            meter: Meter::new(group),
            overhead: Cost::Wanted,
            samples: Samples::default(),
        };
        // Includes the cost of measuring with `primary`.
        let nothing = || empty_samples(&all).into_iter().map(|(counts, _)| counts).collect();
        all.overhead = Cost::of(nothing);
        all.recorder.set_floor(all.overhead.floor());
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
        self.recorder.begin();
        (Counts::NONE, self.primary.zero())
    }

    fn to_f64(&self, sample: &Self::Value) -> f64 {
        self.recorder.take(sample.0);
        self.samples.sample(self.primary.to_f64(&sample.1))
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        let formatter = self.primary.formatter();
        self.recorder.report(formatter.scale_for_machines(&mut []), self.meter.take_error());
        self.samples.report();
        formatter
    }
}
