//! Events whose counts a test sets, in place of the kernel's.

use crate::error::access::Access;
use crate::error::{Error, ReadError};
use crate::kernel::{AtomicU64, Control};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

/// The event of a [`Counter::mock`](crate::Counter::mock): a test sets what the counter returns.
///
/// ```
/// use rdpmc::{Counter, Event};
///
/// /// The code under test.
/// fn per_item(counter: &Counter, items: u64, work: impl FnOnce()) -> Option<u64> {
///     let before = counter.read_user()?;
///     work();
///     (counter.read_user()? - before).checked_div(items)
/// }
///
/// let (counter, mock) = Counter::mock(Event::INSTRUCTIONS);
/// assert_eq!(per_item(&counter, 10, || mock.add(420)), Some(42));
/// assert_eq!(per_item(&counter, 0, || mock.add(420)), None);
/// mock.set_scheduled(false);
/// assert_eq!(per_item(&counter, 10, || mock.add(420)), None);
/// ```
///
/// Clones are of the same event. A signal handler may read the counter, as with other counters.
#[derive(Clone, Debug)]
pub struct Mock(Rc<State>);

#[derive(Debug)]
struct State {
    count: AtomicU64,
    time_enabled: AtomicU64,
    time_running: AtomicU64,
    is_enabled: AtomicBool,
    is_scheduled: AtomicBool,
    is_in_error_state: AtomicBool,
    /// How often an event of the kernel would have had its page updated.
    updates: AtomicU32,
}

// One thread and its signal handlers change these, so Relaxed is enough.
impl Mock {
    pub(super) fn new() -> Mock {
        Mock(Rc::new(State {
            count: AtomicU64::new(0),
            time_enabled: AtomicU64::new(0),
            time_running: AtomicU64::new(0),
            is_enabled: AtomicBool::new(true),
            is_scheduled: AtomicBool::new(true),
            is_in_error_state: AtomicBool::new(false),
            updates: AtomicU32::new(0),
        }))
    }

    /// Sets the count.
    pub fn set(&self, count: u64) {
        self.0.count.store(count, Relaxed);
    }

    /// Adds to the count, modulo 2^64, as if the events had happened. Does nothing while the counter is
    /// [disabled](crate::Counter::disable), not [scheduled](Mock::set_scheduled) or in
    /// [error state](Mock::set_error_state).
    pub fn add(&self, events: u64) {
        if self.is_counting() {
            self.set(self.0.count.load(Relaxed).wrapping_add(events));
        }
    }

    /// Sets the times of a [`reading`](crate::Counter::reading), which are 0 at first. A running time below the enabled time
    /// is that of a multiplexed event. Times are limited to 584 years.
    pub fn set_times(&self, enabled: Duration, running: Duration) {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.time_enabled.store(nanoseconds(enabled), Relaxed);
        self.0.time_running.store(nanoseconds(running), Relaxed);
    }

    /// Sets whether the event is on a hardware counter, as it is at first. While it is not,
    /// [`read_user`](crate::Counter::read_user) returns None and [`read`](crate::Counter::read) the count. A
    /// [`Snapshot`](crate::region::Snapshot) from before is disturbed.
    pub fn set_scheduled(&self, is_scheduled: bool) {
        self.0.is_scheduled.store(is_scheduled, Relaxed);
        self.update();
    }

    /// Sets whether the event is in error state, as a pinned event without a hardware counter is. While it is, reads return
    /// None or [`ReadError::ErrorState`](crate::error::ReadError::ErrorState). [`enable`](crate::Counter::enable) ends it.
    pub fn set_error_state(&self, is_in_error_state: bool) {
        self.0.is_in_error_state.store(is_in_error_state, Relaxed);
        self.update();
    }

    fn update(&self) {
        self.0.updates.store(self.0.updates.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Returns the count and the number of updates, if user space could read the count now.
    pub(super) fn count_in_user_space(&self) -> Option<(u64, u32)> {
        self.is_counting().then(|| (self.0.count.load(Relaxed), self.0.updates.load(Relaxed)))
    }

    /// Whether it counts, and user space can read it.
    fn is_counting(&self) -> bool {
        let State { is_enabled, is_scheduled, is_in_error_state, .. } = &*self.0;
        is_enabled.load(Relaxed) && is_scheduled.load(Relaxed) && !is_in_error_state.load(Relaxed)
    }

    pub(super) fn access(&self) -> Access {
        if self.is_counting() {
            Access::UserSpace
        } else if self.0.is_in_error_state.load(Relaxed) {
            Access::SystemCall(ReadError::ErrorState.into())
        } else {
            Access::SystemCall(Error::not_scheduled())
        }
    }

    /// Answers `read(2)`, as the kernel does for an event that is no group.
    pub(super) fn read(&self) -> Option<[u64; 3]> {
        let State { count, time_enabled, time_running, is_in_error_state, .. } = &*self.0;
        if is_in_error_state.load(Relaxed) {
            return None;
        }
        Some([count, time_enabled, time_running].map(|word| word.load(Relaxed)))
    }

    pub(super) fn control(&self, what: Control) {
        match what {
            Control::Enable => {
                self.0.is_enabled.store(true, Relaxed);
                self.0.is_in_error_state.store(false, Relaxed);
            }
            Control::Disable => self.0.is_enabled.store(false, Relaxed),
            Control::Reset => self.set(0),
        }
        self.update();
    }
}
