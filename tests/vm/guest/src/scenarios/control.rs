//! Enabling, disabling and resetting, and the times that show them.

use super::{Entry, fits_between, newest, open, words, work};
use crate::events::{Published, read_event};
use crate::harness::{Facts, Outcome, equal, near, require};
use rdpmc::{Counter, Event, Reading};
use rdpmc_testing::kernels::countdown;
use std::hint::black_box;
use std::time::Duration;
use std::time::Instant;

pub const ALL: &[Entry] = &[
    ("reset_disable_enable", reset_disable_enable),
    ("initially_disabled", initially_disabled),
    ("times_within_wall_time", times_within_wall_time),
    ("times_are_brought_up_to_now", times_are_brought_up_to_now),
];

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
        // The first round began with open, the others with reset, so the others are all alike.
        if round > 0 && !counter.counts_all_privilege_levels() {
            near("what a round counts", stopped as i64, *kept.get_or_insert(stopped as i64))?;
        }
        require(stopped >= 10_000, || format!("{stopped} for 10000 instructions"))?;
    }
    counter.enable()?;
    require(counter.read_user().is_some(), || "no user read after enable".into())?;
    countdown(black_box(100_000));
    let mut kept = None;
    for _ in 0..100 {
        counter.reset()?;
        let after = counter.read_user().unwrap_or(u64::MAX);
        let counted = work(&counter, 100_000)?;
        if counter.counts_all_privilege_levels() {
            // A timer interrupt may add to it.
            require(after < 100_000 && counted < 300_000, || format!("{after}, {counted}"))?;
        } else {
            require(after < 100, || format!("{after} after a reset while counting"))?;
            let both = (after as i64, counted as i64 - 200_000);
            let first = *kept.get_or_insert(both);
            near("the count after a reset", both.0, first.0)?;
            near("what the work counts", both.1, first.1)?;
        }
    }
    Ok(())
}

fn initially_disabled(_: &Facts) -> Outcome {
    let builder =
        Counter::builder(Event::INSTRUCTIONS).allow_all_privilege_levels(true).disabled(true);
    let counter = builder.open()?;
    countdown(black_box(1_000));
    equal("read_user", counter.read_user(), None)?;
    equal("read", counter.read()?, 0)?;
    let reading = counter.reading()?;
    equal("running", reading.time_running(), Duration::ZERO)?;
    equal("an estimate from nothing", reading.scaled(), None)?;
    counter.enable()?;
    countdown(black_box(1_000));
    require(counter.read()? >= 2_000, || "does not count when enabled".into())
}

/// Through every change, enabled and running time never decrease. Enabled time never exceeds wall time, and running
/// time never exceeds enabled time. A reset leaves both alone.
fn times_within_wall_time(_: &Facts) -> Outcome {
    let begun = Instant::now();
    let counter = open(Event::INSTRUCTIONS)?;
    let mut last = counter.reading()?;
    let mut look = |when: &str| -> Result<Reading, crate::harness::Stop> {
        let reading = counter.reading()?;
        let wall = begun.elapsed().as_nanos() as u64;
        require(last.time_enabled() <= reading.time_enabled(), || {
            format!("{when}: {last:?} then {reading:?}")
        })?;
        require(last.time_running() <= reading.time_running(), || {
            format!("{when}: {last:?} then {reading:?}")
        })?;
        // Two clocks of the kernel, which may count different ticks, each with a rounding of its own.
        require(reading.time_enabled().as_nanos() as u64 <= wall + wall / 10_000 + 10, || {
            format!("{when}: {reading:?} after {wall} ns")
        })?;
        require(reading.time_running() <= reading.time_enabled(), || {
            format!("{when}: {reading:?}")
        })?;
        last = reading;
        Ok(reading)
    };
    for round in 0..200 {
        countdown(black_box(round * 100));
        look("enabled")?;
        counter.disable()?;
        let stopped = look("disabled")?;
        countdown(black_box(1_000));
        equal("the times while disabled", look("still disabled")?, stopped)?;
        if round % 3 == 0 {
            counter.reset()?;
            let reset = look("reset while disabled")?;
            equal("enabled after a reset", reset.time_enabled(), stopped.time_enabled())?;
            equal("running after a reset", reset.time_running(), stopped.time_running())?;
        }
        counter.enable()?;
        look("enabled again")?;
        counter.enable()?;
        look("enabled twice")?;
        if round % 5 == 0 {
            counter.reset()?;
            look("reset while enabled")?;
        }
    }
    Ok(())
}

fn times_are_brought_up_to_now(facts: &Facts) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    let descriptor = newest();
    let clock = if Published::of(descriptor).has_clock() { "page" } else { "kernel" };
    equal("the clock", Some(clock), facts.say("clock"))?;
    let mut last = counter.reading()?;
    for rounds in [0, 1, 1_000, 1_000_000, 0, 20_000_000, 3] {
        countdown(black_box(rounds));
        let before = read_event(descriptor);
        let reading = counter.reading()?;
        let after = read_event(descriptor);
        fits_between(words(&reading), before, after)?;
        require(!reading.is_multiplexed(), || format!("{reading:?}"))?;
        equal("the estimate", reading.scaled(), Some(reading.value))?;
        require(
            reading.value > last.value && reading.time_enabled() >= last.time_enabled(),
            || format!("{last:?} then {reading:?}"),
        )?;
        last = reading;
    }
    Ok(())
}
