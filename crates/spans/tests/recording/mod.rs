//! What the tests of recordings have in common.
#![allow(unreachable_pub)]
#![allow(clippy::disallowed_types, reason = "no child of a fork comes here")]

use rdpmc::Event;
use rdpmc_spans::{Counters, Record, Settings, Spans};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A process has one recording, so tests take turns.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a recording of cycles and instructions where there is a PMU.
pub fn start() -> Spans {
    let events = [Event::CYCLES, Event::INSTRUCTIONS];
    Settings::new().events(&events).counters(Counters::Always).start().unwrap()
}

/// Collects, and returns all records with their threads.
pub fn all(spans: &mut Spans) -> Vec<(u32, Record)> {
    let mut all = Vec::new();
    spans.collect_with(|thread, record| all.push((thread, *record)));
    all
}
