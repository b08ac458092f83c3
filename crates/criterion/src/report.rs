//! Prints and saves the counts of each benchmark.

use crate::arguments::Arguments;
use crate::functions;
use crate::meter::{Counts, MAX_EVENTS};
use crate::names::Names;
use crate::new_samples::{Run, Saved, Unknown};
use crate::notes::{Batches, SampleNotes};
use crate::of_processes;
use crate::other_processes;
use crate::print;
use crate::stepped::{self, Placed, Stepper};
use crate::topdown::Slots;
use crate::units::Unit;
use criterion::measurement::ValueFormatter;
#[cfg(not(target_has_atomic = "64"))]
use portable_atomic::AtomicU64;
use rdpmc::Event;
use rdpmc::error::ReadError;
use rdpmc::messages::name_of;
use rdpmc_report::criterion::home::{criterions_home, name};
use rdpmc_report::criterion::{Counted, Results};
use rdpmc_report::gate::bench_json::{build, is_same_program, program};
use rdpmc_report::gate::functions::Functions;
use rdpmc_report::gate::stepped::Process;
use rdpmc_report::gate::{Change, Direction, Interval, Limits, MIN_VALUES, STEPPED_INSTRUCTIONS};
use rdpmc_step::VARIABLE;
use rdpmc_step::functions::Names as FunctionNames;
use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};
#[cfg(target_has_atomic = "64")]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

/// Takes the counts of each sample. When criterion has saved the samples of a benchmark and is about to print its report,
/// prints and saves the counts.
///
/// criterion does not tell a measurement about benchmarks and reports, but its calls show them:
/// - `zero`: a benchmark begins, or a sample of it.
/// - `to_f64`: a sample has been taken.
/// - `formatter`: criterion has saved the samples and is about to print the report, or a group has ended.
#[derive(Debug)]
pub(crate) struct Recorder {
    counters: Vec<Counter>,
    /// Whether the first event drives criterion, which prints it.
    first_drives: bool,
    without_counters: Option<String>,
    /// Whether the CPU counts twice behind atomic operations. None if that is not known.
    spec_lock_map: Option<bool>,
    /// What makes a line of the last counters. They are not printed themselves, nor saved.
    slots: Option<Slots>,
    /// Why there is less than wanted, until it has been printed.
    missing: RefCell<Vec<String>>,
    /// The directory that criterion writes to.
    home: OnceCell<PathBuf>,
    notes: SampleNotes,
    names: Names,
    /// Of functions.
    functions: RefCell<FunctionNames>,
    samples: RefCell<Vec<Counts<MAX_EVENTS>>>,
    /// What criterion was told of each sample.
    values: RefCell<Vec<f64>>,
    /// What criterion had saved before the benchmark.
    before: RefCell<Option<Saved>>,
    /// The directory of the last benchmark.
    last: RefCell<Option<PathBuf>>,
}

/// The stepped instructions of all processes.
#[derive(Debug, Default)]
struct InProcesses {
    instructions: Option<Interval>,
    /// The number of iterations that were stepped.
    iterations: u64,
    /// Why the figure cannot be compared.
    doubt: Option<String>,
    /// Where the instructions are, and the functions whose instructions differ.
    functions: Option<Functions>,
    differing: Option<String>,
}

impl InProcesses {
    /// Returns what processes have counted, this one first. `names` finds the functions of that whose count is nearest to the figure.
    fn joined(processes: &[&Placed], names: &mut FunctionNames) -> InProcesses {
        let all: Vec<Process> = processes.iter().map(|it| it.counted.process).collect();
        let Some((own, others)) = all.split_first() else { return InProcesses::default() };
        let instructions = own.joined(others);
        let placed = processes.iter().copied();
        let (functions, differing) = functions::joined(placed, instructions.median, names);
        InProcesses {
            instructions: Some(instructions),
            iterations: processes.iter().map(|it| it.counted.iterations).sum(),
            doubt: None,
            functions,
            // What agrees may still have the costs of measuring in other functions.
            differing: differing.filter(|_| instructions.low < instructions.high),
        }
    }

    /// A figure of this process alone cannot be compared.
    fn doubted(self, why: &str) -> InProcesses {
        let doubt = self.instructions.map(|_| in_too_few(why));
        InProcesses { doubt, ..self }
    }
}

