//! Further events, counted along with what drives criterion.

use super::meter::{Counts, Meter, Overhead};
use super::units::{Nothings, Unit};
use super::{Tally, below, nothing_by};
use crate::error::Error;
use crate::event::Event;
use crate::group::Group;
use criterion::measurement::{Measurement, ValueFormatter};
use serde_json::{Value, json};
use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{env, fs};

/// `M` drives criterion, and a group of `N` events is counted along with it: their medians are printed
/// below each benchmark's report, and all that was counted is written beside criterion's own files.
///
/// ```
/// use criterion::Criterion;
/// use rdpmc::Event;
/// use rdpmc::criterion::{Along, Counter};
///
/// type Measured = Along<Counter, 2>;
///
/// fn cycles_and_more() -> Result<Criterion<Measured>, rdpmc::Error> {
///     let events = [Event::INSTRUCTIONS, Event::BRANCH_MISSES];
///     Ok(Criterion::default().with_measurement(Along::open(Counter::cycles()?, events)?))
/// }
/// # let _ = cycles_and_more;
/// ```
///
/// Benchmarks stay as they are, and so does what criterion reports. Below it there is a line for each event
/// (for the last benchmark, and for one without a group, below the empty line that criterion ends with):
///
/// ```text
/// cycles/countdown/1000   time:   [6.0150 kcycles 6.0150 kcycles 6.0150 kcycles]
///                  along: 2.0050 kinstructions
/// ```
///
/// It is the median of the samples, for one iteration, what measuring costs taken off. The events are a
/// group: counted together or not at all. `M` is read between their readings, so it counts nothing of
/// them; should it come to ask the kernel, as it loses its counter, they count that.
///
/// # Files
///
/// criterion tells no measurement how many iterations a sample has. So these are taken from the
/// `sample.json` that criterion has just written, found by the very measurements that are in it, in the
/// directory that criterion writes to (`CRITERION_HOME`, `CARGO_TARGET_DIR` or cargo's own). Beside it
/// goes `counters.json`:
///
/// ```text
/// {"iters": [91.0, 182.0, …],
///  "counters": [{"event": "instructions", "unit": "instructions", "median": 2005.01,
///                "counts": [182460, 364915, …]}, …],
///  "estimates": 0, "incomplete": 0}
/// ```
///
/// where `counts` are of whole samples, as `times` are in criterion's `sample.json`, and the last two say
/// how many of these are [not what they seem](super#what-becomes-of-it). Where criterion saves
/// no samples (`--discard-baseline`, under `cargo criterion`) or elsewhere (`output_directory`), there is
/// nothing but a line that says so. An `Along` of an `Along` is of little use: there is one
/// `counters.json`.
#[derive(Debug)]
pub struct Along<M: Measurement, const N: usize> {
    primary: M,
    meter: Meter<N>,
    tally: Tally,
    nothings: Nothings,
    samples: RefCell<Samples<N>>,
    /// Where criterion writes to.
    directory: OnceCell<PathBuf>,
}

/// Those of a benchmark that is under way or has been reported just now.
#[derive(Debug)]
struct Samples<const N: usize> {
    /// When the first of them was taken.
    since: Option<SystemTime>,
    /// What drives criterion, and the counts.
    measured: Vec<(f64, Counts<N>)>,
}

impl<M: Measurement, const N: usize> Along<M, N> {
    /// Counts `events`, opened as [`Group::open`] does, for this thread, along with `primary`. Reads them
    /// some hundred times, to know what that costs.
    ///
    /// # Errors
    /// As there.
    pub fn open(primary: M, events: [Event; N]) -> Result<Along<M, N>, Error> {
        Ok(Along::of(primary, Group::open(events)?))
    }

    /// The same for a group that was opened otherwise, to count the kernel as well, say.
    pub fn of(primary: M, group: Group<N>) -> Along<M, N> {
        let mut along = Along {
            primary,
            meter: Meter::new(group),
            tally: Tally::default(),
            nothings: Nothings::default(),
            samples: RefCell::new(Samples { since: None, measured: Vec::new() }),
            directory: OnceCell::new(),
        };
        // This includes what it costs to measure by the primary.
        let nothing = || nothing_by(&along).into_iter().map(|(counts, _)| counts).collect();
        let overhead = Overhead::of(nothing);
        along.meter.take_off(overhead);
        along
    }

