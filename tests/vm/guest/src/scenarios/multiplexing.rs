//! More events than registers: they are multiplexed, and no result is wrong.

use super::{Entry, Known, fill_the_pmu, fits_between, open, open_pinned, words};
use crate::events::{Published, read_event};
use crate::harness::{Facts, Outcome, Stop, equal, require};
use rdpmc::Event;
use rdpmc::error::{ErrorKind, ReadError};
use rdpmc_testing::kernels::countdown;
use rdpmc_testing::process::perf_descriptors;
use std::hint::black_box;

pub const ALL: &[Entry] = &[
    ("multiplexed_counts_scale", multiplexed_counts_scale),
    ("no_user_read_exactly_while_index_is_0", no_user_read_exactly_while_index_is_0),
    ("reset_while_taking_turns", reset_while_taking_turns),
    ("pinned_without_a_register", pinned_without_a_register),
];

/// Opens twice as many counters as there are registers, and returns the number of registers, too.
fn twice_too_many(facts: &Facts) -> Result<(Vec<Known>, usize), Stop> {
    let fitting: Vec<(Event, u64)> = fill_the_pmu(facts)?
        .into_iter()
        .map(|Known { counter, per_round }| (counter.event(), per_round))
        .collect();
    let mut counters = Vec::new();
    for &(event, per_round) in fitting.iter().chain(&fitting) {
        counters.push(Known { counter: open(event)?, per_round });
    }
    Ok((counters, fitting.len()))
}

fn multiplexed_counts_scale(facts: &Facts) -> Outcome {
    let (counters, registers) = twice_too_many(facts)?;
    let readings = || -> Result<Vec<_>, ReadError> {
        counters.iter().map(|known| known.counter.reading()).collect()
    };
    let before = readings()?;
    const ROUNDS: u64 = 200_000_000;
    countdown(black_box(ROUNDS));
    let after = readings()?;
    let multiplexed = after.iter().filter(|reading| reading.is_multiplexed()).count();
    require(multiplexed >= registers, || {
        format!("{multiplexed} of {} events had to share {registers} registers", counters.len())
    })?;
    for (known, (before, after)) in counters.iter().zip(before.iter().zip(&after)) {
        // None if it has not had its turn yet.
        let first = before.scaled().unwrap_or(0);
        let estimate = after.scaled().unwrap_or(0).saturating_sub(first) as f64;
        let error = estimate / (known.per_round * ROUNDS) as f64 - 1.0;
        require(error.abs() < 0.05, || {
            let event = known.counter.event();
            format!("{event}: {estimate} is {:.1}% off: {before:?} {after:?}", 100.0 * error)
        })?;
        require(after.time_running() <= after.time_enabled(), || format!("{after:?}"))?;
    }
    Ok(())
}

fn no_user_read_exactly_while_index_is_0(facts: &Facts) -> Outcome {
    let (counters, _) = twice_too_many(facts)?;
    let events: Vec<_> =
        perf_descriptors().into_iter().map(|event| (event, Published::of(event))).collect();
    equal("events", events.len(), counters.len())?;
    let (mut with, mut without, mut last) = (0u32, 0u32, vec![[0; 3]; counters.len()]);
    for _ in 0..2_000 {
        for ((Known { counter, .. }, (event, page)), last) in
            counters.iter().zip(&events).zip(&mut last)
        {
            let lock = page.lock();
            let index = page.index();
            let user = counter.read_user();
            if page.lock() == lock {
                require(user.is_some() == (index != 0), || format!("{user:?} at index {index}"))?;
                *if index != 0 { &mut with } else { &mut without } += 1;
            }
            // By every call, count and times fit those of read(2) before and after.
            let before = read_event(*event);
            let read = counter.read()?;
            let reading = counter.reading()?;
            let after = read_event(*event);
            require(before[0] <= read && read <= reading.value, || {
                format!("{before:?} {read} {reading:?}")
            })?;
            fits_between(words(&reading), before, after)?;
            require(last.iter().zip(&before).all(|(last, before)| last <= before), || {
                format!("{last:?} {before:?}")
            })?;
            *last = after;
        }
    }
    require(with > 1_000 && without > 1_000, || format!("{with} with, {without} without"))
}

fn reset_while_taking_turns(facts: &Facts) -> Outcome {
    let (counters, registers) = twice_too_many(facts)?;
    let (mut scheduled, mut others) = (0, 0);
    const ROUNDS: u64 = 400_000;
    for _ in 0..150 {
        countdown(black_box(ROUNDS));
        for Known { counter, per_round } in &counters {
            let was = counter.read_user();
            counter.reset()?;
            let read = counter.read()?;
            *if was.is_some() { &mut scheduled } else { &mut others } += 1;
            // Nothing like the count before, except for the kernel's share if that is counted.
            let most =
                if counter.counts_all_privilege_levels() { 200_000 } else { 2_000 * per_round };
            require(read < most, || format!("{read} after a reset, {was:?} before"))?;
        }
    }
    require(scheduled > 150 && others > 150, || {
        format!("{scheduled} and {others} resets with {registers} registers")
    })
}

fn pinned_without_a_register(_: &Facts) -> Outcome {
    let mut counters = Vec::new();
    for _ in 0..64 {
        let counter = open_pinned(Event::INSTRUCTIONS)?;
        match counter.read() {
            Ok(_) => counters.push(counter),
            Err(error) => {
                equal("the error", error, ReadError::ErrorState)?;
                let access = counter.access();
                equal("access", access.why_system_call(), Some(ErrorKind::ErrorState))?;
                require(access.to_string().ends_with(&ReadError::ErrorState.to_string()), || {
                    format!("{access}")
                })?;
                let error = counter.reading().err();
                equal("reading", error, Some(ReadError::ErrorState))?;
                // When there is room again, enabling restores it.
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
