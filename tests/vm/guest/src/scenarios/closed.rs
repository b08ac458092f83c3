//! Other code closes the descriptors of events that user space reads. The mapping keeps the event, so these reads go on.

use super::{Entry, exact, open, work};
use crate::harness::{Facts, Outcome, equal, require, skip};
use crate::system::{Changed, USER_ACCESS, set};
use rdpmc::error::ReadError;
use rdpmc::{Counter, Event};
use rdpmc_testing::kernels::countdown;
use rdpmc_testing::process::close_all;
use rdpmc_testing::process::perf_descriptors;
use std::hint::black_box;

pub const ALL: &[Entry] = &[
    ("user_reads_without_a_descriptor", user_reads_without_a_descriptor),
    ("turns_without_a_descriptor", turns_without_a_descriptor),
    ("a_retry_without_a_descriptor", a_retry_without_a_descriptor),
];

/// User space counts exactly, and what needs the descriptor is an error. The other counter that has the number goes on.
fn user_reads_without_a_descriptor(_: &Facts) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    let numbers = perf_descriptors();
    close_all();
    let other = open(Event::CYCLES)?;
    equal("the other's descriptor", perf_descriptors(), numbers)?;
    let is_unfiltered = counter.counts_all_privilege_levels();
    exact("a counter without a descriptor", 2, is_unfiltered, |rounds| work(&counter, rounds))?;
    let closed = Err(ReadError::Closed);
    equal("by system call", counter.reading_by_system_call().map(drop), closed)?;
    equal("disable", counter.disable(), closed)?;
    equal("reset", counter.reset(), closed)?;
    equal("enable", counter.enable(), closed)?;
    exact("afterwards", 2, is_unfiltered, |rounds| work(&counter, rounds))?;
    drop(counter);
    work(&other, 1_000)?;
    Ok(())
}

/// Ten counters of one event take turns, and ten others get their numbers. A read is the counter's own or an error.
fn turns_without_a_descriptor(_: &Facts) -> Outcome {
    const ROUNDS: u64 = 10_000_000;
    let ten = |event| (0..10).map(|_| open(event)).collect::<Result<Vec<Counter>, _>>();
    let counters = ten(Event::INSTRUCTIONS)?;
    let numbers = perf_descriptors();
    countdown(black_box(ROUNDS));
    let mut last = counters.iter().map(Counter::read).collect::<Result<Vec<_>, _>>()?;
    close_all();
    let others = ten(Event::CYCLES)?;
    equal("the others' descriptors", perf_descriptors(), numbers)?;
    let (mut own, mut closed) = (0, 0);
    for _ in 0..50 {
        countdown(black_box(ROUNDS / 50));
        for (counter, last) in counters.iter().zip(&mut last) {
            match counter.read() {
                // It counts during its turns alone, and each has less than all of the work.
                Ok(count) if (*last..=4 * ROUNDS + 10_000_000).contains(&count) => {
                    *last = count;
                    own += 1;
                }
                Err(ReadError::Closed) => closed += 1,
                other => return require(false, || format!("{other:?} after {last}")),
            }
        }
    }
    println!("{own} counts of their own, {closed} errors");
    require(own > 0 && closed > 0, || "one of them never happened".into())?;
    drop(counters);
    for other in &others {
        other.read()?;
    }
    Ok(())
}

/// A handle whose read has faulted is not mapped again by the number of another event.
fn a_retry_without_a_descriptor(facts: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    if cfg!(target_arch = "riscv64") || facts.say("user_disable") == Some("yes") {
        return skip("a read of a revoked counter does not always fault here");
    }
    rdpmc::contain_faults()?;
    let on = Changed::to(USER_ACCESS, "1");
    let mut counter = open(Event::INSTRUCTIONS)?;
    let numbers = perf_descriptors();
    set(USER_ACCESS, "0");
    equal("a read without access", counter.read_user(), None)?;
    set(USER_ACCESS, "1");
    close_all();
    let other = open(Event::CYCLES)?;
    equal("the other's descriptor", perf_descriptors(), numbers)?;
    equal("a retry", counter.retry_user().map(drop), Err(ReadError::Closed))?;
    equal("a read", (counter.read_user(), counter.read()), (None, Err(ReadError::Closed)))?;
    work(&other, 1_000)?;
    drop(on);
    Ok(())
}
