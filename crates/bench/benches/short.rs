//! A benchmark that cargo, nextest and editors can start: `cargo bench -p rdpmc-bench --bench short -- three`,
//! `cargo nextest run -p rdpmc-bench --benches`.

use rdpmc_bench::Bench;
use std::hint::black_box;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut bench = Bench::new()?;
    bench.row("parse ten digits").latency(|| black_box("4294967295").parse::<u32>());
    bench.row("parse three digits").latency(|| black_box("429").parse::<u32>());
    println!("{}", bench.run());
    Ok(())
}
