//! Measures all rows of a `Bench`, in turns.

use crate::again::{self, Call};
use crate::code::{Loops, Random};
use crate::comparison::{Measured, RowComparison, costs, differences, is_speed, ratios};
use crate::counters::Counters;
use crate::estimate::Estimate;
use crate::fence::{self, FenceCost};
use crate::guard::panic_of;
use crate::judge::{FenceCosts, Judged, judge};
use crate::leader::Leader;
use crate::machine::Machine;
use crate::paths::{has_rarer_path, paths};
use crate::plan::{Entry, Plan};
use crate::progress::Progress;
use crate::results::Results;
use crate::row::{Figure, Quantity, Row};
use crate::sample::{Sample, Shape, TICKS, VALUES};
use crate::series::{Length, Series};
use crate::sets::Set;
use crate::slow;
use crate::stepped::{self, Counted, Stepper};
use crate::topdown::{QUANTITIES, Topdown, Turns};
use crate::verdict::{Cause, Verdict};
use rdpmc::{Clock, Event, Scope};
use rdpmc_report::gate::MIN_VALUES;
use rdpmc_step::OtherThreads;
use std::collections::BTreeSet;
use std::time::Duration;

/// A row that is measured.
struct Task<'a> {
    code: Box<dyn Loops + 'a>,
    /// Tasks of one unit are measured one after the other in each pass.
    unit: usize,
    /// It takes at most this long.
    most_time: Duration,
    length: Option<Length>,
    row: Row,
    /// What the row's figures are of.
    measured: Vec<Measured>,
    operations: u64,
    /// The instructions of the first round, for comparison with those of the others.
    instructions: Option<Estimate>,
    /// Whether a round counted other instructions than the first.
    rounds_disagree: bool,
    /// The CPU time of other threads during its samples.
    others: OtherThreads,
    /// In how many of its samples it waited, and how many there are.
    waited: (usize, usize),
    /// The instructions by single-stepping.
    stepped: Option<Counted>,
    /// Whether the time shows a path that was not stepped.
    has_rarer_path: bool,
    /// For the parts of the slots, and these. They are of this process alone, so `rdpmc-bench compare` does not compare them.
    turns: Turns,
    parts: Vec<Figure>,
}

