//! The clock on a page.

use super::Reader;
use super::kernel::{CHANGES, Change, Kernel, Moment, NARROW};
use super::map;
use super::stepper::{Walk, stepping, with};
use crate::clock::source::{Kind, Source};
use crate::clock::{Clock, ClockKind};
use crate::error::ErrorKind;
use crate::kernel::capability;
use crate::page::fork;
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;

pub(super) fn clock(kernel: &Kernel) -> Clock {
    let pages = map(&[&kernel.events[0].memory]);
    Clock::from_source(Source::new(pages, Kind::Page, None, false, fork::process().unwrap()))
}

#[test]
fn a_time_interrupted_after_every_single_instruction() {
    let walk = Walk::for_test("a_time_interrupted_after_every_single_instruction");
    let kernel = Kernel::new(9);
    with("a_time_interrupted_after_every_single_instruction", &kernel, |_: Reader<1>| {
        let clock = clock(&kernel);
        let (mut last, mut boundaries) = (0, 0);
        let every = walk.every(&CHANGES);
        for (n, change) in (0..).zip(CHANGES) {
            for step in (0..).filter(|step| step / 3 % every == n % every) {
                // Every third time, the clock already has the page's parameters.
                match step % 3 {
                    0 => last = clock.now(),
                    1 => kernel.happen(Change::Move),
                    _ => kernel.tick(),
                }
                let before = kernel.ticks.load(SeqCst);
                kernel.plan.set(Some((Moment::AfterStep(step / 3), change)));
                let now = stepping(&kernel, || clock.now());
                let after = kernel.ticks.load(SeqCst);
                assert!((before..=after).contains(&now), "{before} {now} {after} {change:?}");
                assert!(last <= now, "{now} after {last}, {change:?} at {step}");
                last = now;
                let ticks = clock.ticks();
                assert_eq!(clock.ticks_to_ns(ticks), after, "{change:?} at {step}");
                assert_eq!(clock.ns_to_ticks(after), ticks);
                // The call has fewer steps, even if it re-reads the page.
                if kernel.plan.take().is_some() && step % 3 == 1 {
                    break;
                }
                boundaries += every;
            }
        }
        assert!(boundaries > 3 * 5 * 100, "{boundaries}");
    });
}

/// The page moves after each instruction in turn, so the handler must fall back to the latest time that was returned.
#[test]
fn a_signal_handler_tells_the_time_beside_a_page_that_moves() {
    let kernel = Kernel::new(14);
    with("a_signal_handler_tells_the_time_beside_a_page_that_moves", &kernel, |_: Reader<1>| {
        let clock = clock(&kernel);
        for step in 0.. {
            kernel.happen(Change::Restart);
            kernel.plan.set(Some((Moment::AfterStep(step), Change::Move)));
            kernel.clock.set(&raw const clock);
            stepping(&kernel, || clock.now());
            kernel.clock.set(ptr::null());
            let is_over = kernel.plan.take().is_some();
            let mut times = kernel.times.take();
            times.push(clock.now());
            assert!(times.is_sorted(), "moved after {step}: {times:?}");
            if is_over {
                assert!(step > 100, "only {step} steps");
                return;
            }
        }
    });
}

/// A handler reads the clock after every instruction of the call that it interrupts.
#[test]
fn a_signal_handler_tells_the_time_after_every_single_instruction() {
    let kernel = Kernel::new(13);
    with(
        "a_signal_handler_tells_the_time_after_every_single_instruction",
        &kernel,
        |_: Reader<1>| {
            let clock = clock(&kernel);
            for round in 0..200 {
                match round % 3 {
                    0 => {}
                    1 => kernel.happen(Change::Move),
                    _ => kernel.tick(),
                }
                let before = clock.now().max(kernel.ticks.load(SeqCst));
                kernel.happen(Change::Restart);
                kernel.plan.set(Some((Moment::AfterStep(u32::MAX), Change::Count)));
                kernel.clock.set(&raw const clock);
                let now = stepping(&kernel, || clock.now());
                kernel.clock.set(ptr::null());
                kernel.plan.set(None);
                let mut times = kernel.times.take();
                assert!(times.len() > 100, "{} times", times.len());
                let within = before..=kernel.ticks.load(SeqCst);
                assert!(within.contains(&now), "{now} from {before} on: {times:?}");
                // The interrupted call began before all of them and ended after them.
                times.push(clock.now());
                assert!(times.is_sorted(), "{times:?}");
                // Until the page is re-read, the handler gets the latest time.
                assert!(times.iter().all(|time| time <= within.end()), "{before} {times:?}");
                assert!(times.iter().any(|time| within.contains(time)), "{before} {times:?}");
            }
        },
    );
}

