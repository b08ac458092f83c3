//! A session: what is recorded from `start` on, and by which threads.
#![allow(unsafe_code)]

// Nothing here waits for another thread: a child of a fork would wait for ever.

mod join_and_leave;
mod measure_cost;
mod on_off;
mod plan;
mod register;
mod seats;
mod thread_name;

pub use on_off::{is_enabled, set_enabled};
pub use plan::Storage;
pub(crate) use plan::{Plan, Slow};
pub use register::{register_thread, register_thread_with};

use crate::collect::{Ended, Estate, Kept, OfThread};
use crate::counting::Patience;
use crate::sink::{IntervalNumber, allow_barriers, barrier};
use crate::thread::{RECORDING, set_join};
use seats::Seats;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// A session. Never freed, because threads may look at it at any time.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) number: u32,
    pub(crate) plan: Plan,
    seats: Seats,
    ended: Ended,
    /// The number of threads that have joined.
    threads: AtomicU32,
    /// The number of intervals that were taken.
    interval: IntervalNumber,
}

/// Whether histograms are collected with the records, or stay with their threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Statistics {
    Now,
    Later,
}

/// The current session, or the last one.
static CURRENT: AtomicPtr<Session> = AtomicPtr::new(ptr::null_mut());

/// Begins a session, and turns spans on. None if there is one.
pub(crate) fn begin(plan: Plan) -> Option<&'static Session> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    thread_name::remember(); // this thread may start others
    let number = NUMBER.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
    if plan.storage == Storage::Histograms {
        allow_barriers(); // without, threads hand over histograms at their next span
    }
    let session = Box::into_raw(Box::new(Session {
        number,
        plan,
        seats: Seats::new(),
        ended: Ended::new(),
        threads: AtomicU32::new(0),
        interval: IntervalNumber::default(),
    }));
    let is_free = CURRENT.compare_exchange(
        ptr::null_mut(),
        session,
        Ordering::SeqCst, // its fields first; pairs with `get`
        Ordering::Relaxed,
    );
    if is_free.is_err() {
        // SAFETY: from Box::into_raw above, and nobody else has seen it.
        drop(unsafe { Box::from_raw(session) });
        return None;
    }
    if cfg!(feature = "enabled") {
        set_join(join_and_leave::join);
        RECORDING.store(number, Ordering::SeqCst);
    }
    // SAFETY: never freed.
    Some(unsafe { &*session })
}

/// Returns the session of this number, unless it has ended.
fn get(number: u32) -> Option<&'static Session> {
    // SAFETY: null or a session, none of which is freed. Pairs with `begin`.
    let session = unsafe { CURRENT.load(Ordering::Acquire).as_ref() };
    session.filter(|session| session.number == number)
}

/// Returns the session, unless it has ended.
fn current() -> Option<&'static Session> {
    // SAFETY: as in `get`.
    unsafe { CURRENT.load(Ordering::SeqCst).as_ref() }
}

impl Session {
    /// Ends the session: no thread joins or records any more. Drops what was not collected.
    pub(crate) fn end(&'static self) {
        let this = ptr::from_ref(self).cast_mut();
        // In this order, so that `set_enabled` sees that it has turned on a session that has ended.
        let _ = CURRENT.compare_exchange(this, ptr::null_mut(), Ordering::SeqCst, Ordering::SeqCst);
        let _ = RECORDING.compare_exchange(self.number, 0, Ordering::SeqCst, Ordering::SeqCst);
        drop(self.ended.take());
    }

    /// Tells the threads that a new interval begins.
    pub(crate) fn begin_interval(&self) {
        self.interval.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes what a thread leaves.
    ///
    /// # Safety
    /// As `Estate::of_thread`.
    unsafe fn bequeath(&'static self, thread: OfThread) {
        let is_over = || current().is_none_or(|session| session.number != self.number);
        if is_over() {
            return;
        }
        // SAFETY: the caller's promise.
        self.ended.add(unsafe { Estate::of_thread(thread) });
        // Nobody collects this any more. Pairs with `end`.
        if is_over() {
            drop(self.ended.take());
        }
    }

    /// Collects from every thread: calls `see` with its new records, and then `each`. Returns what ended threads have left. What
    /// those leave that end meanwhile goes to `later`: it belongs to the next collect.
    pub(crate) fn collect(
        &'static self,
        statistics: Statistics,
        see: &mut dyn FnMut(Kept),
        mut each: impl FnMut(&mut OfThread),
        later: &mut Estate,
    ) -> Option<Estate> {
        // For threads that are in the middle of a record, or of leaving.
        let mut patience = Patience::new(Duration::from_millis(50));
        let mut visits = self.seats.visit(&mut patience);
        // Before any visit ends: a thread that leaves later is one that is visited, and counts once.
        let left = self.ended.take_all(&mut patience);
        // A barrier interrupts the CPUs that run threads of this process, so only where histograms change hands.
        let takes_histograms =
            statistics == Statistics::Now && self.plan.storage == Storage::Histograms;
        if takes_histograms {
            visits.iter_mut().filter_map(seats::Visit::thread).for_each(|it| it.request());
        }
        // After the requests: see `Handover`.
        let has_passed = takes_histograms && barrier();
        for mut visit in visits {
            let is_quiet = has_passed || join_and_leave::has(visit.seat);
            if let Some(thread) = visit.thread() {
                // SAFETY: the visit is of this thread alone, which has made the request, and a barrier after it.
                unsafe {
                    thread.collect_records(see);
                    if takes_histograms {
                        thread.collect_histograms(is_quiet, &mut patience);
                    }
                }
                each(thread);
            }
            let seat = visit.seat;
            if let Some(thread) = visit.end() {
                // SAFETY: it has left, and this has its records.
                later.add(unsafe { Estate::of_thread(thread) });
                seat.free();
            }
        }
        left
    }
}
