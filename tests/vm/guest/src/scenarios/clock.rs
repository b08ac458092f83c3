//! The clock: page-based, compared with the kernel's own clocks, and without a page.

use super::Entry;
use crate::events::Timestamps;
use crate::harness::{Facts, Outcome, Stop, equal, require, skip};
use crate::neighbour::Neighbour;
use rdpmc::Clock;
use rdpmc::clock::ClockKind;
use rdpmc::error::ErrorKind;
use rdpmc_testing::attacks::time_namespace;
use rdpmc_testing::kernels::countdown;
use rdpmc_testing::process::{
    self, in_child, monotonic_raw, perf_descriptors, perf_mappings, wait,
};
use std::hint::black_box;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

pub const ALL: &[Entry] = &[
    ("clock_of_the_page", clock_of_the_page),
    ("clock_on_perfs_timeline", clock_on_perfs_timeline),
    ("clock_beside_monotonic_raw", clock_beside_monotonic_raw),
    ("clock_makes_no_system_call", clock_makes_no_system_call),
    ("clock_never_goes_back", clock_never_goes_back),
    ("clock_across_threads", clock_across_threads),
    ("clock_without_an_event", clock_without_an_event),
    ("clock_without_ticks", clock_without_ticks),
    ("clock_in_a_fork", clock_in_a_fork),
    ("clock_in_another_time_namespace", clock_in_another_time_namespace),
];

/// Returns whether the kernel's scheduler uses the tick counter here.
fn has_page(facts: &Facts) -> bool {
    facts.say("clock") == Some("page")
}

/// Returns a page-based clock, or skips the scenario.
fn of_the_page(facts: &Facts) -> Result<Clock, Stop> {
    if !has_page(facts) {
        return Err(Stop::Skipped("the page has no clock".into()));
    }
    let clock = Clock::open()?;
    equal("the kind", clock.kind(), ClockKind::Page)?;
    Ok(clock)
}

/// The reason for which a clock is calibrated, or the kernel's. None for a clock of the page.
type Why = Option<Result<ErrorKind, ErrorKind>>;

fn why(kind: &ClockKind) -> Why {
    match kind {
        ClockKind::Calibrated(why) => Some(Ok(why.kind())),
        ClockKind::Kernel(why) => Some(Err(why.kind())),
        _ => None,
    }
}

/// Returns why a clock has no page, for this reason.
fn without_page(facts: &Facts, reason: ErrorKind) -> Why {
    Some(if !cfg!(target_arch = "x86_64") {
        Ok(reason)
    } else if has_page(facts) {
        // The emulator's CPUs do not advertise an invariant counter.
        Err(ErrorKind::TicksNotInvariant)
    } else {
        Err(ErrorKind::TicksNotTrusted)
    })
}

/// Returns how far the clock is ahead of CLOCK_MONOTONIC_RAW, minimum and maximum, by the narrowest of some samples.
fn ahead(clock: &Clock) -> (i64, i64) {
    let look = |_| {
        let before = monotonic_raw() as i64;
        let now = clock.now_ordered() as i64;
        let after = monotonic_raw() as i64;
        (now - after, now - before)
    };
    (0..100).map(look).min_by_key(|(least, most)| most - least).expect("there are some")
}

fn clock_of_the_page(facts: &Facts) -> Outcome {
    let kinds = (None, without_page(facts, ErrorKind::NotOffered));
    for _ in 0..1_000 {
        let clock = Clock::open()?;
        let kind = why(&clock.kind());
        let mappings = match has_page(facts) {
            true => equal("the kind", &kind, &kinds.0).map(|()| 1)?,
            false => equal("the kind", &kind, &kinds.1).map(|()| 0)?,
        };
        equal("mappings", perf_mappings(), mappings)?;
        equal("descriptors", perf_descriptors().len(), 0)?;
        equal("the error", clock.error_bound(), Some(Duration::ZERO))?;
        // Each tick converted by the clock, and all by one `Conversion`.
        let (first, now, last) = (clock.ticks(), clock.now(), clock.ticks());
        let conversion = clock.conversion();
        let (from, to) = (clock.ticks_to_ns(first), clock.ticks_to_ns(last));
        require(from <= now && now <= to, || format!("{from} {now} {to}"))?;
        let distance = conversion.ticks_to_ns(last) - conversion.ticks_to_ns(first);
        let delta = clock.conversion().delta_ns(last.wrapping_sub(first));
        require(distance.abs_diff(delta) <= 1, || format!("{distance} ns or {delta} ns"))?;
        let back = clock.ns_to_ticks(conversion.ticks_to_ns(last));
        require(
            back <= last && conversion.ticks_to_ns(back) == conversion.ticks_to_ns(last),
            || format!("{last} there, {back} back"),
        )?;
    }
    equal("mappings left", perf_mappings(), 0)
}

