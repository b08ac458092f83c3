//! Events whose counts a test sets, in place of the kernel's.

use super::events::Opened;
use crate::error::SyscallReason;
use crate::error::access::Access;
use crate::kernel::{self, Control, Errno};
use std::cell::Cell;
use std::rc::Rc;
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
/// Clones are of the same event.
#[derive(Clone, Debug)]
pub struct Mock(Rc<State>);

#[derive(Debug)]
struct State {
    count: Cell<u64>,
    time_enabled: Cell<u64>,
    time_running: Cell<u64>,
    is_enabled: Cell<bool>,
    is_scheduled: Cell<bool>,
    is_in_error_state: Cell<bool>,
}

impl Mock {
    pub(crate) fn new() -> Mock {
        Mock(Rc::new(State {
            count: Cell::new(0),
            time_enabled: Cell::new(0),
            time_running: Cell::new(0),
            is_enabled: Cell::new(true),
            is_scheduled: Cell::new(true),
            is_in_error_state: Cell::new(false),
        }))
    }

    /// Sets the count.
    pub fn set(&self, count: u64) {
        self.0.count.set(count);
    }

    /// Adds to the count, modulo 2^64, as if the events had happened. Does nothing while the counter is
    /// [disabled](crate::Counter::disable).
    pub fn add(&self, events: u64) {
        if self.0.is_enabled.get() {
            self.0.count.set(self.0.count.get().wrapping_add(events));
        }
    }

    /// Sets the times of a [`reading`](crate::Counter::reading), which are 0 at first. A running time below the enabled time
    /// is that of a multiplexed event. Times are limited to 584 years.
    pub fn set_times(&self, enabled: Duration, running: Duration) {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.time_enabled.set(nanoseconds(enabled));
        self.0.time_running.set(nanoseconds(running));
    }

    /// Sets whether the event is on a hardware counter, as it is at first. While it is not,
    /// [`read_user`](crate::Counter::read_user) returns None and [`read`](crate::Counter::read) the count.
    pub fn set_scheduled(&self, is_scheduled: bool) {
        self.0.is_scheduled.set(is_scheduled);
    }

    /// Sets whether the event is in error state, as a pinned event without a hardware counter is. While it is, reads return
    /// None or [`ReadError::ErrorState`](crate::error::ReadError::ErrorState).
    pub fn set_error_state(&self, is_in_error_state: bool) {
        self.0.is_in_error_state.set(is_in_error_state);
    }

    /// Returns the count, if user space could read it now.
    pub(crate) fn count_in_user_space(&self) -> Option<u64> {
        (self.access() == Access::UserSpace).then(|| self.0.count.get())
    }

    pub(crate) fn access(&self) -> Access {
        let state = &self.0;
        if state.is_in_error_state.get() {
            Access::SystemCall(SyscallReason::ErrorState)
        } else if state.is_enabled.get() && state.is_scheduled.get() {
            Access::UserSpace
        } else {
            Access::SystemCall(SyscallReason::NotScheduled)
        }
    }

    /// Answers `read(2)`, as the kernel does for an event that is no group.
    fn read(&self, into: &mut [u64]) -> usize {
        if self.0.is_in_error_state.get() {
            return 0;
        }
        let words = [&self.0.count, &self.0.time_enabled, &self.0.time_running];
        into.iter_mut().zip(words).for_each(|(into, word)| *into = word.get());
        size_of_val(&words.map(Cell::get))
    }

    fn control(&self, what: Control) {
        match what {
            Control::Enable => self.0.is_enabled.set(true),
            Control::Disable => self.0.is_enabled.set(false),
            Control::Reset => self.0.count.set(0),
        }
    }
}

/// What answers the system calls of a handle.
#[derive(Debug)]
pub(crate) enum Answers {
    OfTheKernel(Opened),
    OfATest(Mock),
}

impl Answers {
    /// As [`kernel::read`].
    pub(crate) fn read(&self, into: &mut [u64]) -> Result<usize, Errno> {
        match self {
            Answers::OfTheKernel(opened) => kernel::read(&opened.leader, into),
            Answers::OfATest(mock) => Ok(mock.read(into)),
        }
    }

    /// As [`kernel::control`].
    pub(crate) fn control(&self, what: Control) -> Result<(), Errno> {
        match self {
            Answers::OfTheKernel(opened) => kernel::control(&opened.leader, what),
            Answers::OfATest(mock) => {
                mock.control(what);
                Ok(())
            }
        }
    }

    pub(crate) fn opened(&self) -> Option<&Opened> {
        match self {
            Answers::OfTheKernel(opened) => Some(opened),
            Answers::OfATest(_) => None,
        }
    }

    pub(crate) fn mock(&self) -> Option<&Mock> {
        match self {
            Answers::OfTheKernel(_) => None,
            Answers::OfATest(mock) => Some(mock),
        }
    }
}
