//! The whole time of a future, from when it was made to when it is finished or dropped.

use crate::instrument::Moment;
use crate::instrument::recorded::record_ends;
use crate::record::{Details, Polls, Site, count_lost};

/// A future whose whole time is recorded.
#[derive(Debug)]
pub(super) struct Whole {
    begun: Moment,
    polls: Polls,
    /// The ticks of the last poll.
    last: u64,
    known: Known,
}

/// Whether all polls are known.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    All,
    /// Spans were off at some of them.
    WhileOn,
    /// Not those by threads with another clock, and those that another thread has ended.
    Some,
}

impl Whole {
    pub(super) fn begin() -> Whole {
        Whole { begun: Moment::now(), polls: Polls::default(), last: 0, known: Known::All }
    }

    /// Adds a poll.
    pub(super) fn add_poll(&mut self, [begun, ended]: [Moment; 2]) {
        if begun.is_nothing() || ended.is_nothing() {
            self.known = Known::WhileOn;
        } else if let Some(ticks) = begun.ticks_until(ended) {
            self.polls.busy = self.polls.busy.saturating_add(ticks);
            self.polls.times += 1;
            self.last = ticks;
        } else {
            self.known = Known::Some;
        }
    }

    /// Tells that the end of a poll is not known.
    #[cfg(feature = "tracing")]
    pub(super) fn forget_polls(&mut self) {
        self.known = Known::Some;
    }

    /// Whether it may have been polled more than once.
    #[cfg(feature = "tracing")]
    pub(super) fn is_of_several_polls(&self) -> bool {
        self.polls.times > 1 || self.known == Known::Some
    }

    /// Leaves out the last poll, which is the drop of the future.
    #[cfg(feature = "tracing")]
    pub(super) fn without_last(mut self) -> Whole {
        self.polls.times = self.polls.times.saturating_sub(1);
        self.polls.busy = self.polls.busy.saturating_sub(self.last);
        self
    }

    /// Records it. Nothing if spans were off when it was made, or at a poll.
    pub(super) fn end(self, site: &'static Site, number: Option<u64>) {
        match self.known {
            _ if self.begun.is_nothing() => {}
            Known::All => {
                let details = Details::of_time(number, Some(self.polls));
                record_ends(site, [self.begun, Moment::now()], details);
            }
            Known::WhileOn => {}
            Known::Some => count_lost(1),
        }
    }
}
