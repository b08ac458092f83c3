//! The runner: measures pieces of code, a row each.

use crate::code::{self, Code, Mode};
use crate::estimate::Estimate;
use crate::machine::Counters;
use crate::pairs::{Shape, TICKS};
use crate::progress::Progress;
use crate::rounds::{Effort, Round, round};
use crate::row::{Figure, Quantity, Row};
use crate::sets::{self, Missing, Set};
use crate::verdict::{Cause, Verdict};
use rdpmc::error::OpenError;
use rdpmc::{Clock, DynGroup, Event, IntoEvent};
use std::time::Duration;

/// Measures pieces of code, and compares them in a table.
///
/// ```
/// use rdpmc_bench::Bench;
/// use std::hint::black_box;
///
/// let mut bench = Bench::new()?;
/// bench.row("parse ten digits").latency(|| black_box("4294967295").parse::<u32>());
/// println!("{bench}");
/// # Ok::<(), rdpmc::error::OpenError>(())
/// ```
///
/// It counts [`Bench::EVENTS`] unless [`with_events`](Bench::with_events) names others. What cannot be counted on this
/// machine is left out, and listed with the reason. The time is always measured.
///
/// A `Bench` belongs to the thread that made it.
#[derive(Debug)]
pub struct Bench {
    clock: Clock,
    sets: Vec<Set>,
    pub(crate) events: Vec<Event>,
    pub(crate) missing: Vec<Missing>,
    pub(crate) rows: Vec<Row>,
    pub(crate) baseline: Option<String>,
    pub(crate) processor: Option<String>,
    time_per_row: Duration,
    target: f64,
    progress: Progress,
}