/// Says that too few other processes counted.
fn in_too_few(why: &str) -> String {
    format!(
        "too few other processes counted it, so it may differ in others: {why}. `CountersOrTime::builder(...).processes(1)` accepts that"
    )
}

/// An event as it is printed and saved.
#[derive(Debug)]
struct Counter {
    name: String,
    unit: &'static Unit,
    /// What reading may add to each batch.
    floor: u64,
}

impl Recorder {
    /// Returns a recorder for these events.
    pub(crate) fn new(events: &[Event]) -> Recorder {
        let counter = |event: &Event| Counter {
            name: name_of(*event),
            unit: Unit::for_event(*event),
            floor: 0,
        };
        Recorder {
            counters: events.iter().map(counter).collect(),
            first_drives: false,
            without_counters: None,
            spec_lock_map: None,
            slots: None,
            missing: RefCell::default(),
            home: OnceCell::new(),
            notes: SampleNotes::default(),
            names: Names::default(),
            functions: RefCell::default(),
            samples: RefCell::default(),
            values: RefCell::default(),
            before: RefCell::default(),
            last: RefCell::default(),
        }
    }

    /// Sets the directory that criterion writes to.
    pub(crate) fn at(self, home: PathBuf) -> Recorder {
        Recorder { home: home.into(), ..self }
    }

    /// Records that the first event drives criterion.
    pub(crate) fn driven_by_first(self) -> Recorder {
        Recorder { first_drives: true, ..self }
    }

    /// Records why time drives criterion.
    pub(crate) fn without_counters(self, why: String) -> Recorder {
        self.missing.borrow_mut().push(format!("No counters: {why}."));
        Recorder { without_counters: Some(why), ..self }
    }

    /// Records why an event is not counted.
    pub(crate) fn without(self, why: impl std::fmt::Display) -> Recorder {
        self.missing.borrow_mut().push(format!("Not counted: {why}."));
        self
    }

    /// Finds out whether the CPU counts twice behind atomic operations. If so, the first report says it.
    pub(crate) fn measure_spec_lock_map(self) -> Recorder {
        let spec_lock_map = rdpmc::machine::spec_lock_map();
        if spec_lock_map == Some(true) {
            self.missing.borrow_mut().push(format!("{}.", rdpmc_report::gate::SPEC_LOCK_MAP));
        }
        Recorder { spec_lock_map, ..self }
    }

    /// Records that the counts are those of all threads of the process.
    pub(crate) fn of_process(self) -> Recorder {
        Recorder { notes: SampleNotes::of_process(), ..self }
    }

    /// Prints a line about the pipeline slots, whose events are the last ones.
    pub(crate) fn with_slots(self, slots: Slots) -> Recorder {
        Recorder { slots: Some(slots), ..self }
    }

    /// Returns the counters that are printed and saved.
    fn shown(&self) -> &[Counter] {
        let hidden = self.slots.as_ref().map_or(0, |slots| slots.events.len());
        self.counters.get(..self.counters.len().saturating_sub(hidden)).unwrap_or_default()
    }

    /// Returns the line about the slots of these samples.
    fn line_of_slots(&self, samples: &[Counts<MAX_EVENTS>]) -> Option<String> {
        let places = self.shown().len()..self.counters.len();
        let sum = |place: usize| samples.iter().map(|sample| at(sample, place)).sum();
        self.slots.as_ref()?.line(&places.map(sum).collect::<Vec<u64>>())
    }

    /// Sets what reading may add to each batch, for each event.
    pub(crate) fn set_floor<const N: usize>(&mut self, floor: [u64; N]) {
        for (counter, floor) in self.counters.iter_mut().zip(floor) {
            counter.floor = floor;
        }
    }

    /// Returns the directory that criterion writes to, if it has written an HTML report of a benchmark there.
    pub(crate) fn home_with_html(&self) -> Option<&Path> {
        let last = self.last.try_borrow().ok()?;
        last.as_ref()?.join("report/index.html").exists().then(|| self.home())
    }

    fn home(&self) -> &Path {
        self.home.get_or_init(criterions_home)
    }

