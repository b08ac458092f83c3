//! Measures all rows of a `Bench`: each set of events in a round, then instructions by single-stepping, then what other processes counted.

use super::leader::Leader;
use super::passes::take_all;
use super::progress::Progress;
use super::rows::Rows;
use super::task::{Purpose, Round, Task};
use crate::events::counters::Counters;
use crate::events::sets::Set;
use crate::judging::fence::{self, FenceCost};
use crate::judging::judge::{FenceCosts, Judged, judge};
use crate::judging::topdown::Topdown;
use crate::output::results::Results;
use crate::plan::Plan;
use crate::sampling::code::Loops;
use crate::sampling::machine::Machine;
use crate::sampling::sample::{Sample, Shape, TICKS, VALUES};
use crate::sampling::series::Series;
use crate::stepping::again::{self, Call};
use crate::stepping::by_function::{Placer, Resolver};
use crate::stepping::stepped::Stepper;
use rdpmc::{Clock, Event, Scope};
use std::time::Duration;

pub(crate) fn run(plan: Plan<'_>, progress: &mut Progress) -> Results {
    let Plan { clock, events, topdown, time_to_step, processes, target, scope, .. } = plan;
    let call = Call::new();
    // In a process that was started to step, the rows run for a while first, as they do in the one that has started it.
    let time_per_row = if call.is_asked() { plan.time_per_row / 10 } else { plan.time_per_row };
    if call.is_asked() {
        progress.hide();
        call.use_heap();
    }
    let (rows, mut tasks) = Rows::from_entries(plan.entries, plan.baseline.as_deref());
    let measured = tasks.len();
    add_fences(&mut tasks, rows.another_unit());
    let names = rows.names();
    let sets = sets_to_count(plan.sets, scope, &events);
    let mut leader = {
        let others = std::iter::repeat_n(None, tasks.len() - measured);
        let names: Vec<Option<&str>> = names.iter().copied().map(Some).chain(others).collect();
        Leader::of_this_process(&names, sets.len(), &rows.without_inputs(), scope)
    };
    if leader.is_some() {
        progress.hide();
    }

    let rounds = Rounds {
        clock: &clock,
        topdown: topdown.as_ref(),
        events: &events,
        measured,
        target,
        scope,
    };
    for (number, set) in sets.iter().enumerate() {
        let time = time_of_round(time_per_row, number, sets.len());
        let mut show = |done: f64| progress.show((number as f64 + done) / sets.len() as f64);
        rounds.count(&mut tasks, set, number == 0, time, leader.as_mut(), &mut show);
    }

    let is_counted = !plan.missing.iter().any(|missing| missing.event == Some(Event::INSTRUCTIONS));
    let purpose = match () {
        () if time_to_step.is_zero() => None,
        () if !is_counted => Some(Purpose::Figure),
        // Another process need not tell.
        () => (plan.shows_functions && !call.is_asked()).then_some(Purpose::FunctionsAlone),
    };
    if let Some(purpose) = purpose {
        step(&mut tasks, measured, &call, time_to_step, &clock, purpose);
    }
    // What was measured before a panic is of no use.
    for task in tasks.iter_mut().filter(|task| task.row.panicked.is_some()) {
        task.measured.clear();
        task.stepped = None;
    }
    let asked = if leader.is_some() { 0 } else { processes.saturating_sub(1) };
    join_processes(
        tasks.get_mut(..measured).unwrap_or_default(),
        &call,
        &names,
        asked,
        time_to_step,
        target,
    );
    if let Some(topdown) = &topdown {
        tasks.iter_mut().for_each(|task| task.add_parts_of_slots(topdown, target));
    }
    tasks.iter_mut().for_each(|task| task.mark_what_others_did(scope));
    progress.end();

    if let Some(leader) = leader {
        leader.end(tasks.iter().map(|task| task.measured.as_slice()));
    }
    let comparisons = rows.comparisons(&tasks, target);
    let rows = rows.finished(tasks, &events);
    let results = Results::new(events, plan.missing, rows, comparisons, scope);
    Results { shows_functions: plan.shows_functions, ..results }
}

/// Adds the tasks that measure what a fence costs, if a row has one.
fn add_fences(tasks: &mut Vec<Task<'_>>, unit: usize) {
    if tasks.iter().any(|task| task.code.has_fence()) {
        let task = |code| Task::new(code as Box<dyn Loops>, unit, 1).at_most(fence::MAX_TIME);
        tasks.extend(fence::codes().map(task));
    }
}

/// Returns the sets of events to count, one after the other. Without counters, that is one without events.
fn sets_to_count(mut sets: Vec<Set>, scope: Scope, events: &[Event]) -> Vec<Set> {
    if sets.is_empty() {
        sets.push(Set { events: Vec::new() });
    }
    if scope != Scope::Thread {
        // The kernel's instructions show what disturbs this thread alone.
        let is_wanted =
            |event: &Event| *event != Event::INSTRUCTIONS.kernel() || events.contains(event);
        sets.iter_mut().for_each(|set| set.events.retain(is_wanted));
    }
    sets
}

