//! A measurement by counters where there are counters, and by time elsewhere.

use crate::arguments::Arguments;
use crate::clock::ClockMeasurement;
use crate::meter::{Cost, Counts, MAX_EVENTS, empty_batches, empty_samples, floor};
use crate::names;
use crate::page;
use crate::print;
use crate::report::Recorder;
use crate::sized_meter::SizedMeter;
use crate::stand_ins::StandIns;
use crate::stepped::Stepper;
use crate::topdown::Slots;
use crate::units::Unit;
use criterion::measurement::{Measurement, ValueFormatter};
use rdpmc::Error;
use rdpmc::messages::name_of;
use rdpmc::{Clock, DynGroup, Event, IntoEvent, Scope, SyscallGroup};
use rdpmc_report::criterion::home::{criterions_home, home_of};
use rdpmc_step::processes::end_if_stray;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// criterion with [`CountersOrTime`] as its measurement, or with another one.
pub type Criterion<M = CountersOrTime> = criterion::Criterion<M>;

/// criterion's bencher with [`CountersOrTime`] as its measurement, or with another one.
pub type Bencher<'a, M = CountersOrTime> = criterion::Bencher<'a, M>;

/// criterion's group of benchmarks with [`CountersOrTime`] as its measurement, or with another one.
pub type BenchmarkGroup<'a, M = CountersOrTime> = criterion::BenchmarkGroup<'a, M>;

/// criterion's macro, with [`instructions`] if there is no `config`.
///
/// ```
/// use criterion::criterion_main;
/// use rdpmc_criterion::{Criterion, criterion_group};
/// use std::hint::black_box;
///
/// fn parse(criterion: &mut Criterion) {
///     criterion.bench_function("u32", |bencher| bencher.iter(|| black_box("12345").parse::<u32>()));
/// }
///
/// criterion_group!(benches, parse);
/// criterion_main!(benches);
/// ```
#[macro_export]
macro_rules! criterion_group {
    (name = $name:ident; config = $config:expr; targets = $($target:path),+ $(,)*) => {
        $crate::__criterion::criterion_group! { name = $name; config = $config; targets = $($target),+ }
    };
    ($name:ident, $($target:path),+ $(,)*) => {
        $crate::criterion_group! { name = $name; config = $crate::instructions(); targets = $($target),+ }
    };
}

/// Returns criterion with user-mode [`Event::CYCLES`] as its measurement, or time where they cannot be counted: see
/// [`counters`].
pub fn cycles() -> Criterion {
    counters([Event::CYCLES])
}

/// Returns criterion with user-mode [`Event::INSTRUCTIONS`] as its measurement, or time where they cannot be counted: see
/// [`counters`].
pub fn instructions() -> Criterion {
    counters([Event::INSTRUCTIONS])
}

/// Returns criterion with the first event as its measurement. The others are counted beside it.
///
/// ```no_run
/// use criterion::{criterion_group, criterion_main};
/// use rdpmc::Event;
/// use rdpmc_criterion::Criterion;
/// use std::hint::black_box;
///
/// fn parse(criterion: &mut Criterion) {
///     criterion.bench_function("u32", |bencher| bencher.iter(|| black_box("12345").parse::<u32>()));
/// }
///
/// criterion_group! {
///     name = benches;
///     config = rdpmc_criterion::counters([Event::INSTRUCTIONS, Event::CYCLES]).sample_size(50);
///     targets = parse
/// }
/// criterion_main!(benches);
/// ```
///
/// Where the first event cannot be counted, time is the measurement: see [`CountersOrTime`]. An event that cannot be
/// counted beside the first is left out. The first report says so, with the reason.
///
/// Each measurement has a directory for its results, so criterion never compares one with another. It is beside
/// criterion's own: `target/criterion-instructions`, `target/criterion-time`. Its `index.html` has the
/// counts of all benchmarks, with links to criterion's HTML reports. It is written where criterion writes these.
///
/// Takes events or their names: `counters(["instructions", "cpu/event=0xc0,umask=0x1/"])`. A name that this machine does not
/// know is an event that cannot be counted.
///
/// Calls [`contain_faults`](rdpmc::contain_faults), which installs a signal handler. Opens the counters for this thread,
/// which must run the benchmarks. There can be 1 to 8 events.
pub fn counters<E: IntoEvent, const N: usize>(events: [E; N]) -> Criterion {
    CountersOrTime::builder(events).criterion()
}

