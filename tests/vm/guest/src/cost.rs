//! What the operations cost: instructions this thread retires between two calls back to back, as
//! the counter itself tells. Where each instruction counts once, the figures repeat exactly.

use crate::harness::Facts;
use rdpmc::{Counter, Event};
use std::hint::black_box;
use std::process::ExitCode;

/// The library's own limits, in instructions: design figures, and the reason this file exists.
#[cfg(target_arch = "x86_64")]
pub const LIMITS: [(&str, u64); 3] = [("read_user", 14), ("read", 16), ("reading", 100)];
#[cfg(target_arch = "aarch64")]
pub const LIMITS: [(&str, u64); 3] = [("read_user", 16), ("read", 18), ("reading", 100)];
#[cfg(target_arch = "riscv64")]
pub const LIMITS: [(&str, u64); 3] = [("read_user", 20), ("read", 22), ("reading", 100)];

/// A cost and the most it may be.
pub struct Cost {
    pub name: &'static str,
    pub instructions: u64,
    pub limit: u64,
}

/// Measures what LIMITS names.
pub fn measure() -> Result<Vec<Cost>, rdpmc::Error> {
    let counter = Counter::builder(Event::INSTRUCTIONS).allow_unfiltered(true).open()?;
    let costs = LIMITS.map(|(name, limit)| {
        let instructions = match name {
            "read_user" => least(|| read_user(&counter)),
            "read" => least(|| read(&counter)),
            "reading" => least(|| reading(&counter)),
            name => unreachable!("{name}"),
        };
        Some(Cost { name, instructions: instructions?, limit })
    });
    Ok(costs.into_iter().flatten().collect())
}

/// The least of several differences: an interrupt may have added to some.
fn least(sample: impl Fn() -> Option<u64>) -> Option<u64> {
    (0..100).filter_map(|_| sample()).min()
}

#[inline(never)]
fn read_user(counter: &Counter) -> Option<u64> {
    // The answer of each call is looked at before the next: a user's program would, too.
    let first = black_box(counter).read_user()?;
    let second = counter.read_user()?;
    Some(second - first)
}

#[inline(never)]
fn read(counter: &Counter) -> Option<u64> {
    let first = black_box(counter).read().ok()?;
    let second = counter.read().ok()?;
    Some(second - first)
}

#[inline(never)]
fn reading(counter: &Counter) -> Option<u64> {
    let first = black_box(counter).reading().ok()?;
    let second = counter.reading().ok()?;
    Some(second.value - first.value)
}

/// Prints them, a line each: `cost NAME INSTRUCTIONS`. Without a PMU on purpose there are none.
pub fn print(facts: &Facts) -> ExitCode {
    match measure() {
        Err(error @ rdpmc::Error::NoPmu { .. }) if facts.say_no_pmu() => {
            println!("cost: none, {error}");
            ExitCode::SUCCESS
        }
        Ok(costs) => {
            for Cost { name, instructions, .. } in &costs {
                println!("cost {name} {instructions}");
            }
            let all_within = costs.iter().all(|cost| cost.instructions <= cost.limit);
            ExitCode::from(u8::from(!all_within || costs.len() < LIMITS.len()))
        }
        Err(error) => {
            println!("cost: {error}");
            ExitCode::FAILURE
        }
    }
}
