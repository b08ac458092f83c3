//! What the test suites of other readers check, and no other scenario does.
#![allow(clippy::disallowed_types, reason = "no child of a fork comes here")]

use super::{Entry, ROUNDS, exact_in, newest, open};
use crate::events::read_event;
use crate::harness::{Facts, Outcome, Stop, equal, require, samples};
use rdpmc::{Counter, Event, Group};
use rdpmc_testing::kernels::countdown;
use std::hint::black_box;
use std::thread;

pub const ALL: &[Entry] = &[
    ("ten_counters_of_one_event", ten_counters_of_one_event),
    ("a_group_in_each_of_eight_threads", a_group_in_each_of_eight_threads),
    ("user_reads_between_two_system_calls", user_reads_between_two_system_calls),
];

/// More counters of one event than there are registers: each is multiplexed, and its estimate is right.
fn ten_counters_of_one_event(_: &Facts) -> Outcome {
    const ROUNDS: u64 = 250_000_000;
    drop(open(Event::INSTRUCTIONS)?);
    let counters = (0..10).map(|_| open(Event::INSTRUCTIONS)).collect::<Result<Vec<_>, _>>()?;
    let readings = || counters.iter().map(Counter::reading).collect::<Result<Vec<_>, _>>();
    let before = readings()?;
    countdown(black_box(ROUNDS));
    let after = readings()?;
    let mut worst = 0.0_f64;
    for (before, after) in before.iter().zip(&after) {
        require(after.is_multiplexed(), || format!("{after:?} had a register all the time"))?;
        let since = after.since(before).ok_or_else(|| "it went back".to_owned())?;
        let estimate = since.scaled().ok_or_else(|| "it had no turn".to_owned())?;
        worst = worst.max((estimate as f64 / (2 * ROUNDS) as f64 - 1.0).abs());
    }
    println!("the worst estimate is {:.3} % off", 100.0 * worst);
    // riscv64 counts the kernel as well.
    require(worst < if cfg!(target_arch = "riscv64") { 0.05 } else { 0.01 }, || "too far".into())
}

/// Groups of different threads count their own work, exactly, at the same time.
fn a_group_in_each_of_eight_threads(facts: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    let cycles = facts.number("cycles");
    let counted = move || -> Result<u64, String> {
        let events = [Event::INSTRUCTIONS, Event::CYCLES];
        let group = Group::builder(events).allow_all_privilege_levels(true).open();
        let group = group.map_err(|why| why.to_string())?;
        let is_unfiltered = group.counts_all_privilege_levels();
        // If interrupts are counted, each sample of the longest work has some: eight threads share the processors.
        let rounds = if samples(is_unfiltered) > 1 { &ROUNDS[..3] } else { &ROUNDS };
        let of = |place: usize| {
            let group = &group;
            move |rounds: u64| difference(group, place, rounds)
        };
        let nothing = exact_in(rounds, "instructions", 2, is_unfiltered, of(0))
            .map_err(|why| why.to_string())?;
        if let Some(cycles) = cycles {
            exact_in(rounds, "cycles", 2 * cycles, is_unfiltered, of(1))
                .map_err(|why| why.to_string())?;
        }
        Ok(nothing)
    };
    let all = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(counted)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "it panicked".to_owned())?)
            .collect::<Result<Vec<u64>, String>>()
    })?;
    equal("what reads add in each thread", all.iter().all(|nothing| *nothing == all[0]), true)
}

/// Returns what one of two events counts in these rounds. Not inlined, so that reads add the same in all calls.
#[inline(never)]
fn difference(group: &Group<2>, place: usize, rounds: u64) -> Result<u64, Stop> {
    let rounds = black_box(rounds);
    let before = group.read_user();
    countdown(rounds);
    let after = group.read_user();
    let (before, after) = before.zip(after).ok_or("no register".to_owned())?;
    Ok(after[place] - before[place])
}

/// A user read is never before the system call that precedes it, nor after the one that follows.
fn user_reads_between_two_system_calls(_: &Facts) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    let descriptor = newest();
    for round in 0..2_000 {
        let [before, ..] = read_event(descriptor);
        let user = counter.read_user();
        let [after, ..] = read_event(descriptor);
        require(user.is_some_and(|user| before <= user && user <= after), || {
            format!("round {round}: {before}, {user:?}, {after}")
        })?;
    }
    Ok(())
}
