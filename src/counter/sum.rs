//! A counter on several core types: one event on the PMU of each, and their sum.

use super::reading::Reading;
use crate::error::access::Access;
use crate::error::{Error, ErrorKind, ReadError};
use crate::event::Event;
use crate::kernel;
use crate::open::OpenGroup;
use crate::page::reader::{self, View};
use crate::pmu::core_types;
use std::cell::Cell;

/// The time without a counter, in nanoseconds, up to which the cause need not be multiplexing.
const NEGLIGIBLE: u64 = 20_000;
/// The maximum number of retries of a reading if the kernel has updated a page.
const ROUNDS: u32 = 8;

/// The same event on the PMU of each core type.
pub(crate) struct Sum {
    /// As it was requested: those of the groups name their PMU.
    event: Event,
    /// One event each, and at least two.
    groups: Vec<OpenGroup>,
    /// Whether user space can read all of them.
    are_readable: bool,
    /// Whether they are pinned. A pinned event may be in error state, and its page does not tell.
    are_pinned: bool,
    /// The maximum total time, in nanoseconds, between the starts and stops of the first and the last of them.
    apart: Cell<u64>,
}

impl Sum {
    pub(crate) fn new(event: Event, groups: Vec<OpenGroup>, are_pinned: bool) -> Sum {
        let are_readable = !are_pinned && groups.iter().all(OpenGroup::is_readable);
        Sum { event, groups, are_readable, are_pinned, apart: Cell::new(0) }
    }

    pub(crate) fn event(&self) -> Event {
        self.event
    }

    /// Returns the groups of all core types.
    pub(crate) fn each(&self) -> &[OpenGroup] {
        &self.groups
    }

    fn views(&self) -> impl Iterator<Item = &View> + Clone {
        self.groups.iter().map(OpenGroup::user)
    }

    fn place_here(&self) -> Option<usize> {
        core_types::current(self.groups.iter().filter_map(OpenGroup::pmu))
    }

    /// Returns the group of the core type that the thread is on. None if there is no group.
    pub(crate) fn here(&self) -> Option<&OpenGroup> {
        self.place_here().and_then(|place| self.groups.get(place)).or(self.groups.first())
    }

    /// Returns the count, read by user space, and the sum of the pages' locks. None unless one of the groups has a counter
    /// now.
    pub(crate) fn read_user(&self) -> Option<(u64, u32)> {
        if self.are_readable { reader::sum(self.views()) } else { None }
    }

    /// Reads in user space again: see [`OpenGroup::retry_user`].
    pub(crate) fn retry_user(&mut self) -> Result<(), ReadError> {
        let mut result = Ok(());
        for group in &mut self.groups {
            result = result.and(group.retry_user().map(drop)); // all of them, even if one fails
        }
        result
    }

    /// Whether a system call for each group is cheaper than user space, or was requested.
    pub(crate) fn prefers_system_call(&self) -> bool {
        self.groups.iter().any(|group| group.is_readable() && group.read().is_none())
    }

    /// Returns the sum of the groups' readings. The group that is counting is read last. Its enabled time then is the
    /// running time of all, except for the delays between the groups' starts and stops.
    pub(crate) fn reading(&self) -> Result<Reading, ReadError> {
        let locks = || reader::locks_of(self.views());
        let mut rounds = 0..ROUNDS;
        loop {
            let before = locks();
            let mut sum = Reading { value: 0, time_enabled: 0, time_running: 0 };
            // Each group is read once, even if the thread or an event moves.
            let counting = self.groups.iter().position(OpenGroup::is_scheduled);
            let last = counting.or_else(|| self.place_here()).unwrap_or(0);
            let earlier = self.groups.iter().enumerate().filter(|(place, _)| *place != last);
            for group in earlier.map(|(_, group)| group).chain(self.groups.get(last)) {
                let [value, time_enabled, time_running] = group.count_by_system_call()?;
                sum.value = sum.value.wrapping_add(value);
                sum.time_enabled = time_enabled;
                sum.time_running = sum.time_running.saturating_add(time_running);
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
        what: fn(&OpenGroup) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let now = || kernel::monotonic_raw(true);
        let start = now();
        let mut result = Ok(());
        for group in &self.groups {
            result = result.and(what(group)); // all of them, even if one fails
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
        self.access_by(self.here(), OpenGroup::access)
    }

    /// Returns the access, as [`OpenGroup::access_in_memory`] does.
    pub(crate) fn access_in_memory(&self) -> Access {
        let here = self.groups.iter().find(|group| group.is_scheduled());
        self.access_by(here.or(self.groups.first()), OpenGroup::access_in_memory)
    }

    /// Returns the access of the sum, by that of each group and of the group that counts `here`.
    fn access_by(&self, here: Option<&OpenGroup>, access: fn(&OpenGroup) -> Access) -> Access {
        // A group that can never be read prevents reading the sum.
        let never = |access: &Access| {
            *access != Access::UserSpace
                && access.why_system_call() != Some(ErrorKind::NotScheduled)
        };
        match self.groups.iter().map(access).find(never) {
            Some(access) => access,
            None if self.are_pinned => Access::SystemCall(Error::new(
                ErrorKind::PinnedOnSeveralTypes,
                "the event is pinned and open on several core types",
                "Keep the thread on one type while opening it, or do not pin the event",
            )),
            None => here.map_or_else(|| Access::SystemCall(Error::not_scheduled()), access),
        }
    }
}
