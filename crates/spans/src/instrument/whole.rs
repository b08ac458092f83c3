//! The whole time of a future, from when it was made to when it is finished or dropped.

use crate::instrument::Moment;
use crate::instrument::recorded::record_ends;
use crate::record::{Details, Polls, Site, count_lost};

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

    /// Tells that the end of a poll is not known.
    #[cfg(feature = "tracing")]
    pub(super) fn forget_polls(&mut self) {
        self.is_known = false;
    }

    /// Returns the number of polls.
    #[cfg(feature = "tracing")]
    pub(super) fn polls(&self) -> u64 {
        self.polls.times
    }

    /// Records it. Nothing if spans were off when it was made.
    pub(super) fn end(self, site: &'static Site, number: Option<u64>) {
        match self.is_known {
            true => {
                let details = Details::of_time(number, Some(self.polls));
                record_ends(site, [self.begun, Moment::now()], details);
            }
            false => count_lost(1),
        }
    }
}
