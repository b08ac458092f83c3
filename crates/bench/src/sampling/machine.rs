//! This machine: its counters around a loop.

use crate::events::counters::{Counters, Counts};
use crate::sampling::code::{Content, Loops};
use crate::sampling::sample::{Loop, Measure, TICKS, VALUES};
use rdpmc::{Clock, Reading};
use std::time::Duration;

/// The counters of a set and the clock.
#[derive(Debug)]
pub(crate) struct Machine<'a> {
    clock: &'a Clock,
    /// None to measure the time alone.
    group: Option<&'a Counters>,
    is_in_user_space: bool,
    /// The place of the context switches, which the locks show in user space.
    switches: Option<usize>,
}

/// Counters of several core types are read one after the other, mostly within this time.
const SKEW: Duration = Duration::from_micros(20);

impl<'a> Machine<'a> {
    pub(crate) fn new(clock: &'a Clock, group: Option<&'a Counters>) -> Machine<'a> {
        // `read` makes system calls if they are cheaper here.
        let is_in_user_space = group.is_some_and(Counters::are_in_user_space);
        let switches = group.and_then(Counters::place_of_switches);
        Machine { clock, group, is_in_user_space, switches }
    }

    /// Returns this machine's measurement of loops around `code`.
    pub(crate) fn around<'b>(&'b mut self, code: &'b mut dyn Loops) -> Around<'b, 'a> {
        Around { machine: self, code }
    }

    /// Reads the counters. None if they cannot be read now, or no longer in user space.
    #[inline]
    fn read(&self) -> Option<Counts> {
        self.group.map_or(Some(Counts::None), |group| group.read(self.is_in_user_space))
    }
}

/// The counters around loops of `code`.
pub(crate) struct Around<'b, 'a> {
    machine: &'b mut Machine<'a>,
    code: &'b mut dyn Loops,
}

impl Measure for Around<'_, '_> {
    fn measure(&mut self, content: Content, turns: u64) -> Option<Loop> {
        let found = self.read_around(content, turns);
        // If user access was revoked, go on by system calls.
        self.machine.is_in_user_space &= found.is_some();
        found
    }
}

impl Around<'_, '_> {
    // All loops are called from here, with the same instructions before and after.
    #[inline(never)]
    fn read_around(&mut self, content: Content, turns: u64) -> Option<Loop> {
        self.code.prepare();
        let run: fn(&mut dyn Loops, u64) = match content {
            Content::Work => |code, turns| code.work(turns),
            Content::Twice => |code, turns| code.twice(turns),
            Content::Nothing => |code, turns| code.nothing(turns),
        };
        let machine = &*self.machine;
        let clock = &machine.clock;
        let before = machine.read()?;
        let start = clock.ticks_ordered();
        run(self.code, turns);
        let end = clock.ticks_ordered();
        let after = machine.read()?;
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
            (Counts::OfThreads(before), Counts::OfThreads(after)) => {
                for (value, (after, before)) in values.iter_mut().zip(after.iter().zip(&before)) {
                    *value = after.value.wrapping_sub(before.value);
                    let absence = |reading: &Reading| {
                        reading.time_enabled().saturating_sub(reading.time_running())
                    };
                    is_disturbed |= absence(after).saturating_sub(absence(before)) > SKEW;
                }
            }
            _ => {}
        }
        let switches = machine.switches.and_then(|place| values.get(place));
        is_disturbed |= switches.is_some_and(|count| *count > 0);
        if let Some(ticks) = values.get_mut(TICKS) {
            *ticks = end.wrapping_sub(start);
        }
        Some(Loop { values, is_disturbed })
    }
}