impl Bench {
    /// The events that are counted by default.
    pub const EVENTS: &'static [Event] = &[
        Event::CYCLES,
        Event::INSTRUCTIONS,
        Event::BRANCH_MISSES,
        Event::CACHE_MISSES,
        Event::PAGE_FAULTS,
    ];

    /// Finds out what can be counted here, by opening and closing each event.
    ///
    /// Installs the handler of [`rdpmc::contain_faults`]: if user access is revoked during the measurement, it goes on
    /// by system calls.
    ///
    /// # Errors
    /// [`OpenError::Unsupported`] if the target is not Linux, [`OpenError::System`] for an error of the kernel that is not
    /// known to occur. An event that cannot be counted is no error.
    pub fn new() -> Result<Bench, OpenError> {
        Bench::with_events(Bench::EVENTS)
    }

    /// Counts these events, or the events of these names. If there are more than the CPU has counters, they are measured in
    /// rounds, without multiplexing.
    ///
    /// ```
    /// let bench = rdpmc_bench::Bench::with_events(&["instructions", "cpu/event=0xc0,umask=0x1/"])?;
    /// for missing in bench.missing() {
    ///     println!("{}: {}", missing.name, missing.why);
    /// }
    /// # Ok::<(), rdpmc::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Bench::new).
    pub fn with_events<E>(events: &[E]) -> Result<Bench, OpenError>
    where
        for<'a> &'a E: IntoEvent,
    {
        rdpmc::contain_faults()?;
        let (mut distinct, mut unknown): (Vec<Event>, Vec<Missing>) = (Vec::new(), Vec::new());
        for event in events {
            match event.into_event() {
                Ok(event) if distinct.contains(&event) => {}
                Ok(event) => distinct.push(event),
                Err(why) => {
                    let missing = Missing::by_name(event.to_string(), &why);
                    if unknown.iter().all(|other| other.name != missing.name) {
                        unknown.push(missing);
                    }
                }
            }
        }
        let (sets, mut missing) = sets::fit(&distinct);
        missing.append(&mut unknown);
        Ok(Bench {
            clock: Clock::open()?,
            sets,
            events: distinct,
            missing,
            rows: Vec::new(),
            baseline: None,
            processor: rdpmc::doctor::cpu_identity(),
            time_per_row: Duration::from_millis(50),
            target: 0.01,
            progress: Progress::new(),
        })
    }

    /// Sets the time that a row may take: 50 ms by default. A row takes less if the cycles, or without cycles the time,
    /// are precise enough before. It takes more if a run takes longer than about a hundredth of the time, because each
    /// set of events needs seven pairs. With [`inputs`](RowBuilder::inputs), that is one run of each input.
    pub fn time_per_row(&mut self, time: Duration) -> &mut Bench {
        self.time_per_row = time;
        self
    }

    /// Sets the relative error that is good enough: 0.01 by default, for 1 % or half a cycle, whichever is more. The
    /// half cycle scales with it. Values outside of 0.000001 to 1 are clamped, and NaN is ignored.
    pub fn target(&mut self, target: f64) -> &mut Bench {
        if !target.is_nan() {
            self.target = target.clamp(1e-6, 1.0);
        }
        self
    }

    /// Begins a row. What follows says what to measure.
    pub fn row(&mut self, name: impl Into<String>) -> RowBuilder<'_> {
        RowBuilder { bench: self, name: name.into(), operations: 1 }
    }

    /// Compares the rows with this one: the table gets a column of ratios.
    pub fn baseline(&mut self, name: impl Into<String>) -> &mut Bench {
        self.baseline = Some(name.into());
        self
    }

    /// Returns the rows, in the order in which they were measured.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the events that cannot be counted here, and why.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    fn measure(&mut self, name: String, operations: u64, code: &mut Code<'_>) {
        let mut row = Row::empty(name);
        let scale = 1.0 / operations.max(1) as f64;
        let time = Set { events: Vec::new() };
        let sets = if self.sets.is_empty() { vec![time] } else { self.sets.clone() };
        let mut instructions: Option<Estimate> = None;
        for (place, set) in sets.iter().enumerate() {
            let is_first = place == 0;
            let others = sets.len() as u32 - 1;
            let effort = Effort {
                // The first round finds the number of runs.
                time: match (is_first, others) {
                    (_, 0) => self.time_per_row,
                    (true, _) => self.time_per_row / 5 * 3,
                    (false, others) => self.time_per_row / 5 * 2 / others,
                },
                k: (!is_first).then_some(row.runs),
                multiple: code.multiple,
                target: self.target,
            };
            let found = self.round(set, &effort, code, &mut row);
            let figures = &found.judged.figures;
            if is_first {
                row.runs = found.k;
                (row.pairs, row.set_aside) = (found.judged.pairs, found.judged.set_aside);
                row.paths = found.paths;
                row.figures.extend(figure(figures, TICKS, Quantity::Time, scale));
            }
            let witness = set.place(Event::INSTRUCTIONS);
            let of_this = witness.and_then(|place| (*figures.get(place)?).map(|(found, _)| found));
            let agrees = agree(instructions, of_this);
            instructions = instructions.or(of_this);
            for (place, event) in set.events.iter().enumerate() {
                let is_known = row.event(*event).is_some();
                if is_known || !self.events.contains(event) {
                    continue; // the witness of a later round, of interrupts or of context switches
                }
                let found = figure(figures, place, Quantity::Event(*event), scale);
                row.figures.extend(found.map(|figure| match agrees {
                    true => figure,
                    false => Figure { verdict: Verdict::Unstable(Cause::RoundsDisagree), ..figure },
                }));
            }
        }
        if let (Some(instructions), Some(cycles)) =
            (row.event(Event::INSTRUCTIONS), row.event(Event::CYCLES))
        {
            let ratio = instructions.ratio_to(cycles, Quantity::InstructionsPerCycle);
            row.figures.extend(ratio);
        }
        // The order of the events, whatever the rounds were. The ratio comes after the instructions.
        let place = |event| self.events.iter().position(|known| *known == event);
        row.figures.sort_by_key(|figure| match figure.quantity {
            Quantity::Time => (None, 0),
            Quantity::Event(event) => (place(event), 0),
            Quantity::InstructionsPerCycle => (place(Event::INSTRUCTIONS), 1),
        });
        self.progress.end();
        self.rows.push(row);
    }

    /// Measures one set of events, or the time alone if its counters cannot be opened or read now.
    fn round(&mut self, set: &Set, effort: &Effort, code: &mut Code<'_>, row: &mut Row) -> Round {
        let names = || set.events.iter().map(Event::to_string).collect::<Vec<_>>().join(", ");
        let group = match set.events.is_empty() {
            true => None,
            false => match set.open() {
                Ok(group) => Some(group),
                Err(why) => {
                    row.notes.push(format!("{} could not be opened again: {why}", names()));
                    None
                }
            },
        };
        let done = self.rows.len();
        let mut progress = || self.progress.show(&row.name, done);
        if let Some(group) = &group {
            let shape = shape(Some((set, group)), &self.clock);
            let mut counters = Counters::new(code, &self.clock, Some(group));
            let found = round(&mut counters, &shape, effort, &mut progress);
            if found.judged.pairs > 0 {
                return found;
            }
            row.notes.push(format!("{} could not be read: {}", names(), group.access()));
        }
        let mut counters = Counters::new(code, &self.clock, None);
        round(&mut counters, &shape(None, &self.clock), effort, &mut progress)
    }
}

