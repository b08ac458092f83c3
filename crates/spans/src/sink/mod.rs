//! Where a finished span goes: into a ring or into histograms.
#![allow(unsafe_code)]

mod barrier;
mod costs;
mod handover;
mod histograms;
mod recorder;
mod ring;
mod slow_spans;

pub(crate) use barrier::{allow_barriers, barrier};
pub(crate) use costs::Costs;
pub(crate) use handover::Handover;
pub(crate) use histograms::{Published, Shape};
pub(crate) use recorder::Recorder;
pub(crate) use ring::{Reader, Ring, Writer};
pub(crate) use slow_spans::{IntervalNumber, Limits, RECORDS as TREE_RECORDS, Trees};

use crate::record::{Companion, Details, FLAGS_SHIFT, Flags, HEAD, OUTERMOST, Site, address};
use std::cell::Cell;

/// Where a thread's records go.
#[derive(Debug)]
pub(crate) struct Sink {
    ring: Writer,
    /// In place of the ring, which has the record on its way there.
    histograms: Option<Recorder>,
    /// With histograms: the slow spans.
    trees: Option<Trees>,
    /// How often `advance` was called.
    advanced: Cell<u32>,
}

impl Sink {
    pub(crate) fn ring(ring: Writer) -> Sink {
        Sink { ring, histograms: None, trees: None, advanced: Cell::new(0) }
    }

    /// Records in histograms, and slow spans in `trees`. Returns the reader of the number of dropped records.
    pub(crate) fn histograms(recorder: Recorder, trees: Option<Trees>) -> (Sink, Reader) {
        let (ring, reader) = Ring::pair(1, recorder.events());
        ring.to_scratch();
        (Sink { ring, histograms: Some(recorder), trees, advanced: Cell::new(0) }, reader)
    }

    /// Records a span. Returns true if the caller has to call `advance` next.
    ///
    /// # Safety
    /// The sink was made for `N` counts. `head` is that of a record, with addresses of statics. The thread is not in here: a
    /// signal handler or the allocator, which may interrupt this, does not call it.
    #[inline(always)]
    #[must_use]
    pub(crate) unsafe fn write<const N: usize>(&self, head: [u64; HEAD], counts: [u64; N]) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.ring.write(head, counts) }
    }

    /// Finds the ring's next slot, or records in histograms.
    ///
    /// # Safety
    /// As `write`, which has just returned true.
    pub(crate) unsafe fn advance(&self) {
        self.advanced.set(self.advanced.get().wrapping_add(1));
        match &self.histograms {
            None => self.ring.advance(),
            // SAFETY: the scratch record is written, with the addresses of statics. This is not called in here.
            Some(histograms) => unsafe {
                let words = self.ring.take_scratch();
                histograms.record(words);
                if let Some(trees) = &self.trees {
                    trees.see(words);
                }
            },
        }
    }

    /// Records a time that the program recorded, with what else is known of it. All get room, or the time is dropped.
    ///
    /// # Safety
    /// As `write`.
    pub(crate) unsafe fn write_time<const N: usize>(
        &self,
        site: &'static Site,
        [start, end]: [u64; 2],
        details: Details,
    ) {
        let flags = if N == 0 { Flags::NONE } else { Flags::NOT_COUNTED };
        let last = OUTERMOST | u64::from(flags.bits()) << FLAGS_SHIFT;
        let head = [address(site), 0, start, end, last];
        let companions = Companion::of_time(details).into_iter().flatten();
        let companions = companions.map(|companion| companion.head(start, last));
        if let Some(histograms) = &self.histograms {
            // SAFETY: the caller's promise.
            unsafe { histograms.record_time(site, [start, end], details.polls) };
            if let Some(trees) = &self.trees {
                // SAFETY: the caller's promise.
                unsafe { trees.see_time(head, companions) };
            }
            return;
        }
        let records = companions.clone().count() + 1;
        if records > 1 && !self.ring.has_room(records) {
            return self.ring.drop_one();
        }
        for head in companions.chain([head]) {
            // SAFETY: the caller's promise.
            if unsafe { self.ring.write(head, [0; N]) } {
                self.ring.advance();
            }
        }
    }

    /// Whether the next two records both have room.
    #[inline]
    pub(crate) fn has_room_for_two(&self) -> bool {
        self.histograms.is_some() || self.ring.has_room_for_two()
    }

    /// Has the next record dropped and counted, because a companion of it found no room.
    pub(crate) fn refuse_next(&self) {
        self.ring.refuse_next();
    }

    /// Returns something that changes with each record.
    pub(crate) fn progress(&self) -> (usize, u32) {
        (self.ring.place(), self.advanced.get())
    }

    /// Counts a record that was not written.
    pub(crate) fn drop_one(&self) {
        self.trees.as_ref().map_or(&self.ring, Trees::ring).drop_one();
    }

    /// Begins a lap of this depth, which is not the next one of another.
    pub(crate) fn begin_lap(&self, depth: u16) {
        self.histograms.iter().for_each(|histograms| histograms.begin_lap(depth));
    }

    /// Has these costs subtracted from the counts, if the reader does not do it.
    pub(crate) fn set_costs(&self, costs: Costs) {
        self.histograms.iter().for_each(|histograms| histograms.set_costs(costs));
    }

    /// Allocates what a site's first span would.
    ///
    /// # Safety
    /// As `write`.
    pub(crate) unsafe fn prepare(&self, site: &'static Site) {
        // SAFETY: the caller's promise.
        self.histograms.iter().for_each(|histograms| unsafe { histograms.prepare(site) });
    }
}
