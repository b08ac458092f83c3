//! Ratios of simultaneous counts: instructions per cycle, and misses per 1,000 instructions, of the same sum along a
//! table's rows and along its columns.
//!
//! `cargo run --release --example group`

use rdpmc::{DynGroup, Error, Event, Reading};
use std::hint::black_box;

const SIDE: usize = 1 << 10;

fn main() {
    if let Err(why) = compare() {
        println!("{why}");
    }
}

fn compare() -> Result<(), Error> {
    rdpmc::contain_faults()?;
    let misses = Event::L1D_LOAD_MISSES;
    let wanted = [Event::CYCLES, Event::INSTRUCTIONS, misses];
    let builder = DynGroup::builder(&wanted).allow_all_privilege_levels(true);
    let fit = builder.fit()?;
    for (_, why) in &fit.missing {
        println!("Not counted: {why}\n");
    }
    let group = builder.events(&fit.events).open()?;
    let places = wanted.map(|event| fit.place(event));
    let table = vec![1_u32; SIDE * SIDE];
    // Summed once, so that all its pages are in memory.
    black_box(table.iter().sum::<u32>());

    println!("|  IPC | misses per 1,000 instructions | instructions | a sum");
    println!("|-----:|------------------------------:|-------------:|:-----");
    let columns = || (0..SIDE).map(|x| table.iter().skip(x).step_by(SIDE).sum::<u32>()).sum();
    row("along the rows", &group, places, || table.iter().sum())?;
    row("along the columns", &group, places, columns)?;
    println!("\nThe group is {}.", group.access());
    Ok(())
}

fn row(
    name: &str,
    group: &DynGroup,
    places: [Option<usize>; 3],
    work: impl FnOnce() -> u32,
) -> Result<(), Error> {
    let before = group.reading()?;
    black_box(work());
    let after = group.reading()?;
    let [cycles, instructions, misses] =
        places.map(|place| after.get(place?)?.since(before.get(place?)?));
    let ratio = |part: Option<Reading>, whole: Option<Reading>| {
        Some(part?.value as f64 / whole?.value as f64)
    };
    let ipc = ratio(instructions, cycles).map_or("-".into(), |ipc| format!("{ipc:.2}"));
    let misses =
        ratio(misses, instructions).map_or("-".into(), |part| format!("{:.1}", part * 1e3));
    let count = instructions.map_or("-".into(), |all| all.value.to_string());
    println!("| {ipc:>4} | {misses:>29} | {count:>12} | {name}");
    // If more events are open than the PMU has counters, they take turns.
    if let Some(all) = instructions.filter(|all| all.is_multiplexed()) {
        println!("(Counted for {:?} of {:?}.)", all.time_running(), all.time_enabled());
    }
    Ok(())
}