/// In how many processes instructions are stepped, as in `rdpmc-bench`.
const PROCESSES: u32 = 8;

/// Settings of [`counters`]: see [`CountersOrTime::builder`].
#[derive(Clone, Debug)]
#[must_use = "criterion() makes use of it"]
pub struct Builder<E, const N: usize> {
    events: [E; N],
    time_to_step: Duration,
    processes: u32,
    topdown: bool,
    scope: Scope,
}

impl<E: IntoEvent, const N: usize> Builder<E, N> {
    /// Sets the time that counting instructions by single-stepping may take for each benchmark: a second by default, or the
    /// number of seconds in the environment variable `RDPMC_STEP_SECONDS`. Zero switches it off. A process uses
    /// at most a third of its warm-up time: see [the crate's page](crate#without-a-counter-of-instructions).
    pub fn time_to_step(self, time: Duration) -> Builder<E, N> {
        Builder { time_to_step: time, ..self }
    }

    /// Sets the number of processes in which instructions are counted, by a counter or by single-stepping: this one, and seven others by default.
    /// 1 starts no other process.
    ///
    /// A count can be the same in all iterations of one process and differ between processes: it may depend on the addresses of the stack and
    /// the heap, on the environment, or on random numbers. So after each benchmark, this program is started again with the arguments
    /// `--bench --warm-up-time SECONDS --exact NAME`. Each process counts the first iterations of this benchmark, and ends there. Its output is
    /// discarded.
    ///
    /// If not all of them agree, the interval that the gate compares has the counts of all, and half of their range more at each end, or ten times
    /// of it if fewer than five others counted.
    ///
    /// - By stepping: if fewer than five other processes come to the benchmark, a line says why, and the gate does not compare the figure. With 1, a
    ///   figure is exact if this process's iterations agree. If the warm-up is short, or there was time for one iteration only, one more
    ///   process counts instead of this one.
    /// - By a counter: processes differ if all first iterations of each have one count, and these counts are not the same. If they differ, the gate
    ///   does not compare branches. With [`Scope::Process`], or if the [time to step](Builder::time_to_step) is zero, no process is started.
    ///
    /// There are fewer processes, but five others at least, if the program takes more than a second to come to its benchmarks. A further one lists
    /// their names. If one does not answer in time, no more are started.
    pub fn processes(self, processes: u32) -> Builder<E, N> {
        Builder { processes, ..self }
    }

    /// Sets whose work is counted: that of this thread by default, or that of all threads of the process.
    ///
    /// ```no_run
    /// use rdpmc_criterion::{CountersOrTime, Criterion, Scope};
    ///
    /// let settings = CountersOrTime::builder(["instructions", "page-faults", "task-clock"]);
    /// let criterion: Criterion = settings.scope(Scope::Process).criterion();
    /// # drop(criterion);
    /// ```
    ///
    /// - If only this thread is counted and others have more than a thousandth of the CPU time, a line `other threads:` says so. Neither
    ///   this crate nor the gate compares the benchmark's counts then.
    /// - The counters of several threads are read by system call, at the start and the end of each sample: see
    ///   [`SyscallGroup`](rdpmc::SyscallGroup). Page faults and the CPU time (`task-clock`) of all threads are counted without a PMU, too.
    /// - Threads that wait for work without sleeping are counted, and so are those that work for another part of the program.
    /// - Single-stepping counts this thread alone.
    /// - Results are in a directory of their own, and the gate does not compare them with those of one thread.
    /// - [`Scope::NewThreads`] is taken for [`Scope::Process`].
    pub fn scope(self, scope: Scope) -> Builder<E, N> {
        Builder { scope, ..self }
    }

