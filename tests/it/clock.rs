//! The clock on this machine, whichever kind it has here. `tests/vm` tests the page-based clock on real kernels, and
//! every other kind.

use crate::attacks;
use crate::process;
use crate::process::{in_child, monotonic_raw};
use crate::skips;
use crate::turn;
use rdpmc::Clock;
use rdpmc::clock::ClockKind;
use rdpmc::error::ErrorKind;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// Returns the clock's error bound in nanoseconds. A calibrated clock has one after `now`, unless more than a second
/// passes in between. Then the error may be anything.
fn bound_of(clock: &Clock) -> u64 {
    clock.now();
    clock.error_bound().map_or(u64::MAX / 8, |bound| bound.as_nanos() as u64)
}

/// Returns the minimum difference from CLOCK_MONOTONIC_RAW, and the bound. None if another thread had the CPU in
/// between, so that the two times do not belong together.
fn off(clock: &Clock) -> Option<(u64, u64)> {
    let bound = bound_of(clock);
    let before = monotonic_raw();
    let now = clock.now_ordered();
    let after = monotonic_raw();
    // A calibration may come before `now` or after it, so the wider bound applies.
    let bound = bound.max(bound_of(clock)) + 1;
    let off = before.saturating_sub(now).max(now.saturating_sub(after));
    (after - before < 20_000).then_some((off, bound))
}

#[test]
fn what_it_says_of_itself() {
    let clock = Clock::open().unwrap();
    let kind = clock.kind();
    skips::say(&format!("the clock here is {kind}"));
    match kind {
        ClockKind::Calibrated(_) => assert!(bound_of(&clock) > 0),
        _ => assert_eq!(bound_of(&clock), 0),
    }
    if let ClockKind::Kernel(_) = kind {
        assert_eq!(clock.conversion().delta_ns(1_000), 1_000);
    }
    assert_eq!(clock.kind(), Clock::open().unwrap().kind());
}

#[test]
fn ticks_and_times_fit_together() {
    let clock = Clock::open().unwrap();
    for _ in 0..10_000 {
        let before = bound_of(&clock);
        let (first, begun) = (clock.ticks_ordered(), clock.now_ordered());
        let (ended, last) = (clock.now_ordered(), clock.ticks_ordered());
        assert!(begun <= ended && first <= last);
        // The clock may have calibrated in between.
        let bound = before.max(bound_of(&clock)) + 1;
        let conversion = clock.conversion();
        let (from, to) = (conversion.ticks_to_ns(first), conversion.ticks_to_ns(last));
        assert!(
            from <= begun + 2 * bound && ended <= to + 2 * bound,
            "{from} {begun} {ended} {to}"
        );
        assert!((to - from).abs_diff(conversion.delta_ns(last - first)) <= 1);
        for (ticks, ns) in [(first, from), (last, to)] {
            let back = conversion.ns_to_ticks(ns);
            assert!(back <= ticks && conversion.ticks_to_ns(back) == ns);
            assert!(back == 0 || conversion.ticks_to_ns(back - 1) < ns);
        }
    }
}

#[test]
fn it_never_goes_back() {
    let clock = Clock::open().unwrap();
    let mut last = clock.now();
    for round in 0..3_000_000_u32 {
        let now = if round % 2 == 0 { clock.now() } else { clock.now_ordered() };
        assert!(last <= now, "{now} after {last}");
        last = now;
        if round % 1_000_000 == 0 {
            thread::sleep(Duration::from_millis(50)); // time for the page, or for a calibration
        }
    }
}

/// Under a filter such as a container's, there is no page on any machine.
#[test]
fn without_an_event_it_is_within_its_bound() {
    in_child(|| {
        process::refuse(libc::SYS_perf_event_open, libc::EPERM);
        let clock = Clock::open().map_err(|why| why.to_string())?;
        match clock.kind() {
            ClockKind::Calibrated(why) if why.to_string().contains("perf_event_open") => {}
            ClockKind::Kernel(_) => {}
            kind => return Err(format!("{kind:?}")),
        }
        let begun = Instant::now();
        let mut looks = 0;
        while looks < 100 || begun.elapsed() < Duration::from_secs(2) {
            if begun.elapsed() > Duration::from_secs(60) {
                return Err(format!("{looks} looks undisturbed in a minute"));
            }
            thread::sleep(Duration::from_micros(100));
            let Some((off, bound)) = off(&clock) else { continue };
            if off > bound {
                return Err(format!("{off} ns off, at most {bound} by its own word"));
            }
            looks += 1;
        }
        Ok(())
    })
    .unwrap();
}

