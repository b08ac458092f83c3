//! What the reads cost in time, side by side in one run: `cargo bench`.
#![allow(missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use rdpmc::{Counter, Event};
use std::hint::black_box;
use std::time::Instant;

fn reads(criterion: &mut Criterion) {
    // A thread that moves between processors measures the moves.
    if let Some(core) = core_affinity::get_core_ids().and_then(|cores| cores.first().copied()) {
        core_affinity::set_for_current(core);
    }
    let mut group = criterion.benchmark_group("reads");
    group.bench_function("std Instant::now", |bencher| bencher.iter(Instant::now));
    for event in [Event::INSTRUCTIONS, Event::TASK_CLOCK] {
        let counter = match Counter::open(event) {
            Ok(counter) => counter,
            Err(why) => {
                eprintln!("{event} is left out: {why}");
                continue;
            }
        };
        eprintln!("{event}: {}", counter.access());
        if counter.read_user().is_some() {
            group.bench_function(format!("{event} read_user"), |bencher| {
                bencher.iter(|| black_box(&counter).read_user());
            });
        }
        group.bench_function(format!("{event} read"), |bencher| {
            bencher.iter(|| black_box(&counter).read());
        });
        group.bench_function(format!("{event} reading"), |bencher| {
            bencher.iter(|| black_box(&counter).reading());
        });
    }
    group.finish();
}

criterion_group!(benches, reads);
criterion_main!(benches);