    /// A benchmark begins, or a sample of it. Returns whether it is the benchmark. `is_other` is whether this process was started to step it.
    pub(crate) fn begin(&self, is_other: bool) -> bool {
        let Ok(mut before) = self.before.try_borrow_mut() else { return false };
        let is_first = before.is_none();
        before.get_or_insert_with(|| {
            // A process that was started to step saves nothing.
            if is_other {
                return Saved::default();
            }
            other_processes::enter(self.home());
            Saved::below(self.home())
        });
        is_first
    }

    /// A sample has been taken, and criterion is told this value.
    pub(crate) fn take<const N: usize>(&self, sample: Counts<N>, value: f64) {
        self.notes.take(&sample);
        self.samples.borrow_mut().push(sample.widened());
        self.values.borrow_mut().push(value);
    }

    /// criterion is about to print a report, if there are samples. `unit` is that of what drives it, and `note` one on that.
    pub(crate) fn report(
        &self,
        unit: &str,
        error: Option<ReadError>,
        note: Option<String>,
        stepper: Option<&Stepper>,
    ) {
        let (samples, values) = (self.samples.take(), self.values.take());
        if samples.is_empty() {
            return;
        }
        let by_counter = stepper.filter(|stepper| stepper.counter().is_some());
        let stepper = stepper.filter(|stepper| stepper.counter().is_none());
        let mut stepped = stepper.map_or_else(stepped::Report::default, Stepper::report);
        let (estimates, incomplete) = self.notes.inexact();
        let (mut notes, mut lines) = (self.missing.take(), Vec::new());
        let of_instructions = ["No counters: ", "Not counted: instructions"];
        let is_of_them = |note: &&mut String| of_instructions.iter().any(|it| note.starts_with(it));
        if let Some(note) = notes.iter_mut().find(is_of_them).filter(|_| stepped.works) {
            note.push_str(" Instructions are counted by single-stepping instead.");
        }
        let run = self.before.take().unwrap_or_default().run_since(self.home(), &values);
        let name = run.as_ref().ok().map(|run| self.name_of(&run.directory));
        let in_processes = match (&run, stepper) {
            (Ok(run), Some(stepper)) => self.in_processes(stepper, &mut stepped, &run.directory),
            _ => self.alone(&stepped),
        };
        if let Some(names) = &in_processes.differing {
            let line = format!("stepping: the processes' instructions differ in {names}");
            stepped.lines.push(line);
        }
        let is_of_one = self.notes.are_of_process() || self.shown().is_empty();
        let slack = stepped.placed.as_ref().map(|it| it.counted.process.slack);
        if let Some(slack) = slack.filter(|slack| *slack > 0.0 && in_processes.differing.is_none())
        {
            stepped.lines.push(format!(
                "stepping: few batches were stepped, so up to {slack:.0} of the instructions may be criterion's own. Raise {VARIABLE} and the warm-up time. With `iter_batched`, use a `BatchSize` of more batches"
            ));
        }
        let share = self.notes.share_of_others().filter(|_| is_of_one);
        if let Some(share) = share.filter(|_| stepped.placed.is_some()) {
            let percent = share * 100.0;
            stepped.lines.push(format!(
                "stepping: other threads had {percent:.1} % of the CPU time. The stepped instructions are those of this thread alone"
            ));
        }
        let waits = self.notes.share_of_waits().map(|percent| {
            format!("the code waits for another thread, a device or a timer in {percent:.0} % of the samples, whose work is not stepped")
        });
        let stepped_doubt = waits.or(in_processes.doubt.clone());
        if let Some(doubt) = stepped_doubt.as_ref().filter(|_| stepped.placed.is_some()) {
            stepped.lines.push(format!("stepping: {doubt}"));
        }
        match run {
            Ok(Run { directory, iterations }) => {
                // Earlier samples are from criterion's search for a number of iterations (`--quick`).
                let first = samples.len().saturating_sub(iterations.len());
                let of = |(sample, value): (&Counts<MAX_EVENTS>, &f64)| (*sample, *value);
                let saved = samples.iter().zip(&values).skip(first).map(of).zip(iterations);
                let (kept, iterations) = without_few_inexact(saved.collect());
                let (kept, values): (Vec<_>, Vec<_>) = kept.into_iter().unzip();
                let are_exact = !kept.iter().any(is_inexact);
                let mut counters = self.counted(&kept, &iterations, in_processes.instructions);
                if let Some(stepper) = by_counter {
                    lines.extend(self.compare_processes(stepper, &directory, &mut counters));
                }
                let mut results = Results {
                    shared_with: None,
                    program: program(),
                    run: start(),
                    processor: rdpmc_report::gate::cpu_identity(),
                    spec_lock_map: self.spec_lock_map,
                    is_of_process: self.notes.are_of_process(),
                    other_threads: self.notes.share_of_others(),
                    measured: self.driver(unit),
                    without_counters: self.without_counters.clone(),
                    not_stepped: stepped.why_not.clone(),
                    stepped_doubt,
                    stepped_iterations: in_processes.iterations,
                    functions: in_processes.functions,
                    build: Some(build().to_owned()),
                    counters,
                    iterations,
                    values,
                    estimates: if are_exact { 0 } else { estimates },
                    incomplete: if are_exact { 0 } else { incomplete },
                };
                self.compare_and_save(&mut results, &directory, &mut lines);
                lines.extend(self.line_of_slots(&kept));
                if let Ok(mut last) = self.last.try_borrow_mut() {
                    *last = Some(directory);
                }
            }
            Err(Unknown { why, directories }) => {
                let is_stepped = stepped.placed.is_some();
                let is_lost = self.shown().len() > usize::from(self.first_drives) || is_stepped;
                if is_lost || !directories.is_empty() {
                    lines.push(format!("counters: not known, because {why}"));
                }
                let arguments = Arguments::of_this_process();
                let named = arguments.saves.then_some(arguments.baseline.as_str());
                for directory in directories {
                    let of = |name: &str| Results::remove(&directory.join(name));
                    ["new"].into_iter().chain(named).for_each(of);
                }
            }
        }
        let events: Vec<&str> = self.shown().iter().map(|counter| &*counter.name).collect();
        lines.extend(self.notes.lines(&events.join(", "), error));
        lines.extend(self.floors(&samples));
        lines.extend(note);
        lines.extend(stepped.into_lines());
        print::before_the_report(&notes, name.as_deref(), &lines);
    }

