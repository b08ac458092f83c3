//! A gate for CI: ends with status 1 if a piece of code has one instruction more than a saved baseline.
//!
//! - `cargo run --release -p rdpmc-bench --example gate -- --save baseline.json` saves the results, and compares with them.
//! - `SLOWER=1 cargo run --release -p rdpmc-bench --example gate` adds one instruction to the code.
#![allow(clippy::expect_used, reason = "a panic has another exit status than a regression")]

use rdpmc_bench::{Bench, Comparison, Limits};
use std::hint::{black_box, spin_loop};

fn main() -> Comparison {
    let parse = || black_box("4294967295").parse::<u32>();
    let mut bench = Bench::new().expect("this is Linux");
    let row = bench.row("parse ten digits");
    if std::env::var_os("SLOWER").is_some() {
        row.latency(|| {
            spin_loop(); // one instruction: `pause` on x86-64
            parse()
        });
    } else {
        row.latency(parse);
    }
    let comparison = bench.run().check("baseline.json", &Limits::new());
    println!("{comparison}");
    comparison
}
