//! A sequence of packets with a state that its packets refer to: the names that it has interned, and the time of the last one.

use super::fields::{BOOTTIME, annotation, clock, defaults, event, interned, packet, trace};
use super::protobuf::{bytes, double, fixed64, message, uint};
use crate::collect::{Kept, Meta};
use crate::output::table;
use crate::record::{Flags, Site};
use std::collections::HashMap;

/// A clock of the sequence's own, whose timestamps are differences to the last packet's.
const DELTAS: u64 = 64;

/// The numbers of the annotations' names. Events have 1 to 8, and the parts of the slots those from `SLOTS`.
const NUMBER: u64 = 9;
const FLAGS: u64 = 10;
const CAUSE: u64 = 11;
const POLLS: u64 = 12;
const SLOTS: u64 = 13;

/// The flows and the cause of a slow span.
#[derive(Debug, Default)]
pub(super) struct Slow {
    /// The flows between a slow span and those of other threads beside it.
    pub(super) flows: Vec<u64>,
    pub(super) cause: Option<String>,
}

/// A sequence.
#[derive(Debug)]
pub(super) struct Sequence {
    id: u64,
    /// The time of the last packet. None if timestamps are not differences, so that packets may come in any order.
    last: Option<u64>,
    /// By the site's address.
    names: HashMap<usize, u64>,
    /// Which combinations of flags have a string.
    flags: [u64; 4],
}

impl Sequence {
    /// Begins the sequence of a thread's track. Its packets have to be in the order of time.
    pub(super) fn of_track(to: &mut Vec<u8>, id: u64, track: u64, meta: &Meta) -> Sequence {
        let sequence = Sequence { last: Some(0), ..Sequence::in_any_order(to, id, meta) };
        sequence.packet(to, |to| {
            message(to, packet::DEFAULTS, |to| {
                uint(to, defaults::CLOCK, DELTAS);
                message(to, defaults::TRACK_EVENT, |to| uint(to, event::TRACK, track));
            });
            message(to, packet::CLOCK_SNAPSHOT, |to| {
                for (id, is_incremental) in [(DELTAS, true), (BOOTTIME, false)] {
                    message(to, clock::CLOCKS, |to| {
                        uint(to, clock::ID, id);
                        uint(to, clock::TIMESTAMP, 0);
                        uint(to, clock::IS_INCREMENTAL, is_incremental.into());
                    });
                }
            });
        });
        sequence
    }