    /// Returns the name of the benchmark with this directory: criterion's, or that of the directory if it is not known.
    fn name_of(&self, directory: &Path) -> String {
        let of_directory = name(self.home(), directory);
        let path = directory.strip_prefix(self.home()).unwrap_or(directory);
        // Before criterion has written it down, `_` stands for other characters.
        let may_differ = of_directory == path.display().to_string();
        let is_plain = !of_directory.contains('_') && of_directory.len() < 60;
        match may_differ && !is_plain && Arguments::of_this_process().measures {
            true => self.names.of(path).map_or(of_directory, str::to_owned),
            false => of_directory,
        }
    }

    /// Compares the instructions that a counter counts with those of other processes. If these differ, adds them to the result. Returns a line for
    /// the report, if there is something to say.
    fn compare_processes(
        &self,
        stepper: &Stepper,
        directory: &Path,
        counters: &mut [Counted],
    ) -> Option<String> {
        // Like is compared with like: the first batches here with the first batches there.
        let own = stepper.report().counted()?;
        let others = match self.name_in_list(directory).and_then(|name| self.ask(stepper, name)) {
            Ok(others) => others,
            Err(why) => return Some(format!("processes: {}", in_too_few(&why))),
        };
        let others: Vec<_> = others.iter().map(|other| other.counted).collect();
        let (below, above) = of_processes::spread(&own, &others)?;
        let counted = counters.get_mut(stepper.counter()?)?;
        let Interval { low, median, high } = counted.per_iteration;
        let (low, high) = ((low - below).max(0.0), high + above);
        counted.of_processes = Some(Interval { low, median, high });
        let number = others.len() + 1;
        Some(format!(
            "processes: the instructions differ between {number} processes. The gate compares {low:.2} to {high:.2}"
        ))
    }

