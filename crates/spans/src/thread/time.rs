//! Times that the program records: in no span, and perhaps begun on another thread.
#![allow(unsafe_code)]

use crate::counting::Counting;
use crate::record::{Details, Site, count_lost};
use crate::thread::current::{Header, header, join, recording};
use crate::thread::stack::BUSY;
use crate::thread::state::{Counter, Local, LocalOf};
use rdpmc::Clock;
use std::sync::atomic::{Ordering, compiler_fence};

/// Returns this thread's header in the session that records. None if spans are off, or the thread has no clock.
pub(super) fn header_in_session() -> Option<*const Header> {
    let (header, session) = (header(), recording());
    if session == 0 {
        return None;
    }
    // SAFETY: CURRENT points to a static or to this thread's state.
    match unsafe { (*header).session } == session {
        true => Some(header),
        false => join(session),
    }
}

/// Returns what `read` returns of this thread's clock. None if spans are off, or the thread has no clock. `read` runs no code of the
/// program.
pub(crate) fn with_clock<R>(read: impl FnOnce(&Clock) -> R) -> Option<R> {
    let header = header_in_session()?;
    // SAFETY: a header with a session is that of this thread's state, which only `join` and the end of the thread replace.
    Some(read(unsafe { &(*header.cast::<Local>()).clock }))
}

/// Records a time between these ticks of this thread's clock. Nothing if spans are off.
pub(crate) fn record_time(site: &'static Site, ticks: [u64; 2], details: Details) {
    match header_in_session() {
        // SAFETY: as in `with_clock`.
        Some(header) => unsafe { ((*header).calls().time)(header, site, ticks, details) },
        None => count_lost(u64::from(recording() != 0)),
    }
}

impl<C: Counting<N>, const N: usize> LocalOf<Counter<C, N>> {
    /// Records a time.
    ///
    /// # Safety
    /// The header is this thread's.
    pub(super) unsafe fn time(
        header: *const Header,
        site: &'static Site,
        ticks: [u64; 2],
        details: Details,
    ) {
        // SAFETY: the caller's promise, and the state whose calls these are is a Self.
        let this = unsafe { Self::from_header(header) };
        let top = this.top();
        let innermost = top.get();
        if innermost == BUSY {
            return count_lost(1); // in a signal handler, or in the allocator
        }
        top.set(BUSY);
        compiler_fence(Ordering::SeqCst); // a signal handler of this thread sees it first
        // SAFETY: the sink was made for N counts, and whoever finds BUSY does not record.
        unsafe { this.local.sink.write_time::<N>(site, ticks, details) };
        compiler_fence(Ordering::SeqCst);
        top.set(innermost);
    }
}