pub(crate) fn run(plan: Plan<'_>, progress: &mut Progress) -> Results {
    let Plan {
        clock,
        sets,
        events,
        names: names_of_events,
        missing,
        topdown,
        entries,
        baseline,
        time_per_row,
        time_to_step,
        processes,
        target,
        reads_arguments: _,
        scope,
    } = plan;
    let call = Call::new();
    // In a process that was started to step, the rows run for a while first, as they do in the one that has started it.
    let time_per_row = if call.is_asked() { time_per_row / 10 } else { time_per_row };
    if call.is_asked() {
        progress.hide();
        call.use_heap();
    }
    let compared = compared(&entries, baseline.as_deref());
    let units = units(entries.len(), &compared);
    let mut tasks: Vec<Task<'_>> = Vec::new();
    // Which task measures each row. Rows without inputs have none.
    let mut task_of: Vec<Option<usize>> = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    for (entry, unit) in entries.into_iter().zip(units) {
        task_of.push(entry.code.is_some().then_some(tasks.len()));
        let mut row = Row::empty(entry.name);
        if entry.against.as_ref() == Some(&row.name) {
            row.notes.push("it is not compared with itself. Use the name of another row".into());
        }
        rows.push(row);
        if let Some(code) = entry.code {
            tasks.push(Task::new(code, unit, entry.operations));
        }
    }
    let measured = tasks.len();
    if tasks.iter().any(|task| task.code.has_fence()) {
        let unit = rows.len();
        let tasks_of_fence = fence::codes().map(|code| Task::new(code as Box<dyn Loops>, unit, 1));
        tasks.extend(tasks_of_fence.map(|task| Task { most_time: fence::MAX_TIME, ..task }));
    }
    let rows_and_tasks = rows.iter().zip(&task_of);
    let without_inputs: Vec<&str> =
        rows_and_tasks.filter(|(_, task)| task.is_none()).map(|(row, _)| row.name()).collect();
    let names = names_of(&rows, &task_of, tasks.len());
    let mut leader = Leader::of_this_process(&names, sets.len().max(1), &without_inputs, scope);
    if leader.is_some() {
        progress.hide();
    }

    let time_alone = Set { events: Vec::new() };
    let mut sets = if sets.is_empty() { vec![time_alone.clone()] } else { sets };
    if scope != Scope::Thread {
        // The kernel's instructions show what disturbs this thread alone.
        let is_wanted =
            |event: &Event| *event != Event::INSTRUCTIONS.kernel() || events.contains(event);
        sets.iter_mut().for_each(|set| set.events.retain(is_wanted));
    }
    let rounds = sets.len() as u32;
    for (number, set) in sets.iter().enumerate() {
        let is_first = number == 0;
        // The first round finds the lengths of the loops.
        let time = match (is_first, rounds - 1) {
            (_, 0) => time_per_row,
            (true, _) => time_per_row / 5 * 3,
            (false, others) => time_per_row / 5 * 2 / others,
        };
        let names = || set.events.iter().map(Event::to_string).collect::<Vec<_>>().join(", ");
        let mut shares = (number as f64 / f64::from(rounds), 1.0 / f64::from(rounds));
        let mut take = |tasks: &mut [Task<'_>], group: Option<&Counters>| {
            let shape = shape(group.map(|group| (set, group)), &clock);
            let mut machine = Machine::new(&clock, group);
            let series =
                take_all(tasks, &mut machine, &shape, time, leader.as_mut(), &mut |done| {
                    progress.show(shares.0 + shares.1 * done);
                });
            shares.1 = 0.0;
            (shape, series)
        };
        let group = match set.events.is_empty() {
            true => None,
            false => match Counters::open(&set.events, scope) {
                Ok(group) => Some(group),
                Err(why) => {
                    let note = format!("{} could not be opened again: {why}", names());
                    tasks.iter_mut().for_each(|task| task.row.notes.push(note.clone()));
                    None
                }
            },
        };
        if group.is_none() && !is_first {
            continue;
        }
        let (mut shape, mut series) = take(&mut tasks, group.as_ref());
        if let Some(group) = &group {
            let have_panicked = tasks.iter().map(|task| task.row.panicked.is_some());
            let unread = series
                .iter()
                .zip(have_panicked)
                .any(|(series, has_panicked)| series.samples.is_empty() && !has_panicked);
            if unread {
                let note = format!("{} could not be read: {}", names(), group.why_unreadable());
                tasks.iter_mut().for_each(|task| task.row.notes.push(note.clone()));
                if !is_first {
                    continue;
                }
                (shape, series) = take(&mut tasks, None);
            }
        }
        let set = if shape.counts > 0 { set } else { &time_alone };
        let fence = fence_costs(&tasks, &series, measured, &shape, target);
        let none: FenceCosts = [None; VALUES];
        let judged: Vec<Judged<'_>> = tasks
            .iter()
            .zip(&series)
            .map(|(task, series)| {
                let fence = if task.code.has_fence() { &fence } else { &none };
                judge(&series.samples, &shape, target, &task.row.paths, fence)
            })
            .collect();
        for ((task, series), judged) in tasks.iter_mut().zip(&series).zip(&judged) {
            let fence = if task.code.has_fence() { &fence } else { &none };
            task.add(set, series, judged, is_first, &shape, fence, &events);
            if let Some(topdown) = &topdown {
                task.turns.add(topdown, set, &judged.kept);
            }
        }
    }
    let is_missing = missing.iter().any(|missing| missing.event == Some(Event::INSTRUCTIONS));
    if is_missing && !time_to_step.is_zero() {
        let mut stepper = Stepper::new(time_to_step, call.is_asked());
        let mut machine = Machine::new(&clock, None);
        let steps = tasks.iter_mut().take(measured).enumerate();
        let wanted = steps.filter(|(place, _)| call.steps(*place));
        wanted.for_each(|(_, task)| task.step(&mut stepper, &mut machine));
    }
    // What was measured before a panic is of no use.
    for task in tasks.iter_mut().filter(|task| task.row.panicked.is_some()) {
        task.measured.clear();
        task.stepped = None;
    }
    let names: Vec<&str> = names.iter().take(measured).flatten().map(String::as_str).collect();
    let counted: Vec<again::Row> = tasks.iter().take(measured).map(Task::counted).collect();
    call.answer(&names, &counted);
    let is_alone = processes <= 1 || leader.is_some();
    let (of_others, why_not) = match () {
        () if is_alone || counted.iter().all(|row| *row == again::Row::default()) => {
            (Vec::new(), None)
        }
        () if call.why_alone().is_some() => (Vec::new(), call.why_alone().map(str::to_owned)),
        () => {
            let stepped = counted.iter().map(|row| row.stepped.is_some());
            call.ask(&names, stepped, processes - 1, time_to_step)
        }
    };
    let wanted = if is_alone { 0 } else { processes as usize - 1 };
    for (place, task) in tasks.iter_mut().take(measured).enumerate() {
        let of_others = of_others.get(place).map_or(&[][..], Vec::as_slice);
        task.judge_steps(of_others, wanted, why_not.as_deref(), target);
        task.join_counts(of_others, target);
    }
    if let Some(topdown) = &topdown {
        tasks.iter_mut().for_each(|task| task.add_parts_of_slots(topdown, target));
    }
    tasks.iter_mut().for_each(|task| task.mark_what_others_did(scope));
    progress.end();

    if let Some(leader) = leader {
        leader.end(tasks.iter().map(|task| task.measured.as_slice()));
    }
    let of = |row: usize| task_of.get(row).copied().flatten().and_then(|task| tasks.get(task));
    let mut comparisons = Vec::new();
    for (row, other, against) in compared {
        let both = of(row).zip(other.and_then(of));
        let ratios = both.map(|(row, other)| ratios(&row.measured, &other.measured));
        let differences = both.map(|(row, other)| differences(&row.measured, &other.measured));
        let name = rows.get(row).map_or_else(String::new, |row| row.name.clone());
        let differences = differences.unwrap_or_default();
        let comparison = RowComparison {
            row: name,
            differences,
            against,
            place: row,
            ratios: ratios.unwrap_or_default(),
        };
        comparisons.push(comparison.held_to(target));
    }
    let mut done: Vec<Option<Row>> =
        tasks.into_iter().map(|task| Some(task.finished(&events))).collect();
    for (row, task) in rows.iter_mut().zip(&task_of) {
        let name = std::mem::take(&mut row.name);
        *row = match task.and_then(|task| done.get_mut(task)?.take()) {
            Some(mut found) => {
                found.notes.append(&mut row.notes);
                Row { name, ..found }
            }
            None => Row { notes: vec!["there are no inputs".to_owned()], ..Row::empty(name) },
        };
    }
    let mut names = BTreeSet::new();
    for row in rows.iter_mut().filter(|row| !names.insert(row.name.clone())) {
        row.notes.push(
            "another row has this name, so saved results cannot be compared. Rename one".to_owned(),
        );
    }
    Results::new(events, names_of_events, missing, rows, comparisons, scope)
}