#[test]
fn a_time_that_wraps_goes_on() {
    let kernel = Kernel::new(10);
    with("a_time_that_wraps_goes_on", &kernel, |_: Reader<1>| {
        let clock = clock(&kernel);
        for _ in 0..10_000 {
            // Past the end of the narrow counter, but at most once around.
            let now = clock.now();
            assert_eq!(now, kernel.ticks.load(SeqCst));
            let ticks = clock.ticks();
            let mask = kernel.mask.load(SeqCst);
            let passed = kernel.random() % (NARROW / 4);
            kernel.ticks.fetch_add(passed, SeqCst);
            // Earlier ticks convert to earlier times, and differences are right.
            assert_eq!(clock.ticks_to_ns(ticks), now);
            assert_eq!(clock.conversion().delta_ns(clock.ticks().wrapping_sub(ticks)), passed);
            if kernel.random() % 4 == 0 {
                // Also if the page then counts from a later time.
                kernel.happen(Change::Move);
                if kernel.mask.load(SeqCst) == mask {
                    assert_eq!(clock.ticks_to_ns(ticks), now);
                }
            } else if kernel.ticks.load(SeqCst) > kernel.cycles() + NARROW / 2 {
                kernel.happen(Change::Restart);
            }
        }
    });
}

#[test]
fn a_page_that_takes_time_back_is_waited_for() {
    let kernel = Kernel::new(11);
    with("a_page_that_takes_time_back_is_waited_for", &kernel, |_: Reader<1>| {
        let clock = clock(&kernel);
        kernel.set_clock((1, 0), 5_000);
        let reached = clock.now();
        assert_eq!(reached, kernel.ticks.load(SeqCst) + 5_000);
        for zero in [4_000, 4_990, 2_000] {
            kernel.set_clock((1, 0), zero);
            kernel.ticks.fetch_add(1, SeqCst);
            assert_eq!(clock.now(), reached);
        }
        // Conversions still use the page's parameters.
        let ticks = clock.ticks();
        assert_eq!(clock.ticks_to_ns(ticks), ticks + 2_000);
        kernel.ticks.fetch_add(2_999, SeqCst);
        assert_eq!(clock.now(), reached + 2);
        // Also if the counter began before the timeline and is set back to before it.
        let begun = kernel.ticks.load(SeqCst) - 1_000;
        let clock = {
            kernel.set_clock((1, 0), begun.wrapping_neg());
            self::clock(&kernel)
        };
        assert_eq!(clock.now(), 1_000);
        kernel.ticks.fetch_sub(5_000, SeqCst);
        assert_eq!([clock.now(), clock.now_ordered()], [1_000; 2]);
        assert_eq!(clock.ns_to_ticks(0), begun);
        kernel.ticks.fetch_add(5_001, SeqCst);
        assert_eq!(clock.now(), 1_001);
        // Also with larger shifts, the last of which only the slow path handles.
        kernel.set_clock((1, 0), 0);
        let clock = self::clock(&kernel);
        let reached = clock.now();
        kernel.set_clock((1 << 31, 32), reached - kernel.ticks.load(SeqCst) / 2);
        kernel.ticks.fetch_add(7, SeqCst);
        assert!((3..=4).contains(&(clock.now() - reached)));
        kernel.set_clock((1 << 31, 33), reached - kernel.ticks.load(SeqCst) / 4);
        kernel.ticks.fetch_add(70, SeqCst);
        assert!((17..=18).contains(&(clock.now() - reached)));
    });
}

#[test]
fn a_page_that_loses_its_clock_is_done_without() {
    // The ticks are real ones here.
    let kernel = Kernel::new(12);
    kernel.set_clock((1, 0), 0);
    let clock = clock(&kernel);
    assert_eq!(clock.kind(), ClockKind::Page);
    let (before, now) = (clock.ticks(), clock.now());
    assert!(before <= now && now <= clock.ticks(), "{before} {now}");
    let capabilities = |to| {
        kernel.events[0].write(|page| unsafe {
            // SAFETY: within the page.
            let capabilities = &raw mut (*page).capabilities;
            let before = capabilities.read_volatile();
            capabilities.write_volatile(to);
            before
        })
    };
    let with_clock = capabilities(capability::BIT0_IS_DEPRECATED);
    // Asking for the kind changes nothing, because a change would cost a calibration.
    assert!(is_not_trusted(&clock), "{clock:?}");
    assert_eq!(clock.error_bound(), None);
    capabilities(with_clock);
    assert_eq!(clock.kind(), ClockKind::Page);
    capabilities(capability::BIT0_IS_DEPRECATED);
    let mut last = clock.now();
    assert!(now <= last, "{last} after {now}");
    assert!(is_not_trusted(&clock), "{clock:?}");
    // It continues from where it was, at the true rate, which is not a tick per nanosecond.
    let outer = std::time::Instant::now();
    let begun = (clock.now(), std::time::Instant::now());
    for _ in 0..100_000 {
        let now = clock.now();
        assert!(last <= now, "{now} after {last}");
        last = now;
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    let passed = begun.1.elapsed().as_nanos() as u64;
    let told = clock.now() - begun.0;
    let most = outer.elapsed().as_nanos() as u64;
    let slack = 1_000 + most / 1_000; // NTP may be changing the rate of one of the two
    assert!(passed <= told + slack && told <= most + slack, "{told} ns of {passed} to {most}");
}

fn is_not_trusted(clock: &Clock) -> bool {
    matches!(clock.kind(), ClockKind::Kernel(why) if why.kind() == ErrorKind::TicksNotTrusted)
}
