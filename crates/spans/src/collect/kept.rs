//! A record with its thread, as it is kept.

use crate::collect::Meta;
use crate::counting::Level1;
use crate::record::{Details, Faults, Flags, Lost, Polls, Raw};
use rdpmc::Event;
use std::sync::Arc;

/// A record with its thread.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) thread: Arc<Meta>,
    pub(crate) raw: Raw,
    /// What else is known of it. Few records have any, so it does not make the others larger.
    details: Option<Box<Details>>,
}

impl Kept {
    pub(crate) fn new(thread: Arc<Meta>, raw: Raw, details: Details) -> Kept {
        let details = (details != Details::default()).then(|| Box::new(details));
        Kept { thread, raw, details }
    }

    /// Returns what else is known of it.
    #[cfg(test)]
    pub(crate) fn details(&self) -> Details {
        self.details.as_deref().copied().unwrap_or_default()
    }

    /// Returns the program's number of the span.
    pub(crate) fn number(&self) -> Option<u64> {
        self.details.as_ref()?.number
    }

    /// Returns the time in which its thread was not on a CPU. None if it is not known. Without a switch, it is zero.
    pub(crate) fn lost(&self) -> Option<Lost> {
        if self.raw.is_recorded_time() {
            return None;
        }
        match self.details.as_ref().and_then(|details| details.lost) {
            None if self.thread.counted.knows_causes && !self.has(Flags::DISTURBED) => {
                Some(Lost { off_cpu: Some(0), runnable: Some(0) })
            }
            lost => lost,
        }
    }

    /// Returns the polls, if it is the whole time of a future.
    pub(crate) fn polls(&self) -> Option<Polls> {
        self.details.as_ref()?.polls
    }

    /// Returns how many spans in a recorded time its thread has not kept.
    pub(crate) fn not_kept(&self) -> u64 {
        self.details.as_ref().map_or(0, |details| details.not_kept)
    }

    /// Returns its page faults. None if they were not counted.
    pub(crate) fn faults(&self) -> Option<Faults> {
        self.details.as_ref()?.faults
    }

    /// Whether it is inside `root` by its depth and its ticks, on the same thread. Where the clock is coarse, spans that follow
    /// each other within a tick look as if one were inside the other: see `inside`.
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

    /// Whether all records before this one, in the order in which spans end, are outside of `root`, which ended later.
    fn is_before_all_inside(&self, root: &Kept) -> bool {
        let [[_, end], [root_start, _]] = [self.raw.ticks, root.raw.ticks];
        // Recorded times are in no span, and spans of several outermost ones may be in them.
        if root.raw.is_recorded_time() {
            return end < root_start;
        }
        if self.raw.is_recorded_time() {
            return false;
        }
        if self.has(Flags::OUT_OF_ORDER) || root.has(Flags::OUT_OF_ORDER) {
            return false; // then the order does not tell
        }
        match root.raw.is_lap() {
            false => self.raw.depth <= root.raw.depth,
            true if self.raw.is_lap() => self.raw.depth <= root.raw.depth && end <= root_start,
            true => self.raw.depth < root.raw.depth,
        }
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

/// Returns the records inside `root`, in the order in which they ended. `earlier` are those of its thread that ended before it, the
/// latest first.
pub(crate) fn inside<'a>(earlier: impl Iterator<Item = &'a Kept>, root: &Kept) -> Vec<&'a Kept> {
    let earlier = earlier.take_while(|kept| !kept.is_before_all_inside(root));
    let mut inside: Vec<&Kept> = earlier.filter(|kept| kept.is_inside(root)).collect();
    inside.reverse();
    inside
}