/// Returns the time of a row in a round. The first round also finds the lengths of the loops.
fn time_of_round(time_per_row: Duration, number: usize, rounds: usize) -> Duration {
    match (number, rounds as u32 - 1) {
        (_, 0) => time_per_row,
        (0, _) => time_per_row / 5 * 3,
        (_, others) => time_per_row / 5 * 2 / others,
    }
}

/// What all rounds have in common.
struct Rounds<'r> {
    clock: &'r Clock,
    topdown: Option<&'r Topdown>,
    events: &'r [Event],
    /// The number of tasks that are rows. Those of the fence follow.
    measured: usize,
    target: f64,
    scope: Scope,
}

impl Rounds<'_> {
    /// Measures all tasks while this set is counted. The first round measures the time in any case.
    fn count(
        &self,
        tasks: &mut [Task<'_>],
        set: &Set,
        is_first: bool,
        time: Duration,
        mut leader: Option<&mut Leader>,
        progress: &mut dyn FnMut(f64),
    ) {
        let names = || set.events.iter().map(Event::to_string).collect::<Vec<_>>().join(", ");
        let note = |tasks: &mut [Task<'_>], note: String| {
            tasks.iter_mut().for_each(|task| task.row.notes.push(note.clone()));
        };
        let group = match set.events.is_empty() {
            true => None,
            false => Counters::open(&set.events, self.scope)
                .map_err(|why| note(tasks, format!("{} could not be opened again: {why}", names())))
                .ok(),
        };
        if group.is_none() && !is_first {
            return;
        }
        let mut take = |tasks: &mut [Task<'_>], group: Option<&Counters>| {
            let shape = shape(group.map(|group| (set, group)), self.clock);
            let mut machine = Machine::new(self.clock, group);
            let series =
                take_all(tasks, &mut machine, &shape, time, leader.as_deref_mut(), progress);
            (shape, series)
        };
        let (mut shape, mut series) = take(tasks, group.as_ref());
        if let Some(group) = &group {
            let is_unread = |(task, series): (&Task<'_>, &Series)| {
                series.samples.is_empty() && task.row.panicked.is_none()
            };
            if tasks.iter().zip(&series).any(is_unread) {
                note(tasks, format!("{} could not be read: {}", names(), group.why_unreadable()));
                if !is_first {
                    return;
                }
                (shape, series) = take(tasks, None);
            }
        }
        let time_alone = Set { events: Vec::new() };
        let set = if shape.counts > 0 { set } else { &time_alone };
        self.judge(tasks, &series, &Round { set, shape, is_first, events: self.events });
    }

    /// Adds what the samples of a round say to the tasks.
    fn judge(&self, tasks: &mut [Task<'_>], series: &[Series], round: &Round<'_>) {
        let none: FenceCosts = [None; VALUES];
        let costs = fence_costs(tasks, series, self.measured, &round.shape, self.target);
        for (task, series) in tasks.iter_mut().zip(series) {
            let fence = if task.code.has_fence() { &costs } else { &none };
            let judged = judge(&series.samples, &round.shape, self.target, &task.row.paths, fence);
            task.add(round, series, &judged, fence);
            if let Some(topdown) = self.topdown {
                task.turns.add(topdown, round.set, &judged.kept);
            }
        }
    }
}

/// Counts the instructions of the rows by single-stepping.
fn step(
    tasks: &mut [Task<'_>],
    measured: usize,
    call: &Call,
    time: Duration,
    clock: &Clock,
    purpose: Purpose,
) {
    let mut stepper = Stepper::new(time, call.is_asked());
    let mut machine = Machine::new(clock, None);
    for (place, task) in tasks.iter_mut().take(measured).enumerate() {
        if call.steps(place) {
            task.step(&mut stepper, &mut machine, purpose);
        }
    }
    let placer = Placer::new();
    tasks.iter_mut().for_each(|task| task.add_places(&placer));
    if purpose == Purpose::FunctionsAlone {
        let mut resolver = Resolver::new();
        tasks.iter_mut().for_each(|task| task.add_functions(&mut resolver));
    }
}

/// Has this many other processes count the same rows, and joins what they counted. If this process is such a one, it answers.
fn join_processes(
    tasks: &mut [Task<'_>],
    call: &Call,
    names: &[&str],
    processes: u32,
    time_to_step: Duration,
    target: f64,
) {
    let counted: Vec<again::Row> = tasks.iter().map(|task| task.counted()).collect();
    call.answer(names, &counted);
    let (of_others, why_not) = match () {
        () if processes == 0 || counted.iter().all(|row| *row == again::Row::default()) => {
            (Vec::new(), None)
        }
        () if call.why_alone().is_some() => (Vec::new(), call.why_alone().map(str::to_owned)),
        () => {
            let stepped = counted.iter().map(|row| row.stepped.is_some());
            call.ask(names, stepped, processes, time_to_step)
        }
    };
    let mut resolver = Resolver::new();
    for (place, task) in tasks.iter_mut().enumerate() {
        let of_others = of_others.get(place).map_or(&[][..], Vec::as_slice);
        let (wanted, why_not) = (processes as usize, why_not.as_deref());
        task.judge_steps(of_others, wanted, why_not, target, &mut resolver);
        task.join_counts(of_others, target);
    }
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
                *cost = FenceCost::from_samples(samples, place, shape);
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
