//! The slow spans of a thread that records in histograms: each with the spans inside it, into a ring.
#![allow(unsafe_code)]

// A thread keeps the records since its last outermost span ended. When the next one ends, they go to the ring if it is slow,
// and are forgotten if not.

use crate::record::{
    Companion, HEAD, LEFT_OUT, MAX_WORDS, OUTERMOST, address, depth_of, site_at, ticks_between,
};
use crate::sink::{Ring, Writer};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The most records that are kept of the spans inside an outermost one. The latest ones are left out, and counted.
const MAX_INNER: usize = 1_024;
/// The most further records of spans over their limits.
const OVER: usize = 64;
/// The most companions of a span.
const COMPANIONS: usize = 3;
/// The records of the ring.
pub(crate) const RECORDS: usize = 4 * MAX_INNER;

/// Which spans are slow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    /// The number of slowest outermost spans of each interval.
    pub(crate) slowest: usize,
    /// The names of spans, and their limits in ticks.
    pub(crate) over: Vec<(String, u64)>,
}

/// The number of the interval, which the reader changes.
pub(crate) type IntervalNumber = Arc<AtomicU32>;

#[derive(Debug)]
pub(crate) struct Trees {
    limits: Limits,
    /// The least of the limits, in ticks.
    least: u64,
    /// Those since the last outermost span ended, or before the last one did, if none has come since then.
    records: RefCell<Vec<[u64; MAX_WORDS]>>,
    is_slow: Cell<bool>,
    /// Whether the last of the records is an outermost span.
    is_complete: Cell<bool>,
    /// How many of the records are in the ring: all if the outermost span is slow, or some before a recorded time.
    written: Cell<usize>,
    /// How many records there were before these, and the ticks at which the last of them ended.
    before: Cell<(u64, u64)>,
    /// Whether the latest in the ring are some of an outermost span that was not slow.
    has_remains: Cell<bool>,
    /// The number of those that are left out.
    left_out: Cell<u64>,
    /// How many of the records, at their end, are companions of the span that ends next.
    companions: Cell<usize>,
    /// The times of the slowest spans of the interval, the least of them first.
    slowest: RefCell<Vec<u64>>,
    interval: IntervalNumber,
    /// The interval of `slowest`.
    seen: Cell<u32>,
    ring: Writer,
    counts: usize,
}

impl Trees {
    /// The ring has records of `counts` counts.
    pub(crate) fn new(
        limits: Limits,
        interval: IntervalNumber,
        ring: Writer,
        counts: usize,
    ) -> Trees {
        Trees {
            least: limits.over.iter().map(|(_, limit)| *limit).min().unwrap_or(u64::MAX),
            records: RefCell::new(Vec::with_capacity(MAX_INNER + OVER + 2 * COMPANIONS + 1)),
            is_slow: Cell::new(false),
            is_complete: Cell::new(false),
            written: Cell::new(0),
            before: Cell::new((0, 0)),
            has_remains: Cell::new(false),
            left_out: Cell::new(0),
            companions: Cell::new(0),
            slowest: RefCell::new(Vec::with_capacity(limits.slowest + 1)),
            seen: Cell::new(interval.load(Ordering::Relaxed)),
            limits,
            interval,
            ring,
            counts,
        }
    }

    /// Returns one that does as much work, and finds no span slow.
    pub(crate) fn idle(interval: IntervalNumber, counts: usize) -> Trees {
        let (ring, _) = Ring::pair(1, counts);
        Trees::new(Limits::default(), interval, ring, counts)
    }

    pub(super) fn ring(&self) -> &Writer {
        &self.ring
    }

    /// Sees the words of a record.
    ///
    /// # Safety
    /// As `Recorder::record`.
    pub(super) unsafe fn see(&self, words: &[u64]) {
        let Ok(mut records) = self.records.try_borrow_mut() else { return };
        if self.is_complete.take() {
            let (left_out, written) = (self.left_out.take(), self.written.take());
            let is_part = (1..records.len()).contains(&written);
            self.has_remains.set(self.has_remains.get() || is_part);
            let end = records.last().map_or(0, |[_, _, _, end, ..]| *end);
            // Those that are in the ring are kept.
            let kept = if written == records.len() { written as u64 } else { 0 };
            self.before.set((records.len() as u64 + left_out - kept, end));
            records.clear();
        }
        let Some(&[site, _, start, end, last]) = words.first_chunk::<HEAD>() else { return };
        let mut record = [0; MAX_WORDS];
        record.iter_mut().zip(words).for_each(|(to, word)| *to = *word);
        if Companion::decode(words).is_some() {
            // Those of a span that was never recorded stay for the next one, up to this many.
            if self.companions.get() < COMPANIONS {
                records.push(record);
                self.companions.set(self.companions.get() + 1);
            }
            return;
        }
        let companions = self.companions.take();
        let time = ticks_between(start, end);
        // SAFETY: the caller's promise.
        let is_over = unsafe { self.is_over(site, time) };
        self.is_slow.set(self.is_slow.get() || is_over);
        // There is always room for the outermost span and its companions.
        let is_outermost = depth_of(last) == 1;
        let room = match (is_outermost, is_over) {
            (true, _) => usize::MAX,
            (false, true) => MAX_INNER + OVER,
            (false, false) => MAX_INNER,
        };
        if records.len() < room {
            records.push(record);
        } else {
            let without = records.len() - companions;
            records.truncate(without);
            self.left_out.set(self.left_out.get().wrapping_add(1));
        }
        if is_outermost {
            if self.is_slow.take() | self.is_slowest(time) {
                // The reader is told how many are left out before the first one.
                if self.left_out.get() > 0 {
                    self.written.set(0);
                    self.has_remains.set(true);
                }
                // All or nothing: a part would be taken for what ran in the next one.
                match self.ring.has_room(records.len() + 1) {
                    true => self.write_up_to(&records, start),
                    false => self.ring.refuse_tree(),
                }
            }
            self.is_complete.set(true);
        }
    }

