//! The scenarios on a real kernel, a file for each subject. Each scenario has a process of its own.

mod access;
mod attacks;
mod bench;
mod by_system_call;
mod clock;
mod closed;
mod control;
mod core_types;
mod counting;
mod faults;
mod groups;
mod interruption;
mod lifetime;
mod multiplexing;
mod overflow;
mod peers;
mod refusals;
mod regions;
mod several_threads;
mod spans;
mod stepped;
mod threads;
#[cfg(target_arch = "x86_64")]
mod topdown;
mod vendor_names;
mod virtual_machine;

use crate::events::read_event;
use crate::harness::{Facts, Outcome, Scenario, Stop, equal, require, samples};
use rdpmc::Error;
use rdpmc::{Counter, Event, Reading};
use rdpmc_testing::kernels::countdown;
use rdpmc_testing::process::perf_descriptors;
use std::hint::black_box;
use std::os::fd::RawFd;

/// Returns the scenarios for a machine with these facts.
pub fn all(facts: &[&str]) -> Vec<Scenario> {
    let of_one_processor: &[&[Entry]] = &[
        counting::ALL,
        control::ALL,
        overflow::ALL,
        interruption::ALL,
        multiplexing::ALL,
        peers::ALL,
        groups::ALL,
        regions::ALL,
        bench::ALL,
        spans::ALL,
        clock::ALL,
        faults::ALL,
        closed::ALL,
        threads::ALL,
        several_threads::ALL,
        lifetime::ALL,
        access::ALL,
        refusals::ALL,
        attacks::ALL,
    ];
    let facts = Facts(facts);
    #[cfg(target_arch = "x86_64")]
    if facts.say("slots").is_some() {
        return scenarios([topdown::ALL]);
    }
    let entries = if facts.say("core_types").is_some() {
        &[core_types::ALL, several_threads::OF_CORE_TYPES] as &[_]
    } else if facts.say("faults").is_some() {
        &[virtual_machine::ALL]
    } else if facts.say("user_access") == Some("none") {
        &[by_system_call::ALL, several_threads::ALL, refusals::ALL, attacks::ALL]
    } else {
        of_one_processor
    };
    // Instructions are not stepped on riscv64, whose events have no table, and compared where a counter of one core type counts
    // them.
    let others = ["core_types", "faults"].iter().any(|fact| facts.say(fact).is_some());
    let is_counted = !others && !facts.say_no_pmu() && facts.say("user_access") != Some("none");
    let is_stepped = !cfg!(target_arch = "riscv64") && is_counted;
    let stepped: &[&[Entry]] = if is_stepped { &[stepped::ALL, vendor_names::ALL] } else { &[] };
    scenarios(entries.iter().chain(stepped).copied())
}

fn scenarios(lists: impl IntoIterator<Item = &'static [Entry]>) -> Vec<Scenario> {
    lists.into_iter().flatten().map(|&(name, run)| Scenario { name, run }).collect()
}

/// Runs the part of [`lifetime`] that comes after an exec.
pub fn reopen(facts: &[&str]) -> Outcome {
    lifetime::reopen(&Facts(facts))
}

