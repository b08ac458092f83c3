//! Measures four pieces of code, prints a table, and writes a page with their distributions.
//!
//! `cargo run --release --example quickstart`

use rdpmc_bench::Bench;
use std::collections::HashMap;
use std::hint::black_box;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let squares: HashMap<u32, u32> = (0..16).map(|n| (n * n, n)).collect();
    let keys: Vec<u32> = squares.keys().copied().collect();
    let numbers: Vec<u64> = (0..100).collect();

    let mut bench = Bench::new()?;
    bench.time_per_row(Duration::from_millis(400));
    bench.row("parse ten digits").latency(|| black_box("4294967295").parse::<u32>());
    bench.row("look up in a HashMap").inputs(keys).latency(|key| squares.get(key).copied());
    bench
        .row("sum of an array")
        .operations(numbers.len() as u64)
        .throughput(|| black_box(&numbers).iter().fold(0, |sum: u64, n| black_box(sum + n)));

    bench.row("sort eight numbers").latency(|| {
        let mut numbers = black_box([3, 1, 4, 1, 5, 9, 2, 6]);
        numbers.sort_unstable();
        numbers
    });

    let results = bench.run();
    println!("{results}");
    let page = std::env::temp_dir().join("quickstart.html");
    match results.save_html(&page) {
        Ok(()) => println!("The distributions are in {}.", page.display()),
        Err(why) => println!("The distributions are not saved: {}: {why}.", page.display()),
    }
    Ok(())
}
