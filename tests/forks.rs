//! A process forks while other threads are about to open their first counters. The child must not wait for these
//! threads, and what it opens is its own.
//!
//! Each process here is a fork of one that has never called the library, so every call is a first call.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod attacks;
mod process;
mod skips;
mod turn;

use attacks::{counts, open, open_group};
use process::supervised::{Answer, supervised};
use process::{fork, wait};
use rdpmc::error::ErrorKind;
use rdpmc::pmu::Pmus;
use rdpmc::{Clock, Error, Event};
use std::thread;
use std::time::{Duration, Instant};

const FIRST_CALLS: [(&str, fn()); 5] = [
    ("Counter::open", || drop(open(Event::INSTRUCTIONS))),
    ("Group::open", || drop(open_group([Event::CYCLES, Event::INSTRUCTIONS]))),
    ("Clock::open", || drop(Clock::open())),
    ("contain_faults", || drop(rdpmc::contain_faults())),
    ("Pmus::local", || drop(Pmus::local().all())),
];

/// What a child must be able to do within 2 seconds. Returns 0 if it can.
fn opens_its_own() -> i32 {
    // SAFETY: alarm takes a number. A child that hangs is killed.
    unsafe { libc::alarm(2) };
    let all = || -> Result<(), Error> {
        rdpmc::contain_faults()?;
        let counted = counts(&open(Event::TASK_CLOCK)?);
        match open(Event::INSTRUCTIONS) {
            Ok(counter) => assert_eq!(counts(&counter), Ok(())),
            Err(why) if matches!(why.kind(), ErrorKind::NoPmu { .. }) => {}
            Err(other) => return Err(other),
        }
        assert_eq!(counted, Ok(()));
        let clock = Clock::open()?;
        assert!(clock.now() <= clock.now());
        Ok(())
    };
    match all() {
        Ok(()) => 0,
        Err(why) => {
            skips::say(&format!("in the child: {why}"));
            1
        }
    }
}

fn can_open(test: &str) -> bool {
    let opened = wait(fork(|| i32::from(open(Event::TASK_CLOCK).is_err())));
    if opened != 0 {
        skips::skip(test, "no event can be opened here");
    }
    opened == 0
}

/// Listing the PMUs and installing the handler take 100 ms each, so the fork comes in between.
#[test]
fn forked_beside_a_thread_that_looks_or_installs() {
    const TEST: &str = "forked_beside_a_thread_that_looks_or_installs";
    const SLOW: Duration = Duration::from_millis(100);
    let _bound = turn::bounded();
    if !can_open(TEST) {
        return;
    }
    // A clock neither lists PMUs nor installs a handler.
    for (name, first_call) in FIRST_CALLS.into_iter().filter(|(name, _)| *name != "Clock::open") {
        let calls = [libc::SYS_getdents64, libc::SYS_rt_sigaction];
        let slow = |_: &_| Answer::Delay(SLOW);
        let status = supervised(&calls, slow, |switch| {
            switch.set(true);
            let other = thread::spawn(first_call);
            while !switch.was_asked() && !other.is_finished() {
                thread::sleep(Duration::from_millis(1));
            }
            let came_in_between = switch.was_asked() && !other.is_finished();
            // The child's calls are not delayed.
            switch.set(false);
            let status = wait(fork(opens_its_own));
            other.join().unwrap();
            if came_in_between { i32::from(status != 0) } else { 2 }
        });
        let Some(status) = status else {
            return skips::skip(TEST, "no process may answer for another here");
        };
        assert_eq!(status, 0, "the child of a fork beside {name}");
    }
}

/// Forks at random moments within 300 microseconds of first calls in other threads.
#[test]
fn forked_beside_threads_at_random_moments() {
    if !can_open("forked_beside_threads_at_random_moments") {
        return;
    }
    let _bound = turn::bounded();
    let begun = Instant::now();
    // A random number generator with the constants of MMIX's. Its numbers are the same each time.
    let mut random = 42_u64;
    let rounds = match skips::is_whole("forked_beside_threads_at_random_moments") {
        true => 2_000,
        false => 500,
    };
    for round in 0..rounds {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let moment = Duration::from_nanos((random >> 33) % 300_000);
        let status = wait(fork(|| {
            let (name, first_call) = FIRST_CALLS[round % FIRST_CALLS.len()];
            let (_, second_call) = FIRST_CALLS[(random >> 40) as usize % FIRST_CALLS.len()];
            let threads = [first_call, second_call].map(thread::spawn);
            let until = Instant::now() + moment;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            let status = wait(fork(opens_its_own));
            for thread in threads {
                thread.join().unwrap();
            }
            if status != 0 {
                skips::say(&format!("after {moment:?} of {name}: wait status {status:#x}"));
            }
            i32::from(status != 0)
        }));
        assert_eq!(status, 0, "round {round}");
    }
    skips::say(&format!("{rounds} forks beside first calls in {:?}", begun.elapsed()));
}
