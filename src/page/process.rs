//! The process that a handle was opened in.

use crate::kernel;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// The number of forks between the first process that opened a counter and this one.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// The process in which the fork handlers were registered, or its latest child that called them.
static LATEST: AtomicU32 = AtomicU32::new(0);

/// The process that a handle was opened in: from [`fork::process`](super::fork::process).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(usize);

impl Process {
    /// Returns this process. Its forks are counted if the fork handlers are registered.
    pub(crate) fn current() -> Process {
        Process(FORKS.load(Ordering::Relaxed))
    }

    /// Whether the current process is a fork of this one, so that the handle does not belong to it.
    pub(crate) fn is_past(self) -> bool {
        self.0 != FORKS.load(Ordering::Relaxed)
    }
}

/// Tells that the fork handlers are registered in this process.
pub(super) fn begin() {
    LATEST.store(kernel::process_id(), Ordering::Relaxed);
}

/// Tells that this process is a fork.
pub(super) fn begin_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    begin();
}

/// Whether this is the process in which the fork handlers were registered, or a child that has called them.
pub(super) fn is_known() -> bool {
    LATEST.load(Ordering::Relaxed) == kernel::process_id()
}
