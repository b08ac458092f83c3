//! Runs criterion's benchmarks by cycles, or by time on a machine without a PMU, with further events.
//!
//! `cargo run --release -p rdpmc-criterion --example criterion -- --bench`
//!
//! In a project of your own, this is a file in `benches/`, with `harness = false` in its Cargo.toml.

use criterion::measurement::Measurement;
use criterion::{Criterion, Throughput};
use rdpmc::Event;
use rdpmc_criterion::{ClockMeasurement, CounterMeasurement, WithCounters};
use std::hint::black_box;

/// Runs the benchmarks, which do not depend on the measurement.
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
    // A read that faults then returns no count, and does not kill the process.
    rdpmc::contain_faults()?;
    let cycles = CounterMeasurement::cycles()
        .and_then(|cycles| WithCounters::open(cycles, [Event::INSTRUCTIONS, Event::BRANCH_MISSES]));
    match cycles {
        Ok(measurement) => benchmarks(measurement, "text"),
        Err(why) => {
            println!("Measuring time, because the counters are not available: {why}.\n");
            // Under another name, because criterion compares with the last result of a name.
            benchmarks(
                WithCounters::open(ClockMeasurement::open()?, [Event::PAGE_FAULTS])?,
                "text by time",
            );
        }
    }
    Ok(())
}
