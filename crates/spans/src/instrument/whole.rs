//! The whole time of a future, from when it was made to when it is finished or dropped.

use crate::instrument::Moment;
use crate::instrument::recorded::record_ends;
use crate::record::{Companion, Polls, Site, count_lost};

/// A future whose whole time is recorded.
#[derive(Debug)]
pub(super) struct Whole {
    begun: Moment,
    polls: Polls,
    /// Whether all polls are known: by one clock, and spans were on.
    is_known: bool,
}

impl Whole {
    pub(super) fn begin() -> Whole {
        Whole { begun: Moment::now(), polls: Polls::default(), is_known: true }
    }

    /// Adds a poll that ends now.
    pub(super) fn add_poll(&mut self, begun: Moment) {
        match begun.ticks_until(Moment::now()) {
            Some(ticks) if !begun.is_nothing() => {
                self.polls.busy = self.polls.busy.saturating_add(ticks);
                self.polls.times += 1;
            }
            _ => self.is_known = false,
        }
    }

    /// Records it. Nothing if spans were off when it was made.
    pub(super) fn end(self, site: &'static Site) {
        match self.is_known {
            true => {
                let polls = Companion::Polls(self.polls);
                record_ends(site, [self.begun, Moment::now()], Some(polls));
            }
            false => count_lost(1),
        }
    }
}
