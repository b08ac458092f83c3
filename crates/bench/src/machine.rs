//! This machine: its counters around a loop.

use crate::code::Code;
use crate::pairs::{Content, Loop, Measure, TICKS, VALUES};
use rdpmc::region::Snapshot;
use rdpmc::{Access, Clock, DynGroup, Event, PerEvent};

/// The counters of a set and the clock, around loops of `code`.
pub(crate) struct Counters<'a, 'c> {
    code: &'a mut Code<'c>,
    clock: &'a Clock,
    /// None to measure the time alone.
    group: Option<&'a DynGroup>,
    is_in_user_space: bool,
    /// The place of the context switches, which the locks show in user space.
    switches: Option<usize>,
}

/// The counts at one end of a loop.
enum Counts {
    /// With the locks, which show context switches.
    User(Snapshot<8>),
    Kernel(PerEvent<u64>),
    None,
}

impl<'a, 'c> Counters<'a, 'c> {
    pub(crate) fn new(
        code: &'a mut Code<'c>,
        clock: &'a Clock,
        group: Option<&'a DynGroup>,
    ) -> Counters<'a, 'c> {
        // `read` makes system calls if they are cheaper here.
        let is_in_user_space = group.is_some_and(|group| group.access() == Access::UserSpace);
        let is_switches = |event: &Event| *event == Event::CONTEXT_SWITCHES;
        let switches = group.and_then(|group| group.events().iter().position(is_switches));
        Counters { code, clock, group, is_in_user_space, switches }
    }

    /// Reads the counters. None if they cannot be read now, or no longer in user space.
    #[inline]
    fn read(&self) -> Option<Counts> {
        match self.group {
            None => Some(Counts::None),
            Some(group) if self.is_in_user_space => group.snapshot().map(Counts::User),
            Some(group) => group.read().map(Counts::Kernel).ok(),
        }
    }
}

impl Measure for Counters<'_, '_> {
    fn measure(&mut self, content: Content, runs: u64) -> Option<Loop> {
        let found = self.read_around(content, runs);
        // If user access was revoked, go on by system calls.
        self.is_in_user_space &= found.is_some();
        found
    }
}

impl Counters<'_, '_> {
    // The work and nothing are called from here, with the same instructions before and after.
    #[inline(never)]
    fn read_around(&mut self, content: Content, runs: u64) -> Option<Loop> {
        (self.code.prepare)();
        let clock = self.clock.ordered();
        let before = self.read()?;
        let start = clock.ticks();
        let code = match content {
            Content::Work => &mut self.code.work,
            Content::Nothing => &mut self.code.empty,
        };
        code(runs);
        let end = clock.ticks();
        let after = self.read()?;
        let mut values = [0; VALUES];
        let mut is_disturbed = false;
        match (before, after) {
            (Counts::User(before), Counts::User(after)) => {
                let delta = after - before;
                is_disturbed = delta.disturbed().is_some();
                values.iter_mut().zip(delta.counts()).for_each(|(value, count)| *value = count);
            }
            (Counts::Kernel(before), Counts::Kernel(after)) => {
                for (value, (after, before)) in values.iter_mut().zip(after.iter().zip(&before)) {
                    *value = after.wrapping_sub(*before);
                }
            }
            _ => {}
        }
        let switches = self.switches.and_then(|place| values.get(place));
        is_disturbed |= switches.is_some_and(|count| *count > 0);
        if let Some(ticks) = values.get_mut(TICKS) {
            *ticks = end.wrapping_sub(start);
        }
        Some(Loop { values, is_disturbed })
    }
}