/// Returns what a round's values are: the counts of a group, and the ticks.
fn shape(counted: Option<(&Set, &DynGroup)>, clock: &Clock) -> Shape {
    const TICKS_TO_CONVERT: u64 = 1 << 32;
    let ns = clock.conversion().delta_ns(TICKS_TO_CONVERT);
    let place = |event| counted.and_then(|(set, _)| set.place(event));
    Shape {
        counts: counted.map_or(0, |(set, _)| set.events.len()),
        instructions: place(Event::INSTRUCTIONS),
        kernel: place(Event::INSTRUCTIONS.kernel()),
        cycles: place(Event::CYCLES),
        includes_kernel: counted.is_some_and(|(_, group)| group.counts_all_privilege_levels()),
        ns_per_tick: ns as f64 / TICKS_TO_CONVERT as f64,
        step: clock.step() as f64,
    }
}

/// Whether two rounds counted as many instructions.
fn agree(first: Option<Estimate>, this: Option<Estimate>) -> bool {
    match (first, this) {
        (Some(first), Some(this)) => this.low <= first.high && first.low <= this.high,
        _ => true,
    }
}

fn figure(
    figures: &[Option<(Estimate, Verdict)>],
    place: usize,
    quantity: Quantity,
    scale: f64,
) -> Option<Figure> {
    let (estimate, verdict) = (*figures.get(place)?)?;
    Some(Figure { quantity, estimate: estimate.scaled(scale), verdict })
}

/// A row to measure, from [`Bench::row`].
///
/// # Latency and throughput
///
/// Throughput is the cost of one run among many: the CPU works on several runs at the same time. Latency is the time
/// from the beginning of a run to its result. It is the cost if the next run has to wait for this result. If the
/// program waits for the result, measure the latency, otherwise the throughput.
///
/// ```text
/// throughput   |--run 1--|              latency   |--run 1--|
///                 |--run 2--|                               |--run 2--|
///                    |--run 3--|                                      |--run 3--|
///               --->  ------- cost of a run                 ----------- cost of a run
/// ```
#[must_use = "nothing is measured before `throughput`, `latency` or `chain`"]
#[derive(Debug)]
pub struct RowBuilder<'a> {
    bench: &'a mut Bench,
    name: String,
    operations: u64,
}

