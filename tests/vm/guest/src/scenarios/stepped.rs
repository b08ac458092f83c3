//! Instructions that are counted by single-stepping are those that a counter counts.

use super::{Entry, open};
use crate::harness::{Facts, Outcome, Stop, near, patience, require, samples, skip};
use rdpmc::{Counter, Event};
use rdpmc_step::{StepError, Steps, count};
use rdpmc_testing::hostile::{Expected, KINDS, Kind, attempt};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

pub const ALL: &[Entry] = &[
    ("stepped_and_counted_instructions", stepped_and_counted_instructions),
    ("hostile_code_is_stepped", hostile_code_is_stepped),
];

/// Work that runs `rounds` times. It has no `rep` instruction: an emulated counter counts each repetition of one.
type Work = fn(u64);

const WORKS: [(&str, Work); 9] = [
    ("arithmetic", |rounds| {
        let sum = (0..rounds).fold(1_u64, |sum, n| black_box(sum.wrapping_mul(31) ^ n));
        black_box(sum);
    }),
    ("branches", |rounds| {
        let odd =
            (0..100 * rounds).filter(|n| black_box(n.wrapping_mul(0x9e37_79b9) >> 7) & 1 == 0);
        black_box(odd.count());
    }),
    ("calls", |rounds| {
        #[inline(never)]
        fn depth(left: u64) -> u64 {
            if black_box(left) == 0 { 0 } else { 1 + depth(left - 1) }
        }
        (0..rounds).for_each(|_| {
            black_box(depth(20));
        });
    }),
    ("allocation", |rounds| {
        for size in 0..rounds {
            drop(black_box(vec![1_u8; 10 + 100 * size as usize % 1_000]));
        }
    }),
    ("formatting", |rounds| {
        (0..rounds).for_each(|n| drop(black_box(format!("{n} {:.3} {n:x}", n as f64 / 7.0))));
    }),
    ("parsing", |rounds| {
        (0..rounds).for_each(|_| drop(black_box(black_box("4294967295.5").parse::<f64>())));
    }),
    ("sorting", |rounds| {
        for round in 0..rounds {
            let mut all: Vec<u64> = (0..50).map(|n| n * 0x9e37_79b9 % 101 + round).collect();
            all.sort_unstable();
            black_box(all);
        }
    }),
    ("a map", |rounds| {
        let map: BTreeMap<u64, u64> = (0..10 * rounds).map(|n| (n * 7 % 101, n)).collect();
        black_box(map);
    }),
    ("copies", |rounds| {
        let (from, mut to) = ([7_u8; 300], [0_u8; 300]);
        for round in 0..rounds {
            let length = black_box(1 + 50 * round as usize % 300);
            if let (Some(to), Some(from)) = (to.get_mut(..length), from.get(..length)) {
                to.copy_from_slice(black_box(from));
            }
        }
        black_box(to);
    }),
];

/// The rounds whose difference is taken. On arm64 each step takes many instructions of the emulated machine.
const ROUNDS: [u64; 2] = if cfg!(target_arch = "aarch64") { [2, 4] } else { [10, 20] };

/// Returns the instructions of the work by a counter, or else by single-stepping. It is called from one place, because some copies
/// have other paths for other addresses, also on the stack.
#[inline(never)]
fn instructions(counter: Option<&Counter>, work: Work, rounds: u64) -> Result<u64, Stop> {
    let steps = match counter {
        Some(_) => None,
        None => Some(Steps::start(10_000_000).map_err(|why| why.to_string())?),
    };
    let before = counter.map_or(Ok(0), Counter::read);
    work(black_box(rounds));
    let after = counter.map_or(Ok(0), Counter::read);
    match steps {
        Some(steps) => Ok(steps.stop().map_err(|why| why.to_string())?),
        None => Ok(after? - before?),
    }
}

fn stepped_and_counted_instructions(facts: &Facts) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    let unfiltered = counter.counts_all_privilege_levels();
    let counted = |work, rounds| instructions(Some(&counter), work, rounds);
    let stepped = |work, rounds| instructions(None, work, rounds);
    let [few, many] = ROUNDS;
    let mut lines = Vec::new();
    let share = facts.share();
    for (_, (name, work)) in (0..).zip(WORKS).filter(|(trial, _)| share.has(*trial)) {
        // Links functions, and brings the allocator's lists into a state that repeats: what an allocation costs depends on
        // those before it. So the longer work always comes after the shorter one, also below.
        for _ in 0..3 {
            counted(work, many)?;
            counted(work, few)?;
        }
        // Each by itself: an interrupt during the shorter work would make the difference too small.
        let (mut short, mut long) = (u64::MAX, u64::MAX);
        for _ in 0..samples(unfiltered) {
            long = long.min(counted(work, many)?);
            short = short.min(counted(work, few)?);
        }
        let least = long.wrapping_sub(short);
        let steps = stepped(work, many)? - stepped(work, few)?;
        println!("# {name}: {least} counted, {steps} stepped");
        lines.push((name, least, steps));
    }
    require(lines.iter().all(|(_, _, steps)| *steps > 0), || format!("{lines:?}"))?;
    lines.iter().try_for_each(|(name, least, steps)| near(name, *steps as i64, *least as i64))
}

/// The tests of `rdpmc-step` try both methods on x86-64. This tries the machine's own.
fn hostile_code_is_stepped(facts: &Facts) -> Outcome {
    let expected: fn(&Kind) -> Expected = match cfg!(target_arch = "x86_64") {
        true => |kind| kind.by_trap_flag,
        false => |kind| kind.by_tracer,
    };
    let counted = |limit: u64, code: &mut dyn FnMut()| match count(limit.min(10_000), code) {
        Ok(count) => Ok(Some(count)),
        Err(StepError::Disturbed) => Ok(None),
        Err(why) => Err(why.to_string()),
    };
    if let Err(why @ StepError::Exclusive) =
        count(10_000, || black_box(&AtomicU64::new(0)).fetch_add(1, SeqCst))
    {
        return skip(why.to_string()); // each kind has atomic operations
    }
    patience(300);
    let share = facts.share();
    let failed: Vec<String> = (0..)
        .zip(KINDS)
        .filter(|(trial, kind)| share.has(*trial) && !kind.is_long)
        .filter_map(|(_, kind)| {
            println!("# {}", kind.name);
            attempt(*kind, &[("here", &counted, expected)]).err()
        })
        .collect();
    require(failed.is_empty(), || failed.join("; "))
}
