//! A counter on several core types: one event on the PMU of each, and their sum.

// The handle keeps the first group itself, because most counters have no other. Here it is `first`.

use super::group::Group;
use super::reading::Reading;
use crate::error::access::Access;
use crate::error::{ReadError, SyscallReason};
use crate::kernel;
use crate::page::reader;
use crate::pmu::core_types;
use std::cell::Cell;

/// The time without a counter, in nanoseconds, up to which the cause need not be multiplexing.
const NEGLIGIBLE: u64 = 20_000;
/// The maximum number of retries of a reading if the kernel has updated a page.
const ROUNDS: u32 = 8;

/// The same event on the PMUs of the other core types.
#[derive(Debug)]
pub(crate) struct OtherCores {
    groups: Vec<Group<1>>,
    /// Whether user space can read all of them and the first.
    are_readable: bool,
    /// Whether they are pinned. A pinned event may be in error state, and its page does not tell.
    are_pinned: bool,
    /// The maximum total time, in nanoseconds, between the starts and stops of the first and the last of them.
    apart: Cell<u64>,
}

impl OtherCores {
    pub(crate) fn new(first: &Group<1>, groups: Vec<Group<1>>, are_pinned: bool) -> OtherCores {
        let are_readable =
            !are_pinned && first.is_readable() && groups.iter().all(Group::is_readable);
        OtherCores { groups, are_readable, are_pinned, apart: Cell::new(0) }
    }

    /// Returns the groups of all core types.
    pub(crate) fn each<'a>(&'a self, first: &'a Group<1>) -> impl Iterator<Item = &'a Group<1>> {
        std::iter::once(first).chain(&self.groups)
    }

    fn place_here(&self, first: &Group<1>) -> Option<usize> {
        core_types::current(self.each(first).filter_map(Group::pmu))
    }

    /// Returns the group of the core type that the thread is on.
    pub(crate) fn here<'a>(&'a self, first: &'a Group<1>) -> &'a Group<1> {
        let here = self.place_here(first).and_then(|place| self.each(first).nth(place));
        here.unwrap_or(first)
    }

    /// Returns the group of the core type that the thread is on, and drops the others.
    pub(crate) fn into_here(self, first: Group<1>) -> Group<1> {
        let other = self.place_here(&first).and_then(|place| place.checked_sub(1));
        other.and_then(|other| self.groups.into_iter().nth(other)).unwrap_or(first)
    }

    /// Returns the count, read by user space, and the sum of the pages' locks. None unless one of the groups has a counter
    /// now.
    pub(crate) fn sum<const ORDERED: bool>(&self, first: &Group<1>) -> Option<(u64, u32)> {
        if !self.are_readable {
            return None;
        }
        reader::sum::<ORDERED>(&first.reader, self.groups.iter().map(|group| &group.reader))
    }

    /// Reads in user space again: see [`Group::retry_user`].
    pub(crate) fn retry_user(&mut self, first: &mut Group<1>) -> Result<(), ReadError> {
        let ids = |first: &Group<1>, others: &[Group<1>]| -> Vec<u32> {
            std::iter::once(first).chain(others).map(|group| group.reader.id()).collect()
        };
        let before = ids(first, &self.groups);
        let mut result = Ok(());
        for group in std::iter::once(&mut *first).chain(&mut self.groups) {
            result = result.and(group.retry_user().map(drop));
        }
        if ids(first, &self.groups) != before {
            // Snapshots of the sum have the first group's number.
            first.reader.renumber();
        }
        result
    }

    /// Whether a system call for each group is cheaper than user space, or was requested.
    pub(crate) fn prefer_system_call(&self, first: &Group<1>) -> bool {
        self.each(first).any(|group| group.is_readable() && group.view_of_read().is_none())
    }

    /// Returns the sum of the groups' readings. The group that is counting is read last. Its enabled time then is the
    /// running time of all, except for the delays between the groups' starts and stops.
    pub(crate) fn reading(&self, first: &Group<1>) -> Result<Reading, ReadError> {
        let locks = || reader::locks_of(self.each(first).map(|group| &group.reader));
        let mut rounds = 0..ROUNDS;
        loop {
            let before = locks();
            let mut sum = Reading { value: 0, time_enabled: 0, time_running: 0 };
            // Each group is read once, even if the thread or an event moves.
            let counting = self.each(first).position(|group| group.reader.is_scheduled());
            let last = counting.or_else(|| self.place_here(first)).unwrap_or(0);
            let earlier = self.each(first).enumerate().filter(|(place, _)| *place != last);
            for group in earlier.map(|(_, group)| group).chain(self.each(first).nth(last)) {
                let [part] = group.reading_by_system_call()?;
                sum.value = sum.value.wrapping_add(part.value);
                sum.time_enabled = part.time_enabled;
                sum.time_running = sum.time_running.saturating_add(part.time_running);
            }
            // The running time cannot exceed the enabled time. It may be less by up to `apart`.
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

    /// Applies `what` to all groups, and adds the time that this took to `apart`.
    pub(crate) fn with_each(
        &self,
        first: &Group<1>,
        what: fn(&Group<1>) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let now = || kernel::monotonic_raw(true);
        let start = now();
        // All groups, even if one fails.
        let mut result = Ok(());
        for group in self.each(first) {
            result = result.and(what(group));
        }
        // Without a clock, the time is unknown.
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

    /// Returns the access, as [`Group::access_in_memory`] does.
    pub(crate) fn access_in_memory(&self, first: &Group<1>) -> Access {
        let here = self.each(first).find(|group| group.reader.is_scheduled()).unwrap_or(first);
        self.access_by(first, here, Group::access_in_memory)
    }

    /// Returns the access of the sum, by that of each group and of the group that counts `here`.
    fn access_by(
        &self,
        first: &Group<1>,
        here: &Group<1>,
        access: fn(&Group<1>) -> Access,
    ) -> Access {
        // A group that can never be read prevents reading the sum.
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
