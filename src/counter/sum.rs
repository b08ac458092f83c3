//! A counter on several core types: one event on the PMU of each, and their sum.
//!
//! The handle keeps the first of them itself, as most counters have no other; here it is `first`.

use super::group::Group;
use super::reading::Reading;
use crate::error::access::Access;
use crate::error::{ReadError, SyscallReason};
use crate::kernel;
use crate::page::reader;
use crate::pmu::core_types;
use std::cell::Cell;

/// Nanoseconds without a counter that need not be multiplexing.
const NEGLIGIBLE: u64 = 20_000;
/// How often the parts of a sum are read anew if the kernel has moved one meanwhile.
const ROUNDS: u32 = 8;

/// The same event on the PMUs of the other core types.
#[derive(Debug)]
pub(crate) struct OtherCores {
    groups: Vec<Group<1>>,
    /// Whether user space reads all of them, and the first.
    are_readable: bool,
    /// Then one may be in error state, and its page does not say so.
    are_pinned: bool,
    /// Nanoseconds by which they were started and stopped at different times, at the most.
    apart: Cell<u64>,
}

impl OtherCores {
    pub(crate) fn new(first: &Group<1>, groups: Vec<Group<1>>, are_pinned: bool) -> OtherCores {
        let are_readable =
            !are_pinned && first.is_readable() && groups.iter().all(Group::is_readable);
        OtherCores { groups, are_readable, are_pinned, apart: Cell::new(0) }
    }

    /// Of all core types.
    pub(crate) fn each<'a>(&'a self, first: &'a Group<1>) -> impl Iterator<Item = &'a Group<1>> {
        std::iter::once(first).chain(&self.groups)
    }

    fn place_here(&self, first: &Group<1>) -> Option<usize> {
        core_types::current(self.each(first).filter_map(Group::pmu))
    }

    /// The group of the core type that the thread is on.
    pub(crate) fn here<'a>(&'a self, first: &'a Group<1>) -> &'a Group<1> {
        let here = self.place_here(first).and_then(|place| self.each(first).nth(place));
        here.unwrap_or(first)
    }

    /// The same, and nothing else.
    pub(crate) fn into_here(self, first: Group<1>) -> Group<1> {
        let other = self.place_here(&first).and_then(|place| place.checked_sub(1));
        other.and_then(|other| self.groups.into_iter().nth(other)).unwrap_or(first)
    }

    /// The count by user space, where one of them has a counter at this moment.
    pub(crate) fn sum<const ORDERED: bool>(&self, first: &Group<1>) -> Option<u64> {
        if !self.are_readable {
            return None;
        }
        reader::sum::<ORDERED>(&first.reader, self.groups.iter().map(|group| &group.reader))
    }

    /// The one that is counting is read last: what it was enabled until then is what all have been
    /// running, but for the moments between starting or stopping one and the next.
    pub(crate) fn reading(&self, first: &Group<1>) -> Result<Reading, ReadError> {
        let locks = || reader::locks_of(self.each(first).map(|group| &group.reader));
        let mut rounds = 0..ROUNDS;
        loop {
            let before = locks();
            let mut sum = Reading { value: 0, time_enabled: 0, time_running: 0 };
            // Each once, whatever moves meanwhile.
            let counting = self.each(first).position(|group| group.reader.is_scheduled());
            let last = counting.or_else(|| self.place_here(first)).unwrap_or(0);
            let earlier = self.each(first).enumerate().filter(|(place, _)| *place != last);
            for group in earlier.map(|(_, group)| group).chain(self.each(first).nth(last)) {
                let [part] = group.reading_by_system_call()?;
                sum.value = sum.value.wrapping_add(part.value);
                sum.time_enabled = part.time_enabled;
                sum.time_running = sum.time_running.saturating_add(part.time_running);
            }
            // More than enabled it cannot have been running; less, as far as they are apart.
            let missing = sum.time_enabled.saturating_sub(sum.time_running);
            let most = NEGLIGIBLE.max(sum.time_enabled / 1024);
            if missing <= self.apart.get().min(most) {
                sum.time_running = sum.time_enabled;
            }
            if locks() == before || rounds.next().is_none() {
                return Ok(sum);
            }
        }
    }

    /// Does the same with all of them, and notes how long it took: so far apart are they.
    pub(crate) fn with_each(
        &self,
        first: &Group<1>,
        what: fn(&Group<1>) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let now = || kernel::monotonic_raw(true);
        let start = now();
        // All of them, whatever becomes of one.
        let mut result = Ok(());
        for group in self.each(first) {
            result = result.and(what(group));
        }
        // Without a clock it may have taken any time.
        let apart = match (start, now()) {
            (Ok(start), Ok(end)) => end.saturating_sub(start),
            _ => u64::MAX,
        };
        self.apart.set(self.apart.get().saturating_add(apart));
        result
    }

    pub(crate) fn access(&self, first: &Group<1>) -> Access {
        self.access_by(first, self.here(first), Group::access)
    }

    /// As [`Group::access_in_memory`].
    pub(crate) fn access_in_memory(&self, first: &Group<1>) -> Access {
        let here = self.each(first).find(|group| group.reader.is_scheduled()).unwrap_or(first);
        self.access_by(first, here, Group::access_in_memory)
    }

    /// By the access of each, and of the one that counts `here`.
    fn access_by(
        &self,
        first: &Group<1>,
        here: &Group<1>,
        access: fn(&Group<1>) -> Access,
    ) -> Access {
        // One that never can be read keeps the sum from being read.
        let never = |access: &Access| {
            let later = Access::SystemCall(SyscallReason::NotScheduled);
            !matches!(access, Access::UserSpace) && *access != later
        };
        match self.each(first).map(access).find(never) {
            Some(access) => access,
            None if self.are_pinned => Access::SystemCall(SyscallReason::PinnedOnSeveralTypes),
            None => access(here),
        }
    }
}