/// The kernel takes the time while this thread faults. The thread takes it before and after, in nanoseconds and in
/// ticks.
fn clock_on_perfs_timeline(facts: &Facts) -> Outcome {
    let clock = of_the_page(facts)?;
    let timestamps = Timestamps::new().map_err(|error| error.to_string())?;
    let mut narrowest = u64::MAX;
    for round in 0..1_000 {
        let (before, first) = (clock.now_ordered(), clock.ticks_ordered());
        timestamps.take();
        let (last, after) = (clock.ticks_ordered(), clock.now_ordered());
        let taken = timestamps.taken();
        // Code that runs for the first time faults into memory as well: in the first rounds here, and later in what is between
        // the rounds.
        let between = taken.iter().filter(|time| (before..=after).contains(*time)).count();
        require(between == 1 || round < 10, || {
            format!("{between} of {taken:?} are from {before} to {after}")
        })?;
        let since = taken.iter().find(|time| before <= **time);
        let kernels = *since.ok_or_else(|| format!("{taken:?} are before {before}"))?;
        require(kernels <= after, || {
            format!("the kernel's {kernels} is not from {before} to {after}")
        })?;
        let conversion = clock.conversion();
        let ticks = conversion.ns_to_ticks(kernels);
        // `ticks` is the first tick of its nanosecond.
        require(conversion.ticks_to_ns(first) <= kernels && ticks <= last, || {
            format!("the kernel's {kernels} in ticks, {ticks}, is not from {first} to {last}")
        })?;
        narrowest = narrowest.min(after - before);
        match round {
            0..997 => countdown(black_box(1_000)),
            _ => thread::sleep(Duration::from_secs(1)),
        }
    }
    println!("narrowest: {narrowest} ns from one of ours to the next");
    Ok(())
}

/// Not compared with CLOCK_MONOTONIC, whose rate NTP changes.
fn clock_beside_monotonic_raw(facts: &Facts) -> Outcome {
    let clock = Clock::open()?;
    let first = ahead(&clock);
    let begun = clock.now();
    let mut last = first;
    for _ in 0..10 {
        thread::sleep(Duration::from_secs(1));
        last = ahead(&clock);
    }
    let nanoseconds = clock.now() - begun;
    let gained = (last.0 - first.1, last.1 - first.0);
    println!("ahead by {first:?} ns, {nanoseconds} ns later {last:?}: gained {gained:?}");
    // The known difference: the kernel rounds that clock's rate to 24 bits, so that ten minutes of it fit into 64
    // bits. The rounding is up to 60 parts per billion.
    let rounded = nanoseconds as i64 * 60 / 1_000_000_000;
    // If the clock is CLOCK_MONOTONIC_RAW itself, a sample is as wide as two system calls take.
    let most = if has_page(facts) { 1_000 + rounded } else { 2_000 };
    require(-most <= gained.0 && gained.1 <= most, || format!("more than {most} ns"))
}

fn clock_makes_no_system_call(facts: &Facts) -> Outcome {
    let of_a_child = |body: fn(&Clock) -> bool| {
        wait(process::fork(|| {
            let Ok(clock) = Clock::open() else { return 2 };
            process::allow_only(libc::SYS_exit_group);
            let outcome = i32::from(!body(&clock));
            std::mem::forget(clock); // unmapping would be a system call
            outcome
        }))
    };
    let times = |clock: &Clock| {
        (0..100_000).all(|_| {
            let ticks = clock.ticks();
            let ticks = clock.ticks_ordered().wrapping_sub(ticks);
            black_box((clock.now(), clock.now_ordered(), clock.ticks_to_ns(ticks)));
            black_box(clock.ns_to_ticks(ticks));
            // Between two successive ticks.
            clock.conversion().delta_ns(ticks) < 1_000_000_000
        })
    };
    let status = of_a_child(times);
    if has_page(facts) {
        return equal("the child's status", status, 0);
    }
    require(status & 0x7f == libc::SIGSYS, || format!("status {status:#x}, should be killed"))
}

/// While other processes take the CPU and the kernel updates the page.
fn clock_never_goes_back(facts: &Facts) -> Outcome {
    let clock = Clock::open()?;
    let neighbour = Neighbour::start();
    let begun = clock.now();
    let (mut last, mut longest) = (begun, 0);
    for round in 0..1_000_000 {
        // A share of the rounds may be over before the neighbour's first turn.
        if round >= 1_000_000 / facts.share().of && longest > 5_000 {
            break;
        }
        let now = if round % 2 == 0 { clock.now() } else { clock.now_ordered() };
        require(last <= now, || format!("{now} after {last}"))?;
        longest = longest.max(now - last);
        last = now;
    }
    drop(neighbour);
    // The neighbour's turns are visible in it.
    require(longest > 5_000, || format!("never interrupted: {longest} ns at the longest"))
}

