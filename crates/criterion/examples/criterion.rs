//! criterion, by cycles where there is a PMU and by time where there is none, with more counted along:
//! `cargo run --release --features criterion --example criterion -- --bench`. In a project of your own, it is a
//! file in `benches/`, with `harness = false` in its Cargo.toml.

use criterion::measurement::Measurement;
use criterion::{Criterion, Throughput};
use rdpmc::Event;
use rdpmc_criterion::{ClockMeasurement, CounterMeasurement, WithCounters};
use std::hint::black_box;

/// The benchmarks. They know nothing of what is measured.
fn benchmarks<M: Measurement + 'static>(measurement: M, name: &str) {
    let mut criterion = Criterion::default().with_measurement(measurement).configure_from_args();
    let mut group = criterion.benchmark_group(name);
    let text = "one two three four five six seven eight nine ten ".repeat(100);
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("words", |bencher| {
        bencher.iter(|| black_box(&text).split_ascii_whitespace().count());
    });
    group.bench_function("upper case", |bencher| {
        bencher.iter(|| black_box(&text).to_ascii_uppercase());
    });
}

fn main() -> Result<(), rdpmc::Error> {
    // So that a read that the processor refuses is an answer, and no crash.
    rdpmc::contain_faults()?;
    let cycles = CounterMeasurement::cycles()
        .and_then(|cycles| WithCounters::open(cycles, [Event::INSTRUCTIONS, Event::BRANCH_MISSES]));
    match cycles {
        Ok(measurement) => benchmarks(measurement, "text"),
        Err(why) => {
            println!("Time, as cycles and more are not to be had: {why}.\n");
            // Of another name, as criterion compares with what it saved last under the same.
            benchmarks(
                WithCounters::open(ClockMeasurement::open()?, [Event::PAGE_FAULTS])?,
                "text by time",
            );
        }
    }
    Ok(())
}