/// A scenario's name and body.
type Entry = (&'static str, fn(&Facts) -> Outcome);

/// Opens a counter as every scenario here does: for all privilege levels if the PMU cannot filter.
fn open(event: Event) -> Result<Counter, Error> {
    Counter::builder(event).allow_all_privilege_levels(true).open()
}

/// Opens a pinned counter: it has a register of its own, or is in error state.
fn open_pinned(event: Event) -> Result<Counter, Error> {
    Counter::builder(event).allow_all_privilege_levels(true).pinned(true).open()
}

/// Returns the descriptor of the event that was opened last, if none was closed.
fn newest() -> RawFd {
    *perf_descriptors().last().expect("one is open")
}

/// Returns the events whose counts are known exactly on this machine. Each has what a round of `countdown` adds to
/// it: two instructions, one of which is a branch. No two add an equal number if the machine permits.
fn known_events(facts: &Facts) -> Vec<(Event, u64)> {
    let mut events = vec![(Event::INSTRUCTIONS, 2)];
    for (event, fact, per) in [
        (Event::CYCLES, "cycles", 2),
        (Event::REF_CYCLES, "reference_cycles", 2),
        (Event::BRANCHES, "branches", 1),
    ] {
        events.extend(facts.number(fact).map(|each| (event, per * each)));
    }
    events
}

/// A counter and what a round of `countdown` adds to it.
struct Known {
    counter: Counter,
    per_round: u64,
}

/// Opens as many counters as the PMU has registers: one of each known event, and as many more as fit. They are
/// pinned: each has its register or never gets one, without multiplexing.
fn fill_the_pmu(facts: &Facts) -> Result<Vec<Known>, Stop> {
    let mut counters = Vec::new();
    loop {
        let before = counters.len();
        for (event, per_round) in known_events(facts) {
            let counter = open_pinned(event)?;
            if counter.read_user().is_some() {
                counters.push(Known { counter, per_round });
            }
        }
        if counters.len() == before {
            break;
        }
    }
    let registers = facts.number("registers").expect("a fact of each machine with a PMU");
    equal("the number of registers", counters.len() as u64, registers)?;
    Ok(counters)
}

/// Rounds of `countdown` to check a count with. On riscv64, where the kernel counts as well, the longest must
/// fit between two ticks of the kernel's timer, a millisecond since Linux 7.
const ROUNDS: [u64; 4] =
    [0, 1, 1_000, if cfg!(target_arch = "riscv64") { 100_000 } else { 1_000_000 }];

/// Checks that what `sample` counts grows by exactly `per_round`, and returns its count without work. If the kernel's
/// share or interrupts are counted, too, these add to some samples, and the minimum of several is used.
fn exact(
    what: &str,
    per_round: u64,
    is_unfiltered: bool,
    sample: impl FnMut(u64) -> Result<u64, Stop>,
) -> Result<u64, Stop> {
    exact_in(&ROUNDS, what, per_round, is_unfiltered, sample)
}

/// As [`exact`], with these numbers of rounds.
fn exact_in(
    all_rounds: &[u64],
    what: &str,
    per_round: u64,
    is_unfiltered: bool,
    mut sample: impl FnMut(u64) -> Result<u64, Stop>,
) -> Result<u64, Stop> {
    let samples = samples(is_unfiltered);
    let nothing = least(samples, || sample(0))?;
    for &rounds in all_rounds {
        let counted = least(samples, || sample(rounds))?;
        equal(&format!("{what} of {rounds} rounds"), counted, per_round * rounds + nothing)?;
    }
    Ok(nothing)
}

/// Returns the minimum of some samples.
fn least(samples: u32, mut sample: impl FnMut() -> Result<u64, Stop>) -> Result<u64, Stop> {
    (0..samples).try_fold(u64::MAX, |least, _| Ok(least.min(sample()?)))
}

/// Returns the counter's difference over `rounds` of work, read from user space.
#[inline(never)]
fn work(counter: &Counter, rounds: u64) -> Result<u64, Stop> {
    work_between(|| counter.read_user(), rounds)
}

/// Returns the difference of two of these reads, before and after `rounds` of work.
#[inline(always)]
fn work_between(read: impl Fn() -> Option<u64>, rounds: u64) -> Result<u64, Stop> {
    let rounds = black_box(rounds);
    let before = read();
    countdown(rounds);
    match (before, read()) {
        (Some(before), Some(after)) if before <= after => Ok(after - before),
        other => Err(Stop::Failed(format!("read from user space, before and after: {other:?}"))),
    }
}

/// Returns how much more read(2) returns than a user read just before: the cost of entering the system call.
#[inline(never)]
fn distance(counter: &Counter, descriptor: i32) -> i64 {
    let user = counter.read_user().unwrap_or(u64::MAX);
    let [kernel, _, _] = read_event(descriptor);
    kernel as i64 - user as i64
}

/// Checks that value, enabled and running time lie between those of read(2) before and after.
fn fits_between(found: [u64; 3], before: [u64; 3], after: [u64; 3]) -> Outcome {
    // The page's clock conversion rounds by a nanosecond or two.
    let slack = [0, 2, 2];
    let fits = |n: usize| before[n] <= found[n] + slack[n] && found[n] <= after[n] + slack[n];
    require((0..3).all(fits) && found[2] <= found[1], || {
        format!("{found:?} is not between {before:?} and {after:?}")
    })
}

/// Returns value, enabled and running time in the form of read(2).
fn words(reading: &Reading) -> [u64; 3] {
    [
        reading.value,
        reading.time_enabled().as_nanos() as u64,
        reading.time_running().as_nanos() as u64,
    ]
}