    /// Says below a report that has been printed what was counted.
    fn say(&self) {
        if !self.tally.say(&self.meter) {
            return;
        }
        let Ok(mut samples) = self.samples.try_borrow_mut() else { return };
        let directory = self.directory.get_or_init(criterion_directory);
        let Some((path, iterations)) = samples.find(directory) else {
            let directory = directory.display();
            below("along:", &format!("not known, as there is no sample.json of it in {directory}"));
            *samples = Samples { since: None, measured: Vec::new() };
            return;
        };
        let saved = samples.saved(iterations);
        let mut counters = Vec::new();
        for (place, event) in self.meter.group().events().into_iter().enumerate() {
            let of = |counts: &Counts<N>| counts.counts().get(place).copied().unwrap_or(0);
            let counts: Vec<u64> = saved.iter().map(|(_, counts)| of(counts)).collect();
            let median = median(saved.iter().map(|(n, counts)| of(counts) as f64 / n));
            let unit = Unit::of(event);
            let (name, unit_name) = (event.to_string(), unit.name());
            let what = if name == unit_name { String::new() } else { format!(" ({name})") };
            below("along:", &format!("{}{what}", unit.format_value(median).trim_start()));
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
            below("along:", &format!("counters.json cannot be written: {error}"));
        }
        *samples = Samples { since: None, measured: Vec::new() };
    }
}

impl<M: Measurement, const N: usize> Measurement for Along<M, N> {
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
        let primary = self.nothings.sample(self.primary.to_f64(&sample.1));
        self.tally.take(&sample.0);
        if let Ok(mut samples) = self.samples.try_borrow_mut() {
            samples.since.get_or_insert_with(SystemTime::now);
            samples.measured.push((primary, sample.0));
        }
        primary
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        let formatter = self.primary.formatter();
        self.say();
        self.tally.report();
        self.nothings.report();
        formatter
    }
}

impl<M: Measurement, const N: usize> Drop for Along<M, N> {
    fn drop(&mut self) {
        let _ = self.primary.zero(); // what it has to say comes first
        self.say();
    }
}

impl<const N: usize> Samples<N> {
    /// Those that were saved, each with how many iterations it had: the last ones, as those before were
    /// criterion's search for a number of iterations (`--quick`).
    fn saved(&self, iterations: Vec<f64>) -> Vec<(f64, Counts<N>)> {
        let first = self.measured.len().saturating_sub(iterations.len());
        let counts = self.measured.iter().skip(first).map(|(_, counts)| *counts);
        iterations.into_iter().zip(counts).collect()
    }

    /// The file that criterion has just written of these samples, and how many iterations each had.
    fn find(&self, directory: &Path) -> Option<(PathBuf, Vec<f64>)> {
        // A file's time may be that of the last tick.
        let since = self.since?.checked_sub(Duration::from_secs(1))?;
        let mut found = Vec::new();
        saved_since(since, directory, DEEPEST, &mut found);
        found.sort();
        found.into_iter().rev().find_map(|(_, path)| {
            let json: Value = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            let numbers = |name| -> Option<Vec<f64>> {
                json.get(name)?.as_array()?.iter().map(Value::as_f64).collect()
            };
            let (iterations, times) = (numbers("iters")?, numbers("times")?);
            // Of the last ones that were taken.
            let first = self.measured.len().saturating_sub(times.len());
            let ours = self.measured.iter().skip(first).map(|(primary, _)| *primary);
            // They have been to decimal and back.
            let is_same = |(ours, saved): (f64, &f64)| (ours - saved).abs() <= ours.abs() * 1e-12;
            let all = times.len() == iterations.len()
                && !times.is_empty()
                // Of a single one that takes long, `--quick` makes two.
                && (times.len() <= self.measured.len() || [times.len(), self.measured.len()] == [2, 1])
                && ours.zip(&times).all(is_same);
            all.then_some((path, iterations))
        })
    }
}

/// `GROUP/FUNCTION/PARAMETER/new`.
const DEEPEST: u32 = 4;

/// What criterion has saved below a directory, with the times.
fn saved_since(
    since: SystemTime,
    directory: &Path,
    deeper: u32,
    found: &mut Vec<(SystemTime, PathBuf)>,
) {
    let sample = directory.join("sample.json");
    if directory.ends_with("new") {
        let modified = fs::metadata(&sample).and_then(|metadata| metadata.modified());
        if let Some(modified) = modified.ok().filter(|modified| *modified >= since) {
            found.push((modified, sample));
        }
    }
    let Some(deeper) = deeper.checked_sub(1) else { return };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            saved_since(since, &entry.path(), deeper, found);
        }
    }
}

