//! Samples of all tasks in turns, spread over the whole run.

use super::leader::Leader;
use super::task::Task;
use crate::sampling::code::Random;
use crate::sampling::machine::Machine;
use crate::sampling::paths::paths;
use crate::sampling::sample::Shape;
use crate::sampling::series::{Length, Series};
use rdpmc_step::{OtherThreads, settle};
use std::time::Duration;

/// How often in a row other threads may stay awake before nothing waits for them any more.
const PATIENCE: u32 = 3;

/// Takes samples of all tasks in turns, until the time of each is used up.
pub(super) fn take_all(
    tasks: &mut [Task<'_>],
    machine: &mut Machine<'_>,
    shape: &Shape,
    time: Duration,
    leader: Option<&mut Leader>,
    progress: &mut dyn FnMut(f64),
) -> Vec<Series> {
    let mut random = Random::new();
    let mut all = Vec::new();
    let mut patience = PATIENCE;
    for task in tasks.iter_mut() {
        let (multiple, has_fence) = (task.code.multiple(), task.code.has_fence());
        let found = task.length.or_else(|| {
            let others = OtherThreads::default();
            others.begin();
            let found = task.guarded(|task| {
                let mut measure = machine.around(&mut *task.code);
                let length = Length::find(&mut measure, shape, multiple, has_fence, time / 8);
                task.row.paths = paths(&mut measure, shape, &mut random, time / 8);
                length
            });
            // The time of a thread is added when it sleeps.
            settle();
            task.has_helpers |= others.end();
            found
        });
        let length = *task.length.insert(found.unwrap_or(Length::of_nothing()));
        all.push(Series::new(length, time.min(task.most_time)));
        progress(0.0);
    }
    let units: Vec<usize> = tasks.iter().map(|task| task.unit).collect();
    let wanted: Vec<usize> = all.iter().map(|series| series.wanted).collect();
    let most = wanted.iter().copied().max().unwrap_or(0);
    // Takes a sample of a task, unless it is done. Returns whether it is.
    let mut take = |place: usize, pass: u32, random: &mut Random| {
        let (Some(task), Some(series)) = (tasks.get_mut(place), all.get_mut(place)) else {
            return true;
        };
        if !series.is_done() && task.row.panicked.is_none() {
            task.others.begin();
            task.guarded(|task| series.take(&mut machine.around(&mut *task.code), pass, random));
            task.has_helpers |= task.others.end();
            // What its threads still do is not the next sample's.
            if task.has_helpers && patience > 0 {
                patience = if settle() { PATIENCE } else { patience - 1 };
            }
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

#[cfg(test)]
mod tests {
    use super::*;

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
