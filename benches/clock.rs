//! Compares the cost of reading the time with that of other clocks: `cargo bench --bench clock`.
#![allow(missing_docs)]

use rdpmc::{Clock, Error};
use rdpmc_benches::{self as beside, Comparison};
use std::time::Instant;

fn main() -> Result<(), Error> {
    let mut criterion = beside::criterion()?;
    let clock = &Clock::open()?;
    let quanta = quanta::Clock::new();
    if !minstant::is_tsc_available() {
        println!("minstant has no tick counter on this machine, and calls the kernel.");
    }
    let mut comparison = Comparison::with(&mut criterion, "clock", "Clock::now", || clock.now())?;
    comparison.beside("Clock::ticks", || clock.ticks());
    comparison.beside("Clock::now, ordered", || clock.now_ordered());
    comparison.beside("Clock::ticks, ordered", || clock.ticks_ordered());
    comparison.beside("std Instant::now", Instant::now);
    comparison.beside("quanta Clock::now", || quanta.now());
    comparison.beside("quanta Clock::raw", || quanta.raw());
    comparison.beside("minstant Instant::now", minstant::Instant::now);
    drop(comparison);
    criterion.final_summary();
    Ok(())
}
