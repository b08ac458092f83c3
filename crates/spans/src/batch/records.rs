//! Records in the order in which they ended, which several intervals share.

use crate::collect::Kept;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// The most records of a chunk: what is copied if a record comes late.
const CHUNK: usize = 1_024;

/// Records in the order in which they ended: those of threads with the recording's clock, and then those of others, whose ticks are
/// of another unit. A clone shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    own: Ordered,
    others: Ordered,
}

/// Records of one clock.
#[derive(Clone, Debug, Default)]
struct Ordered {
    chunks: VecDeque<Chunk>,
    /// The number of records before the first chunk, since the beginning.
    before: u64,
    /// The number of records that were forgotten, since the beginning: those before the first chunk, and some of it.
    forgotten: u64,
}

/// Some records, at least one.
#[derive(Clone, Debug)]
struct Chunk {
    records: Arc<Vec<Kept>>,
    /// The number of records before the next chunk, since the beginning.
    end: u64,
}

impl Records {
    /// Returns these records, in this order.
    #[cfg(test)]
    pub(crate) fn new(records: Vec<Kept>) -> Records {
        let mut own = Ordered::default();
        own.extend(records);
        Records { own, others: Ordered::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.own.len() + self.others.len()
    }

    fn get(&self, place: usize) -> Option<&Kept> {
        let of_own = self.own.len();
        if place < of_own { self.own.get(place) } else { self.others.get(place - of_own) }
    }

    pub(crate) fn iter(&self) -> Iter<'_> {
        Iter { records: self, places: 0..self.len() }
    }

    /// Returns the records of this one's clock that ended no earlier.
    pub(crate) fn since(&self, kept: &Kept, ticks: u64) -> Iter<'_> {
        let (of, places) = self.places_of_clock(kept);
        let first = of.partition_point(|kept| end_of(kept) < ticks);
        Iter { records: self, places: places.start + first..places.end }
    }

    /// Returns the records of this one's clock that ended no later.
    pub(crate) fn until(&self, kept: &Kept, ticks: u64) -> Iter<'_> {
        let (of, places) = self.places_of_clock(kept);
        let end = of.partition_point(|kept| end_of(kept) <= ticks);
        Iter { records: self, places: places.start..places.start + end }
    }

    fn places_of_clock(&self, kept: &Kept) -> (&Ordered, Range<usize>) {
        let of_own = self.own.len();
        let has_tick_counter = kept.thread.has_tick_counter();
        match self.own.get(0).is_some_and(|it| it.thread.has_tick_counter() == has_tick_counter) {
            true => (&self.own, 0..of_own),
            false => (&self.others, of_own..self.len()),
        }
    }

    /// Adds records in any order. Those of one thread stay in theirs. `is_ticks`: whether the recording's clock is a tick counter.
    pub(crate) fn add(&mut self, more: Vec<Kept>, is_ticks: bool) {
        let (own, others): (Vec<Kept>, Vec<Kept>) =
            more.into_iter().partition(|kept| kept.thread.has_tick_counter() == is_ticks);
        self.own.add(own);
        self.others.add(others);
    }

    /// Adds those of a later interval.
    pub(crate) fn append(&mut self, later: &Records, is_ticks: bool) {
        self.add(later.iter().cloned().collect(), is_ticks);
    }

    /// Forgets all but the latest ones, and returns how many these are.
    pub(crate) fn keep_latest(&mut self, most: usize) -> u64 {
        // Few threads have another clock.
        let forgotten = self.others.keep_latest(most / 4);
        forgotten + self.own.keep_latest(most - self.others.len())
    }
}

impl Ordered {
    fn len(&self) -> usize {
        (self.end() - self.forgotten) as usize
    }

    fn end(&self) -> u64 {
        self.chunks.back().map_or(self.before, |chunk| chunk.end)
    }

    fn get(&self, place: usize) -> Option<&Kept> {
        let at = self.forgotten + place as u64;
        let chunk = self.chunks.get(self.chunks.partition_point(|chunk| chunk.end <= at))?;
        let first = chunk.end - chunk.records.len() as u64;
        chunk.records.get(usize::try_from(at - first).ok()?)
    }

    /// Returns the number of records at the beginning for which this holds. It holds for none after the first for which it does not.
    fn partition_point(&self, holds: impl Fn(&Kept) -> bool) -> usize {
        let [mut low, mut high] = [0, self.len()];
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).is_some_and(&holds) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// Adds records in any order. Those of one thread stay in theirs.
    fn add(&mut self, mut more: Vec<Kept>) {
        more.sort_by_key(end_of);
        let Some(first) = more.first().map(end_of) else { return };
        // A thread that was collected before another one may have records that ended later.
        let mut late: VecDeque<Kept> = VecDeque::new();
        while self.last().is_some_and(|last| end_of(last) > first) {
            late.extend(self.pop());
        }
        if !late.is_empty() {
            // The earlier ones first, so that those of one tick stay in their order.
            late.make_contiguous().reverse();
            late.extend(more);
            more = late.into();
            more.sort_by_key(end_of);
        }
        self.extend(more);
    }

    fn last(&self) -> Option<&Kept> {
        self.len().checked_sub(1).and_then(|last| self.get(last))
    }

    fn pop(&mut self) -> Option<Kept> {
        if self.len() == 0 {
            return None;
        }
        let chunk = self.chunks.back_mut()?;
        // Copied if an interval shares it.
        let last = Arc::make_mut(&mut chunk.records).pop();
        chunk.end -= 1;
        if chunk.records.is_empty() {
            self.chunks.pop_back();
        }
        last
    }

    /// Adds records at the end.
    fn extend(&mut self, more: Vec<Kept>) {
        let mut more = more.into_iter().peekable();
        let chunk = self.chunks.back_mut().filter(|chunk| chunk.records.len() < CHUNK);
        if let (Some(chunk), true) = (chunk, more.peek().is_some()) {
            // Copied if an interval shares it: many small chunks would take more.
            let records = Arc::make_mut(&mut chunk.records);
            let before = records.len();
            records.extend(more.by_ref().take(CHUNK - before));
            chunk.end += (records.len() - before) as u64;
        }
        while more.peek().is_some() {
            let records: Vec<Kept> = more.by_ref().take(CHUNK).collect();
            let end = self.end() + records.len() as u64;
            self.chunks.push_back(Chunk { records: Arc::new(records), end });
        }
    }

    /// Forgets all but the latest ones, and returns how many these are.
    fn keep_latest(&mut self, most: usize) -> u64 {
        let too_many = self.len().saturating_sub(most);
        self.forgotten += too_many as u64;
        while let Some(chunk) = self.chunks.front().filter(|chunk| chunk.end <= self.forgotten) {
            self.before = chunk.end;
            self.chunks.pop_front();
        }
        too_many as u64
    }
}

fn end_of(kept: &Kept) -> u64 {
    kept.raw.ticks[1]
}

/// Records, in order.
#[derive(Clone, Debug)]
pub(crate) struct Iter<'a> {
    records: &'a Records,
    places: Range<usize>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Kept;

    fn next(&mut self) -> Option<&'a Kept> {
        self.places.next().and_then(|place| self.records.get(place))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.places.next_back().and_then(|place| self.records.get(place))
    }
}

impl ExactSizeIterator for Iter<'_> {}