fn clock_across_threads(facts: &Facts) -> Outcome {
    const HANDS: usize = 4;
    let times = 10_000 / facts.share().of as u64;
    // A ring: each thread takes a time from the one before, and passes its own on.
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..HANDS).map(|_| channel::<u64>()).unzip();
    let first = senders[0].clone();
    let mut senders = senders.into_iter().cycle().skip(1).take(HANDS).collect::<Vec<_>>();
    thread::scope(|scope| {
        let hands: Vec<_> = receivers
            .into_iter()
            .zip(senders.drain(..))
            .map(|(from, to)| {
                scope.spawn(move || -> Result<u64, String> {
                    let clock = Clock::open().map_err(|error| error.to_string())?;
                    let mut handed = 0;
                    while let Ok(theirs) = from.recv() {
                        let now = clock.now_ordered();
                        if now < theirs {
                            return Err(format!("{now} after {theirs}"));
                        }
                        handed += 1;
                        if handed == times || to.send(now).is_err() {
                            break;
                        }
                    }
                    Ok(handed)
                })
            })
            .collect();
        first.send(0).map_err(|error| error.to_string())?;
        drop(first); // so that the ring ends when one of them does
        for hand in hands {
            let handed = hand.join().expect("no panic")?;
            require(handed + 1 >= times, || format!("{handed} times handed on"))?;
        }
        Ok(())
    })
}

/// Under a filter such as a container's.
fn clock_without_an_event(facts: &Facts) -> Outcome {
    process::refuse(libc::SYS_perf_event_open, libc::EPERM);
    let clock = Clock::open()?;
    equal("the kind", why(&clock.kind()), without_page(facts, ErrorKind::Seccomp))?;
    equal("mappings", perf_mappings(), 0)?;
    let mut last = 0;
    for _ in 0..300 {
        thread::sleep(Duration::from_millis(1));
        // Before and after, because the bound grows in between, and shrinks at a calibration.
        clock.now();
        let bound = clock.error_bound();
        let (least, most) = ahead(&clock);
        let bound = bound.max(clock.error_bound()).ok_or("no bound".to_owned())?.as_nanos() as i64;
        require(least <= bound && most >= -bound, || {
            format!("ahead by {least} to {most} ns, should be {bound} at the most")
        })?;
        last = bound;
    }
    // From samples of both clocks, some of them by system call.
    require(last < 10_000, || format!("{last} ns after 300 ms"))
}

/// On a thread that may not read the tick counter.
fn clock_without_ticks(_: &Facts) -> Outcome {
    // SAFETY: affects this thread's tick counter only, which nothing here reads any more.
    let result = unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) };
    if result != 0 {
        return skip("this kernel does not let a thread forbid itself the tick counter");
    }
    let clock = Clock::open()?;
    equal("the kind", why(&clock.kind()), Some(Err(ErrorKind::TicksForbidden)))?;
    let (before, ticks, now, after) =
        (monotonic_raw(), clock.ticks(), clock.now_ordered(), monotonic_raw());
    require([before, ticks, now, after].is_sorted(), || {
        format!("{ticks} and {now} are not from {before} to {after}")
    })?;
    equal("a tick", clock.conversion().delta_ns(17), 17)?;
    equal("a time", clock.ticks_to_ns(ticks), ticks)
}

/// The child continues from the parent's time, and its child from there.
fn clock_in_a_fork(facts: &Facts) -> Outcome {
    let clock = Clock::open()?;
    let kind = clock.kind();
    let before = clock.now();
    in_child(|| -> Outcome {
        let goes_on = |before: u64| -> Result<u64, Stop> {
            let (first, raw) = (clock.now(), monotonic_raw());
            require(before <= first && first - before < 1_000_000_000, || {
                format!("{first} after {before}")
            })?;
            thread::sleep(Duration::from_millis(10));
            let (passed, told) = (monotonic_raw() - raw, clock.now() - first);
            require(passed.abs_diff(told) < 200_000, || format!("{told} ns of {passed}"))?;
            Ok(clock.now())
        };
        let now = goes_on(before)?;
        let should = match has_page(facts) {
            true => without_page(facts, ErrorKind::Forked),
            false => why(&kind),
        };
        equal("the child's kind", why(&clock.kind()), should)?;
        // A clock of its own is as good as the parent's.
        equal("its own clock's kind", Clock::open()?.kind(), kind.clone())?;
        Ok(in_child(|| goes_on(now).map(drop))?)
    })?;
    equal("the parent's kind", clock.kind(), kind)?;
    equal("mappings", perf_mappings(), usize::from(has_page(facts)))
}

/// CLOCK_MONOTONIC_RAW jumps there, and the clock does not.
fn clock_in_another_time_namespace(_: &Facts) -> Outcome {
    match time_namespace::each(true) {
        Some(result) => Ok(result?),
        None => skip("this kernel has no time namespaces"),
    }
}