/// A clock that is asked for nothing but the time still calibrates.
#[test]
fn it_refines_itself() {
    in_child(|| {
        process::refuse(libc::SYS_perf_event_open, libc::EPERM);
        let clock = Clock::open().map_err(|why| why.to_string())?;
        let begun = Instant::now();
        let mut worst = 0;
        while begun.elapsed() < Duration::from_secs(2) {
            thread::sleep(Duration::from_millis(1));
            let before = monotonic_raw();
            let now = clock.now_ordered();
            let after = monotonic_raw();
            // At first, it knows the rate from 200 microseconds.
            if begun.elapsed() > Duration::from_secs(1) {
                worst = worst.max(before.saturating_sub(now)).max(now.saturating_sub(after));
            }
        }
        let bound = bound_of(&clock);
        match worst <= 1_000 + 4 * bound {
            true => Ok(()),
            false => Err(format!("{worst} ns off, {bound} in the end")),
        }
    })
    .unwrap();
}

#[test]
fn a_thread_that_may_not_read_ticks_asks_the_kernel() {
    thread::spawn(|| {
        // SAFETY: affects this thread's tick counter only, which nothing here reads any more.
        if unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) } != 0 {
            let why = "this kernel does not let a thread forbid itself the tick counter";
            return skips::skip("a_thread_that_may_not_read_ticks_asks_the_kernel", why);
        }
        let clock = Clock::open().unwrap();
        // If the library reads no ticks, the setting does not matter.
        let ClockKind::Kernel(why) = clock.kind() else { panic!("{:?}", clock.kind()) };
        let reasons = [ErrorKind::TicksForbidden, ErrorKind::NoTickCounter];
        assert!(reasons.contains(&why.kind()), "{why:?}");
        let times = [
            monotonic_raw(),
            clock.ticks(),
            clock.now(),
            clock.ticks_ordered(),
            clock.now_ordered(),
            monotonic_raw(),
        ];
        assert!(times.is_sorted(), "{times:?}");
        assert_eq!(clock.ticks_to_ns(times[1]), times[1]);
        assert_eq!(clock.ns_to_ticks(times[1]), times[1]);
        // The end of a thread may need the time.
        // SAFETY: affects this thread's tick counter only.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE) }, 0);
    })
    .join()
    .unwrap();
}

#[test]
fn in_a_fork_it_goes_on() {
    let clock = Clock::open().unwrap();
    let kind = clock.kind();
    let before = clock.now();
    let goes_on = |before: u64| {
        let outer = monotonic_raw();
        let first = clock.now();
        if first < before {
            return Err(format!("{first} after {before}"));
        }
        let inner = monotonic_raw();
        thread::sleep(Duration::from_millis(5));
        let inner = monotonic_raw() - inner;
        let last = clock.now();
        let outer = monotonic_raw() - outer;
        // Plus 0.01 % for the page's rate, which may differ.
        let (told, slack) = (last - first, 2 * bound_of(&clock) + 1_000 + outer / 10_000);
        match inner <= told + slack && told <= outer + slack {
            true => Ok(last),
            false => Err(format!("{told} ns, should be {inner} to {outer}")),
        }
    };
    in_child(|| {
        let now = goes_on(before)?;
        match (&kind, clock.kind()) {
            (ClockKind::Page, ClockKind::Calibrated(why)) if why.kind() == ErrorKind::Forked => {}
            (ClockKind::Page, ClockKind::Kernel(_)) => {}
            (_, same) if same == kind && kind != ClockKind::Page => {}
            (_, other) => return Err(format!("{kind:?} has become {other:?}")),
        }
        in_child(|| goes_on(now).map(drop))
    })
    .unwrap();
    assert_eq!(clock.kind(), kind);
    goes_on(before).unwrap();
}