    /// Whether a span or time of this site and length is over its limit.
    ///
    /// # Safety
    /// As `see`.
    unsafe fn is_over(&self, site: u64, time: u64) -> bool {
        if time <= self.least {
            return false;
        }
        // SAFETY: the caller's promise.
        let name = unsafe { site_at(site) }.map(|site| site.name());
        self.limits.over.iter().any(|(of, limit)| Some(of.as_str()) == name && time > *limit)
    }

    /// Sees the head of a recorded time, and those of its companions. If it is over its limit, it is written after what has ended in the
    /// outermost span that is open, or in the last one.
    ///
    /// # Safety
    /// As `see`.
    pub(super) unsafe fn see_time(
        &self,
        head: [u64; HEAD],
        companions: impl Iterator<Item = [u64; HEAD]>,
    ) {
        let Ok(records) = self.records.try_borrow() else { return };
        let [site, _, start, end, last] = head;
        // SAFETY: the caller's promise.
        if !unsafe { self.is_over(site, ticks_between(start, end)) } {
            return;
        }
        // Companions of the span that ends next come with it.
        let pending = if self.is_complete.get() { 0 } else { self.companions.get() };
        let ended = records.get(..records.len() - pending).unwrap_or_default();
        let (before, end_before) = self.before.get();
        // What ended in the last outermost span is forgotten when the next one has begun to record.
        let is_before = !self.is_complete.get() && !records.is_empty() && start < end_before;
        let not_kept = self.left_out.get() + if is_before { before } else { 0 };
        let not_kept = (not_kept > 0).then(|| Companion::NotKept(not_kept).head(start, last));
        match self.ring.has_room(ended.len().saturating_sub(self.written.get()) + 2 + COMPANIONS) {
            true => {
                self.write_up_to(ended, 0);
                for head in companions.chain(not_kept).chain([head]) {
                    self.write_head(head);
                }
            }
            false => self.ring.refuse_tree(),
        }
    }

    /// Writes those of these records that are not in the ring. Those of an outermost span that began at `start`: no span if that is 0.
    fn write_up_to(&self, records: &[[u64; MAX_WORDS]], start: u64) {
        if self.written.get() == 0 && self.has_remains.take() {
            let left_out = if start == 0 { 0 } else { self.left_out.get() };
            self.write_head([address(&LEFT_OUT), 0, left_out, start, OUTERMOST]);
        }
        let new = records.get(self.written.get()..).unwrap_or_default();
        new.iter().for_each(|record| self.write(record));
        self.written.set(records.len());
    }

    fn write_head(&self, head: [u64; HEAD]) {
        let mut record = [0; MAX_WORDS];
        record.iter_mut().zip(head).for_each(|(to, word)| *to = word);
        self.write(&record);
    }

    /// Whether this is one of the slowest of the interval so far.
    fn is_slowest(&self, time: u64) -> bool {
        let Ok(mut slowest) = self.slowest.try_borrow_mut() else { return false };
        let now = self.interval.load(Ordering::Relaxed);
        if self.seen.replace(now) != now {
            slowest.clear();
        }
        let is_full = slowest.len() >= self.limits.slowest;
        if self.limits.slowest == 0
            || is_full && slowest.first().is_some_and(|least| *least >= time)
        {
            return false;
        }
        if is_full {
            slowest.remove(0);
        }
        let place = slowest.partition_point(|known| *known < time);
        slowest.insert(place, time);
        true
    }

    fn write(&self, record: &[u64; MAX_WORDS]) {
        fn write<const N: usize>(ring: &Writer, record: &[u64; MAX_WORDS]) {
            let (Some(head), Some(counts)) = (
                record.first_chunk::<HEAD>(),
                record.get(HEAD..).and_then(<[u64]>::first_chunk::<N>),
            ) else {
                return;
            };
            // SAFETY: `Trees::write` calls this for the ring's number of counts. The record has a site.
            if unsafe { ring.write(*head, *counts) } {
                ring.advance();
            }
        }
        let write = match self.counts {
            0 => write::<0>,
            1 => write::<1>,
            2 => write::<2>,
            3 => write::<3>,
            4 => write::<4>,
            5 => write::<5>,
            6 => write::<6>,
            7 => write::<7>,
            _ => write::<8>,
        };
        write(&self.ring, record);
    }
}
