//! What other threads can see of a handle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// A view of one handle for other threads: `Send`, `Sync` and cheap to clone, unlike the handle.
///
/// ```
/// use rdpmc::{Counter, Event};
///
/// # fn main() -> Result<(), rdpmc::Error> {
/// # if Counter::open(Event::PAGE_FAULTS).is_err() { return Ok(()) }
/// let counter = Counter::open(Event::PAGE_FAULTS)?;
/// let monitor = counter.monitor();
/// counter.read()?;
/// std::thread::spawn(move || {
///     println!("in user space: {}", monitor.is_in_user_space());
///     println!("{} system calls so far", monitor.system_calls());
///     println!("{} faults in this process", rdpmc::contained_faults());
/// }).join().unwrap();
/// # Ok(())
/// # }
/// ```
///
/// A handle updates it on its slow paths only: reads in user space cost nothing more.
#[derive(Clone, Debug)]
pub struct Monitor(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    is_in_user_space: AtomicBool,
    is_closed: AtomicBool,
    system_calls: AtomicUsize,
}

impl Monitor {
    pub(crate) fn new() -> Monitor {
        Monitor(Arc::new(Shared {
            is_in_user_space: AtomicBool::new(true),
            is_closed: AtomicBool::new(false),
            system_calls: AtomicUsize::new(0),
        }))
    }

    /// Whether `read` reads in user space, in some 15 instructions per event, while its events have
    /// hardware counters.
    ///
    /// False if each read is a system call, which takes 0.1 to 5 microseconds: because that is cheaper here or was requested, or
    /// because user space cannot read the handle ([`access`](crate::Counter::access) has the reason). A read that faulted
    /// makes it false until [`retry_user`](crate::Counter::retry_user). Also false for a handle that is
    /// [closed](Monitor::is_closed).
    ///
    /// Does not show whether the events have hardware counters at this moment. Without one, `read` makes a system call,
    /// which [`system_calls`](Monitor::system_calls) counts.
    pub fn is_in_user_space(&self) -> bool {
        self.0.is_in_user_space.load(Relaxed) && !self.is_closed()
    }

    /// Whether the handle was dropped.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed.load(Relaxed)
    }

    /// Returns how many of the handle's reads went to the kernel. One may be missing if a signal handler reads the same
    /// handle while its thread does.
    pub fn system_calls(&self) -> u64 {
        self.0.system_calls.load(Relaxed) as u64
    }

    pub(crate) fn set(&self, is_in_user_space: bool) {
        self.0.is_in_user_space.store(is_in_user_space, Relaxed);
    }

    pub(crate) fn close(&self) {
        self.0.is_closed.store(true, Relaxed);
    }

    pub(crate) fn count_system_call(&self) {
        // Only the handle's thread writes. Arm CPUs without atomic additions have a loop for one, which never ends under a
        // debugger that steps. A signal handler that reads the same handle in between is not counted.
        let calls = &self.0.system_calls;
        calls.store(calls.load(Relaxed).wrapping_add(1), Relaxed);
    }
}
