//! A group for each thread that reads.
#![forbid(unsafe_code)]

use crate::counter::{Group, Reading};
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::open::builder::Builder;
use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::thread::AccessError;

/// Counters of `N` events for each thread that reads them.
///
/// A profiler that all threads use holds one of these. It is `Send` and `Sync`. A thread's counters are opened at its first read,
/// count this thread alone, and are closed when the thread ends.
///
/// ```
/// use rdpmc::{Event, Group, PerThread};
///
/// struct Profiler {
///     counters: PerThread<1>,
/// }
///
/// impl Profiler {
///     fn profile(&self, work: impl FnOnce()) -> Result<u64, rdpmc::Error> {
///         let [before] = self.counters.read()?;
///         work();
///         let [after] = self.counters.read()?;
///         Ok(after - before)
///     }
/// }
///
/// let profiler = Profiler { counters: PerThread::new(Group::builder([Event::PAGE_FAULTS])) };
/// std::thread::scope(|scope| {
///     for pages in [10, 20] {
///         let profiler = &profiler;
///         scope.spawn(move || {
///             let faults = profiler.profile(|| drop(std::hint::black_box(vec![1; pages * 4096])));
///             println!("{pages} pages: {faults:?}");
///         });
///     }
/// });
/// ```
///
/// # Threads that end
///
/// A destructor of a thread-local value may read, too. If the thread's counters are closed by then, the result is
/// [`ErrorKind::ThreadEnds`].
///
/// # Forks
///
/// The child of a fork opens counters of its own at its next read.
///
/// # Signal handlers
///
/// A signal handler must not read, because a first read opens counters and allocates. The handler can use the [`Group`] that
/// [`with`](PerThread::with) has passed.
///
/// # Cost
///
/// A read takes some tens of instructions more than that of the group, to find it. [`with`](PerThread::with) finds it once for
/// several reads. If this handle is dropped, the counters of other threads stay open until the threads end, or open others.
pub struct PerThread<const N: usize> {
    builder: Builder<[Event; N]>,
    /// What tells this handle from others, while it or a thread's counters exist.
    identity: Arc<()>,
}

/// The counters of this thread for one handle.
struct Held {
    handle: Weak<()>,
    /// A `Group<N>`.
    group: Rc<dyn Any>,
}

thread_local! {
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

impl<const N: usize> PerThread<N> {
    /// Makes a handle that opens counters with these settings. Opens nothing yet.
    pub fn new(builder: Builder<[Event; N]>) -> PerThread<N> {
        PerThread { builder, identity: Arc::new(()) }
    }

    /// Returns the counts of this thread: see [`Group::read`]. The first call on a thread opens its counters.
    ///
    /// # Errors
    /// As [`with`](PerThread::with), and as [`Group::read`].
    pub fn read(&self) -> Result<[u64; N], Error> {
        Ok(self.with(Group::read)??)
    }

    /// Returns the counts of this thread with their times: see [`Group::reading`]. The first call on a thread opens its counters.
    ///
    /// # Errors
    /// As [`with`](PerThread::with), and as [`Group::read`].
    pub fn reading(&self) -> Result<[Reading; N], Error> {
        Ok(self.with(Group::reading)??)
    }

    /// Calls `code` with this thread's group. The first call on a thread opens it.
    ///
    /// # Errors
    /// As [`Group::open`], which the next call tries again. [`ErrorKind::ThreadEnds`] in a destructor of a thread-local value, if
    /// the thread's counters are closed already.
    pub fn with<R>(&self, code: impl FnOnce(&Group<N>) -> R) -> Result<R, Error> {
        let identity = Arc::as_ptr(&self.identity);
        let find = |held: &RefCell<Vec<Held>>| {
            let held = held.try_borrow().ok()?;
            let one = held.iter().find(|one| one.handle.as_ptr() == identity)?;
            Rc::clone(&one.group).downcast::<Group<N>>().ok()
        };
        let known = HELD.try_with(find).map_err(thread_ends)?;
        let group = match known {
            Some(group) if !group.is_forked() => group,
            _ => self.open()?,
        };
        Ok(code(&group))
    }

    /// Opens this thread's group, and closes those whose handle is gone.
    #[cold]
    #[inline(never)]
    fn open(&self) -> Result<Rc<Group<N>>, Error> {
        let group = Rc::new(self.builder.open()?);
        let mine =
            Held { handle: Arc::downgrade(&self.identity), group: Rc::<Group<N>>::clone(&group) };
        let identity = Arc::as_ptr(&self.identity);
        let keep = |held: &RefCell<Vec<Held>>| {
            let Ok(mut held) = held.try_borrow_mut() else { return };
            held.retain(|one| one.handle.strong_count() > 0 && one.handle.as_ptr() != identity);
            held.push(mine);
        };
        HELD.try_with(keep).map_err(thread_ends)?;
        Ok(group)
    }
}

fn thread_ends(_: AccessError) -> Error {
    Error::new(
        ErrorKind::ThreadEnds,
        "this thread is ending, and its counters are closed",
        "Read them before the destructors of thread-local values run",
    )
}

impl<const N: usize> fmt::Debug for PerThread<N> {
    /// Writes the settings. No system call.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerThread").field("builder", &self.builder).finish_non_exhaustive()
    }
}
