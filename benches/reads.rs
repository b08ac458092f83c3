//! What the reads cost in time, side by side in one run: `cargo bench`.
#![allow(missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use rdpmc::{Counter, Event, Group};
use std::hint::black_box;
use std::time::Instant;

fn reads(criterion: &mut Criterion) {
    // A thread that moves between processors measures the moves.
    if let Some(core) = core_affinity::get_core_ids().and_then(|cores| cores.first().copied()) {
        core_affinity::set_for_current(core);
    }
    let _ = rdpmc::contain_faults(); // regions need it on some machines
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
        match counter.region() {
            Ok(region) => {
                group.bench_function(format!("{event} empty region"), |bencher| {
                    bencher.iter(|| black_box(&region).measure(|| ()));
                });
                let ordered = region.ordered();
                group.bench_function(format!("{event} empty region, ordered"), |bencher| {
                    bencher.iter(|| black_box(&ordered).measure(|| ()));
                });
            }
            Err(why) => eprintln!("{event} regions are left out: {why}"),
        }
    }
    match Group::open([Event::CYCLES, Event::INSTRUCTIONS]) {
        Ok(both) => {
            group.bench_function("cycles and instructions read_user", |bencher| {
                bencher.iter(|| black_box(&both).read_user());
            });
            group.bench_function("cycles and instructions read(2)", |bencher| {
                bencher.iter(|| black_box(&both).reading());
            });
        }
        Err(why) => eprintln!("a group is left out: {why}"),
    }
    group.finish();
}

criterion_group!(benches, reads);
criterion_main!(benches);
