//! The threads of a session: each has a seat, with what it records.
#![allow(unsafe_code)]

// A seat is used by its thread when it sits down and leaves, and by the reader in between. Neither waits for the other: a
// thread that leaves while the reader is there leaves the seat to it. Seats are never freed, but used again.

use crate::collect::OfThread;
use crate::counting::Patience;
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// Nobody has it.
const FREE: u32 = 0;
/// A thread is sitting down or leaving.
const MOVING: u32 = 1;
/// A thread has it.
const TAKEN: u32 = 2;
/// A thread has it, and the reader is there.
const READ: u32 = 3;
/// The thread has left, and the reader is there.
const LEFT: u32 = 4;

/// The seat of a thread.
#[derive(Debug)]
pub(crate) struct Seat {
    state: AtomicU32,
    of: UnsafeCell<Option<OfThread>>,
    /// Whether a reader has waited for its thread in vain.
    is_stuck: AtomicBool,
    /// The seat that was made before.
    next: *const Seat,
}

// SAFETY: its contents are used by whoever has changed `state` to MOVING or READ, or from LEFT.
unsafe impl Send for Seat {}
// SAFETY: as above.
unsafe impl Sync for Seat {}

impl Seat {
    fn change(&self, from: u32, to: u32) -> bool {
        // Whoever had the contents has used them before, and who has them now uses them afterwards.
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Leaves the seat, and returns its contents. `free` has to follow, once they are somewhere else. None if the reader is
    /// there: then it has the contents.
    pub(crate) fn leave(&self) -> Option<OfThread> {
        // A reader that has waited in vain while the thread sat down waits again.
        self.is_stuck.store(false, Ordering::Relaxed);
        loop {
            if self.change(TAKEN, MOVING) {
                // SAFETY: MOVING is this thread's.
                return unsafe { (*self.of.get()).take() };
            }
            if self.change(READ, LEFT) {
                return None;
            }
            // The reader has just come or gone: it does so once in a collect, so this ends.
        }
    }

    /// Lets another thread have the seat.
    pub(crate) fn free(&self) {
        self.state.store(FREE, Ordering::Release);
    }

    /// Waits until the thread has left or sat down. Only once for a thread that never does: one of the parent of this
    /// process.
    fn settle(&self, patience: &mut Patience) {
        while self.state.load(Ordering::Acquire) == MOVING && !self.is_stuck.load(Ordering::Relaxed)
        {
            if !patience.wait() {
                return self.is_stuck.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// A seat with its reader.
pub(crate) struct Visit<'a> {
    pub(crate) seat: &'a Seat,
}

impl Visit<'_> {
    /// Returns what the thread has recorded.
    pub(crate) fn thread(&mut self) -> Option<&mut OfThread> {
        // SAFETY: READ or LEFT: this has the contents.
        unsafe { (*self.seat.of.get()).as_mut() }
    }

    /// Ends the visit. Returns the contents if the thread has left meanwhile. Then `Seat::free` has to follow.
    pub(crate) fn end(self) -> Option<OfThread> {
        if self.seat.change(READ, TAKEN) {
            return None;
        }
        // SAFETY: LEFT: this has the contents.
        unsafe { (*self.seat.of.get()).take() }
    }
}

/// All seats of a session.
#[derive(Debug)]
pub(crate) struct Seats {
    newest: AtomicPtr<Seat>,
}

impl Seats {
    pub(crate) const fn new() -> Seats {
        Seats { newest: AtomicPtr::new(ptr::null_mut()) }
    }

    fn iter(&'static self) -> impl Iterator<Item = &'static Seat> {
        // Their fields first; pairs with `sit`.
        let mut next: *const Seat = self.newest.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: null or a seat, none of which is freed.
            let seat = unsafe { next.as_ref() }?;
            next = seat.next;
            Some(seat)
        })
    }

    /// Gives a thread a seat.
    pub(crate) fn sit(&'static self, of: OfThread) -> &'static Seat {
        if let Some(seat) = self.iter().find(|seat| seat.change(FREE, MOVING)) {
            seat.is_stuck.store(false, Ordering::Relaxed);
            // SAFETY: MOVING is this thread's.
            unsafe { *seat.of.get() = Some(of) };
            seat.state.store(TAKEN, Ordering::Release);
            return seat;
        }
        let new = Box::into_raw(Box::new(Seat {
            state: AtomicU32::new(TAKEN),
            of: UnsafeCell::new(Some(of)),
            is_stuck: AtomicBool::new(false),
            next: ptr::null(),
        }));
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            // SAFETY: from Box::into_raw, and not in the list yet.
            unsafe { (*new).next = newest };
            // Its fields first; pairs with `iter`.
            match self.newest.compare_exchange_weak(
                newest,
                new,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                // SAFETY: never freed.
                Ok(_) => return unsafe { &*new },
                Err(now) => newest = now,
            }
        }
    }

    /// Visits every seat that a thread has. What those have left that were leaving is somewhere else afterwards.
    pub(crate) fn visit(&'static self, patience: &mut Patience) -> Vec<Visit<'static>> {
        let taken = self.iter().filter(|seat| seat.change(TAKEN, READ));
        let visits = taken.map(|seat| Visit { seat }).collect();
        self.iter().for_each(|seat| seat.settle(patience));
        visits
    }
}
