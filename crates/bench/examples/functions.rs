//! Where the instructions of a row go, by functions.
//!
//! `cargo run --release -p rdpmc-bench --features functions --example functions`

use rdpmc_bench::Bench;
use std::hint::black_box;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut bench = Bench::new()?;
    bench.show_functions();
    bench.row("format a float").throughput(|| black_box(2.5e-3_f64).to_string());
    println!("{}", bench.run());
    Ok(())
}
