//! What it takes to know the time, side by side in one run: `cargo bench --bench clock`.
//!
//! Each is called a thousand times in a row, in turn with the others, so that what disturbs the machine
//! disturbs them all; the fastest thousand of each is the one that nothing disturbed.
#![allow(missing_docs)]

use rdpmc::Clock;
use std::hint::black_box;
use std::time::{Duration, Instant};

const CALLS: u32 = 1_000;

/// How long a thousand calls take.
#[inline(never)]
fn thousand<T>(mut call: impl FnMut() -> T) -> Duration {
    let start = Instant::now();
    for _ in 0..CALLS {
        black_box(call());
    }
    start.elapsed()
}

fn main() -> Result<(), rdpmc::Error> {
    // A thread that moves between processors measures the moves.
    if let Some(core) = core_affinity::get_core_ids().and_then(|cores| cores.first().copied()) {
        core_affinity::set_for_current(core);
    }
    let rounds = if std::env::args().any(|argument| argument == "--test") { 10 } else { 5_000 };
    let clock = Clock::open()?;
    let ordered = clock.ordered();
    let quanta = quanta::Clock::new();
    let mut candidates: [(&str, &mut dyn FnMut() -> Duration); 8] = [
        ("Clock::now", &mut || thousand(|| clock.now())),
        ("Clock::ticks", &mut || thousand(|| clock.ticks())),
        ("Clock::now, ordered", &mut || thousand(|| ordered.now())),
        ("Clock::ticks, ordered", &mut || thousand(|| ordered.ticks())),
        ("std Instant::now", &mut || thousand(Instant::now)),
        ("quanta Clock::now", &mut || thousand(|| quanta.now())),
        ("quanta Clock::raw", &mut || thousand(|| quanta.raw())),
        ("minstant Instant::now", &mut || thousand(minstant::Instant::now)),
    ];
    let mut fastest = [Duration::MAX; 8];
    for _ in 0..rounds {
        for ((_, run), fastest) in candidates.iter_mut().zip(&mut fastest) {
            *fastest = (*fastest).min(run());
        }
    }
    println!("Clock is {}.", clock.kind());
    if !minstant::is_tsc_available() {
        println!("minstant has no tick counter here, and asks the kernel.");
    }
    println!();
    println!("| ns/call | to Clock::now |");
    println!("|--------:|--------------:|:-");
    let ours = fastest.first().map_or(1.0, Duration::as_secs_f64);
    for ((name, _), fastest) in candidates.iter().zip(fastest) {
        let ns = fastest.as_secs_f64() * 1e9 / f64::from(CALLS);
        println!("| {ns:7.2} | {:13.2} | {name}", fastest.as_secs_f64() / ours);
    }
    Ok(())
}
