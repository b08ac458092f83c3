//! Ratios, which take counts of one moment: instructions per cycle, and misses in a thousand instructions, of
//! the same sum, once along a table's rows and once along its columns.
//!
//! `cargo run --release --example group`

use rdpmc::{Cache, CacheAccess, CacheOutcome, Error, Event, Group};
use std::hint::black_box;

const SIDE: usize = 1 << 10;

fn main() {
    // A read that the processor refuses is an answer, and no crash.
    let contained = rdpmc::contain_faults();
    let misses = Event::cache(Cache::L1Data, CacheAccess::Read, CacheOutcome::Miss);
    let three = contained.and_then(|()| compare([Event::CYCLES, Event::INSTRUCTIONS, misses]));
    let result = match three {
        // The events of a group are counted together or not at all.
        Err(why @ (Error::EventNotSupported { .. } | Error::GroupTooLarge { .. })) => {
            println!("Without misses: {why}.\n");
            compare([Event::CYCLES, Event::INSTRUCTIONS])
        }
        other => other,
    };
    if let Err(why) = result {
        println!("{why}.");
    }
}

/// Prints what both ways through the table take. The first two events are cycles and instructions.
fn compare<const N: usize>(events: [Event; N]) -> Result<(), Error> {
    let group = Group::builder(events).allow_unfiltered(true).open()?;
    let table = vec![1_u32; SIDE * SIDE];
    // Read once, so that no page of it is new.
    black_box(table.iter().sum::<u32>());

    println!("|  IPC | misses in 1,000 instructions | instructions | a sum");
    println!("|-----:|-----------------------------:|-------------:|:-----");
    let columns = || (0..SIDE).map(|x| table.iter().skip(x).step_by(SIDE).sum::<u32>()).sum();
    row("along the rows", &group, || table.iter().sum())?;
    row("along the columns", &group, columns)?;
    println!("\nThe group is {}.", group.access());
    Ok(())
}

fn row<const N: usize>(
    name: &str,
    group: &Group<N>,
    work: impl FnOnce() -> u32,
) -> Result<(), Error> {
    let before = group.reading()?;
    black_box(work());
    let after = group.reading()?;
    let counts = after.iter().zip(before).map(|(after, before)| after.value - before.value);
    let mut counts = counts.map(|count| count as f64);
    let (cycles, instructions) = (counts.next().unwrap_or(0.0), counts.next().unwrap_or(0.0));
    let misses = match counts.next() {
        Some(misses) => format!("{:.1}", misses / instructions * 1_000.0),
        None => "-".into(),
    };
    println!("| {:4.2} | {misses:>28} | {instructions:12} | {name}", instructions / cycles);
    // Where more events are open than the PMU has counters, they take turns.
    if let ([before, ..], [after, ..]) = (before.as_slice(), after.as_slice()) {
        let enabled = after.time_enabled - before.time_enabled;
        let running = after.time_running - before.time_running;
        if running < enabled {
            println!("({running} ns of {enabled} were counted: counts and ratios are of these.)");
        }
    }
    Ok(())
}
