//! Counts are exact.

use super::{Entry, Known, distance, exact, fill_the_pmu, known_events, newest, open, work};
use crate::cost;
use crate::events::Published;
use crate::harness::{self, Facts, Outcome, Stop, equal, near, require, skip};
use rdpmc::error::ReadError;
use rdpmc::{Counter, Event};
use rdpmc_testing::kernels::{COUNTDOWN_ENTRY, countdown};
use rdpmc_testing::process::perf_descriptors;
use std::hint::black_box;

pub const ALL: &[Entry] = &[
    ("instructions_of_known_work", instructions_of_known_work),
    ("every_register_counts", every_register_counts),
    ("different_events_side_by_side", different_events_side_by_side),
    ("an_event_that_never_happens", an_event_that_never_happens),
    ("user_reads_equal_system_calls", user_reads_equal_system_calls),
    ("cost_within_limits", cost_within_limits),
];

/// Measures both ways: read, work, read; and start, work, stop.
fn exact_both_ways(Known { counter, per_round }: &Known) -> Outcome {
    let (event, unfiltered) = (counter.event(), counter.counts_all_privilege_levels());
    let nothing =
        exact(&format!("{event} read"), *per_round, unfiltered, |rounds| work(counter, rounds))?;
    // A read, a few moves, and the work's own entry.
    require((1..=40 * per_round.div_ceil(2)).contains(&nothing), || {
        format!("{event} of nothing is {nothing}")
    })?;
    exact(&format!("{event} started and stopped"), *per_round, unfiltered, |rounds| {
        counter.disable()?;
        let before = counter.read()?;
        enabled_work(counter, black_box(rounds))?;
        Ok(counter.read()? - before)
    })?;
    Ok(counter.enable()?)
}

#[inline(never)]
fn enabled_work(counter: &Counter, rounds: u64) -> Result<(), ReadError> {
    counter.enable()?;
    countdown(rounds);
    counter.disable()
}

fn instructions_of_known_work(_: &Facts) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    let unfiltered = counter.counts_all_privilege_levels();
    let nothing = exact("the count", 2, unfiltered, |rounds| work(&counter, rounds))?;
    // Besides the work's own entry: one read, and a few moves around it.
    let entry = nothing - COUNTDOWN_ENTRY;
    require((10..30).contains(&entry), || format!("an empty measurement counts {entry}"))
}

fn every_register_counts(facts: &Facts) -> Outcome {
    let counters = fill_the_pmu(facts)?;
    let pages: Vec<Published> = perf_descriptors().into_iter().map(Published::of).collect();
    let mut indices: Vec<u32> =
        pages.iter().map(Published::index).filter(|index| *index != 0).collect();
    indices.sort_unstable();
    indices.dedup();
    equal("the number of different indices", indices.len(), counters.len())?;
    // Each is read from its own register. They were opened one after another, so none has another's count.
    for (known, descriptor) in counters.iter().zip(perf_descriptors()) {
        let way = (0..20).map(|_| distance(&known.counter, descriptor)).min().unwrap_or(0);
        let most = if known.counter.counts_all_privilege_levels() {
            5_000
        } else {
            50 * known.per_round as i64
        };
        require((1..most).contains(&way), || format!("{}: {way}", known.counter.event()))?;
    }
    counters.iter().try_for_each(exact_both_ways)
}

/// Reads all together, so that each event sees the reads of all.
fn different_events_side_by_side(facts: &Facts) -> Outcome {
    let mut counters = Vec::new();
    for (event, per_round) in known_events(facts) {
        counters.push(Known { counter: open(event)?, per_round });
    }
    let mut samples: Vec<Vec<u64>> = vec![vec![u64::MAX; counters.len()]; 2];
    const WORK: u64 = 10_000;
    let is_unfiltered = counters.iter().any(|known| known.counter.counts_all_privilege_levels());
    for _ in 0..harness::samples(is_unfiltered) {
        for (least, rounds) in samples.iter_mut().zip([0, WORK]) {
            for (least, counted) in least.iter_mut().zip(side_by_side(&counters, rounds)?) {
                *least = (*least).min(counted);
            }
        }
    }
    for (n, Known { counter, per_round }) in counters.iter().enumerate() {
        let counted = samples[1][n] - samples[0][n];
        equal(&counter.event().to_string(), counted, per_round * WORK)?;
    }
    Ok(())
}

#[inline(never)]
fn side_by_side(counters: &[Known], rounds: u64) -> Result<Vec<u64>, Stop> {
    let read = |Known { counter, .. }: &Known| counter.read_user().ok_or("no user read".to_owned());
    // Both are allocated before, because allocations take a varying number of instructions.
    let (mut before, mut after) = (vec![0; counters.len()], vec![0; counters.len()]);
    for (into, counter) in before.iter_mut().zip(counters) {
        *into = read(counter)?;
    }
    countdown(black_box(rounds));
    for (into, counter) in after.iter_mut().zip(counters) {
        *into = read(counter)?;
    }
    Ok(before.iter().zip(after).map(|(before, after)| after - before).collect())
}

#[cfg(target_arch = "x86_64")]
fn is_intel() -> bool {
    std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|cpuinfo| cpuinfo.contains("GenuineIntel"))
}

/// A counter of an event that never happens stands still, beside one that does not.
fn an_event_that_never_happens(facts: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    #[cfg(target_arch = "x86_64")]
    if is_intel() {
        // Slots, which would stay 0: this PMU has three fixed counters. Its third one counts reference cycles.
        let slots = open(Event::raw(0x0400)).map(drop);
        let kind = slots.err().map(|why| why.kind());
        equal("the error", kind, Some(rdpmc::error::ErrorKind::NoFixedCounter))?;
        require(work(&open(Event::raw(0x0300))?, 1_000)? > 1_000, || "no reference cycles".into())?;
    }
    let Some(never) = facts.number("never_happens") else {
        return skip("the emulator refuses events that it does not know");
    };
    let (nothing, instructions) = (open(Event::raw(never))?, open(Event::INSTRUCTIONS)?);
    for rounds in super::ROUNDS {
        let counted = work(&instructions, rounds)?;
        equal("the count of what never happens", nothing.read_user(), Some(0))?;
        require(counted > 2 * rounds, || format!("the other counts {counted} in {rounds} rounds"))?;
    }
    Ok(())
}

fn user_reads_equal_system_calls(_: &Facts) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    let descriptor = newest();
    // The difference between the two is the cost of entering the system call, which is constant.
    let mut distances = Vec::new();
    for rounds in [0, 1, 10, 1_000, 0, 100_000, 7, 0] {
        countdown(black_box(rounds));
        distances.push(distance(&counter, descriptor));
    }
    if counter.counts_all_privilege_levels() {
        return require(distances.iter().all(|distance| (1..1_000_000).contains(distance)), || {
            format!("{distances:?}")
        });
    }
    for found in &distances {
        near("what read(2) says more", *found, distances[0])?;
    }
    require((1..60).contains(&distances[0]), || format!("{distances:?}"))
}

fn cost_within_limits(facts: &Facts) -> Outcome {
    let costs = cost::measure(facts)?;
    equal("costs measured", costs.len(), cost::expected(facts).count())?;
    for cost in costs {
        let cost::Cost { name, instructions, limit } = cost;
        require(instructions <= limit, || format!("{name}: {instructions}, limit {limit}"))?;
    }
    Ok(())
}
