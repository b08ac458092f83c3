//! Fibers: open spans that go from one thread to another.

use crate::thread::{self, Entered, Parked};
use std::fmt;
use std::marker::PhantomData;

/// The open spans of a fiber: of a coroutine with a stack of its own, or of a job that a job system suspends in the middle.
///
/// Guards of [`span!`](crate::span) are on the fiber's stack, and the fiber may go on with another thread. The scheduler says when:
///
/// ```
/// use rdpmc_spans::{Fiber, Settings, span};
///
/// let mut spans = Settings::new().start()?;
/// let mut fiber = Fiber::new(); // beside the fiber's stack
/// let guard;
/// {
///     let _entered = fiber.enter(); // before the thread switches to the fiber
///     guard = span!("load"); // in the fiber
/// } // after the thread has switched back
/// drop(span!("another job"));
/// {
///     let _entered = fiber.enter(); // on this thread or another one
///     drop(guard); // in the fiber
/// }
/// let counts: Vec<_> = spans.report().rows.iter().map(|row| (row.name, row.count)).collect();
/// assert_eq!(counts, [("load", 2), ("another job", 1)]); // one record for each stay
/// # Ok::<(), rdpmc_spans::StartError>(())
/// ```
///
/// - When the fiber leaves, its open spans end there, and when it enters, they begin again: each stay is a record of its thread, with its time and
///   counts. The time in between is in none. For the whole time of a job, use `span!("job", since = moment)`, which may end anywhere.
/// - They nest in the spans that the thread has open then.
/// - The [number](crate::Record::number) of a span is in the record of its last stay.
/// - A lap that has begun before its fiber left is [lost](crate::Report::lost), and so are spans of a fiber that are still open when their fiber is
///   entered in another recording, or that end while it is not entered.
/// - It does not move the spans of `tracing`.
///
/// Entering and leaving costs as much as a span for each open span, and some 100 instructions. Spans in a fiber cost some more where nothing is
/// counted, because they are not inlined. Other spans cost what they do without fibers.
pub struct Fiber {
    parked: Parked,
}

impl Fiber {
    /// Returns a fiber without spans.
    pub const fn new() -> Fiber {
        Fiber { parked: Parked::new() }
    }

    /// Begins the fiber's open spans on this thread, until the result is dropped. Spans that begin meanwhile are the fiber's.
    ///
    /// A fiber may enter another one: the last that has entered leaves first. If spans are off, nothing happens.
    pub fn enter(&mut self) -> EnteredFiber<'_> {
        let entered = thread::enter_fiber(&mut self.parked);
        EnteredFiber { fiber: self, entered, of_a_thread: PhantomData }
    }
}

impl Default for Fiber {
    fn default() -> Fiber {
        Fiber::new()
    }
}

impl fmt::Debug for Fiber {
    /// Writes the number of its spans.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fiber").field("spans", &self.parked.spans()).finish()
    }
}

/// A thread is in a [`Fiber`] until this is dropped.
///
/// ```compile_fail,E0277
/// fn only_if_send<T: Send>() {}
/// only_if_send::<rdpmc_spans::EnteredFiber<'_>>();
/// ```
#[must_use = "the fiber leaves when this is dropped: bind it to a variable such as `_entered`"]
pub struct EnteredFiber<'a> {
    fiber: &'a mut Fiber,
    entered: Option<Entered>,
    of_a_thread: PhantomData<*const ()>,
}

impl Drop for EnteredFiber<'_> {
    fn drop(&mut self) {
        if let Some(entered) = self.entered.take() {
            thread::leave_fiber(&mut self.fiber.parked, entered);
        }
    }
}

impl fmt::Debug for EnteredFiber<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EnteredFiber").field(&self.fiber).finish()
    }
}
