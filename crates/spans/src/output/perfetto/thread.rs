//! The tracks of a thread: its spans, its counters, and further tracks: for times that the program recorded, and for spans that came too
//! late for their place.

use super::fields::{packet, track};
use super::order::{Edge, Order, Timed};
use super::protobuf::{bytes, message, uint};
use super::sequence::{Sequence, Slow};
use crate::collect::Meta;
use crate::output::rates::rates;

/// The track of the process.
pub(super) const PROCESS: u64 = 1;
/// A thread has this many tracks: its spans, then its counters, then the further ones.
const TRACKS: u64 = 1_024;
const FURTHER: u64 = 256;
/// The most further tracks. A span or time that overlaps one on each is left out.
const FURTHER_TRACKS: usize = 64;
/// The name of those with late spans. Those with recorded times have the name of the times, but for times of many names.
const LATE: &str = "spans around others, or out of order";
const OTHER_TIMES: &str = "times of other names";

/// A thread.
#[derive(Debug)]
pub(super) struct Thread {
    number: u64,
    pub(super) order: Order,
    spans: Sequence,
    /// The names of the counter tracks.
    counters: Vec<String>,
    further: Option<Further>,
}

/// Recorded times, spans whose inner spans were already written, and spans that partly overlap others.
#[derive(Debug)]
struct Further {
    sequence: Sequence,
    /// The name of each track, and when its last span ends.
    tracks: Vec<(&'static str, u64)>,
}

impl Thread {
    /// Describes a thread. Takes the first two numbers of `next_sequence` for its sequences.
    pub(super) fn new(to: &mut Vec<u8>, meta: &Meta, next_sequence: &mut u64) -> Thread {
        let number = u64::from(meta.number);
        let id = *next_sequence;
        *next_sequence += 2;
        let spans = Sequence::of_track(to, id, number * TRACKS, meta);
        spans.packet(to, |to| {
            message(to, packet::TRACK_DESCRIPTOR, |to| {
                uint(to, track::UUID, number * TRACKS);
                uint(to, track::PARENT, PROCESS);
                message(to, track::THREAD, |to| {
                    uint(to, track::PID, std::process::id().into());
                    uint(to, track::TID, meta.kernel_id().into());
                    bytes(to, track::THREAD_NAME, meta.name.as_bytes());
                });
            });
        });
        Thread { number, order: Order::default(), spans, counters: Vec::new(), further: None }
    }

    /// Writes what is complete, or all.
    pub(super) fn write(
        &mut self,
        to: &mut Vec<u8>,
        all: bool,
        mut slow: impl FnMut(&Timed) -> Slow,
    ) {
        let mut order = std::mem::take(&mut self.order);
        let each = |edge: Edge, timed: &Timed, is_root: bool| match edge {
            Edge::Begin => {
                let slow = slow(timed);
                if is_root {
                    self.counters(to, timed, Edge::Begin);
                }
                self.spans.begin(to, timed.ns[0], &timed.kept, None, &slow);
            }
            Edge::End => {
                self.spans.end(to, timed.ns[1], None);
                if is_root {
                    self.counters(to, timed, Edge::End);
                }
            }
        };
        match all {
            true => order.give_out_all(each),
            false => order.give_out(each),
        }
        self.order = order;
    }

    /// Writes the counter tracks of a span that no other is around: its rates from its beginning to its end, and 0 after it.
    fn counters(&mut self, to: &mut Vec<u8>, timed: &Timed, edge: Edge) {
        let Timed { ns: [start, end], kept } = timed;
        if !kept.raw.is_counted() {
            return;
        }
        for (name, rate) in rates(kept) {
            let place = self.counters.iter().position(|known| *known == name);
            let place = place.unwrap_or_else(|| {
                self.counters.push(name.clone());
                self.describe(to, self.counters.len() as u64, &name, true);
                self.counters.len() - 1
            });
            let track = self.number * TRACKS + place as u64 + 1;
            match edge {
                Edge::Begin => self.spans.counter(to, *start, track, rate),
                Edge::End => self.spans.counter(to, *end, track, 0.0),
            }
        }
    }

    /// Describes a track below that of the thread.
    fn describe(&self, to: &mut Vec<u8>, number: u64, name: &str, is_counter: bool) {
        self.spans.packet(to, |to| {
            message(to, packet::TRACK_DESCRIPTOR, |to| {
                uint(to, track::UUID, self.number * TRACKS + number);
                uint(to, track::PARENT, self.number * TRACKS);
                bytes(to, track::NAME, name.as_bytes());
                if is_counter {
                    message(to, track::COUNTER, |_| {});
                }
            });
        });
    }

    /// Writes a span or time on a further track. Returns false if none is free.
    pub(super) fn write_apart(&mut self, to: &mut Vec<u8>, timed: &Timed, slow: &Slow) -> bool {
        let [start, end] = timed.ns;
        let mut further = self.further.take().unwrap_or_else(|| {
            // The second sequence of the thread.
            let sequence = Sequence::in_any_order(to, self.spans.id() + 1, &timed.kept.thread);
            Further { sequence, tracks: Vec::new() }
        });
        let is_known = |name: &str| further.tracks.iter().any(|(of, _)| *of == name);
        let has_room = further.tracks.len() < FURTHER_TRACKS / 2;
        let name = match timed.kept.raw.is_recorded_time() {
            true if has_room || is_known(timed.kept.raw.site.name()) => timed.kept.raw.site.name(),
            true => OTHER_TIMES,
            false => LATE,
        };
        let is_free = |(of, end): &(&str, u64)| *of == name && *end <= start;
        let free = further.tracks.iter().position(is_free);
        let has_more = free.is_some() || further.tracks.len() < FURTHER_TRACKS;
        let place = free.unwrap_or(further.tracks.len());
        if free.is_none() && has_more {
            further.tracks.push((name, 0));
            self.describe(to, FURTHER + further.tracks.len() as u64, name, false);
        }
        if let Some((_, last)) = further.tracks.get_mut(place) {
            *last = end;
            let track = Some(self.number * TRACKS + FURTHER + place as u64 + 1);
            further.sequence.begin(to, start, &timed.kept, track, slow);
            further.sequence.end(to, end, track);
        }
        let is_written = place < further.tracks.len();
        self.further = Some(further);
        is_written
    }
}
