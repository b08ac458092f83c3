//! Two sides of which a thread writes one, and a reader has the other: they are exchanged on the reader's request.
#![allow(unsafe_code)]

// The writer looks for a request before each record, so it exchanges the sides between two records. A thread that records
// nothing for a while cannot, so the reader does it, if the thread is not in the middle of a record. It knows this by
// membarrier(2), which lets a fence pass on all threads of the process: either the reader sees that the thread is writing,
// or the thread sees the request before its next record.

use crate::counting::Patience;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence};

/// In `state`: the reader wants the side that is written.
const REQUESTED: u32 = 2;
/// In `state`: the index of the side that is written.
const ACTIVE: u32 = 1;

/// Two `T`, one for each side.
#[derive(Debug)]
pub(crate) struct Handover<T> {
    state: AtomicU32,
    is_writing: AtomicBool,
    sides: [UnsafeCell<T>; 2],
}

// SAFETY: a side is used by the writer or by the reader, and changes hands by `state`.
unsafe impl<T: Send> Sync for Handover<T> {}

impl<T> Handover<T> {
    pub(crate) fn new(sides: [T; 2]) -> Handover<T> {
        Handover {
            state: AtomicU32::new(0),
            is_writing: AtomicBool::new(false),
            sides: sides.map(UnsafeCell::new),
        }
    }

    /// Calls `write` with the side that is written.
    ///
    /// # Safety
    /// Only one thread calls this, and `write` does not.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, write: impl FnOnce(&mut T)) {
        // Before the look for a request; pairs with the fence of `barrier`.
        self.is_writing.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let mut state = self.state.load(Ordering::Acquire); // the reader is done with a side; pairs with `exchange`
        if state & REQUESTED != 0 {
            state = self.exchange(state);
        }
        let [first, second] = &self.sides;
        let side = if state & ACTIVE == 0 { first } else { second };
        // SAFETY: the side is the writer's until `exchange`, which this thread calls, or the reader while this thread is not here.
        write(unsafe { &mut *side.get() });
        self.is_writing.store(false, Ordering::Release); // what was written first; pairs with `take`
    }

    /// Exchanges the sides, unless the other thread has, and returns the new state.
    #[cold]
    fn exchange(&self, state: u32) -> u32 {
        let new = state & ACTIVE ^ ACTIVE;
        // What was written or read in the sides first; pairs with the loads of `write` and `take`.
        match self.state.compare_exchange(state, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => new,
            Err(now) => now,
        }
    }

    /// Requests the side that is written. The reader must have emptied the other one.
    pub(crate) fn request(&self) {
        self.state.fetch_or(REQUESTED, Ordering::AcqRel); // the other side is done; pairs with `write`
    }

    /// Calls `read` with the side that was requested. None if the thread has been in the middle of a record for longer than
    /// `patience`, or records nothing and is not known to be quiet: then the request remains.
    ///
    /// # Safety
    /// Only one thread calls this and `request`. `is_quiet`: the writing thread is this one or has ended, or `barrier` has
    /// returned true since `request`.
    pub(crate) unsafe fn take<R>(
        &self,
        is_quiet: bool,
        patience: &mut Patience,
        read: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        loop {
            let mut state = self.state.load(Ordering::Acquire); // pairs with `exchange`
            // The thread sees the request before its next record. Pairs with the end of `write`.
            if state & REQUESTED != 0 && is_quiet && !self.is_writing.load(Ordering::Acquire) {
                state = self.exchange(state);
            }
            if state & REQUESTED == 0 {
                let [first, second] = &self.sides;
                let side = if state & ACTIVE == 0 { second } else { first };
                // SAFETY: the writer has the other one, and asks for no exchange without a request.
                return Some(read(unsafe { &mut *side.get() }));
            }
            // The thread may have been switched out.
            if !patience.wait() {
                return None;
            }
        }
    }
}
