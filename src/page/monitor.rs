//! What other threads can see of a handle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

/// How `read` gets its counts, as a small number (`ReadPath::UserSpace as u8`), from [`Monitor::path`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum ReadPath {
    /// From user space. While the event has no counter, by a system call.
    UserSpace = 0,
    /// By a system call, because that is cheaper here or was requested. `read_user` still reads in user space.
    SystemCall = 1,
    /// By a system call, because user space can never read this handle. [`access`](crate::Counter::access) has the
    /// reason.
    Unreadable = 2,
    /// By a system call, because a read in user space faulted. The handle does not try again until
    /// [`retry_user`](crate::Counter::retry_user).
    Refused = 3,
    /// Not at all: the handle was dropped.
    Closed = 4,
}

impl ReadPath {
    const ALL: [ReadPath; 4] =
        [ReadPath::UserSpace, ReadPath::SystemCall, ReadPath::Unreadable, ReadPath::Refused];
}

/// A view of one handle for other threads: `Send`, `Sync` and cheap to clone, unlike the handle.
///
/// ```
/// use rdpmc::{Counter, Event, ReadPath};
///
/// # fn main() -> Result<(), rdpmc::Error> {
/// # if Counter::open(Event::PAGE_FAULTS).is_err() { return Ok(()) }
/// let counter = Counter::open(Event::PAGE_FAULTS)?;
/// let monitor = counter.monitor();
/// counter.read()?;
/// std::thread::spawn(move || {
///     let (path, system_calls) = (monitor.path(), monitor.system_calls());
///     println!("{path:?} ({}), {system_calls} system calls so far", path as u8);
///     println!("{} faults in this process", rdpmc::contained_faults());
/// }).join().unwrap();
/// # Ok(())
/// # }
/// ```
///
/// A handle updates it on its slow paths only: reads in user space cost nothing more.
///
/// | path | cost of a read |
/// |---|---|
/// | [`UserSpace`](ReadPath::UserSpace) | some 15 instructions; while the event has no counter, a system call |
/// | [`SystemCall`](ReadPath::SystemCall), [`Unreadable`](ReadPath::Unreadable) | a system call: 0.1 to 5 microseconds |
/// | [`Refused`](ReadPath::Refused) | a system call, after one fault of 2 to 4 microseconds per event |
///
/// On riscv64 and on CPUs with several core types, each event faults twice before `Refused`.
#[derive(Clone, Debug)]
pub struct Monitor(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// A [`ReadPath`].
    path: AtomicU8,
    system_calls: AtomicUsize,
}

impl Monitor {
    pub(crate) fn new() -> Monitor {
        let path = AtomicU8::new(ReadPath::UserSpace as u8);
        Monitor(Arc::new(Shared { path, system_calls: AtomicUsize::new(0) }))
    }

    /// Returns how the handle is read.
    ///
    /// The path does not show whether the event has a hardware counter at this moment. Without one, `read` makes a
    /// system call, which [`system_calls`](Monitor::system_calls) counts.
    pub fn path(&self) -> ReadPath {
        let path = self.0.path.load(Relaxed);
        ReadPath::ALL.into_iter().find(|known| *known as u8 == path).unwrap_or(ReadPath::Closed)
    }

    /// Returns how many of the handle's reads went to the kernel. One may be missing if a signal handler reads the same
    /// handle while its thread does.
    pub fn system_calls(&self) -> u64 {
        self.0.system_calls.load(Relaxed) as u64
    }

    pub(crate) fn set(&self, path: ReadPath) {
        self.0.path.store(path as u8, Relaxed);
    }

    pub(crate) fn count_system_call(&self) {
        // Only the handle's thread writes. Arm CPUs without atomic additions have a loop for one, which never ends under a
        // debugger that steps. A signal handler that reads the same handle in between is not counted.
        let calls = &self.0.system_calls;
        calls.store(calls.load(Relaxed).wrapping_add(1), Relaxed);
    }
}
