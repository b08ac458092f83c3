//! Measures all rows of a `Bench`, in turns.

use crate::bench::{Bench, Entry};
use crate::code::{Loops, Random};
use crate::comparison::{RowComparison, Side, difference};
use crate::estimate::Estimate;
use crate::fence::{self, FenceCost};
use crate::judge::{FenceCosts, Judged, judge};
use crate::machine::Machine;
use crate::paths::paths;
use crate::progress::Progress;
use crate::results::Results;
use crate::row::{Figure, Quantity, Row};
use crate::sample::{Sample, Shape, TICKS, VALUES};
use crate::series::{Length, Series};
use crate::sets::Set;
use crate::slow;
use crate::verdict::{Cause, Verdict};
use rdpmc::{Clock, DynGroup, Event};
use std::time::Duration;

/// A row that is measured.
struct Task<'a> {
    code: Box<dyn Loops + 'a>,
    /// Tasks of one unit are measured one after the other in each pass.
    unit: usize,
    length: Option<Length>,
    row: Row,
    operations: u64,
    /// The instructions of the first round, for comparison with those of the others.
    instructions: Option<Estimate>,
}

pub(crate) fn run(bench: Bench<'_>, progress: &mut Progress) -> Results {
    let Bench { clock, sets, events, missing, entries, baseline, time_per_row, target } = bench;
    let compared = compared(&entries, baseline.as_deref());
    let units = units(entries.len(), &compared);
    let mut tasks: Vec<Task<'_>> = Vec::new();
    // Which task measures each row. Rows without inputs have none.
    let mut task_of: Vec<Option<usize>> = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    for (entry, unit) in entries.into_iter().zip(units) {
        task_of.push(entry.code.is_some().then_some(tasks.len()));
        rows.push(Row::empty(entry.name));
        if let Some(code) = entry.code {
            tasks.push(Task::new(code, unit, entry.operations));
        }
    }
    let measured = tasks.len();
    if tasks.iter().any(|task| task.code.has_fence()) {
        let unit = rows.len();
        tasks.extend(fence::codes().map(|code| Task::new(code as Box<dyn Loops>, unit, 1)));
    }
    let pairs: Vec<(usize, usize)> = compared
        .iter()
        .filter_map(|(row, other, _)| {
            Some((task_of.get(*row).copied()??, task_of.get((*other)?).copied()??))
        })
        .collect();
    let mut differences: Vec<Vec<crate::comparison::Difference>> = vec![Vec::new(); pairs.len()];

    let time_alone = Set { events: Vec::new() };
    let sets = if sets.is_empty() { vec![time_alone.clone()] } else { sets };
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
        let mut take = |tasks: &mut [Task<'_>], group: Option<&DynGroup>| {
            let shape = shape(group.map(|group| (set, group)), &clock);
            let mut machine = Machine::new(&clock, group);
            let series = take_all(tasks, &mut machine, &shape, time, &mut |done| {
                progress.show(shares.0 + shares.1 * done);
            });
            shares.1 = 0.0;
            (shape, series)
        };
        let group = match set.events.is_empty() {
            true => None,
            false => match set.open() {
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
            let unread = series.iter().any(|series| series.samples.is_empty());
            if unread {
                let note = format!("{} could not be read: {}", names(), group.access());
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
        }
        for ((row, other), found) in pairs.iter().zip(&mut differences) {
            let side = |task: usize| {
                let (kept, task) = (judged.get(task)?, tasks.get(task)?);
                Some(move |place: usize| Side {
                    row: &task.row,
                    kept: &kept.kept,
                    operations: task.operations,
                    fence: match task.code.has_fence() {
                        true => fence
                            .get(place)
                            .copied()
                            .flatten()
                            .map_or(0.0, |fence| fence.after_a_chain.value),
                        false => 0.0,
                    },
                })
            };
            let (Some(row), Some(other)) = (side(*row), side(*other)) else { continue };
            let time = is_first.then_some((Quantity::Time, TICKS, shape.ns_per_tick));
            let counts = set.events.iter().enumerate();
            let counts = counts.map(|(place, event)| (Quantity::Event(*event), place, 1.0));
            for (quantity, place, unit) in time.into_iter().chain(counts) {
                let is_known = found.iter().any(|known| known.quantity == quantity);
                if !is_known {
                    found.extend(difference(&row(place), &other(place), quantity, place, unit));
                }
            }
        }
    }
    progress.end();

    let mut done: Vec<Option<Row>> =
        tasks.into_iter().map(|task| Some(task.finished(&events))).collect();
    for (row, task) in rows.iter_mut().zip(&task_of) {
        let name = std::mem::take(&mut row.name);
        *row = match task.and_then(|task| done.get_mut(task)?.take()) {
            Some(found) => Row { name, ..found },
            None => Row { notes: vec!["there are no inputs".to_owned()], ..Row::empty(name) },
        };
    }
    let mut differences = differences.into_iter();
    let comparisons = compared
        .into_iter()
        .map(|(row, other, against)| {
            let is_measured = |row: Option<usize>| {
                row.and_then(|row| task_of.get(row).copied().flatten()).is_some()
            };
            let both = is_measured(Some(row)) && is_measured(other);
            RowComparison {
                row: rows.get(row).map_or_else(String::new, |row| row.name.clone()),
                differences: if both { differences.next().unwrap_or_default() } else { Vec::new() },
                against,
            }
        })
        .collect();
    Results::new(events, missing, rows, comparisons)
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
    progress: &mut dyn FnMut(f64),
) -> Vec<Series> {
    let mut random = Random::new();
    let mut all = Vec::new();
    for task in tasks.iter_mut() {
        let (multiple, has_fence) = (task.code.multiple(), task.code.has_fence());
        let mut measure = machine.around(&mut *task.code);
        let length = *task.length.get_or_insert_with(|| {
            let length = Length::find(&mut measure, shape, multiple, has_fence, time / 8);
            task.row.paths = paths(&mut measure, shape, &mut random, time / 8);
            length
        });
        all.push(Series::new(length, time));
        progress(0.0);
    }
    let mut order: Vec<(usize, usize)> = tasks.iter().map(|task| task.unit).enumerate().collect();
    for pass in 0.. {
        // Units in random order, and the tasks of each.
        random.shuffle(&mut order);
        let mut turns: Vec<usize> = vec![0; tasks.len() + 1];
        for (turn, (_, unit)) in order.iter().enumerate() {
            if let Some(first) = turns.get_mut(*unit).filter(|first| **first == 0) {
                *first = turn + 1;
            }
        }
        order.sort_by_key(|(_, unit)| turns.get(*unit).copied());
        let mut is_done = true;
        for (task, _) in &order {
            let (Some(task), Some(series)) = (tasks.get_mut(*task), all.get_mut(*task)) else {
                continue;
            };
            if !series.is_done() {
                is_done = false;
                series.take(&mut machine.around(&mut *task.code), pass, &mut random);
                let share = series.share();
                progress(share);
            }
        }
        if is_done {
            break;
        }
    }
    all
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
    if let [alone, fenced, chain] = judged.as_slice() {
        let samples: [&[&Sample]; fence::CODES] = [&alone.kept, &fenced.kept, &chain.kept];
        for place in shape.cycles.into_iter().chain([TICKS]) {
            if let Some(cost) = costs.get_mut(place) {
                *cost = FenceCost::of(samples, place);
            }
        }
    }
    costs
}

/// Returns what the values of a sample are: the counts of a group, and the ticks.
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

impl<'a> Task<'a> {
    fn new(code: Box<dyn Loops + 'a>, unit: usize, operations: u64) -> Task<'a> {
        let row = Row::empty(String::new());
        Task { code, unit, length: None, row, operations, instructions: None }
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
            Some(Figure { quantity, estimate: estimate.scaled(scale), verdict })
        };
        let row = &mut self.row;
        if is_first {
            row.runs = series.length.k;
            row.samples = series.samples.len();
            row.set_aside = series.samples.len() - judged.kept.len();
            row.figures.extend(figure(TICKS, Quantity::Time));
            if let Some(fence) = fence.last().copied().flatten() {
                row.fence = Some(
                    [fence.after_a_chain.value, fence.range()]
                        .map(|ticks| ticks * shape.ns_per_tick),
                );
            }
            row.slow = slow::of(judged, shape).map(|slow| slow.scaled(scale));
        }
        let of_this =
            set.place(Event::INSTRUCTIONS).and_then(|place| *judged.figures.get(place)?);
        let of_this = of_this.map(|(estimate, _)| estimate);
        let agrees = agree(self.instructions, of_this);
        self.instructions = self.instructions.or(of_this);
        for (place, event) in set.events.iter().enumerate() {
            if row.event(*event).is_some() || !events.contains(event) {
                continue; // the witness of a later round, of interrupts or of context switches
            }
            row.figures.extend(figure(place, Quantity::Event(*event)).map(|figure| match agrees {
                true => figure,
                false => Figure { verdict: Verdict::Unstable(Cause::RoundsDisagree), ..figure },
            }));
        }
    }

    /// Returns the row, with its figures in the order of the events. The ratio comes after the instructions.
    fn finished(self, events: &[Event]) -> Row {
        let mut row = self.row;
        let (instructions, cycles) = (row.event(Event::INSTRUCTIONS), row.event(Event::CYCLES));
        if let (Some(instructions), Some(cycles)) = (instructions, cycles) {
            let ratio = instructions.ratio_to(cycles, Quantity::InstructionsPerCycle);
            row.figures.extend(ratio);
        }
        let place = |event| events.iter().position(|known| *known == event);
        row.figures.sort_by_key(|figure| match figure.quantity {
            Quantity::Time => (None, 0),
            Quantity::Event(event) => (place(event), 0),
            Quantity::InstructionsPerCycle => (place(Event::INSTRUCTIONS), 1),
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
}