    /// Counts the instructions of the benchmark with this directory in other processes, too.
    fn in_processes(
        &self,
        stepper: &Stepper,
        stepped: &mut stepped::Report,
        directory: &Path,
    ) -> InProcesses {
        let is_known = stepped.placed.is_some() || stepped.is_cut;
        if stepper.processes() < 2 || !is_known {
            return self.alone(stepped);
        }
        let name = match self.name_in_list(directory) {
            Ok(name) => name,
            Err(why) => {
                stepped.replace(Err(why.clone()));
                return self.alone(stepped).doubted(&why);
            }
        };
        // What this process has counted is compared as well: other benchmarks may have come before.
        let cut = stepped.placed.clone().filter(|_| stepped.is_cut);
        if stepped.is_cut {
            stepped.replace(stepper.ask_in_full(name));
        }
        let Some(own) = &stepped.placed else { return InProcesses::default() };
        let others = match self.ask(stepper, name) {
            Ok(others) => others,
            Err(why) => return self.alone(stepped).doubted(&why),
        };
        let all: Vec<&Placed> = std::iter::once(own).chain(&others).chain(&cut).collect();
        InProcesses::joined(&all, &mut self.functions.borrow_mut())
    }

    /// Returns what this process alone has counted.
    fn alone(&self, stepped: &stepped::Report) -> InProcesses {
        let own: Vec<&Placed> = stepped.placed.iter().collect();
        InProcesses::joined(&own, &mut self.functions.borrow_mut())
    }

    /// Returns criterion's name of the benchmark with this directory.
    ///
    /// # Errors
    /// Why it is not known.
    fn name_in_list(&self, directory: &Path) -> Result<&str, String> {
        self.names.of(directory.strip_prefix(self.home()).unwrap_or(directory))
    }

    /// Returns what other processes counted of the benchmark with this name. They are five if each takes more than a second to come to it.
    ///
    /// # Errors
    /// Why fewer than five did.
    fn ask(&self, stepper: &Stepper, name: &str) -> Result<Vec<Placed>, String> {
        let seconds = self.names.time_to_list().as_secs_f64().max(1.0);
        let wanted = stepper.processes().saturating_sub(1);
        let least = wanted.min(MIN_VALUES as u32 - 1);
        let number = ((f64::from(wanted) / seconds).ceil() as u32).max(least);
        let (others, why_not) = stepper.ask_others(name, number);
        match others.len() < least as usize {
            true => Err(why_not.unwrap_or_default()),
            false => Ok(others),
        }
    }

    /// Returns the name of what drives criterion. `unit` is its unit.
    pub(crate) fn driver(&self, unit: &str) -> String {
        // criterion compares with the results in one directory, and must not compare different scopes.
        let scope = if self.notes.are_of_process() { "-process" } else { "" };
        match self.counters.first() {
            Some(counter) if self.first_drives => format!("{}{scope}", counter.name),
            _ if unit == "ns" => format!("time{scope}"),
            _ => unit.into(),
        }
    }

    fn counted(
        &self,
        samples: &[Counts<MAX_EVENTS>],
        iterations: &[f64],
        stepped: Option<Interval>,
    ) -> Vec<Counted> {
        let of = |(place, counter): (usize, &Counter)| {
            let counts = samples.iter().map(|sample| at(sample, place)).collect();
            Counted::new(counter.name.clone(), counter.unit.name(), iterations, counts)
        };
        let counted = self.shown().iter().enumerate().map(of);
        counted.chain(stepped.map(Counted::stepped)).collect()
    }