    /// Begins a sequence whose packets name their tracks, and may come in any order.
    pub(super) fn in_any_order(to: &mut Vec<u8>, id: u64, meta: &Meta) -> Sequence {
        let sequence = Sequence { id, last: None, names: HashMap::new(), flags: [0; 4] };
        sequence.packet(to, |to| {
            const INCREMENTAL_STATE_CLEARED: u64 = 1;
            uint(to, packet::SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED);
            uint(to, packet::FIRST_ON_SEQUENCE, 1);
            message(to, packet::INTERNED_DATA, |to| {
                let events = meta.counted.events.iter().map(|event| event.to_string());
                let events = events.zip(1..);
                let parts = table::SLOTS.into_iter().chain(["rest"]).zip(SLOTS..);
                let parts = parts.filter(|_| meta.counted.formula().is_some());
                let parts = parts.map(|(part, id)| (format!("slots, {part}"), id));
                let others =
                    [("number", NUMBER), ("flags", FLAGS), ("cause", CAUSE), ("polls", POLLS)];
                let others = others.map(|(name, id)| (name.to_owned(), id));
                for (name, id) in events.chain(others).chain(parts) {
                    string(to, interned::ANNOTATION_NAMES, id, &name);
                }
            });
        });
        sequence
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Adds a packet of this sequence.
    pub(super) fn packet(&self, to: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
        message(to, trace::PACKET, |to| {
            uint(to, packet::SEQUENCE, self.id);
            fill(to);
        });
    }

    /// Adds a packet with an event at this time.
    pub(super) fn event(
        &mut self,
        to: &mut Vec<u8>,
        ns: u64,
        of: u64,
        fill: impl FnOnce(&mut Vec<u8>),
    ) {
        let timestamp = match &mut self.last {
            Some(last) => {
                let since = ns.saturating_sub(*last);
                *last += since;
                since
            }
            None => ns,
        };
        self.packet(to, |to| {
            uint(to, packet::TIMESTAMP, timestamp);
            message(to, packet::TRACK_EVENT, |to| {
                uint(to, event::TYPE, of);
                fill(to);
            });
        });
    }

    /// Adds the beginning of a span. The track is named if it is not the sequence's own.
    pub(super) fn begin(
        &mut self,
        to: &mut Vec<u8>,
        ns: u64,
        kept: &Kept,
        track: Option<u64>,
        slow: &Slow,
    ) {
        let name = self.name(to, kept.raw.site);
        self.intern_flags(to, kept.raw.flags);
        self.event(to, ns, event::BEGIN, |to| {
            uint(to, event::NAME_ID, name);
            uint(to, event::LOCATION_ID, name);
            track.into_iter().for_each(|track| uint(to, event::TRACK, track));
            arguments(to, kept);
            if let Some(cause) = &slow.cause {
                annotation(to, CAUSE, |to| bytes(to, annotation::STRING, cause.as_bytes()));
            }
            slow.flows.iter().for_each(|flow| fixed64(to, event::FLOWS, *flow));
        });
    }

    /// Adds the end of a span.
    pub(super) fn end(&mut self, to: &mut Vec<u8>, ns: u64, track: Option<u64>) {
        self.event(to, ns, event::END, |to| {
            track.into_iter().for_each(|track| uint(to, event::TRACK, track));
        });
    }

    /// Adds the value of a counter track.
    pub(super) fn counter(&mut self, to: &mut Vec<u8>, ns: u64, track: u64, value: f64) {
        self.event(to, ns, event::COUNTER, |to| {
            uint(to, event::TRACK, track);
            double(to, event::COUNTER_VALUE, value);
        });
    }

    /// Returns the number of a site's name and location, and interns them before their first use.
    fn name(&mut self, to: &mut Vec<u8>, site: &'static Site) -> u64 {
        let address = std::ptr::from_ref(site).addr();
        if let Some(known) = self.names.get(&address) {
            return *known;
        }
        let id = self.names.len() as u64 + 1;
        self.names.insert(address, id);
        self.packet(to, |to| {
            message(to, packet::INTERNED_DATA, |to| {
                string(to, interned::EVENT_NAMES, id, site.name());
                message(to, interned::SOURCE_LOCATIONS, |to| {
                    uint(to, interned::ID, id);
                    bytes(to, interned::NAME, site.file().as_bytes());
                    uint(to, interned::LINE, site.line().into());
                });
            });
        });
        id
    }

    fn intern_flags(&mut self, to: &mut Vec<u8>, flags: Flags) {
        if flags == Flags::NONE {
            return;
        }
        let (word, bit) = (usize::from(flags.bits() / 64), 1 << (flags.bits() % 64));
        let Some(known) = self.flags.get_mut(word).filter(|known| **known & bit == 0) else {
            return;
        };
        *known |= bit;
        let names = flags.names().collect::<Vec<_>>().join(", ");
        self.packet(to, |to| {
            message(to, packet::INTERNED_DATA, |to| {
                string(to, interned::ANNOTATION_STRINGS, u64::from(flags.bits()), &names);
            });
        });
    }
}

/// Adds an interned string.
fn string(to: &mut Vec<u8>, field: u32, id: u64, text: &str) {
    message(to, field, |to| {
        uint(to, interned::ID, id);
        bytes(to, interned::NAME, text.as_bytes());
    });
}

fn annotation(to: &mut Vec<u8>, name: u64, value: impl FnOnce(&mut Vec<u8>)) {
    message(to, event::ANNOTATIONS, |to| {
        uint(to, annotation::NAME_ID, name);
        value(to);
    });
}

/// Adds the counts, the number and the flags of a record.
fn arguments(to: &mut Vec<u8>, kept: &Kept) {
    if kept.raw.is_counted() {
        let counted = &kept.thread.counted;
        let counts = counted.events.iter().zip(kept.raw.counts).zip(1..);
        for ((_, count), name) in counts.skip(counted.events_of_slots()) {
            annotation(to, name, |to| uint(to, annotation::UINT, count));
        }
    }
    if let Some(level1) = kept.level1() {
        let parts = level1.parts().into_iter().map(|(_, part)| part.fraction);
        let parts = parts.chain([level1.rest]).zip(SLOTS..);
        for (fraction, name) in parts {
            annotation(to, name, |to| double(to, annotation::DOUBLE, fraction));
        }
    }
    if let Some(polls) = kept.polls() {
        annotation(to, POLLS, |to| uint(to, annotation::UINT, polls.times));
    }
    if let Some(number) = kept.number() {
        annotation(to, NUMBER, |to| uint(to, annotation::UINT, number));
    }
    if kept.raw.flags != Flags::NONE {
        annotation(to, FLAGS, |to| uint(to, annotation::STRING_ID, kept.raw.flags.bits().into()));
    }
}
