//! A record with its thread, as it is kept.

use crate::collect::Meta;
use crate::counting::Level1;
use crate::record::{Flags, Raw};
use rdpmc::Event;
use std::sync::Arc;

/// A record with its thread.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) thread: Arc<Meta>,
    pub(crate) raw: Raw,
    /// The program's number of the span.
    pub(crate) number: Option<u64>,
}

impl Kept {
    /// Whether it ended inside `root`, on the same thread.
    pub(crate) fn is_inside(&self, root: &Kept) -> bool {
        let [start, end] = self.raw.ticks;
        let [root_start, root_end] = root.raw.ticks;
        // A lap has the depth of the spans in it. Laps of one loop do not overlap.
        let is_deeper = match root.raw.is_lap() && !self.raw.is_lap() {
            true => self.raw.depth >= root.raw.depth,
            false => self.raw.depth > root.raw.depth,
        };
        is_deeper && start >= root_start && end <= root_end
    }

    /// Whether it is on another thread, and overlaps `root`. False if their clocks differ, which leaves it unknown.
    pub(crate) fn is_beside(&self, root: &Kept) -> bool {
        let [start, end] = self.raw.ticks;
        let [root_start, root_end] = root.raw.ticks;
        self.thread.number != root.thread.number
            && self.thread.has_tick_counter() == root.thread.has_tick_counter()
            && start < root_end
            && end > root_start
    }

    pub(crate) fn has(&self, flag: Flags) -> bool {
        self.raw.flags.contains(flag)
    }

    /// Returns the count of an event. None if it was not counted.
    pub(crate) fn count(&self, event: Event) -> Option<u64> {
        let mut counted = self.thread.counted.events.iter().zip(self.raw.counts);
        let found = counted.find(|(counted, _)| **counted == event);
        found.filter(|_| self.raw.is_counted()).map(|(_, count)| count)
    }

    /// Returns where the pipeline slots went. None if they were not counted.
    pub(crate) fn level1(&self) -> Option<Level1> {
        let counted = &self.thread.counted;
        self.raw.is_counted().then(|| counted.level1(&self.raw.counts))?
    }

    /// Returns the instructions per cycle. None if they, or cycles, were not counted.
    pub(crate) fn ipc(&self) -> Option<f64> {
        let instructions = self.count(Event::INSTRUCTIONS)?;
        let cycles = self.count(Event::CYCLES)?;
        (cycles > 0).then(|| instructions as f64 / cycles as f64)
    }
}
