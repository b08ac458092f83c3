//! Measures the latency and the throughput of three pieces of code, and compares one with another.
//!
//! `cargo run --release -p rdpmc-bench --example region`

use rdpmc::Error;
use rdpmc_bench::Bench;
use std::hint::black_box;

fn main() -> Result<(), Error> {
    let sorted: Vec<u32> = (0..1_000).map(|n| n * n).collect();
    let keys: Vec<u32> = sorted.iter().map(|key| key + 1).collect();
    let search = |key: &u32| sorted.binary_search(key);

    let mut bench = Bench::new()?;

    // A run that needs the result of the one before waits for it. Others overlap.
    bench.row("hash, latency").chain(1, hash);
    bench.row("hash, throughput").throughput(|| hash(black_box(1)));

    // A fence after each run: for code whose result is not its next input.
    let parse = || black_box("4294967295").parse::<u32>();
    bench.row("parse, latency").latency(parse);
    bench.row("parse, throughput").throughput(parse);

    // A against B: both in turns, sample by sample.
    let by_hand = || digits(black_box("4294967295"));
    bench.row("parse by hand, latency").against("parse, latency").latency(by_hand);

    // Other inputs in each run, in random order.
    bench.row("search, latency").inputs(keys.clone()).latency(search);
    bench.row("search, throughput").inputs(keys).throughput(search);

    println!("{}", bench.run());
    Ok(())
}

/// The number with these decimal digits, without checks.
fn digits(text: &str) -> u32 {
    text.bytes().fold(0, |number, digit| {
        number.wrapping_mul(10).wrapping_add(u32::from(digit.wrapping_sub(b'0')))
    })
}

/// Three rounds of xorshift and multiplication.
fn hash(mut number: u64) -> u64 {
    for _ in 0..3 {
        number = (number ^ number >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    number
}