/// Returns the name of each task. Those without a row have none.
fn names_of(rows: &[Row], task_of: &[Option<usize>], tasks: usize) -> Vec<Option<String>> {
    let mut names = vec![None; tasks];
    for (row, task) in rows.iter().zip(task_of) {
        if let Some(name) = task.and_then(|task| names.get_mut(task)) {
            *name = Some(row.name.clone());
        }
    }
    names
}

/// Returns which rows are compared, with which others, and the names of these. None for another that is not there.
fn compared(entries: &[Entry<'_>], baseline: Option<&str>) -> Vec<(usize, Option<usize>, String)> {
    let mut found = Vec::new();
    for (row, entry) in entries.iter().enumerate() {
        let Some(against) = entry.against.as_deref().or(baseline) else { continue };
        let other = entries.iter().position(|entry| entry.name == against);
        // The baseline is not compared with itself.
        if other != Some(row) {
            found.push((row, other, against.to_owned()));
        }
    }
    found
}

/// Returns a unit for each row. Rows that are compared are in one.
fn units(rows: usize, compared: &[(usize, Option<usize>, String)]) -> Vec<usize> {
    let mut units: Vec<usize> = (0..rows).collect();
    for (row, other, _) in compared {
        let unit = |row: usize| units.get(row).copied();
        if let (Some(old), Some(new)) = (unit(*row), other.and_then(unit)) {
            units.iter_mut().filter(|unit| **unit == old).for_each(|unit| *unit = new);
        }
    }
    units
}

/// Takes samples of all tasks in turns, until the time of each is used up.
fn take_all(
    tasks: &mut [Task<'_>],
    machine: &mut Machine<'_>,
    shape: &Shape,
    time: Duration,
    leader: Option<&mut Leader>,
    progress: &mut dyn FnMut(f64),
) -> Vec<Series> {
    let mut random = Random::new();
    let mut all = Vec::new();
    for task in tasks.iter_mut() {
        let (multiple, has_fence) = (task.code.multiple(), task.code.has_fence());
        let found = task.length.or_else(|| {
            task.guarded(|task| {
                let mut measure = machine.around(&mut *task.code);
                let length = Length::find(&mut measure, shape, multiple, has_fence, time / 8);
                task.row.paths = paths(&mut measure, shape, &mut random, time / 8);
                length
            })
        });
        let length = *task.length.insert(found.unwrap_or(Length::of_nothing()));
        all.push(Series::new(length, time.min(task.most_time)));
        progress(0.0);
    }
    let units: Vec<usize> = tasks.iter().map(|task| task.unit).collect();
    let wanted: Vec<usize> = all.iter().map(|series| series.wanted).collect();
    let most = wanted.iter().copied().max().unwrap_or(0);
    // Takes a sample of a task, unless it is done. Returns whether it is.
    let mut take = |task: usize, pass: u32, random: &mut Random| {
        let (Some(task), Some(series)) = (tasks.get_mut(task), all.get_mut(task)) else {
            return true;
        };
        if !series.is_done() && task.row.panicked.is_none() {
            task.others.begin();
            task.guarded(|task| series.take(&mut machine.around(&mut *task.code), pass, random));
            task.others.end();
        }
        series.is_done() || task.row.panicked.is_some()
    };
    if let Some(leader) = leader {
        leader.follow(&wanted, |task, pass| take(task, pass, &mut random));
        return all;
    }
    for pass in 0.. {
        let is_due =
            |task: &usize| wanted.get(*task).is_some_and(|wanted| is_due(*wanted, most, pass));
        let mut open = pass < most;
        for task in in_random_order(&units, &mut random).into_iter().filter(is_due) {
            open |= !take(task, pass as u32, &mut random);
        }
        progress((pass + 1) as f64 / most.max(pass + 1) as f64);
        if !open {
            break;
        }
    }
    all
}

/// Whether a task that wants this number of samples takes one in this pass, of as many as `most`. So its samples are spread over all
/// passes. Passes after these are for tasks that are not done.
pub(crate) fn is_due(wanted: usize, most: usize, pass: usize) -> bool {
    let until = |passes: usize| (passes as u128 * wanted as u128).div_ceil(most.max(1) as u128);
    pass >= most || until(pass + 1) > until(pass)
}

/// Returns the tasks of all units in random order: the units, and the tasks of each, which follow one another.
pub(crate) fn in_random_order(units: &[usize], random: &mut Random) -> Vec<usize> {
    let mut order: Vec<(usize, usize)> = units.iter().copied().enumerate().collect();
    random.shuffle(&mut order);
    // The turn of the first task of each unit.
    let mut turns = vec![0; units.iter().max().map_or(0, |last| last + 1)];
    for (turn, (_, unit)) in order.iter().enumerate() {
        if let Some(first) = turns.get_mut(*unit).filter(|first| **first == 0) {
            *first = turn + 1;
        }
    }
    order.sort_by_key(|(_, unit)| turns.get(*unit).copied());
    order.into_iter().map(|(task, _)| task).collect()
}

/// Returns what a fence costs, from the samples of the last tasks, which are [`fence::codes`]. None without them.
fn fence_costs(
    tasks: &[Task<'_>],
    series: &[Series],
    measured: usize,
    shape: &Shape,
    target: f64,
) -> FenceCosts {
    let mut costs: FenceCosts = [None; VALUES];
    let none: FenceCosts = [None; VALUES];
    let judged: Vec<Judged<'_>> = tasks
        .iter()
        .zip(series)
        .skip(measured)
        .map(|(task, series)| judge(&series.samples, shape, target, &task.row.paths, &none))
        .collect();
    let kept: Vec<&[&Sample]> = judged.iter().map(|judged| judged.kept.as_slice()).collect();
    if let Ok(samples) = <[&[&Sample]; fence::CODES]>::try_from(kept) {
        for place in shape.cycles.into_iter().chain([TICKS]) {
            if let Some(cost) = costs.get_mut(place) {
                *cost = FenceCost::of(samples, place, shape);
            }
        }
    }
    costs
}

/// Returns what the values of a sample are: the counts of a group, and the ticks.
fn shape(counted: Option<(&Set, &Counters)>, clock: &Clock) -> Shape {
    const TICKS_TO_CONVERT: u64 = 1 << 32;
    let ns = clock.conversion().delta_ns(TICKS_TO_CONVERT);
    let place = |event| counted.and_then(|(set, _)| set.place(event));
    Shape {
        counts: counted.map_or(0, |(set, _)| set.events.len()),
        instructions: place(Event::INSTRUCTIONS),
        kernel: place(Event::INSTRUCTIONS.kernel()),
        cycles: place(Event::CYCLES),
        includes_kernel: counted.is_some_and(|(_, group)| group.count_all_privilege_levels()),
        is_software: counted.is_some_and(|(_, group)| group.are_software()),
        ns_per_tick: ns as f64 / TICKS_TO_CONVERT as f64,
        step: clock.step() as f64,
    }
}

impl<'a> Task<'a> {
    fn new(code: Box<dyn Loops + 'a>, unit: usize, operations: u64) -> Task<'a> {
        let row = Row::empty(String::new());
        Task {
            code,
            unit,
            most_time: Duration::MAX,
            length: None,
            row,
            measured: Vec::new(),
            operations,
            instructions: None,
            rounds_disagree: false,
            others: OtherThreads::default(),
            waited: (0, 0),
            stepped: None,
            has_rarer_path: false,
            turns: Turns::default(),
            parts: Vec::new(),
        }
    }

    /// Does something that runs the code. None if it panics, or has panicked: its row has a note then.
    fn guarded<T>(&mut self, run: impl FnOnce(&mut Task<'a>) -> T) -> Option<T> {
        if self.row.panicked.is_some() {
            return None;
        }
        panic_of(|| run(self)).map_err(|message| self.row.panicked = Some(message)).ok()
    }

    /// Adds the figures of a round.
    #[allow(clippy::too_many_arguments, reason = "one caller")]
    fn add(
        &mut self,
        set: &Set,
        series: &Series,
        judged: &Judged<'_>,
        is_first: bool,
        shape: &Shape,
        fence: &FenceCosts,
        events: &[Event],
    ) {
        let scale = 1.0 / self.operations.max(1) as f64;
        let figure = |place: usize, quantity: Quantity| {
            let (estimate, verdict) = (*judged.figures.get(place)?)?;
            let (estimate, verdict) = (estimate.scaled(scale), verdict.scaled(scale));
            Some(Figure { quantity, estimate, verdict })
        };
        let cost_of_fence = |place: usize| {
            let fence = fence.get(place).copied().flatten();
            fence.map_or(0.0, |fence| fence.in_loop_of(&judged.kept, place, shape).value)
        };
        let measured = |figure: Figure, place: usize, unit: f64| {
            let costs = match is_speed(figure.quantity) {
                true => vec![costs(&judged.kept, place, shape, cost_of_fence(place), unit * scale)],
                false => Vec::new(),
            };
            Measured { figure, costs }
        };
        let row = &mut self.row;
        if is_first {
            row.runs = series.length.k;
            row.samples = series.samples.len();
            row.set_aside = series.samples.len() - judged.kept.len();
            let waited = series.samples.iter().filter(|sample| sample.has_blocked).count();
            self.waited = (waited, series.samples.len());
            let time = figure(TICKS, Quantity::Time);
            let time = time.map(|time| measured(time, TICKS, shape.ns_per_tick));
            row.times =
                time.iter().flat_map(|time| time.costs.concat()).map(|(_, ns)| ns).collect();
            self.measured.extend(time);
            let fence = fence.get(TICKS).copied().flatten();
            row.fence = fence.map(|fence| fence.as_note(shape.ns_per_tick, scale));
            row.slow = slow::of(judged, shape).map(|slow| slow.scaled(scale));
        }
        let of_this =
            set.place(Event::INSTRUCTIONS).and_then(|place| *judged.figures.get(place)?);
        let of_this = of_this.map(|(estimate, _)| estimate);
        let agrees = agree(self.instructions, of_this);
        self.instructions = self.instructions.or(of_this);
        self.rounds_disagree |= !agrees;
        for (place, event) in set.events.iter().enumerate() {
            let quantity = Quantity::Event(*event);
            let is_known = self.measured.iter().any(|known| known.figure.quantity == quantity);
            if is_known || !events.contains(event) {
                continue; // the witness of a later round, of interrupts or of context switches
            }
            let found = figure(place, quantity).map(|figure| match agrees {
                true => figure,
                false => Figure { verdict: Verdict::Unstable(Cause::RoundsDisagree), ..figure },
            });
            self.measured.extend(found.map(|figure| measured(figure, place, 1.0)));
        }
    }

    /// Adds the instructions by single-stepping, in this process and in others.
    fn judge_steps(
        &mut self,
        others: &[again::Row],
        wanted: usize,
        why_alone: Option<&str>,
        target: f64,
    ) {
        let Some(own) = &self.stepped else { return };
        let others: Vec<Counted> = others.iter().filter_map(|row| row.stepped.clone()).collect();
        let (estimate, mut verdict) = stepped::judged(own, &others, target);
        let all = || std::iter::once(own).chain(&others);
        self.row.stepped_runs = all().map(|counted| counted.stepped).sum();
        let (samples, of) = self.waited;
        if samples * 2 > of {
            verdict = Verdict::Unstable(Cause::Waits { samples, of });
        } else if self.has_rarer_path {
            verdict = Verdict::Unstable(Cause::SeveralPaths);
        } else if others.len() < wanted.min(MIN_VALUES - 1) {
            verdict = Verdict::Unstable(Cause::FewProcesses { processes: others.len() + 1 });
            let why = why_alone.unwrap_or("its code could not be stepped there");
            self.row.notes.push(format!("other processes did not count its instructions: {why}"));
        }
        let estimate = estimate.scaled(1.0 / self.operations.max(1) as f64);
        let figure = Figure { quantity: Quantity::SteppedInstructions, estimate, verdict };
        self.measured.push(Measured { figure, costs: Vec::new() });
    }

    /// Returns what this process counted.
    fn counted(&self) -> again::Row {
        let repeated = |measured: &Measured| {
            let Figure { quantity, estimate, verdict } = measured.figure;
            let is_counted =
                matches!(quantity, Quantity::Event(Event::INSTRUCTIONS | Event::BRANCHES));
            let is_known = !matches!(verdict, Verdict::Unstable(_));
            (is_counted && is_known).then(|| (quantity.to_string(), estimate))
        };
        again::Row {
            stepped: self.stepped.clone(),
            counts: self.measured.iter().filter_map(repeated).collect(),
        }
    }

    /// Widens the figures of counters that other processes count otherwise.
    fn join_counts(&mut self, others: &[again::Row], target: f64) {
        let is_trusted = |figure: &Figure| !matches!(figure.verdict, Verdict::Unstable(_));
        let figures = self.measured.iter_mut().map(|measured| &mut measured.figure);
        for figure in figures.filter(|figure| is_trusted(figure)) {
            let name = figure.quantity.to_string();
            let of_others: Vec<Estimate> = others
                .iter()
                .filter_map(|row| row.counts.iter().find(|(known, _)| *known == name))
                .map(|(_, estimate)| *estimate)
                .collect();
            if let Some((estimate, verdict)) = stepped::joined(&figure.estimate, &of_others, target)
            {
                (figure.estimate, figure.verdict) = (estimate, verdict);
            }
        }
    }

    /// Counts the instructions by single-stepping.
    fn step(&mut self, stepper: &mut Stepper, machine: &mut Machine<'_>) {
        let Some(counted) = self.guarded(|task| stepper.count(&mut *task.code)) else { return };
        match counted {
            Ok(counted) => {
                self.stepped = Some(counted);
                if self.code.multiple() == 1 && !stepper.is_other {
                    let found =
                        self.guarded(|task| has_rarer_path(&mut machine.around(&mut *task.code)));
                    self.has_rarer_path = found == Some(true);
                }
            }
            Err(why) => {
                self.row.notes.push(format!("instructions were not stepped: {why}"));
                self.row.not_stepped = Some(why.to_string());
            }
        }
    }

    /// Marks the counts of this thread alone, if other threads worked.
    fn mark_what_others_did(&mut self, scope: Scope) {
        let Some(share) = self.others.share() else { return };
        let percent = share * 100.0;
        let figures = self.measured.iter_mut().map(|measured| &mut measured.figure);
        for figure in figures.chain(&mut self.parts) {
            let is_stepped = figure.quantity == Quantity::SteppedInstructions;
            let is_of_one = is_stepped || scope == Scope::Thread;
            if is_of_one && figure.quantity != Quantity::Time {
                figure.verdict = Verdict::Unstable(Cause::OtherThreads { percent, is_stepped });
            }
        }
    }

    /// Adds the parts of the pipeline slots.
    fn add_parts_of_slots(&mut self, topdown: &Topdown, target: f64) {
        if self.code.has_fence() {
            let note = "most pipeline slots are the fence's, so their parts are not shown. Measure the throughput";
            self.row.notes.push(note.into());
            return;
        }
        let Some((mut figures, disagreement)) = self.turns.figures(topdown, target) else {
            self.row.notes.push("the slots of the top-down method could not be counted".into());
            return;
        };
        if self.rounds_disagree {
            let verdict = Verdict::Unstable(Cause::RoundsDisagree);
            figures.iter_mut().for_each(|figure| figure.verdict = verdict);
        }
        self.parts = figures;
        self.row.notes.extend(disagreement.map(|why| format!("top-down counts disagree: {why}")));
    }

    /// Returns the row, with its figures in the order of the events. The ratio comes after the instructions.
    fn finished(self, events: &[Event]) -> Row {
        let mut row = self.row;
        if let Some(message) = &row.panicked {
            row.notes.insert(0, format!("its code panicked: {message}"));
            return row;
        }
        row.figures = self.measured.into_iter().map(|measured| measured.figure).collect();
        row.figures.extend(self.parts);
        let (instructions, cycles) = (row.event(Event::INSTRUCTIONS), row.event(Event::CYCLES));
        if let (Some(instructions), Some(cycles)) = (instructions, cycles) {
            let ratio = instructions.ratio_to(cycles, Quantity::InstructionsPerCycle);
            row.figures.extend(ratio);
        }
        let place = |event| events.iter().position(|known| *known == event);
        row.figures.sort_by_key(|figure| match figure.quantity {
            Quantity::Time => (None, 0),
            Quantity::Event(event) => (place(event), 0),
            Quantity::SteppedInstructions => (place(Event::INSTRUCTIONS), 0),
            Quantity::InstructionsPerCycle => (place(Event::INSTRUCTIONS), 1),
            // After all events, in their own order.
            part => (Some(usize::MAX), QUANTITIES.iter().position(|it| *it == part).unwrap_or(0)),
        });
        row
    }
}

/// Whether two rounds counted as many instructions.
fn agree(first: Option<Estimate>, this: Option<Estimate>) -> bool {
    match (first, this) {
        (Some(first), Some(this)) => this.low <= first.high && first.low <= this.high,
        _ => true,
    }
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

    #[test]
    fn compared_rows_are_in_one_unit() {
        let against = |row, other| (row, other, String::new());
        assert_eq!(units(4, &[]), [0, 1, 2, 3]);
        assert_eq!(units(4, &[against(2, Some(0)), against(3, None)]), [0, 1, 0, 3]);
        assert_eq!(
            units(4, &[against(1, Some(0)), against(3, Some(2)), against(2, Some(1))]),
            [0; 4]
        );
        assert_eq!(units(2, &[against(0, Some(1)), against(1, Some(0))]), [1, 1]);
    }

    #[test]
    fn samples_are_spread_over_all_passes() {
        for (wanted, most) in [(1, 1), (8, 4_096), (100, 150), (150, 150), (3, 7)] {
            let due: Vec<usize> = (0..most).filter(|pass| is_due(wanted, most, *pass)).collect();
            assert_eq!((due.len(), due.first()), (wanted, Some(&0)));
            let gaps = || due.iter().zip(due.iter().skip(1)).map(|(one, two)| two - one);
            assert!(gaps().max() <= gaps().min().map(|least| least + 1), "{due:?}");
            assert!(is_due(wanted, most, most));
        }
    }
}
