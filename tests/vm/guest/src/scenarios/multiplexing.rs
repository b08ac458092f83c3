//! More events than registers: they take turns, and no answer is wrong meanwhile.

use super::{Entry, fill_the_pmu, open};
use crate::harness::{Facts, Outcome, Stop, require};
use crate::kernels::countdown;
use crate::machine::{Page, read_event};
use crate::process::perf_descriptors;
use rdpmc::{Access, Counter, Error, Event, NoUserAccess};
use std::hint::black_box;

pub const ALL: &[Entry] = &[
    ("multiplexed_counts_scale", multiplexed_counts_scale),
    ("no_user_read_exactly_while_index_is_0", no_user_read_exactly_while_index_is_0),
    ("reset_while_taking_turns", reset_while_taking_turns),
    ("pinned_without_a_register", pinned_without_a_register),
];

/// Twice as many instruction counters as registers.
fn twice_too_many() -> Result<(Vec<Counter>, usize), Error> {
    let mut counters = fill_the_pmu()?;
    let registers = counters.len();
    for _ in 0..registers {
        counters.push(open(Event::INSTRUCTIONS)?);
    }
    Ok((counters, registers))
}

fn multiplexed_counts_scale(_: &Facts) -> Outcome {
    let (counters, registers) = twice_too_many()?;
    let before: Vec<_> = counters.iter().map(Counter::reading).collect::<Result<_, _>>()?;
    const ROUNDS: u64 = 200_000_000;
    countdown(black_box(ROUNDS));
    let after: Vec<_> = counters.iter().map(Counter::reading).collect::<Result<_, _>>()?;
    let multiplexed = after.iter().filter(|reading| reading.is_multiplexed()).count();
    require(multiplexed >= registers, || {
        format!("{multiplexed} of {} events had to share {registers} registers", counters.len())
    })?;
    for (before, after) in before.iter().zip(&after) {
        let (Some(first), Some(last)) = (before.scaled().or(Some(0)), after.scaled()) else {
            return Err(Stop::Failed(format!("no estimate: {before:?} {after:?}")));
        };
        let estimate = last.saturating_sub(first) as f64;
        let error = estimate / (2 * ROUNDS) as f64 - 1.0;
        require(error.abs() < 0.05, || {
            format!("{estimate} is {:.1}% off: {before:?} {after:?}", 100.0 * error)
        })?;
        require(after.time_running <= after.time_enabled, || format!("{after:?}"))?;
    }
    Ok(())
}

fn no_user_read_exactly_while_index_is_0(_: &Facts) -> Outcome {
    let (counters, _) = twice_too_many()?;
    let descriptors: Vec<_> =
        perf_descriptors().into_iter().map(|event| (event, Page::of(event))).collect();
    // The newest events are ours, in the order of opening; older ones were given back.
    let ours = &descriptors[descriptors.len() - counters.len()..];
    let (mut with, mut without, mut last) = (0u32, 0u32, vec![0; counters.len()]);
    for _ in 0..20_000 {
        for ((counter, (event, page)), last) in counters.iter().zip(ours).zip(&mut last) {
            let lock = page.lock();
            let index = page.index();
            let user = counter.read_user();
            if page.lock() == lock {
                require(user.is_some() == (index != 0), || format!("{user:?} at index {index}"))?;
                *if index != 0 { &mut with } else { &mut without } += 1;
            }
            // Whichever way, the count fits in with what read(2) says before and after.
            let [before, ..] = read_event(*event);
            let read = counter.read()?;
            let [after, ..] = read_event(*event);
            require(*last <= before && before <= read && read <= after, || {
                format!("{last} {before} {read} {after}")
            })?;
            *last = after;
        }
    }
    require(with > 1_000 && without > 1_000, || format!("{with} with, {without} without"))
}

fn reset_while_taking_turns(_: &Facts) -> Outcome {
    let (counters, registers) = twice_too_many()?;
    let (mut scheduled, mut others) = (0, 0);
    for _ in 0..300 {
        countdown(black_box(100_000));
        for counter in &counters {
            let was = counter.read_user();
            counter.reset()?;
            let read = counter.read()?;
            *if was.is_some() { &mut scheduled } else { &mut others } += 1;
            require(read < 50_000, || format!("{read} after a reset, {was:?} before"))?;
        }
    }
    require(scheduled > 1_000 && others > 1_000, || {
        format!("{scheduled} and {others} resets with {registers} registers")
    })
}

fn pinned_without_a_register(_: &Facts) -> Outcome {
    let pinned =
        || Counter::builder(Event::INSTRUCTIONS).allow_unfiltered(true).pinned(true).open();
    let mut counters = Vec::new();
    for _ in 0..64 {
        let counter = pinned()?;
        match counter.read() {
            Ok(_) => counters.push(counter),
            Err(error) => {
                crate::harness::equal("the error", error, Error::ErrorState)?;
                let access = Access::SystemCall(NoUserAccess::NotScheduled);
                crate::harness::equal("access", counter.access(), access)?;
                let error = counter.reading().err();
                crate::harness::equal("reading", error, Some(Error::ErrorState))?;
                // With room again, enabling mends it.
                counters.pop();
                counter.enable()?;
                return require(counter.read_user().is_some(), || {
                    format!("{:?} after enable: {:?}", counter.access(), counter.read())
                });
            }
        }
    }
    Err(Stop::Failed("64 pinned events, and none in error state".into()))
}