    /// Also prints where the pipeline slots of each benchmark go, as percents of all slots: retired, bad speculation, front end, back end.
    /// They take 4 to 6 of the 8 events. If this CPU cannot count them beside the others, the first report has the reason. Needs
    /// the feature `topdown`. See [`rdpmc_events::topdown`].
    #[cfg(feature = "topdown")]
    pub fn topdown(self) -> Builder<E, N> {
        Builder { topdown: true, ..self }
    }

    /// Opens the counters, as [`counters`] does, and returns criterion.
    pub fn criterion(self) -> Criterion {
        let (measurement, home) = CountersOrTime::open(self);
        // Hidden from criterion's documentation since it moved to the command `cargo criterion`. Nothing else keeps results
        // apart that have equal names.
        criterion::Criterion::default().with_measurement(measurement).output_directory(&home)
    }
}

/// A measurement for criterion by counters, or by time on a machine without them: that of [`counters`].
///
/// - By counters, the first event drives criterion. All events are one group: counted together or not at all.
/// - By time, [`ClockMeasurement`] drives criterion (on systems other than Linux, `WallTime`). Those of the events that
///   can be counted are counted beside it, for example page faults on a machine without a PMU.
/// - If [`Event::INSTRUCTIONS`] is one of the events and cannot be counted, the CPU steps through the first iterations: see
///   [the crate's page](crate#without-a-counter-of-instructions).
///
/// The counts of all events are printed before criterion's report of the benchmark, and saved beside its files: see
/// [the crate's page](crate#additional-counters).
///
/// [`ClockMeasurement`]: crate::ClockMeasurement
#[derive(Debug)]
pub struct CountersOrTime {
    driver: Driver,
    counters: Option<SizedMeter>,
    overhead: Cost<MAX_EVENTS>,
    stand_ins: StandIns,
    recorder: Recorder,
    /// Counts the instructions in other processes, and in this one if no counter does.
    stepper: Option<Stepper>,
}

/// What criterion measures.
#[derive(Debug)]
enum Driver {
    /// The first of the counters.
    Counter(&'static Unit),
    Clock(Box<ClockMeasurement>),
    WallTime,
}

/// The start of an interval, as criterion keeps it until the end. Nothing else can be done with it.
#[derive(Clone, Copy, Debug)]
pub struct Started {
    clock: u64,
    wall_time: Option<Instant>,
    part: Part,
}

/// What the stepper does in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Nothing,
    Steps,
    /// It takes the count of a counter.
    TakesCount,
}

/// A sample of [`CountersOrTime`]: counts, and nanoseconds if time drives criterion. It cannot be made otherwise, so there is no
/// `iter_custom`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    counts: Counts<MAX_EVENTS>,
    ns: u64,
}

impl CountersOrTime {
    /// Returns settings for criterion with these events: those of [`counters`], to be changed.
    ///
    /// ```no_run
    /// use rdpmc_criterion::{CountersOrTime, Criterion};
    /// use std::time::Duration;
    ///
    /// let events = ["instructions", "page-faults"];
    /// let criterion: Criterion = CountersOrTime::builder(events).time_to_step(Duration::ZERO).criterion();
    /// # drop(criterion);
    /// ```
    pub fn builder<E: IntoEvent, const N: usize>(events: [E; N]) -> Builder<E, N> {
        Builder {
            events,
            time_to_step: rdpmc_step::time(),
            processes: PROCESSES,
            topdown: false,
            scope: Scope::Thread,
        }
    }

