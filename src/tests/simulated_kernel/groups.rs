//! Simultaneous counts of several events.

use super::Reader;
use super::kernel::{CHANGES, Change, Kernel, Moment, TURN};
use super::regions::{empty, region};
use super::stepper::{Over, Walk, stepping, with};
use crate::tests::skips;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Sets each register of a group to 0 in turn, which may stand for a forbidden counter, and then to another value.
fn a_group_with_a_register_at_0<const N: usize>() {
    let kernel = Kernel::with_events(15, N);
    with("a_group_with_a_register_at_0_is_not_read", &kernel, |reader: Reader<N>| {
        for event in &kernel.events {
            let place = event.place().unwrap();
            let before = kernel.registers[place].swap(0, SeqCst);
            assert_eq!(reader.counts(), None);
            kernel.registers[place].store(before | 1, SeqCst);
            assert!(reader.counts().is_some());
        }
    });
}

#[test]
fn a_group_with_a_register_at_0_is_not_read() {
    a_group_with_a_register_at_0::<1>();
    a_group_with_a_register_at_0::<2>();
    a_group_with_a_register_at_0::<8>();
}

/// Makes a change after every single instruction of a group's read, and checks that the counts are simultaneous.
/// Returns the number of instructions with a change. None if this cannot be tried.
fn group_interrupted<const N: usize>(walk: Walk, repetitions: u64) -> Option<u32> {
    let kernel = Kernel::with_events(8 + N as u64, N);
    let test = "groups_interrupted_after_every_single_instruction";
    with(test, &kernel, |reader: Reader<N>| {
        let mut boundaries = 0;
        for repetition in 0..repetitions as u32 {
            let round = repetition + N as u32;
            let steps = walk.over(N).make(&kernel, &CHANGES, round, |change, step| {
                kernel.happen(Change::Move);
                let done = kernel.events[0].done.load(SeqCst);
                kernel.plan.set(Some((Moment::AfterStep(step), change)));
                // Every other time, with the times.
                let counts = stepping(&kernel, || match repetition % 2 {
                    0 => reader.counts(),
                    _ => reader.timed::<true>().map(|all| all.counts),
                });
                assert!(!kernel.broken.load(SeqCst));
                let begun = kernel.events[0].begun.load(SeqCst);
                match counts {
                    Some(counts) => {
                        assert!(counts.iter().all(|count| (done..=begun).contains(count)));
                        // All events have equal counts at each moment. If the group stays in place, what happens
                        // between two reads is in the later counts. If all events were moved, the read detects it
                        // at any moment.
                        let one_moment = match change {
                            Change::Move => counts.iter().all(|count| *count == counts[0]),
                            _ => counts.is_sorted(),
                        };
                        assert!(one_moment, "{counts:?} after {change:?} at {step}");
                    }
                    None => assert!(matches!(change, Change::Leave), "none: {change:?}"),
                }
            });
            boundaries += if repetition == 0 { steps } else { 0 };
        }
        boundaries
    })
}

#[test]
fn groups_interrupted_after_every_single_instruction() {
    let walk = Walk::for_test("groups_interrupted_after_every_single_instruction");
    let found = [
        group_interrupted::<1>(walk, 2),
        group_interrupted::<2>(walk, walk.times(4, 2)),
        group_interrupted::<4>(walk, walk.times(4, 2)),
        group_interrupted::<5>(walk, 2),
        group_interrupted::<8>(walk, 2),
    ];
    // At least 10 instructions for each counter, and 5 kinds of change after each.
    for (boundaries, counters) in found.into_iter().zip([1, 2, 4, 5, 8]) {
        let Some(boundaries) = boundaries else { return };
        assert!(boundaries >= 50 * counters, "{boundaries} for {counters}");
    }
}

#[test]
fn a_million_groups_with_a_kernel_on_another_processor() {
    if !std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1) {
        let why = "on one processor the kernel's thread would move nothing meanwhile";
        return skips::skip("a_million_groups_with_a_kernel_on_another_processor", why);
    }
    let walk = Walk::for_test("a_million_groups_with_a_kernel_on_another_processor");
    let reads = walk.times(1_000_000, 30_000);
    let kernel = Kernel::with_events(20, 4);
    let over = AtomicBool::new(false);
    let none = with(
        "a_million_groups_with_a_kernel_on_another_processor",
        &kernel,
        |reader: Reader<4>| {
            std::thread::scope(|threads| {
                let _over = Over(&over);
                threads.spawn(|| {
                    let mut next = 0;
                    while !over.load(SeqCst) {
                        kernel.happen(Change::Count);
                        if kernel.faults.load(SeqCst) >= next {
                            let change = CHANGES[1 + kernel.random() as usize % 3];
                            kernel.happen(change);
                            next = kernel.faults.load(SeqCst) + kernel.random() % 64;
                        }
                    }
                });
                let (mut counts, mut none, mut last, mut wrong) = (0, 0u64, [0; 4], None);
                let (mut undisturbed, mut disturbed) = (0u64, 0u64);
                let turns = || kernel.events[0].done.load(SeqCst) / TURN;
                let is_calm = |disturbed| disturbed <= reads / 1_000 || turns() <= reads / 1_000;
                // Longer if the other thread gets little time on a busy machine.
                while wrong.is_none()
                    && (counts < reads || counts < 20 * reads && is_calm(disturbed))
                {
                    let done = [0, 1, 2, 3].map(|n| kernel.events[n].done.load(SeqCst));
                    let found = reader.counts();
                    let begun = [0, 1, 2, 3].map(|n| kernel.events[n].begun.load(SeqCst));
                    let Some(found) = found else {
                        none += 1;
                        std::thread::yield_now();
                        continue;
                    };
                    let is_right = |n: usize| {
                        let of_one_turn = found[n] / TURN == found[0] / TURN;
                        let between = done[n] <= found[n] && found[n] <= begun[n];
                        of_one_turn && between && last[n] <= found[n]
                    };
                    if !(0..4).all(is_right) {
                        wrong = Some((done, found, begun));
                    }
                    // And a region, which must not contain a turn of the events.
                    match empty(&region(&reader)) {
                        Ok(region) if region.iter().any(|count| *count >= TURN) => {
                            wrong = Some((done, region, begun));
                        }
                        Ok(_) => undisturbed += 1,
                        Err(_) => disturbed += 1,
                    }
                    last = found;
                    counts += 1;
                }
                assert_eq!(wrong, None);
                assert!(
                    undisturbed > reads / 100 && disturbed > reads / 1_000,
                    "{undisturbed}, {disturbed}"
                );
                none
            })
        },
    );
    if let Some(none) = none {
        let moves = kernel.events[0].done.load(SeqCst) / TURN;
        skips::say(&format!("{reads} groups of four, {none} none, {moves} moves, none torn"));
        assert!(moves > reads / 1_000, "too calm a kernel: {moves} moves");
    }
}
