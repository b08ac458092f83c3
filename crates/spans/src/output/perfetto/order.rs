//! The beginnings and ends of a thread's spans in the order of time.
//!
//! Records come when their spans end, so those inside come before the one around them. Their depths tell which are inside, also where
//! all begin and end in one tick. So records wait here until the outermost span has ended.

use crate::collect::Kept;
use std::cmp::Reverse;

/// The maximum number of waiting records. Spans around them are then written late.
const MOST: usize = 16_384;

/// A record, with the nanoseconds of its beginning and its end.
#[derive(Debug)]
pub(super) struct Timed {
    pub(super) ns: [u64; 2],
    pub(super) kept: Kept,
}

/// Whether a span begins or ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Edge {
    Begin,
    End,
}

/// Whether a record is inside another one of its thread. Laps of an inner loop have the depth of the outer lap. A lap of zero
/// length is not nested, because it may be the previous lap.
fn is_inside(inner: &Kept, outer: &Kept) -> bool {
    let [[start, end], [outer_start, outer_end]] = [inner.raw.ticks, outer.raw.ticks];
    let are_laps = inner.raw.is_lap() && outer.raw.is_lap() && inner.raw.depth == outer.raw.depth;
    let is_within = start >= outer_start && end <= outer_end && inner.raw.ticks != outer.raw.ticks;
    inner.is_inside(outer) || are_laps && is_within && end > start
}

/// The records of a thread that wait.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// In the order in which they ended, with the place of the first one inside each.
    waiting: Vec<(usize, Timed)>,
    /// The places of those that are in none of the others.
    roots: Vec<usize>,
    /// Everything up to this time has been given out.
    until: u64,
    /// While it is not 0, a span of depth 1 may be inside an unfinished lap. Each call decrements it.
    has_laps: u32,
}

/// A lap may take this many calls.
const LAP: u32 = 100;

impl Order {
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MOST
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &Timed> {
        self.waiting.iter().map(|(_, timed)| timed)
    }

    /// Adds a record. Returns it if it cannot be ordered: it began before the last end that was given out, or it partly overlaps a waiting
    /// record.
    pub(super) fn push(&mut self, timed: Timed) -> Option<Timed> {
        if timed.kept.raw.is_lap() && timed.kept.raw.depth == 1 {
            self.has_laps = LAP;
        }
        let is_inside = |place: &usize| {
            self.waiting.get(*place).is_some_and(|(_, it)| is_inside(&it.kept, &timed.kept))
        };
        let inside = self.roots.iter().rev().take_while(|place| is_inside(place)).count();
        let outside = self.roots.len() - inside;
        let end_of = |place: &usize| self.waiting.get(*place).map(|(_, it)| it.ns[1]);
        let before = outside.checked_sub(1).and_then(|last| end_of(self.roots.get(last)?));
        let [start, _] = timed.ns;
        if start < self.until.max(before.unwrap_or(0)) {
            return Some(timed);
        }
        let place = self.waiting.len();
        let first = self.roots.get(outside).and_then(|root| self.waiting.get(*root));
        let first = first.map_or(place, |(first, _)| *first);
        self.roots.truncate(outside);
        self.roots.push(place);
        self.waiting.push((first, timed));
        None
    }

    /// Gives out the beginnings and ends up to the last outermost span. `each` also gets whether no other span is around it.
    pub(super) fn give_out(&mut self, each: impl FnMut(Edge, &Timed, bool)) {
        self.has_laps = self.has_laps.saturating_sub(1);
        let is_outermost = |place: &&usize| {
            self.waiting.get(**place).is_some_and(|(_, Timed { kept, .. })| {
                kept.raw.depth == 1 && (kept.raw.is_lap() || self.has_laps == 0)
            })
        };
        let last = self.roots.iter().rev().find(is_outermost).copied();
        let shallowest = || {
            let depth = |place: &usize| self.waiting.get(*place).map(|(_, it)| it.kept.raw.depth);
            // The last one of these.
            let place = self.roots.iter().rev().min_by_key(|place| depth(place)).copied();
            place.filter(|place| *place >= MOST / 2).unwrap_or(self.waiting.len())
        };
        let last = last.or_else(|| self.is_full().then(shallowest));
        self.give_out_to(last.map_or(0, |last| last + 1), each);
    }

    /// Gives out all.
    pub(super) fn give_out_all(&mut self, each: impl FnMut(Edge, &Timed, bool)) {
        self.give_out_to(self.waiting.len(), each);
    }

    /// Gives out the first records.
    fn give_out_to(&mut self, records: usize, mut each: impl FnMut(Edge, &Timed, bool)) {
        let rest = self.waiting.split_off(records.min(self.waiting.len()));
        let given = std::mem::replace(&mut self.waiting, rest);
        let records = given.len();
        // Spans begin in the place of the first one inside: those around first. Each ends in its own place.
        let mut begins: Vec<(usize, Reverse<usize>)> =
            given.iter().enumerate().map(|(place, (first, _))| (*first, Reverse(place))).collect();
        begins.sort_unstable();
        let mut begins = begins.into_iter().peekable();
        let is_root = |place: &usize| self.roots.binary_search(place).is_ok();
        for (place, (_, timed)) in given.iter().enumerate() {
            while let Some((_, Reverse(begun))) = begins.next_if(|(first, _)| *first == place) {
                let around = given.get(begun).into_iter();
                around.for_each(|(_, timed)| each(Edge::Begin, timed, is_root(&begun)));
            }
            each(Edge::End, timed, is_root(&place));
            self.until = self.until.max(timed.ns[1]);
        }
        self.waiting.iter_mut().for_each(|(first, _)| *first = first.saturating_sub(records));
        let roots = self.roots.drain(..).filter(|place| *place >= records);
        self.roots = roots.map(|place| place - records).collect();
    }
}
