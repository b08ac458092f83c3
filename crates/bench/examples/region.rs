//! Measures a few nanoseconds of code, and nothing but that code: regions over two counters.
//!
//! `cargo run --release -p rdpmc-bench --example region`

use rdpmc::order::Ordered;
use rdpmc::region::Overhead;
use rdpmc::{Error, Event, Group, Region};
use rdpmc_bench::sample_by_difference;
use std::collections::HashMap;
use std::hint::black_box;

fn main() {
    if let Err(why) = measure() {
        println!("{why}."); // for example, this VM has no PMU, and the remedy
    }
}

fn measure() -> Result<(), Error> {
    // The thread may lose its counters at any moment. A read that faults then returns no count, and does not kill the
    // process. Regions on riscv64, and on several core types, require this.
    rdpmc::contain_faults()?;
    let events = [Event::CYCLES, Event::INSTRUCTIONS];
    // If the PMU cannot exclude the kernel (riscv64), it is counted, too.
    let group = Group::builder(events).allow_all_privilege_levels(true).open()?;
    // Ordered: earlier code is complete when the region starts, and the region is complete when it stops.
    let region = group.ordered().region()?;

    // A single run, by hand.
    let start = region.start()?;
    black_box(black_box("4294967295").parse::<u32>().ok());
    match region.stop(start) {
        Ok([cycles, instructions]) => {
            println!("Once: {cycles} cycles, {instructions} instructions.")
        }
        // For example, a context switch: there is no count, rather than a wrong one.
        Err(disturbed) => println!("Once: {disturbed}."),
    }

    // That includes the region itself, which always executes equal instructions.
    let [cycles, instructions] = Overhead::measure(&region)?.minimum();
    println!("An empty region: {cycles} cycles, {instructions} instructions.\n");

    println!("| cycles: least | median | instructions | disturbed | one run of");
    println!("|--------------:|-------:|-------------:|----------:|:----------");
    row(&region, "parsing a number of ten digits", || {
        black_box(black_box("4294967295").parse::<u32>().ok());
    });
    let known: HashMap<u32, u32> = (0..1_000).map(|n| (n * n, n)).collect();
    row(&region, "looking up a number in a HashMap", || {
        black_box(known.get(&black_box(123 * 123)));
    });
    row(&region, "sorting eight numbers", || {
        let mut numbers = black_box([3, 1, 4, 1, 5, 9, 2, 6]);
        numbers.sort_unstable();
        black_box(numbers);
    });
    Ok(())
}

/// Runs `code` once in one region and twice in another, a thousand times each, and prints the difference. What both
/// have in common, the edges of the region, cancels out.
fn row(region: &Region<'_, 2, Ordered>, name: &str, code: impl FnMut()) {
    let samples = sample_by_difference(region, 1_000, code);
    let disturbed = samples.disturbed();
    match (samples.min(), samples.median()) {
        (Some([least, _]), Some([median, instructions])) => {
            println!("| {least:13} | {median:6} | {instructions:12} | {disturbed:9} | {name}");
        }
        _ => println!("|             - |      - |            - | {disturbed:9} | {name}"),
    }
}
