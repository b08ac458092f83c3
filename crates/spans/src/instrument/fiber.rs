//! Fibers: open spans that go from one thread to another.

use crate::thread::{self, Entered, Parked};
use std::fmt;

/// Moves the open spans of a fiber (a stackful coroutine, a job that is suspended in the middle) between threads.
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
/// - Leaving ends the open spans. Entering begins them again. Each stay is one record of its thread, with its own time and counts.
/// - Suspended time is not recorded. For the whole time of a job, use `span!("job", since = moment)`, which may end anywhere.
/// - A fiber's spans nest in the open spans of the thread that it enters.
/// - The [number](crate::Record::number) and the [page faults](crate::Settings::faults) of a span are in the record of its last stay.
/// - The counts of a stay include 40 to 300 instructions of entering and leaving.
///
/// Some spans are [lost](crate::Report::lost):
/// - a lap across a leave
/// - a span that is open when its fiber enters in another recording
/// - a span that ends while its fiber is out. If more than 1,024 spans of the process have, all spans of fibers that were out meanwhile
/// - a span of `tracing` that is open when the fiber leaves: it has a record of the stay, and its end is lost
/// - the spans of a fiber that another one around it has left first
///
/// Entering and leaving together cost some 200 instructions, and one span for each open span. They allocate where a fiber has more spans open than
/// before. While a thread is in a fiber and counts nothing, its spans are not inlined. Other spans cost what they do without fibers.
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
    /// Fibers may be nested. Leave them in reverse order: a span that begins after an outer one has left first is the thread's, and stays open there until
    /// its guard ends on the thread. Do not enter or leave in a signal handler.
    pub fn enter(&mut self) -> EnteredFiber<'_> {
        let entered = thread::enter_fiber(&mut self.parked);
        EnteredFiber { fiber: self, entered: Some(entered) }
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

/// Guard of [`Fiber::enter`]. Dropping it leaves the fiber.
///
/// ```compile_fail,E0277
/// fn only_if_send<T: Send>() {}
/// only_if_send::<rdpmc_spans::EnteredFiber<'_>>();
/// ```
#[must_use = "the fiber leaves when this is dropped: bind it to a variable such as `_entered`"]
pub struct EnteredFiber<'a> {
    fiber: &'a mut Fiber,
    /// Its pointer keeps it on this thread.
    entered: Option<Entered>,
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
