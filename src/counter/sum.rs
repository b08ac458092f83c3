//! A counter on several core types: one event on the PMU of each, and their sum.

use super::group::Group;
use super::reading::Reading;
use crate::error::access::Access;
use crate::error::{ReadError, SyscallReason};
use crate::event::Event;
use crate::kernel;
use crate::page::reader::{self, Reader};
use crate::pmu::core_types;
use std::cell::Cell;

/// The time without a counter, in nanoseconds, up to which the cause need not be multiplexing.
const NEGLIGIBLE: u64 = 20_000;
/// The maximum number of retries of a reading if the kernel has updated a page.
const ROUNDS: u32 = 8;

/// The same event on the PMU of each core type.
#[derive(Debug)]
pub(crate) struct Sum {
    /// As it was requested: those of the groups name their PMU.
    event: Event,
    first: Group<1>,
    others: Vec<Group<1>>,
    /// Whether user space can read all of them.
    are_readable: bool,
    /// Whether they are pinned. A pinned event may be in error state, and its page does not tell.
    are_pinned: bool,
    /// The maximum total time, in nanoseconds, between the starts and stops of the first and the last of them.
    apart: Cell<u64>,
}

impl Sum {
    pub(crate) fn new(
        event: Event,
        first: Group<1>,
        others: Vec<Group<1>>,
        are_pinned: bool,
    ) -> Sum {
        let are_readable =
            !are_pinned && first.is_readable() && others.iter().all(Group::is_readable);
        let sum = Sum { event, first, others, are_readable, are_pinned, apart: Cell::new(0) };
        sum.tell_monitors();
        sum
    }

    /// If reads of the sum are always system calls, the monitors say so, whatever each group could do alone.
    fn tell_monitors(&self) {
        if !self.are_readable || self.prefers_system_call() {
            self.readers().for_each(|reader| reader.monitor().set(false));
        }
    }

    pub(crate) fn event(&self) -> Event {
        self.event
    }

    pub(crate) fn first(&self) -> &Group<1> {
        &self.first
    }

    /// Returns the groups of all core types.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Group<1>> + Clone {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn readers(&self) -> impl Iterator<Item = &Reader<1>> + Clone {
        self.each().map(|group| &group.reader)
    }

    fn place_here(&self) -> Option<usize> {
        core_types::current(self.each().filter_map(Group::pmu))
    }

    /// Returns the group of the core type that the thread is on.
    pub(crate) fn here(&self) -> &Group<1> {
        self.place_here().and_then(|place| self.each().nth(place)).unwrap_or(&self.first)
    }

    /// Returns the group of the core type that the thread is on, and drops the others.
    pub(crate) fn into_here(self) -> Group<1> {
        let other = self.place_here().and_then(|place| place.checked_sub(1));
        let here = other.and_then(|other| self.others.into_iter().nth(other));
        let mut group = here.unwrap_or(self.first);
        group.reader.renumber(); // a snapshot of the sum is none of the group's
        group
    }

    /// Returns the count, read by user space, and the sum of the pages' locks. None unless one of the groups has a counter
    /// now.
    pub(crate) fn read_user(&self) -> Option<(u64, u32)> {
        if self.are_readable { reader::sum(self.readers()) } else { None }
    }

    /// Reads in user space again: see [`Group::retry_user`].
    pub(crate) fn retry_user(&mut self) -> Result<(), ReadError> {
        let ids = |sum: &Sum| -> Vec<u32> { sum.readers().map(|reader| reader.id()).collect() };
        let before = ids(self);
        let mut result = Ok(());
        for group in std::iter::once(&mut self.first).chain(&mut self.others) {
            result = result.and(group.retry_user().map(drop));
        }
        if ids(self) != before {
            // Snapshots of the sum have the first group's number.
            self.first.reader.renumber();
        }
        self.tell_monitors();
        result
    }

    /// Whether a system call for each group is cheaper than user space, or was requested.
    pub(crate) fn prefers_system_call(&self) -> bool {
        self.each().any(|group| group.is_readable() && group.view_of_read().is_none())
    }

    /// Returns the sum of the groups' readings. The group that is counting is read last. Its enabled time then is the
    /// running time of all, except for the delays between the groups' starts and stops.
    pub(crate) fn reading(&self) -> Result<Reading, ReadError> {
        let locks = || reader::locks_of(self.readers());
        let mut rounds = 0..ROUNDS;
        loop {
            let before = locks();
            let mut sum = Reading { value: 0, time_enabled: 0, time_running: 0 };
            // Each group is read once, even if the thread or an event moves.
            let counting = self.each().position(|group| group.reader.is_scheduled());
            let last = counting.or_else(|| self.place_here()).unwrap_or(0);
            let earlier = self.each().enumerate().filter(|(place, _)| *place != last);
            for group in earlier.map(|(_, group)| group).chain(self.each().nth(last)) {
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
        what: fn(&Group<1>) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let now = || kernel::monotonic_raw(true);
        let start = now();
        // All groups, even if one fails.
        let mut result = Ok(());
        for group in self.each() {
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

    pub(crate) fn access(&self) -> Access {
        self.access_by(self.here(), Group::access)
    }

    /// Returns the access, as [`Group::access_in_memory`] does.
    pub(crate) fn access_in_memory(&self) -> Access {
        let here = self.each().find(|group| group.reader.is_scheduled());
        self.access_by(here.unwrap_or(&self.first), Group::access_in_memory)
    }

    /// Returns the access of the sum, by that of each group and of the group that counts `here`.
    fn access_by(&self, here: &Group<1>, access: fn(&Group<1>) -> Access) -> Access {
        // A group that can never be read prevents reading the sum.
        let never = |access: &Access| {
            let later = Access::SystemCall(SyscallReason::NotScheduled);
            !matches!(access, Access::UserSpace) && *access != later
        };
        match self.each().map(access).find(never) {
            Some(access) => access,
            None if self.are_pinned => Access::SystemCall(SyscallReason::PinnedOnSeveralTypes),
            None => access(here),
        }
    }
}
