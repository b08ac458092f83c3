//! Counts are exact.

use super::{Entry, fill_the_pmu, open};
use crate::cost;
use crate::harness::{Facts, Outcome, Stop, equal, require};
use crate::kernels::{COUNTDOWN_ENTRY, countdown};
use crate::machine::{Page, read_event};
use crate::process::perf_descriptors;
use rdpmc::{Counter, Event};
use std::hint::black_box;

pub const ALL: &[Entry] = &[
    ("instructions_of_known_work", instructions_of_known_work),
    ("every_register_counts", every_register_counts),
    ("user_reads_equal_system_calls", user_reads_equal_system_calls),
    ("reset_disable_enable", reset_disable_enable),
    ("initially_disabled", initially_disabled),
    ("width_and_sign", width_and_sign),
    ("cycles_count", cycles_count),
    ("times_are_brought_up_to_now", times_are_brought_up_to_now),
    ("cost_within_limits", cost_within_limits),
];

/// Rounds of `countdown`, two instructions each.
const ROUNDS: [u64; 4] = [0, 1, 1_000, 1_000_000];

/// What the counter says `rounds` of work took, from user space.
#[inline(never)]
fn work(counter: &Counter, rounds: u64) -> Result<u64, Stop> {
    let rounds = black_box(rounds);
    let before = counter.read_user();
    countdown(rounds);
    let after = counter.read_user();
    match (before, after) {
        (Some(before), Some(after)) => Ok(after - before),
        other => Err(Stop::Failed(format!("not read from user space: {other:?}"))),
    }
}

/// The same, the least of several: where the kernel's share counts as well, interrupts add.
fn least_work(counter: &Counter, rounds: u64) -> Result<u64, Stop> {
    let samples = if counter.is_unfiltered() { 100 } else { 1 };
    (0..samples)
        .map(|_| work(counter, rounds))
        .min_by_key(|sample| sample.as_ref().ok().copied())
        .unwrap_or_else(|| Err(Stop::Failed("no sample".into())))
}

fn exact(counter: &Counter) -> Outcome {
    let constant = work(counter, 0)?;
    for rounds in ROUNDS {
        let counted = least_work(counter, rounds)?;
        equal(&format!("the count of {rounds} rounds"), counted, 2 * rounds + constant)?;
    }
    // Besides the work's own entry: one read, and a few moves around it.
    let entry = constant - COUNTDOWN_ENTRY;
    require((10..30).contains(&entry), || format!("an empty measurement counts {entry}"))
}

fn instructions_of_known_work(_: &Facts) -> Outcome {
    exact(&open(Event::INSTRUCTIONS)?)
}

fn every_register_counts(_: &Facts) -> Outcome {
    let counters = fill_the_pmu()?;
    require(counters.len() >= 2, || format!("only {} registers", counters.len()))?;
    let pages: Vec<Page> = perf_descriptors().into_iter().map(Page::of).collect();
    let mut indices: Vec<u32> = pages.iter().map(Page::index).filter(|index| *index != 0).collect();
    indices.sort_unstable();
    indices.dedup();
    equal("the number of different indices", indices.len(), counters.len())?;
    counters.iter().try_for_each(exact)
}

fn user_reads_equal_system_calls(_: &Facts) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    let descriptor = *perf_descriptors().last().expect("one is open");
    // What lies between the two: the way into the system call, the same each time.
    let mut distances = Vec::new();
    for rounds in [0, 1, 10, 1_000, 0, 100_000, 7, 0] {
        countdown(black_box(rounds));
        distances.push(distance(&counter, descriptor));
    }
    if counter.is_unfiltered() {
        return require(distances.iter().all(|distance| (1..1_000_000).contains(distance)), || {
            format!("{distances:?}")
        });
    }
    require(distances.iter().all(|distance| *distance == distances[0]), || {
        format!("{distances:?}")
    })?;
    require((1..60).contains(&distances[0]), || format!("{distances:?}"))
}

/// What read(2) says more than a user read just before.
#[inline(never)]
fn distance(counter: &Counter, descriptor: i32) -> i64 {
    let user = counter.read_user().unwrap_or(u64::MAX);
    let [value, ..] = read_event(descriptor);
    value as i64 - user as i64
}