    /// Adds lines with the results and their changes since the baseline that criterion compares with. Saves the results
    /// where criterion saves its own.
    fn compare_and_save(&self, results: &mut Results, directory: &Path, lines: &mut Vec<String>) {
        let arguments = Arguments::of_this_process();
        let baseline = &arguments.baseline;
        let name = match baseline.as_str() {
            "base" => "the last run".to_owned(),
            name => format!("baseline {name}"),
        };
        let mut before = None;
        let mut no_change = None;
        match Results::load(&directory.join(baseline)) {
            Ok(Some(saved)) if !is_same_program(&saved.program, &results.program) => {
                no_change = Some(format!("{name} was of another program, {}", saved.program));
            }
            Ok(Some(saved)) if saved.is_of_process != results.is_of_process => {
                let whose = |all: bool| if all { "all threads" } else { "one thread" };
                let (was, is) = (whose(saved.is_of_process), whose(results.is_of_process));
                no_change = Some(format!("{name} counted {was}, and this run {is}"));
            }
            Ok(Some(saved)) if saved.processor == results.processor => before = Some(saved),
            Ok(Some(Results { processor: Some(other), .. })) => {
                no_change = Some(format!("{name} was on another processor, {other}"));
            }
            Ok(Some(_)) => no_change = Some(format!("the processor of {name} is not known")),
            Ok(None) if directory.join(baseline).exists() => {
                no_change = Some(format!("{name} has no counters"));
            }
            Ok(None) => {}
            Err(why) => no_change = Some(why),
        }
        let units = self.shown().iter().map(|counter| counter.unit);
        let units = units.chain([Unit::for_event(Event::INSTRUCTIONS)]); // of stepping
        let printed = units.zip(&results.counters).skip(self.first_drives.into());
        for (unit, counted) in printed {
            let format = |value| unit.format_value(value).trim_start().to_owned();
            let each = counted.per_iteration;
            let [low, median, high] = [each.low, each.median, each.high].map(format);
            let label = format!("{}:", counted.event);
            let lacks_threads = results.lacks_threads(&counted.event);
            let mut whose = if lacks_threads { " of this thread alone" } else { "" }.to_owned();
            if counted.event == STEPPED_INSTRUCTIONS {
                whose += &format!(" in {} iterations", results.stepped_iterations);
            }
            lines.push(format!("{label:<7} [{low} {median} {high}]{whose}"));
            let Some(before) = before.as_ref().filter(|_| !arguments.is_quiet) else { continue };
            match before.counted(&counted.event) {
                Some(_) if lacks_threads || before.lacks_threads(&counted.event) => {
                    lines.push("change: not known, because other threads worked".to_owned());
                }
                Some(old) => {
                    let (was, is) = (before.figure(old), results.figure(counted));
                    let change = Change::between(&was, &is, Limits::usual(&counted.event));
                    lines.push(format!("change: {change}"));
                    lines.push(in_criterions_words(change.direction).to_owned());
                }
                None => lines
                    .push(format!("change: not known, because {name} does not have this event")),
            }
        }
        if let Some(why) = no_change.filter(|_| !arguments.is_quiet) {
            lines.push(format!("change: not known, because {why}"));
        }
        let named = arguments.saves.then_some(baseline.as_str());
        let names = || ["new"].into_iter().chain(named);
        let others = names().filter_map(|name| Results::load(&directory.join(name)).ok()?);
        results.shared_with =
            others.map(|other| other.program).find(|it| !is_same_program(it, &results.program));
        if let Some(other) = &results.shared_with {
            lines.push(format!("counters: {other} has a benchmark of the same name, whose results are replaced. Rename one"));
        }
        for name in names() {
            if let Err(error) = results.save(&directory.join(name)) {
                lines.push(format!(
                    "counters: not saved in {}/{name}: {error}",
                    directory.display()
                ));
            }
        }
    }

    /// Returns a note for each event whose count may be the cost of reading.
    fn floors(&self, samples: &[Counts<MAX_EVENTS>]) -> Vec<String> {
        let of = |(place, counter): (usize, &Counter)| {
            let add = |sum: Batches, sample| sum.plus(at(sample, place), sample.intervals());
            let all = samples.iter().fold(Batches::default(), add);
            all.close_to(counter.floor, counter.unit, &counter.name)
        };
        self.shown().iter().enumerate().filter_map(of).collect()
    }
}

/// Returns the count of the event with this place.
fn at(sample: &Counts<MAX_EVENTS>, place: usize) -> u64 {
    sample.counts().get(place).copied().unwrap_or(0)
}

/// A sample, what criterion was told of it, and its number of iterations.
type Sample = ((Counts<MAX_EVENTS>, f64), f64);

/// Returns the samples, apart from their iterations, without those that are not exact, if these are at most a tenth.
fn without_few_inexact(mut samples: Vec<Sample>) -> (Vec<(Counts<MAX_EVENTS>, f64)>, Vec<f64>) {
    let is_exact = |((sample, _), _): &Sample| !is_inexact(sample);
    if samples.iter().filter(|sample| is_exact(sample)).count() * 10 >= samples.len() * 9 {
        samples.retain(is_exact);
    }
    samples.into_iter().unzip()
}

fn is_inexact(sample: &Counts<MAX_EVENTS>) -> bool {
    sample.are_estimates() || sample.are_incomplete()
}

