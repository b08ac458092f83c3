//! The CPU counts known work and is read without the kernel, on a machine with a PMU that user space may read.
//!
//! On other machines these tests are skipped. The emulated machines of `tests/vm` assert exact numbers everywhere.
#![allow(dead_code, unreachable_pub)]

#[cfg_attr(target_arch = "x86_64", path = "../../asm/kernels/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "../../asm/kernels/aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "../../asm/kernels/riscv64.rs")]
mod kernels;

use crate::skips;
use crate::skips::skip;
use kernels::countdown;
use rdpmc::error::ErrorKind;
use rdpmc::{Counter, Event};
use std::hint::black_box;

/// A virtual machine's counter is an event of the host. It stops silently when the host has no counter for it.
const STANDS_STILL: &str =
    "the counter stands still: the hypervisor has none for it at this moment";

/// Returns whether counters may stand still here.
fn is_virtual() -> bool {
    rdpmc::machine::is_virtual()
}

/// Returns whether the counter misses a thousand rounds, which is an error on a real machine.
fn stands_still(counter: &Counter) -> bool {
    let before = counter.read().unwrap();
    countdown(black_box(1_000));
    let counted = counter.read().unwrap() - before;
    let is_still = counted < 1_000;
    assert!(is_virtual() || !is_still, "{counted} for 1,000 rounds, and no hypervisor to blame");
    is_still
}

fn is_readable(counter: &Counter) -> bool {
    matches!(counter.access().why_system_call(), None | Some(ErrorKind::Slower))
}

/// Opens a counter, or skips the test.
fn open(test: &str, event: Event) -> Option<Counter> {
    match Counter::builder(event).allow_all_privilege_levels(true).open() {
        // `read_user` also reads where a hypervisor's traps make it the slower way.
        Ok(counter) if is_readable(&counter) => {
            let is_still = stands_still(&counter);
            if is_still {
                skip(test, STANDS_STILL);
            }
            (!is_still).then_some(counter)
        }
        Ok(counter) => {
            skip(test, &counter.access().to_string());
            None
        }
        Err(why) => {
            skip(test, &why.to_string());
            None
        }
    }
}

#[test]
fn instructions_of_known_work() {
    let Some(counter) = open("instructions_of_known_work", Event::INSTRUCTIONS) else { return };
    let may_stand_still = is_virtual();
    let sample = |rounds: u64| {
        let before = counter.read_user();
        countdown(black_box(rounds));
        // None if the kernel had the event off the PMU at that moment: not a sample.
        let counted = counter.read_user().zip(before).map(|(after, before)| after - before);
        counted.filter(|counted| !may_stand_still || *counted > 2 * rounds)
    };
    // On real CPUs, an interrupt may count as an instruction, so the minimum is exact.
    let least = |rounds| (0..1_000).filter_map(|_| sample(rounds)).min().unwrap();
    let constant = least(0);
    for rounds in [1, 1_000, 100_000] {
        assert_eq!(least(rounds), constant + 2 * rounds);
    }
}

#[test]
fn counts_never_go_backwards() {
    let Some(counter) = open("counts_never_go_backwards", Event::CYCLES) else { return };
    let mut last = 0;
    for _ in 0..1_000_000 {
        let now = counter.read().unwrap();
        assert!(last <= now, "{now} after {last}");
        last = now;
    }
}

/// Uses all counters that can count instructions, at the same time.
#[test]
fn every_counter_counts() {
    const ROUNDS: u64 = 100_000;
    let test = "every_counter_counts";
    if open(test, Event::INSTRUCTIONS).is_none() {
        return;
    }
    let pinned = || {
        Counter::builder(Event::INSTRUCTIONS).allow_all_privilege_levels(true).pinned(true).open()
    };
    let has_one = |counter: &Counter| counter.read().is_ok();
    let counters: Vec<Counter> = (0..16).map_while(|_| pinned().ok().filter(has_one)).collect();
    assert!(!counters.is_empty());
    // A pinned counter that another user has displaced gives 0, which is a sample that stands still.
    let read = || counters.iter().map(|counter| counter.read().unwrap_or(0)).collect::<Vec<_>>();
    let (mut least, mut still) = (vec![u64::MAX; counters.len()], 0);
    for _ in 0..100 {
        let before = read();
        countdown(black_box(ROUNDS));
        let after = read();
        for ((least, before), after) in least.iter_mut().zip(before).zip(after) {
            match after.checked_sub(before) {
                Some(counted @ ROUNDS..) => *least = counted.min(*least),
                _ => still += 1,
            }
        }
    }
    let (all, samples) = (counters.len(), 100 * counters.len());
    skips::say(&format!(
        "{all} counters of instructions; {still} of {samples} samples stood still"
    ));
    if still == samples {
        return skip(test, STANDS_STILL);
    }
    assert!(still == 0 || is_virtual(), "{still} samples, and no hypervisor to blame");
    // The reads before and after are counted, too. Of a system call, only the user-mode part is.
    for counted in least.into_iter().filter(|least| *least < u64::MAX) {
        assert!((2 * ROUNDS..3 * ROUNDS).contains(&counted), "{counted} for {ROUNDS} rounds");
    }
}