/// Four threads pass their times around a ring for `time`. No thread may find another's time in the future by more
/// than the sum of both error bounds, and no clock may exceed its own bound.
fn handed_on_for(time: Duration) {
    let _bound = turn::bounded();
    const HANDS: usize = 4;
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..HANDS).map(|_| channel()).unzip();
    let senders = senders.into_iter().cycle().skip(1).take(HANDS);
    let until = Instant::now() + time;
    let found = thread::scope(|scope| {
        let hands: Vec<_> = receivers
            .into_iter()
            .zip(senders)
            .map(|(from, to)| {
                scope.spawn(move || {
                    let clock = Clock::open().unwrap();
                    let is_calibrated = matches!(clock.kind(), ClockKind::Calibrated(_));
                    let mut own = 0;
                    let (mut handed, mut back, mut worst) = (0_u64, 0, (0, 0));
                    // Each thread passes one on, so that all are busy at once.
                    to.send((0, 0)).unwrap();
                    while let Ok((theirs, their_bound)) = from.recv() {
                        let bound = bound_of(&clock);
                        let now = clock.now_ordered();
                        let bound = bound.max(bound_of(&clock)) + 1;
                        assert!(own <= now, "{now} after {own}, of one clock");
                        let step = u64::saturating_sub(theirs, now);
                        assert!(
                            step <= bound + their_bound,
                            "{step} ns back: {bound} {their_bound}"
                        );
                        back = step.max(back);
                        if let Some((off, bound)) = is_calibrated.then(|| off(&clock)).flatten() {
                            assert!(off <= bound, "{off} ns off, at most {bound} by its own word");
                            worst = (off, bound).max(worst);
                        }
                        handed += 1;
                        let bound = bound_of(&clock);
                        own = clock.now_ordered();
                        let bound = bound.max(bound_of(&clock)) + 1;
                        if Instant::now() > until || to.send((own, bound)).is_err() {
                            break;
                        }
                    }
                    (handed, back, worst, bound_of(&clock))
                })
            })
            .collect();
        hands.into_iter().map(|hand| hand.join().unwrap()).collect::<Vec<_>>()
    });
    let handed: u64 = found.iter().map(|(handed, ..)| handed).sum();
    let back = found.iter().map(|(_, back, ..)| back).max().unwrap();
    let worst = found.iter().map(|(.., worst, _)| worst).max().unwrap();
    let bounds: Vec<u64> = found.iter().map(|(.., bound)| *bound).collect();
    skips::say(&format!(
        "{time:?}: {handed} times handed on, {back} ns back at the worst; surely {} ns off \
         CLOCK_MONOTONIC_RAW at the worst, where {} were allowed; in the end {bounds:?} ns are",
        worst.0, worst.1
    ));
    assert!(handed > 1_000, "{handed} times handed on");
}

#[test]
fn handed_from_thread_to_thread() {
    handed_on_for(Duration::from_secs(2));
}

#[test]
#[ignore = "takes a minute; .ci/parts/coarse has it"]
fn handed_from_thread_to_thread_for_a_minute() {
    handed_on_for(Duration::from_secs(60));
}

#[test]
fn the_tick_counter_by_itself() {
    // `.ci/parts/coarse` sets it where it compiles with a counter that advances in steps.
    let has_steps = std::env::var_os("RDPMC_COARSE_TICKS").is_some();
    assert_eq!(has_steps, cfg!(rdpmc_coarse_ticks));
    let clock = Clock::open().unwrap();
    let Some(counter) = clock.tick_counter() else {
        assert!(matches!(clock.kind(), ClockKind::Kernel(_)), "{clock:?}");
        return;
    };
    assert!(!matches!(clock.kind(), ClockKind::Kernel(_)), "{clock:?}");
    for _ in 0..1_000 {
        let before = clock.ticks_ordered();
        let between = counter.read();
        let after = clock.ticks_ordered();
        assert!(!has_steps || between % 26 == 0, "{between} is not a multiple of 26");
        // Modulo the width of the counter.
        assert!(between.wrapping_sub(before) <= after.wrapping_sub(before));
    }
}

/// A clock goes on in another time namespace, where CLOCK_MONOTONIC_RAW differs.
#[test]
fn a_time_namespace_does_not_move_a_clock() {
    // On other architectures, no thread can forbid itself the ticks.
    let ways: &[bool] = if cfg!(target_arch = "x86_64") { &[true, false] } else { &[true] };
    for &may_read_ticks in ways {
        match attacks::time_namespace::each(may_read_ticks) {
            Some(result) => result.unwrap_or_else(|why| panic!("{why}")),
            None => {
                let why = "it takes a time namespace (Linux 5.6, CAP_SYS_ADMIN)";
                return skips::skip("a_time_namespace_does_not_move_a_clock", why);
            }
        }
    }
}

/// The bound of a conversion holds for ticks that are taken later than it.
#[test]
fn a_conversions_bound_holds() {
    let clock = Clock::open().unwrap();
    if !matches!(clock.kind(), ClockKind::Calibrated(_)) {
        let why = "it takes a calibrated clock";
        return skips::skip("a_conversions_bound_holds", why);
    }
    let earlier = (process::monotonic_raw(), clock.ticks_ordered(), process::monotonic_raw());
    let conversion = clock.conversion();
    let holds = |(before, ticks, after): (u64, u64, u64)| {
        let (time, bound) = (conversion.ticks_to_ns(ticks), conversion.error_bound(ticks).unwrap());
        let bound = bound.as_nanos() as u64;
        assert!(
            before <= time + bound && time <= after + bound,
            "{before}, {time} ± {bound}, {after}"
        );
        // Far from anything that would make it meaningless.
        assert!(bound < 1_000_000 + (after - earlier.0) / 100, "{bound} ns");
    };
    holds(earlier);
    for _ in 0..100 {
        let before = process::monotonic_raw();
        let ticks = clock.ticks_ordered();
        let after = process::monotonic_raw();
        holds((before, ticks, after));
        std::thread::sleep(Duration::from_millis(5));
    }
}
