//! On a machine with a PMU that user space may read: the real processor counts what is known, and
//! is read without the kernel. Otherwise skipped; the
//! emulated machines of `tests/vm` assert exact numbers everywhere.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
#![allow(missing_docs, dead_code, unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod skips;

#[cfg_attr(target_arch = "x86_64", path = "../asm/kernels/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "../asm/kernels/aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "../asm/kernels/riscv64.rs")]
mod kernels;

use kernels::countdown;
use rdpmc::{Access, Counter, Event};
use skips::skip;
use std::hint::black_box;

/// A counter, or a skip said.
fn open(test: &str, event: Event) -> Option<Counter> {
    match Counter::builder(event).allow_unfiltered(true).open() {
        Ok(counter) if counter.access() == Access::UserSpace => Some(counter),
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
    let sample = |rounds: u64| {
        let before = counter.read_user();
        countdown(black_box(rounds));
        // None where the kernel had the event off the PMU at that moment: not a sample.
        counter.read_user().zip(before).map(|(after, before)| after - before)
    };
    // An interrupt may count as an instruction on real processors: the least is the truth.
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
