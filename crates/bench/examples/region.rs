//! What a few nanoseconds of code cost, and nothing but that code: regions over two counters.
//!
//! `cargo run --release --example region`

use rdpmc::order::Ordered;
use rdpmc::region::Overhead;
use rdpmc::{Error, Event, Group, Region};
use rdpmc_bench::sample_by_difference;
use std::collections::HashMap;
use std::hint::black_box;

fn main() {
    if let Err(why) = measure() {
        println!("{why}."); // that this virtual machine has no PMU, say, and what to do about it
    }
}

fn measure() -> Result<(), Error> {
    // The thread may lose its counters at any moment; a read that the processor refuses then is an answer
    // like any other, and no crash. Regions on riscv64, and on several core types, insist on it.
    rdpmc::contain_faults()?;
    let events = [Event::CYCLES, Event::INSTRUCTIONS];
    // Where the PMU cannot leave the kernel out (riscv64), it is counted as well.
    let group = Group::builder(events).allow_all_privilege_levels(true).open()?;
    // Ordered: what comes before the region is done when it starts, and the region when it stops.
    let region = group.ordered().region()?;

    // One run, by hand.
    let start = region.start()?;
    black_box(black_box("4294967295").parse::<u32>().ok());
    match region.stop(start) {
        Ok([cycles, instructions]) => {
            println!("Once: {cycles} cycles, {instructions} instructions.")
        }
        // The thread was switched out, say: there is no number, rather than a wrong one.
        Err(disturbed) => println!("Once: {disturbed}."),
    }

    // The region itself is in that, and is always the same instructions.
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

/// Runs `code` once in one region and twice in another, a thousand times, and prints the difference: what both
/// have in common, the edges of the region, is not in it.
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