impl<'a> RowBuilder<'a> {
    /// Sets the number of operations in one run: 1 by default. All figures are for one operation.
    pub fn operations(self, operations: u64) -> RowBuilder<'a> {
        RowBuilder { operations, ..self }
    }

    /// Measures the throughput: the runs may overlap.
    ///
    /// The result of the closure is consumed opaquely, so the compiler cannot remove its computation. Pass inputs
    /// through [`black_box`](std::hint::black_box), or the compiler may compute with them in advance.
    pub fn throughput<T>(self, code: impl FnMut() -> T) -> &'a Row {
        self.plain(Mode::Throughput, code)
    }

    /// Measures the latency: a [fence](rdpmc::order::fence) after each run keeps the next from overlapping. On riscv64,
    /// which has no such fence, use [`chain`](RowBuilder::chain).
    pub fn latency<T>(self, code: impl FnMut() -> T) -> &'a Row {
        self.plain(Mode::Latency, code)
    }

    fn plain<T>(self, mode: Mode, code: impl FnMut() -> T) -> &'a Row {
        let RowBuilder { bench, name, operations } = self;
        code::plain(mode, code, |mut code| bench.measure(name, operations, &mut code));
        last(bench)
    }

    /// Measures the latency of code that takes its last result: each run waits for the one before, without a fence.
    pub fn chain<T>(self, first: T, code: impl FnMut(T) -> T) -> &'a Row {
        let RowBuilder { bench, name, operations } = self;
        code::chain(first, code, |mut code| bench.measure(name, operations, &mut code));
        last(bench)
    }

    /// Gives each run another input, in a new random order in each loop, so that the branch predictor cannot learn the
    /// order. Some hundreds of inputs are enough, and each loop runs all of them.
    pub fn inputs<I>(self, inputs: impl IntoIterator<Item = I>) -> InputRowBuilder<'a, I> {
        InputRowBuilder { row: self, inputs: inputs.into_iter().collect() }
    }
}

/// A row with inputs to measure, from [`RowBuilder::inputs`].
#[must_use = "nothing is measured before `throughput` or `latency`"]
#[derive(Debug)]
pub struct InputRowBuilder<'a, I> {
    row: RowBuilder<'a>,
    inputs: Vec<I>,
}

impl<'a, I> InputRowBuilder<'a, I> {
    /// Measures the throughput of one input: see [`RowBuilder::throughput`].
    pub fn throughput<T>(self, code: impl FnMut(&I) -> T) -> &'a Row {
        self.measure(Mode::Throughput, code)
    }

    /// Measures the latency of one input: see [`RowBuilder::latency`]. On riscv64, which has no fence, this is the
    /// throughput.
    pub fn latency<T>(self, code: impl FnMut(&I) -> T) -> &'a Row {
        self.measure(Mode::Latency, code)
    }

    fn measure<T>(self, mode: Mode, code: impl FnMut(&I) -> T) -> &'a Row {
        let RowBuilder { bench, name, operations } = self.row;
        if self.inputs.is_empty() {
            let notes = vec!["there are no inputs".to_owned()];
            bench.rows.push(Row { notes, ..Row::empty(name) });
            return last(bench);
        }
        code::inputs(mode, &self.inputs, code, |mut code| {
            bench.measure(name, operations, &mut code)
        });
        last(bench)
    }
}

#[allow(clippy::indexing_slicing, reason = "a row was pushed just now")]
fn last(bench: &Bench) -> &Row {
    &bench.rows[bench.rows.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_agree_if_their_intervals_meet() {
        let of = |low, high| Some(Estimate { value: (low + high) / 2.0, low, high });
        assert!(agree(of(100.0, 100.0), of(100.0, 100.0)));
        assert!(agree(of(100.0, 102.0), of(101.0, 105.0)));
        assert!(!agree(of(100.0, 100.0), of(101.0, 101.0)));
        assert!(!agree(of(103.0, 104.0), of(100.0, 102.0)));
        assert!(agree(None, of(1.0, 2.0)) && agree(of(1.0, 2.0), None));
    }
}