    /// Returns the measurement, and the directory for its results.
    fn open<E: IntoEvent, const N: usize>(settings: Builder<E, N>) -> (CountersOrTime, PathBuf) {
        let Builder { events, time_to_step, processes, topdown, scope } = settings;
        let is_of_process = scope != Scope::Thread;
        const { assert!(N >= 1 && N <= MAX_EVENTS, "there are 1 to 8 events") };
        // Or why a name says nothing here.
        let wanted = events.map(|event| event.into_event().map_err(|why| why.to_string()));
        let known: Vec<Event> = wanted.iter().flatten().copied().collect();
        let mut stepper = None;
        if known.contains(&Event::INSTRUCTIONS) {
            stepper = Stepper::new(time_to_step, processes, &Arguments::of_this_process());
        }
        let slots = topdown.then(|| Slots::of_this_cpu().and_then(|slots| fits(slots, &known)));
        let of_slots = slots.as_ref().and_then(|slots| slots.as_ref().ok());
        let all: Vec<Event> =
            known.iter().chain(of_slots.map_or(&[][..], |slots| &slots.events)).copied().collect();
        let (opened, why_none) = match open_group(&all, is_of_process) {
            Ok(opened) => (Some(opened), None),
            Err(why) => (None, Some(why)),
        };
        let (counters, counted, missing) = match opened {
            Some(Opened { meter, events, missing }) => (Some(meter), events, missing),
            None => (None, Vec::new(), Vec::new()),
        };
        stepper = beside(stepper, &counted, is_of_process);
        let recorder = Recorder::new(&counted);
        let is_driven = |first: &Event| counted.first() == Some(first);
        let (driver, mut recorder) = match wanted.first() {
            Some(Ok(first)) if is_driven(first) => {
                (Driver::Counter(Unit::for_event(*first)), recorder.driven_by_first())
            }
            first => {
                let why = match first {
                    Some(Err(why)) => Some(why.clone()),
                    _ => why_none.or_else(|| Some(missing.first()?.1.clone())),
                };
                let clock = Clock::open().map(|clock| Box::new(ClockMeasurement::from(clock)));
                let recorder = recorder.without_counters(why.unwrap_or_default());
                (clock.map_or(Driver::WallTime, Driver::Clock), recorder)
            }
        };
        for event in wanted.iter().skip(1) {
            recorder = match event {
                Err(why) => recorder.without(why),
                Ok(event) if counted.contains(event) => recorder,
                // Without counters, the reason is that of the first event.
                Ok(event) => match missing.iter().find(|(known, _)| known == event) {
                    Some((_, why)) if matches!(driver, Driver::Counter(_)) => {
                        recorder.without(why.clone())
                    }
                    _ => recorder.without(name_of(*event)),
                },
            };
        }
        let recorder = match slots {
            // Others may have taken a counter since it was checked.
            Some(Ok(slots)) if counted.ends_with(&slots.events) => recorder.with_slots(slots),
            Some(Ok(slots)) => {
                let why = missing.iter().find(|(event, _)| slots.events.contains(event));
                let why = why.map_or_else(String::new, |(_, why)| format!(": {why}"));
                recorder.without(format!("top-down: its events could not be opened{why}"))
            }
            Some(Err(why)) => recorder.without(format!("top-down: {why}")),
            None => recorder,
        };
        let recorder = if is_of_process { recorder.of_process() } else { recorder };
        let may_be_twice = [Event::INSTRUCTIONS, Event::BRANCHES];
        let recorder = match counted.iter().any(|event| may_be_twice.contains(event)) {
            true => recorder.measure_spec_lock_map(),
            false => recorder,
        };
        let kind = recorder.driver("ns");
        let home = home_of(&criterions_home(), &kind);
        let mut all = CountersOrTime {
            driver,
            counters,
            overhead: Cost::Wanted,
            stand_ins: StandIns::default(),
            recorder: recorder.at(home.clone()),
            stepper,
        };
        if let Some(counters) = &all.counters {
            let counts = |all: Vec<Measured>| all.into_iter().map(|sample| sample.counts).collect();
            all.overhead = Cost::measure(|| counts(empty_samples(&all)));
            all.recorder.set_floor(floor(counts(empty_batches(&all))));
            counters.take_error();
        }
        (all, home)
    }