/// Where criterion writes to, found out as it does.
fn criterion_directory() -> PathBuf {
    if let Some(home) = env::var_os("CRITERION_HOME") {
        return home.into();
    }
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from).or_else(|| {
        let mut cargo = std::process::Command::new(env::var_os("CARGO")?);
        let said = cargo.args(["metadata", "--format-version", "1", "--no-deps"]).output().ok()?;
        let metadata: Value = serde_json::from_slice(&said.stdout).ok()?;
        Some(metadata.get("target_directory")?.as_str()?.into())
    });
    target.unwrap_or_else(|| "target".into()).join("criterion")
}

/// The middle of them, or between the two in the middle.
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

    /// A directory as criterion leaves it, by `GROUP/FUNCTION`.
    struct Saved(PathBuf);

    impl Saved {
        fn new() -> Saved {
            Saved(env::temp_dir().join(format!("rdpmc-saved-{}", std::process::id())))
        }

        fn save(&self, benchmark: &str, iterations: &[f64], times: &[f64]) -> PathBuf {
            let directory = self.0.join(benchmark).join("new");
            fs::create_dir_all(&directory).unwrap();
            let path = directory.join("sample.json");
            let json = json!({"sampling_mode": "Linear", "iters": iterations, "times": times});
            fs::write(&path, json.to_string()).unwrap();
            path
        }
    }

    impl Drop for Saved {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn samples(of: &[f64]) -> Samples<1> {
        let measured = of.iter().map(|primary| (*primary, Counts::from([0]))).collect();
        Samples { since: Some(SystemTime::now()), measured }
    }

    #[test]
    fn samples_are_found_by_what_was_measured() {
        let saved = Saved::new();
        let short = saved.save("short", &[1.0, 2.0], &[10.0, 20.1]);
        let long = saved.save("group/function/7", &[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]);
        fs::create_dir_all(saved.0.join("group/function/7/base")).unwrap();
        fs::copy(&long, saved.0.join("group/function/7/base/sample.json")).unwrap();
        fs::create_dir_all(saved.0.join("broken/new")).unwrap();
        fs::write(saved.0.join("broken/new/sample.json"), "{\"iters\": 1").unwrap();
        let find = |of: &[f64]| samples(of).find(&saved.0);
        assert_eq!(find(&[10.0, 20.1]), Some((short.clone(), vec![1.0, 2.0])));
        assert_eq!(find(&[10.0, 20.0, 30.0]), Some((long, vec![1.0, 2.0, 3.0])));
        // What came before was the search of `--quick`.
        assert_eq!(find(&[5.0, 10.0, 20.1]), Some((short.clone(), vec![1.0, 2.0])));
        let counts: Vec<_> = (1..=3).map(|n| (0.0, Counts::from([n]))).collect();
        let three = Samples { since: None, measured: counts };
        let of = |iterations: &[f64]| {
            let saved = three.saved(iterations.to_vec()).into_iter();
            saved.map(|(n, counts)| (n, counts.counts())).collect::<Vec<_>>()
        };
        assert_eq!(of(&[7.0, 8.0]), [(7.0, [2]), (8.0, [3])]);
        assert_eq!(find(&[10.0, 20.0, 31.0]), None);
        assert_eq!(find(&[20.0, 30.0, 40.0, 50.0]), None);
        // One that takes long is saved as two.
        let once = saved.save("once", &[1.0, 1.0], &[7.0, 7.0_f64.next_up()]);
        assert_eq!(find(&[7.0]), Some((once, vec![1.0, 1.0])));
        assert_eq!(find(&[20.0]), None);
        // Of two that are the same, the later; and not what was there before.
        let age = |path: &Path, seconds| {
            let then = SystemTime::now() - Duration::from_secs_f64(seconds);
            fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
        };
        let same = saved.save("another", &[1.0, 3.0], &[10.0, 20.1]);
        age(&same, 0.5);
        assert_eq!(find(&[10.0, 20.1]), Some((short.clone(), vec![1.0, 2.0])));
        age(&short, 0.7);
        assert_eq!(find(&[10.0, 20.1]), Some((same.clone(), vec![1.0, 3.0])));
        age(&short, 60.0);
        age(&same, 60.0);
        assert_eq!(find(&[10.0, 20.1]), None);
    }
}