/// Returns criterion's sentence on a change.
fn in_criterions_words(direction: Direction) -> &'static str {
    match direction {
        Direction::More => "Performance has regressed.",
        Direction::Less => "Performance has improved.",
        Direction::WithinLimit => "Change within noise threshold.",
        Direction::Same => "No change in performance detected.",
        Direction::Unknown => "Too few exact samples to tell a change from noise.",
    }
}

/// Returns when this process first asked, in milliseconds since 1970.
fn start() -> u64 {
    static START: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = time.ok().and_then(|time| time.as_millis().try_into().ok()).unwrap_or(0);
    // Of two threads that ask at the same time, both get the answer of the one that stores first.
    START
        .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed)
        .map_or_else(|start| start, |_| now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(count: u64, iterations: u64) -> Counts<MAX_EVENTS> {
        (0..iterations).fold(Counts::NONE, |sum, _| sum.plus(&Counts::interval(count)))
    }

    /// The events of the slots are in a line of their own, and are neither printed nor saved.
    #[test]
    fn the_line_of_slots() {
        let line = |counts: &[u64]| counts.first().map(|first| format!("{first} of {counts:?}"));
        let slots = Slots { events: vec![Event::CYCLES, Event::BRANCHES], line: Box::new(line) };
        let all = [Event::INSTRUCTIONS, Event::CYCLES, Event::BRANCHES];
        let recorder = Recorder::new(&all).with_slots(slots);
        let samples = [counts(7, 5), counts(7, 10)];
        assert_eq!(recorder.line_of_slots(&samples).as_deref(), Some("slots: 105 of [105, 105]"));
        let counted = recorder.counted(&samples, &[5.0, 10.0], None);
        let names: Vec<&str> = counted.iter().map(|counted| counted.event.as_str()).collect();
        assert_eq!(names, ["instructions"]);
        assert_eq!(Recorder::new(&all).line_of_slots(&samples), None);
    }

    #[test]
    fn results_close_to_their_floor_say_so() {
        let mut recorder = Recorder::new(&[Event::CYCLES, Event::BRANCH_MISSES]);
        recorder.set_floor([14, 0]);
        let of = |count| recorder.floors(&[counts(count, 5), counts(count, 10)]);
        assert_eq!(of(1_000), [""; 0]);
        let text = "floor: up to 14 cycles of each batch may be the cost of reading cycles, 14 % of this result. Use larger batches";
        assert_eq!(of(100), [text]);
    }

    /// Another process has run the same benchmark: its samples do not belong to these counts, nor to earlier ones.
    #[test]
    fn unknown_results_leave_no_earlier_counts() {
        let home = std::env::temp_dir().join(format!("rdpmc-unknown-{}", std::process::id()));
        let recorder = Recorder::new(&[Event::PAGE_FAULTS]).at(home.clone());
        let of = |baseline: &str| home.join("x").join(baseline).join("counters.json");
        let run = |value: f64, saved: f64| {
            recorder.begin(false);
            recorder.take(counts(4, 1), value);
            let sample = home.join("x/new/sample.json");
            let _ = std::fs::create_dir_all(home.join("x/new"));
            let _ = std::fs::write(sample, format!("{{\"iters\": [1], \"times\": [{saved}]}}"));
            recorder.report("faults", None, None, None);
            [of("new").exists(), of("base").exists()]
        };
        let found = [run(4.0, 4.0), run(4.25, 7.25), run(4.125, 4.125)];
        let _ = std::fs::remove_dir_all(&home);
        assert_eq!(found, [[true; 2], [false; 2], [true; 2]]);
    }

    #[test]
    fn a_few_inexact_samples_are_left_out() {
        let exact = counts(1, 1);
        let inexact = Counts::<1>::without_counters().widened();
        let of = |inexact_ones: usize| {
            let samples = [vec![inexact; inexact_ones], vec![exact; 10 - inexact_ones]].concat();
            let samples =
                samples.into_iter().map(|sample| (sample, 0.5)).zip((1..=10).map(f64::from));
            let (kept, iterations) = without_few_inexact(samples.collect());
            assert_eq!(kept.len(), iterations.len());
            (kept.len(), iterations.first().copied())
        };
        assert_eq!([of(0), of(1), of(2)], [(10, Some(1.0)), (9, Some(2.0)), (10, Some(1.0))]);
    }
}