fn reset_disable_enable(_: &Facts) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    let mut kept = None;
    for round in 0..100 {
        counter.enable()?;
        countdown(black_box(5_000));
        counter.disable()?;
        equal("read_user while disabled", counter.read_user(), None)?;
        let stopped = counter.read()?;
        countdown(black_box(5_000));
        equal("the count while disabled", counter.read()?, stopped)?;
        counter.reset()?;
        equal("the count after reset", counter.read()?, 0)?;
        // The first round began with open, the others with reset: these are all alike.
        if round > 0 && !counter.is_unfiltered() {
            equal("what a round counts", stopped, *kept.get_or_insert(stopped))?;
        }
        require(stopped >= 10_000, || format!("{stopped} for 10000 instructions"))?;
    }
    counter.enable()?;
    require(counter.read_user().is_some(), || "no user read after enable".into())?;
    countdown(black_box(100_000));
    counter.reset()?;
    let after = counter.read_user();
    require(after.is_some_and(|count| count < 1_000), || {
        format!("{after:?} after a reset while counting")
    })?;
    countdown(black_box(100_000));
    let count = counter.read_user();
    require(count.is_some_and(|count| (200_000..201_000).contains(&count)), || {
        format!("{count:?} for 200000 instructions after a reset while counting")
    })
}

fn initially_disabled(_: &Facts) -> Outcome {
    let builder = Counter::builder(Event::INSTRUCTIONS).allow_unfiltered(true).disabled(true);
    let counter = builder.open()?;
    countdown(black_box(1_000));
    equal("read_user", counter.read_user(), None)?;
    equal("read", counter.read()?, 0)?;
    let reading = counter.reading()?;
    equal("running", reading.time_running, 0)?;
    equal("an estimate from nothing", reading.scaled(), None)?;
    counter.enable()?;
    countdown(black_box(1_000));
    require(counter.read()? >= 2_000, || "does not count when enabled".into())
}

fn width_and_sign(facts: &Facts) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    let page = Page::of(*perf_descriptors().last().expect("one is open"));
    let width = page.width();
    require(facts.say(&format!("width={width}")), || format!("pmc_width is {width}"))?;
    // The kernel starts a counter at half its range, which is negative, and keeps the opposite in
    // `offset`. Only a read that extends the sign gives small numbers then.
    if width == 32 {
        equal("offset", page.offset(), (1 << 31) - 1)?;
    }
    let count = counter.read()?;
    require(count < 100_000, || format!("a young counter reads {count}"))?;
    exact(&counter)
}

fn cycles_count(_: &Facts) -> Outcome {
    let counter = open(Event::CYCLES)?;
    let page = Page::of(*perf_descriptors().last().expect("one is open"));
    let (few, many) = (least_work(&counter, 1_000)?, least_work(&counter, 1_000_000)?);
    if cfg!(target_arch = "aarch64") {
        equal("the cycle counter's index", page.index(), 32)?;
    }
    // The emulated machine's clock runs at 1 GHz and an instruction takes it a nanosecond, so a
    // cycle is an instruction.
    if counter.is_unfiltered() {
        return require(many > few, || format!("{few} and {many} cycles"));
    }
    equal("cycles of 999000 more rounds", many - few, 2 * 999_000)
}

fn times_are_brought_up_to_now(_: &Facts) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    let descriptor = *perf_descriptors().last().expect("one is open");
    let mut last = counter.reading()?;
    for rounds in [0, 1, 1_000, 1_000_000, 0, 20_000_000, 3] {
        countdown(black_box(rounds));
        let before = read_event(descriptor);
        let reading = counter.reading()?;
        let after = read_event(descriptor);
        for (name, is, from, to) in [
            ("value", reading.value, before[0], after[0]),
            ("enabled", reading.time_enabled, before[1], after[1]),
            ("running", reading.time_running, before[2], after[2]),
        ] {
            // The page's clock conversion rounds by a nanosecond or two.
            require(from <= is + 2 && is <= to + 2, || format!("{name}: {from} {is} {to}"))?;
        }
        require(!reading.is_multiplexed(), || format!("{reading:?}"))?;
        equal("the estimate", reading.scaled(), Some(reading.value))?;
        require(reading.value > last.value && reading.time_enabled >= last.time_enabled, || {
            format!("{last:?} then {reading:?}")
        })?;
        last = reading;
    }
    Ok(())
}

fn cost_within_limits(_: &Facts) -> Outcome {
    let costs = cost::measure()?;
    equal("costs measured", costs.len(), cost::LIMITS.len())?;
    for cost in costs {
        let cost::Cost { name, instructions, limit } = cost;
        require(instructions <= limit, || format!("{name}: {instructions}, limit {limit}"))?;
    }
    Ok(())
}
