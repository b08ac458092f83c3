//! A benchmark that has one instruction more if the environment variable `SLOWER` is set, for a look at the gate.
//!
//! `cargo run --release -p rdpmc-criterion --example planted -- --bench --save-baseline main`

use criterion::criterion_main;
use rdpmc_criterion::{Criterion, criterion_group};
use std::hint::{black_box, spin_loop};

fn parsing(criterion: &mut Criterion) {
    let parse = || black_box("4294967295").parse::<u32>();
    let is_slower = std::env::var_os("SLOWER").is_some();
    criterion.bench_function("parse ten digits", |bencher| match is_slower {
        false => bencher.iter(parse),
        true => bencher.iter(|| {
            spin_loop(); // one instruction: `pause` on x86-64
            parse()
        }),
    });
}

criterion_group!(benches, parsing);
criterion_main!(benches);
