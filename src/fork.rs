//! What a fork does to open counters.
//!
//! The kernel does not copy the mapping of an event into the child: the next load from it would
//! fault. So every mapping is on a list of its thread, and in the child the thread that forked,
//! the only one there and the only one that may use its counters, puts a page of zeros where each
//! was. From then on `index` reads 0, and the number of forks tells the handles what happened.
//!
//! Not reached: a child made by `_Fork` or by a raw `clone` system call, where no handlers run; and
//! a page whose address another handler of the child, registered before ours, has taken for a
//! mapping of its own. One that shares the memory (`vfork`, `posix_spawn`) needs none of this.
#![allow(unsafe_code)]

use crate::sys::{self, ControlPage, Errno};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

/// The forks between the first process that opened a counter and this one.
static FORKS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The newest mapping of this thread. It needs no destructor, so that counters dropped late
    /// in the thread's exit still find it.
    static NEWEST: Cell<*mut Mapping> = const { Cell::new(ptr::null_mut()) };
}

/// The process that a handle was opened in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(usize);

impl Process {
    /// The one this is, from now on watched for forks.
    pub(crate) fn current() -> Result<Process, Errno> {
        static WATCHED: AtomicBool = AtomicBool::new(false);
        if !WATCHED.load(Ordering::Acquire) {
            // Two threads may both get here: a handler that runs twice does no harm.
            // SAFETY: the handler uses a number, thread-local pointers and mmap, nothing else.
            unsafe { sys::in_forked_child(in_child)? };
            WATCHED.store(true, Ordering::Release);
        }
        Ok(Process(FORKS.load(Ordering::Relaxed)))
    }

    /// Whether this process is a later one: a child, to which the handle does not belong.
    pub(crate) fn is_past(self) -> bool {
        self.0 != FORKS.load(Ordering::Relaxed)
    }
}

/// Runs in the child, on the thread that forked.
unsafe extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    let mut next = NEWEST.try_with(Cell::get).unwrap_or(ptr::null_mut());
    while let Some(mapping) = NonNull::new(next) {
        // SAFETY: what is on this thread's list is alive, as Watched's drop takes it off first, and
        // this handler is the only one to look at it meanwhile.
        let mapping = unsafe { &mut *mapping.as_ptr() };
        // Zeros that an earlier fork put there are copied like any memory.
        if mapping.place == Place::Event {
            mapping.place = match sys::cover(mapping.page) {
                Ok(()) => Place::Zeros,
                Err(_) => Place::Lost,
            };
        }
        next = mapping.older;
    }
}

/// What is at the address of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// The event's page.
    Event,
    /// Zeros: this is a fork.
    Zeros,
    /// Nothing of ours: this is a fork, and the zeros did not go there.
    Lost,
}

/// A mapped page on its thread's list.
#[derive(Debug)]
struct Mapping {
    page: NonNull<ControlPage>,
    place: Place,
    older: *mut Mapping,
    newer: *mut Mapping,
}

/// The owner of a [`Mapping`], which stays at one address while its owner moves.
#[derive(Debug)]
pub(crate) struct Watched(NonNull<Mapping>);

impl Watched {
    /// Owns a page, and puts it on this thread's list.
    ///
    /// # Safety
    /// The page is mapped by [`sys`], has no other owner, and is not read after this is dropped.
    pub(crate) unsafe fn new(page: NonNull<ControlPage>) -> Watched {
        let older = NEWEST.get();
        let mapping =
            Box::new(Mapping { page, place: Place::Event, older, newer: ptr::null_mut() });
        let mapping = NonNull::from(Box::leak(mapping));
        if let Some(older) = NonNull::new(older) {
            // SAFETY: alive, as it is on the list, and this thread alone looks at the list.
            unsafe { (*older.as_ptr()).newer = mapping.as_ptr() };
        }
        NEWEST.set(mapping.as_ptr());
        Watched(mapping)
    }
}

impl Drop for Watched {
    /// Unmaps the page, if it is still ours, and takes it off the list. In this order, so that a
    /// signal handler that forks in between finds a node to look at, if of a page that is gone.
    fn drop(&mut self) {
        // SAFETY: the node is alive until the end of this function, and owned by self.
        let Mapping { page, place, older, newer } = unsafe { self.0.as_ptr().read() };
        if place != Place::Lost {
            // SAFETY: `new` was given the page to own, or in_child has put zeros there.
            unsafe { sys::unmap_page(page) };
        }
        if let Some(older) = NonNull::new(older) {
            // SAFETY: a neighbour on the list is alive, and this thread alone looks at the list.
            unsafe { (*older.as_ptr()).newer = newer };
        }
        match NonNull::new(newer) {
            // SAFETY: as above.
            Some(newer) => unsafe { (*newer.as_ptr()).older = older },
            None => NEWEST.set(older),
        }
        // A signal handler is the other reader, on this very thread.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: from Box::leak in `new`, off the list now, and owned by self alone.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
