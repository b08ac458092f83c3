//! Further events, counted beside the measurement that drives criterion.

use crate::meter::{Cost, Counts, Meter, empty_samples};
use crate::notes::{SampleNotes, below};
use crate::saved;
use crate::units::Unit;
use crate::zeros::ZeroGuard;
use criterion::measurement::{Measurement, ValueFormatter};
use rdpmc::error::OpenError;
use rdpmc::pmu::Pmus;
use rdpmc::{Event, Group};
use serde_json::json;
use std::cell::{OnceCell, RefCell};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

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
    notes: SampleNotes,
    zeros: ZeroGuard,
    samples: RefCell<Pending<N>>,
    /// The directory that criterion writes to.
    directory: OnceCell<PathBuf>,
}

/// The samples of a benchmark that is running or has just been reported.
#[derive(Debug)]
struct Pending<const N: usize> {
    /// When the first sample was taken.
    since: Option<SystemTime>,
    /// The value of `M`, and the counts.
    measured: Vec<(f64, Counts<N>)>,
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
            meter: Meter::new(group),
            notes: SampleNotes::default(),
            zeros: ZeroGuard::default(),
            samples: RefCell::new(Pending { since: None, measured: Vec::new() }),
            directory: OnceCell::new(),
        };
        // Includes the cost of measuring with `primary`.
        let nothing = || empty_samples(&all).into_iter().map(|(counts, _)| counts).collect();
        let overhead = Cost::of(nothing);
        all.meter.take_off(overhead);
        all
    }

    /// Prints the counts below a report that has been printed.
    fn say(&self) {
        if !self.notes.say(&self.meter) {
            return;
        }
        let Ok(mut samples) = self.samples.try_borrow_mut() else { return };
        let directory = self.directory.get_or_init(saved::directory);
        let Some((path, iterations)) = samples.find(directory) else {
            let directory = directory.display();
            below(
                "counters:",
                &format!("not known, as there is no sample.json of it in {directory}"),
            );
            *samples = Pending { since: None, measured: Vec::new() };
            return;
        };
        let saved = samples.saved(iterations);
        let mut counters = Vec::new();
        for (place, event) in self.meter.group().events().into_iter().enumerate() {
            let of = |counts: &Counts<N>| counts.counts().get(place).copied().unwrap_or(0);
            let counts: Vec<u64> = saved.iter().map(|(_, counts)| of(counts)).collect();
            let median = median(saved.iter().map(|(n, counts)| of(counts) as f64 / n));
            let unit = Unit::of(event);
            let (name, unit_name) = (Pmus::local().name_of(event), unit.name());
            let what = if name == unit_name { String::new() } else { format!(" ({name})") };
            below("counters:", &format!("{}{what}", unit.format_value(median).trim_start()));
            counters.push(
                json!({"event": name, "unit": unit_name, "median": median, "counts": counts}),
            );
        }
        let json = json!({
            "iters": saved.iter().map(|(n, _)| n).collect::<Vec<_>>(),
            "counters": counters,
            "estimates": saved.iter().filter(|(_, counts)| counts.are_estimates()).count(),
            "incomplete": saved.iter().filter(|(_, counts)| counts.are_incomplete()).count(),
        });
        if let Err(error) = fs::write(path.with_file_name("counters.json"), json.to_string()) {
            below("counters:", &format!("counters.json cannot be written: {error}"));
        }
        *samples = Pending { since: None, measured: Vec::new() };
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
        (self.meter.end(), primary)
    }

    fn add(&self, first: &Self::Value, second: &Self::Value) -> Self::Value {
        (first.0.plus(&second.0), self.primary.add(&first.1, &second.1))
    }

    fn zero(&self) -> Self::Value {
        let zero = (Counts::NONE, self.primary.zero());
        self.say();
        zero
    }

    fn to_f64(&self, sample: &Self::Value) -> f64 {
        let primary = self.zeros.sample(self.primary.to_f64(&sample.1));
        self.notes.take(&sample.0);
        if let Ok(mut samples) = self.samples.try_borrow_mut() {
            samples.since.get_or_insert_with(SystemTime::now);
            samples.measured.push((primary, sample.0));
        }
        primary
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        let formatter = self.primary.formatter();
        self.say();
        self.notes.report();
        self.zeros.report();
        formatter
    }
}

impl<M: Measurement, const N: usize> Drop for WithCounters<M, N> {
    fn drop(&mut self) {
        let _ = self.primary.zero(); // prints its own notes first
        self.say();
    }
}

impl<const N: usize> Pending<N> {
    /// Returns the samples that were saved, with their numbers of iterations. They are the last ones: earlier samples
    /// are from criterion's search for a number of iterations (`--quick`).
    fn saved(&self, iterations: Vec<f64>) -> Vec<(f64, Counts<N>)> {
        let first = self.measured.len().saturating_sub(iterations.len());
        let counts = self.measured.iter().skip(first).map(|(_, counts)| *counts);
        iterations.into_iter().zip(counts).collect()
    }

    /// Finds the file that criterion has just written with these samples. Returns its path, and the number of
    /// iterations of each sample.
    fn find(&self, directory: &Path) -> Option<(PathBuf, Vec<f64>)> {
        let measured: Vec<f64> = self.measured.iter().map(|(primary, _)| *primary).collect();
        saved::find(directory, self.since?, &measured)
    }
}

/// Returns the median. For an even count, this is the mean of the two in the middle.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let of = |place: usize| values.get(place).copied().unwrap_or(0.0);
    match values.len() {
        0 => 0.0,
        n => (of((n - 1) / 2) + of(n / 2)) / 2.0,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_middle() {
        let of = |values: &[f64]| median(values.iter().copied());
        assert_eq!(
            [of(&[]), of(&[3.0]), of(&[4.0, 1.0]), of(&[9.0, 1.0, 2.0])],
            [0.0, 3.0, 2.5, 2.0]
        );
    }

    #[test]
    fn the_last_ones_were_saved() {
        let measured: Vec<_> = (1..=3).map(|n| (0.0, Counts::from([n]))).collect();
        let three = Pending { since: None, measured };
        let saved = three.saved(vec![7.0, 8.0]).into_iter();
        let saved: Vec<_> = saved.map(|(n, counts)| (n, counts.counts())).collect();
        assert_eq!(saved, [(7.0, [2]), (8.0, [3])]);
    }
}
