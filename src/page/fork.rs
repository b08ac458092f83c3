//! The fork handlers: in the child of a fork, they put zeros in place of the parent's pages, and count the fork.
#![allow(unsafe_code)]

// The kernel does not copy the mapping of an event into the child. The next load from it would fault. In the child, only
// the thread that forked exists, and only it may use its counters. A fork handler runs there and maps a page of zeros in
// place of each page on its list. From then on `index` reads 0, and the number of forks shows the handles that this is a
// child.
//
// The C library lets signals through before it calls fork handlers in the child. A signal handler that reads a
// counter there would fault. So all signals are blocked from before the fork until the pages are covered.
//
// Not covered:
// - A child made by `_Fork` or by a raw `clone` system call, where no handlers run. Its own counters work.
// - A page whose address was taken by a fork handler that was registered before this one, for a mapping of its own.
//
// A child that shares the memory (`vfork`, `posix_spawn`) needs none of this.

use super::mapped;
use super::process::{self, Process};
use crate::kernel::{self, Errno};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// The number of calls of `before_fork` whose `restore` is due. The handlers may be registered twice.
    static BLOCKED: Cell<u32> = const { Cell::new(0) };
    /// The signals that were blocked before the first of these calls. None if blocking was refused.
    static MASK: Cell<Option<kernel::Mask>> = const { Cell::new(None) };
}

/// Returns this process. From now on, its forks are counted.
pub(crate) fn process() -> Result<Process, Errno> {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.load(Ordering::Acquire) {
        // Two threads may both get here: a handler that runs twice does no harm.
        // SAFETY: the handlers use atomics, thread-locals without destructors, mmap, munmap and pthread_sigmask.
        // These are async-signal-safe once the memory of the thread-locals is allocated.
        unsafe { kernel::at_fork(before_fork, restore, in_child)? };
        process::begin();
        WATCHED.store(true, Ordering::Release);
    }
    Ok(Process::current())
}

/// Runs before a fork, on the thread that forks: no signal handler runs until the child's pages are covered.
extern "C" fn before_fork() {
    if BLOCKED.get() == 0 {
        // A signal handler that forks before this line has restored everything when it returns.
        MASK.set(kernel::block_signals());
    }
    BLOCKED.set(BLOCKED.get() + 1);
}

/// Runs after a fork in the parent, and at the end of the handler in the child.
extern "C" fn restore() {
    match BLOCKED.get() {
        // The fork began before the handlers were registered.
        0 => {}
        1 => {
            BLOCKED.set(0);
            if let Some(before) = MASK.take() {
                kernel::restore_signals(&before);
            }
        }
        more => BLOCKED.set(more - 1),
    }
}

/// Runs in the child, on the thread that forked.
extern "C" fn in_child() {
    process::begin_in_child();
    mapped::cover_all();
    restore();
}
