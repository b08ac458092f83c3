//! Registers overflow: the kernel restarts them, and moves `offset`.

use super::{Entry, exact, newest, open, work, work_between};
use crate::events::{BRANCHES, CYCLES, INSTRUCTIONS, Options, Published, RawEvent};
use crate::harness::{Facts, Outcome, Stop, equal, require, skip};
use crate::system::Changed;
use rdpmc::Event;
use rdpmc_testing::attacks::Share;

pub const ALL: &[Entry] = &[
    ("width_and_sign", width_and_sign),
    ("across_the_end_of_a_register", across_the_end_of_a_register),
    ("overflow_every_few_thousand", overflow_every_few_thousand),
];

fn width_and_sign(facts: &Facts) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    let page = Published::of(newest());
    let width = page.width();
    equal("pmc_width", Some(u64::from(width)), facts.number("width"))?;
    // The kernel starts a counter below zero, by half its range or by as much as it can write, and keeps the negation
    // in `offset`. Only a read with sign extension returns small numbers then.
    let bits = facts.number("period_bits").expect("a fact of each machine with a PMU");
    equal("offset", page.offset() as u64, (1 << bits) - 1)?;
    let count = counter.read()?;
    // If the kernel's share is counted, so is that of opening.
    let young = if counter.counts_all_privilege_levels() { 10_000_000 } else { 100_000 };
    require(count < young, || format!("a young counter reads {count}"))?;
    exact("the count", 2, counter.counts_all_privilege_levels(), |rounds| work(&counter, rounds))
        .map(drop)
}

/// With `period_bits` of 31, a register overflows 2^31 events after its start, and the counts continue undisturbed.
fn across_the_end_of_a_register(facts: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    if facts.number("period_bits") != Some(31) {
        return skip("more than 31 bits are too far to count");
    }
    // The fastest event there is.
    let cycles = facts.number("cycles").unwrap_or(1);
    let (event, per_round) =
        if cycles > 1 { (Event::CYCLES, 2 * cycles) } else { (Event::INSTRUCTIONS, 2) };
    let counter = open(event)?;
    let page = Published::of(newest());
    let nothing = work(&counter, 0)?;
    let begin = page.offset();
    const CHUNK: u64 = 10_000_000;
    let chunks = (1_u64 << 31) / (per_round * CHUNK) + 2;
    let first = counter.read()?;
    for _ in 0..chunks {
        equal("the count of a chunk", work(&counter, CHUNK)?, per_round * CHUNK + nothing)?;
    }
    let counted = counter.read()? - first;
    require(counted >> 31 == 1, || format!("{counted} is not beyond 31 bits"))?;
    let moved = page.offset() - begin;
    require(moved >> 31 == 1 || moved == (1 << 31) - 1, || format!("offset moved by {moved}"))
}

/// The kernel starts a register as far below zero as the period says, and again when it overflows, a little late.
/// Reads that meet the register on either side of zero, or the kernel at work, are still right.
fn overflow_every_few_thousand(facts: &Facts) -> Outcome {
    const PERIODS: [u64; 3] = [2_003, 4_096, 10_000];
    // Thirds at the smallest: there are few trials, and each machine makes some.
    let share = facts.share();
    let share = Share { number: share.number % 3, of: share.of.min(3) };
    drop(open(Event::INSTRUCTIONS)?);
    // Such a rate of interrupts would make the kernel stop the event.
    let _rate = Changed::to("/proc/sys/kernel/perf_event_max_sample_rate", "100000000");
    let _share = Changed::to("/proc/sys/kernel/perf_cpu_time_max_percent", "0");
    let events =
        [(INSTRUCTIONS, 2, None), (CYCLES, 2, Some("cycles")), (BRANCHES, 1, Some("branches"))];
    for (place, (numbers, per_round, fact)) in events.into_iter().enumerate() {
        let Some(each) = fact.map_or(Some(1), |fact| facts.number(fact)) else { continue };
        // Each third has each event that all machines count, with different periods.
        for (_, period) in (place..).zip(PERIODS).filter(|(trial, _)| share.has(*trial)) {
            let event = match RawEvent::open(numbers, Options { period, ..Options::default() }) {
                // The error that perf_event_open(2) documents for a PMU without an interrupt.
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                    return skip("the PMU has no interrupt, so the kernel takes no period");
                }
                event => event.map_err(|error| Stop::Failed(error.to_string()))?,
            };
            overflowing(&event, per_round * each, each, period).map_err(|stop| match stop {
                Stop::Failed(why) => format!("{numbers:?} every {period}: {why}").into(),
                skipped => skipped,
            })?;
        }
    }
    Ok(())
}

/// `each` is the maximum that an instruction adds.
fn overflowing(event: &RawEvent, per_round: u64, each: u64, period: u64) -> Outcome {
    let page = event.published();
    // Just after an overflow, the register may be 0, which is not read on x86-64. The next read succeeds.
    let count = || {
        let mut counts = (0..2).filter_map(|_| event.count());
        counts.next().ok_or(Stop::Failed("no user read".into()))
    };
    // Work that spans many periods, or ends near the end of one.
    let nothing = raw_work(event, 0)?;
    for rounds in [10, period, period / per_round, 10 * period + 1, 12_345] {
        for _ in 0..20 {
            // A read that met an overflow took a retry.
            let (counted, exact) = (raw_work(event, rounds)?, nothing + per_round * rounds);
            require((exact..=exact + 80 * each).contains(&counted), || {
                format!("{counted} in {rounds} rounds, {exact} expected")
            })?;
        }
    }
    // Reads back to back, each some instructions after the last, and more only after a retry. Between them `offset`
    // moves by a period at a time or a little more. It moves by less only if another thread got the CPU just then.
    let first = count()?;
    let (mut last, mut steps, mut moves, mut offset) = (first, [u64::MAX, 0], 0, page.offset());
    let mut shorter = 0;
    for _ in 0..100_000 {
        let now = count()?;
        let step = now.wrapping_sub(last);
        steps = [steps[0].min(step), steps[1].max(step)];
        last = now;
        let seen = page.offset();
        moves += u64::from(seen >= offset + period as i64);
        shorter += u64::from(seen != offset && seen < offset + period as i64);
        offset = seen;
    }
    require(1 <= steps[0] && steps[1] <= steps[0] + 80 * each, || format!("steps of {steps:?}"))?;
    let times = (last - first) / period;
    let whole = times - 1 - shorter.min(times - 1)..=times + 1;
    require(times > 20 && shorter < 5 && whole.contains(&moves), || {
        let events = last - first;
        format!("the register was started again {moves} and {shorter} times for {events} events")
    })?;
    // The kernel's own count of the whole.
    let user = count()?;
    let [kernel, _, _] = event.read();
    require((user..=user + 400 * each).contains(&kernel), || format!("{user}, {kernel} by read(2)"))
}

/// Repeats the work if the register was 0 at one end, which is not read on x86-64.
fn raw_work(event: &RawEvent, rounds: u64) -> Result<u64, Stop> {
    raw_work_once(event, rounds).or_else(|_| raw_work_once(event, rounds))
}

#[inline(never)]
fn raw_work_once(event: &RawEvent, rounds: u64) -> Result<u64, Stop> {
    work_between(|| event.count(), rounds)
}
