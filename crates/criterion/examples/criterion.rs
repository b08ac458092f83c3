//! A file of benchmarks with counters: instructions drive criterion, and cycles and branch misses are counted beside them.
//! Without a PMU, the same benchmarks are measured by time, and their instructions are counted by single-stepping.
//!
//! `cargo run --release -p rdpmc-criterion --example criterion -- --bench`
//!
//! In a project of your own, this is a file in `benches/`, with `harness = false` in its Cargo.toml. With criterion alone,
//! two lines differ: the import of `Criterion`, and `config`.

use criterion::{BatchSize, Throughput, criterion_group, criterion_main};
use rdpmc::Event;
use rdpmc_criterion::Criterion;
use std::hint::black_box;

fn parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse");
    for (name, text) in [("short", "7"), ("long", "4294967295")] {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |bencher| bencher.iter(|| black_box(text).parse::<u32>()));
    }
}

fn sort(criterion: &mut Criterion) {
    let numbers: Vec<u64> = (0..1_000_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    criterion.bench_function("sort", |bencher| {
        bencher.iter_batched_ref(
            || numbers.clone(),
            |numbers| numbers.sort_unstable(),
            BatchSize::SmallInput,
        );
    });
}

criterion_group! {
    name = benches;
    config = rdpmc_criterion::counters([Event::INSTRUCTIONS, Event::CYCLES, Event::BRANCH_MISSES, Event::PAGE_FAULTS]);
    targets = parse, sort
}
criterion_main!(benches);
