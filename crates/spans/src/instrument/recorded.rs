//! Times that begin elsewhere: recorded at once, or by a guard that may go to another thread.

use crate::instrument::Moment;
use crate::instrument::moment::{Between, Times, between};
use crate::record::{Details, Site, count_lost};
use crate::thread;
use std::fmt;

/// Records a time. [`record!`](macro@crate::record) does this.
#[doc(hidden)]
#[inline]
pub fn record_time(site: &'static Site, time: impl Times, number: Option<u64>) {
    if thread::recording() != 0 {
        record_ends(site, time.ends(), Details::of_time(number, None));
    }
}

/// Records the time between two moments. Nothing if spans were off at one of them.
pub(super) fn record_ends(site: &'static Site, ends: [Moment; 2], details: Details) {
    match between(ends) {
        Between::Record(ticks) => thread::record_time(site, ticks, details),
        Between::Lose => count_lost(1),
        Between::Nothing => {}
    }
}

/// A [recorded time](macro@crate::record) that began at a given moment and ends when this is dropped. From `span!("name", since = moment)`.
///
/// It can be dropped on another thread. That thread records the time.
#[must_use = "the time ends when this is dropped: bind it to a variable such as `_span`"]
pub struct SpanSince {
    site: &'static Site,
    since: Moment,
    number: Option<u64>,
}

impl SpanSince {
    /// Returns a guard. [`span!`](crate::span) does this.
    #[inline]
    pub fn new(site: &'static Site, since: impl Into<Moment>, number: Option<u64>) -> SpanSince {
        SpanSince { site, since: since.into(), number }
    }
}

impl Drop for SpanSince {
    #[inline]
    fn drop(&mut self) {
        record_time(self.site, self.since.., self.number);
    }
}

impl fmt::Debug for SpanSince {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SpanSince").field(&self.site).finish()
    }
}