    /// Gives the count of an interval to the stepper.
    #[cold]
    fn take(&self, counts: &Counts<MAX_EVENTS>) {
        let is_known = !counts.are_estimates() && !counts.are_incomplete();
        if let Some(stepper) = &self.stepper {
            let place = stepper.counter().filter(|_| is_known);
            stepper.take(place.and_then(|place| counts.counts().get(place).copied()));
        }
    }
}

/// The counters of those events that can be counted.
struct Opened {
    meter: SizedMeter,
    events: Vec<Event>,
    /// Those that cannot, and why.
    missing: Vec<(Event, String)>,
}

/// Returns what compares the instructions with those of other processes: by stepping, or by the counter of one of these events. Other threads
/// may have other work in each process.
fn beside(stepper: Option<Stepper>, counted: &[Event], is_of_process: bool) -> Option<Stepper> {
    match counted.iter().position(|event| *event == Event::INSTRUCTIONS) {
        Some(place) => stepper.filter(|_| !is_of_process)?.by_counter(place),
        None => stepper,
    }
}

/// Returns the events of the slots if all of them can be counted beside the others, or why not.
fn fits(slots: Slots, events: &[Event]) -> Result<Slots, String> {
    let number = events.len() + slots.events.len();
    if number > MAX_EVENTS {
        return Err(format!("it takes {number} events with the others. There can be {MAX_EVENTS}"));
    }
    let all: Vec<Event> = events.iter().chain(&slots.events).copied().collect();
    let fit = DynGroup::builder(&all).fit().map_err(|why| why.to_string())?;
    // All of the slots' events are at the end, or there is a reason.
    match fit.missing.first() {
        Some((_, why)) if !fit.events.ends_with(&slots.events) => Err(why.to_string()),
        _ => Ok(slots),
    }
}

/// Opens those of the events that can be counted.
fn open_group(events: &[Event], is_of_process: bool) -> Result<Opened, String> {
    let said = |why: Error| why.to_string();
    rdpmc::contain_faults().map_err(said)?;
    let fit = DynGroup::builder(events).fit().map_err(said)?;
    let missing = fit.missing.iter().map(|(event, why)| (*event, why.to_string())).collect();
    let meter = match is_of_process {
        true => {
            SizedMeter::of_threads(SyscallGroup::open(&fit.events, Scope::Process).map_err(said)?)
        }
        false => SizedMeter::new(DynGroup::open(&fit.events).map_err(said)?),
    };
    Ok(Opened { meter, events: fit.events, missing })
}

impl Measurement for CountersOrTime {
    type Intermediate = Started;
    type Value = Measured;

    // Not inlined: the instructions between the two reads are then equal everywhere, and can be subtracted.
    #[inline(never)]
    fn start(&self) -> Started {
        let due = self.stepper.as_ref().filter(|stepper| stepper.is_due());
        // Between the two reads, an interval whose count is taken is like any other.
        let stepper = due.filter(|stepper| stepper.counter().is_none());
        let part = match (due, stepper) {
            (_, Some(_)) => Part::Steps,
            (Some(_), None) => Part::TakesCount,
            (None, None) => Part::Nothing,
        };
        if let Some(counters) = &self.counters {
            counters.start();
        }
        let (clock, wall_time) = match &self.driver {
            Driver::Counter(_) => (0, None),
            Driver::Clock(clock) => (clock.start(), None),
            Driver::WallTime => (0, Some(Instant::now())),
        };
        let started = Started { clock, wall_time, part };
        if let Some(stepper) = stepper {
            stepper.start();
        }
        started
    }

