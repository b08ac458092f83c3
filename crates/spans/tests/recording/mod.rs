//! What the tests of recordings have in common.
#![allow(unreachable_pub, dead_code)]

/// A process has one recording, so tests take turns.
pub use crate::turn::turn;
use rdpmc::Event;
use rdpmc_spans::{Counters, Flags, Interval, Settings, Site, Spans, Storage};

const EVENTS: [Event; 2] = [Event::CYCLES, Event::INSTRUCTIONS];

/// Returns the settings of a recording of cycles and instructions where there is a PMU.
pub fn counted() -> Settings {
    Settings::new().events(&EVENTS).counters(Counters::Always)
}

/// Starts a recording of cycles and instructions where there is a PMU.
pub fn start() -> Spans {
    counted().start().unwrap()
}

pub fn with(storage: Storage) -> Spans {
    Settings::new().storage(storage).start().unwrap()
}

/// A record that owns its parts.
#[derive(Clone, Debug)]
pub struct Rec {
    pub site: &'static Site,
    pub parent: Option<&'static Site>,
    pub thread: u32,
    /// The nanoseconds of both ends.
    pub ticks: [u64; 2],
    pub depth: u16,
    pub flags: Flags,
    pub number: Option<u64>,
    pub counts: [u64; 2],
}

impl Rec {
    pub fn name(&self) -> &'static str {
        self.site.name()
    }

    pub fn time(&self) -> u64 {
        self.ticks[1] - self.ticks[0]
    }

    pub fn around(&self) -> Option<&'static str> {
        self.parent.map(Site::name)
    }
}

/// Returns the records of an interval.
pub fn records_of(interval: &Interval) -> Vec<Rec> {
    let records = interval.records().map(|record| Rec {
        site: record.site(),
        parent: record.parent(),
        thread: record.thread(),
        ticks: [record.start(), record.end()].map(|time| time.as_nanos() as u64),
        depth: record.depth(),
        flags: record.flags(),
        number: record.number(),
        counts: EVENTS.map(|event| record.count(event).unwrap_or(0)),
    });
    records.collect()
}

/// Returns all records since the last `take`.
pub fn all(spans: &mut Spans) -> Vec<Rec> {
    records_of(&spans.view())
}

/// Returns the names of records, and of the spans around them.
pub fn names(records: &[Rec]) -> Vec<(&'static str, Option<&'static str>)> {
    records.iter().map(|record| (record.name(), record.around())).collect()
}