    #[inline(never)]
    fn end(&self, start: Started) -> Measured {
        if start.part == Part::Steps {
            self.stepper.iter().for_each(Stepper::end);
        }
        let ns = match (&self.driver, start.wall_time) {
            (Driver::Clock(clock), _) => clock.end(start.clock),
            (_, Some(start)) => start.elapsed().as_nanos().try_into().unwrap_or(u64::MAX),
            (_, None) => 0,
        };
        let counts = self.counters.as_ref().map_or(Counts::NONE, SizedMeter::end);
        let counts = counts.less(&self.overhead);
        if start.part == Part::TakesCount {
            self.take(&counts);
        }
        Measured { counts, ns }
    }

    fn add(&self, first: &Measured, second: &Measured) -> Measured {
        let ns = first.ns.saturating_add(second.ns);
        Measured { counts: first.counts.plus(&second.counts), ns }
    }

    fn zero(&self) -> Measured {
        end_if_stray();
        names::end_if_listing();
        let is_other = self.stepper.as_ref().is_some_and(Stepper::is_other);
        let is_first = self.recorder.begin(is_other);
        if let Some(stepper) = &self.stepper {
            if is_first {
                stepper.begin(|| {
                    black_box(self.end(black_box(self.start())));
                });
            }
            stepper.zero();
        }
        if let Driver::Clock(clock) = &self.driver {
            clock.zero();
        }
        Measured { counts: Counts::NONE, ns: 0 }
    }

    fn to_f64(&self, sample: &Measured) -> f64 {
        let value = match &self.driver {
            Driver::Counter(_) => {
                let [count, ..] = sample.counts.counts();
                self.stand_ins.sample(count as f64)
            }
            Driver::Clock(clock) => clock.to_f64(&sample.ns),
            Driver::WallTime => self.stand_ins.sample(sample.ns as f64),
        };
        self.recorder.take(sample.counts, value);
        self.stepper.iter().for_each(Stepper::sample);
        value
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        let (unit, note) = match &self.driver {
            Driver::Counter(unit) => (*unit, None),
            Driver::Clock(clock) => (&Unit::Time, clock.note()),
            Driver::WallTime => (&Unit::Time, None),
        };
        let error = self.counters.as_ref().and_then(SizedMeter::take_error);
        self.recorder.report(unit.name(), error, note, self.stepper.as_ref());
        self.stand_ins.report();
        unit
    }
}

/// Writes the index of the HTML reports, because `criterion_main!` writes that of criterion's own directory only, and the page of the
/// counts.
impl Drop for CountersOrTime {
    fn drop(&mut self) {
        // `cargo criterion` writes its own, and the `Criterion` that is being dropped holds the connection with it.
        let is_elsewhere = std::env::var_os("CARGO_CRITERION_PORT").is_some();
        if std::thread::panicking() || is_elsewhere {
            return;
        }
        if let Some(home) = self.recorder.home_with_html() {
            criterion::Criterion::default().output_directory(home).final_summary();
            if let Err(why) = page::write(home) {
                let to = home.join("index.html");
                let note = format!("counters: {} is not written: {why}", to.display());
                print::before_the_report(&[note], None, &[]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// What is measured on systems without a [`Clock`].
    #[test]
    fn wall_time_drives_where_there_is_no_clock() {
        let time = CountersOrTime {
            driver: Driver::WallTime,
            counters: None,
            overhead: Cost::Wanted,
            stand_ins: StandIns::default(),
            recorder: Recorder::new(&[]),
            stepper: None,
        };
        let pause = Duration::from_millis(2);
        let sample = || {
            let start = time.start();
            std::thread::sleep(pause);
            time.end(start)
        };
        let (one, other) = (sample(), sample());
        let sum = time.add(&one, &other);
        assert_eq!(sum.ns, one.ns + other.ns);
        assert!(time.to_f64(&sum) >= 2.0 * pause.as_nanos() as f64);
        assert_eq!(time.formatter().format_value(1.5e6).trim(), "1.5000 ms");
    }
}
