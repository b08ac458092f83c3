//! What every thread has, so that the hot path needs no check for a thread without a state.
#![allow(unsafe_code)]

use crate::counting::Start;
use crate::record::{Details, Site, count_lost};
use crate::thread::ended_elsewhere;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The number of the session that records, 0 if spans are off. The hot path's one check.
pub(crate) static RECORDING: AtomicU32 = AtomicU32::new(0);

/// Returns the session that records, or 0. Always 0 without the feature `enabled`, so that the compiler leaves out the rest.
#[inline(always)]
pub(crate) fn recording() -> u32 {
    if cfg!(feature = "enabled") { RECORDING.load(Ordering::Relaxed) } else { 0 }
}

/// The beginning of a thread's state.
#[repr(C)]
pub(crate) struct Header {
    /// The number of the session, if the thread is on the inlined path: it counts no events, has a tick counter and is in no fiber.
    /// Otherwise 0.
    pub(super) inlined: Cell<u32>,
    /// The number of the session. 0 for none.
    pub(super) session: u32,
    /// The number of the innermost open span of a thread on the inlined path. Elsewhere, a number that no span has.
    pub(super) open_inlined: Cell<u64>,
    pub(super) calls: Calls,
}

/// In place of a span's number: not on the inlined path.
pub(super) const NOT_INLINED: u64 = u64::MAX;

impl Header {
    /// Whether the thread is on the inlined path in this session.
    #[inline(always)]
    pub(crate) fn is_inlined(&self, session: u32) -> bool {
        self.inlined.get() == session
    }

    pub(crate) fn calls(&self) -> Calls {
        self.calls
    }
}

/// The beginning of a lap.
#[derive(Debug)]
pub(crate) struct Lap {
    pub(super) ticks: u64,
    pub(super) start: Start,
    /// The number of the span around it, which also tells the state.
    pub(super) around: u64,
    /// `around` if `start` is set, otherwise a number that no span has.
    pub(super) counted_in: u64,
    /// The last word of its record, if it is counted.
    pub(super) last: u64,
    /// The stay in a fiber in which it began: see `InFiber::current`.
    pub(super) fiber: u64,
}

impl Lap {
    pub(crate) const fn new() -> Lap {
        let start = Start::new();
        let [around, counted_in] = [NOT_INLINED; 2];
        Lap { ticks: 0, start, around, counted_in, last: 0, fiber: 0 }
    }
}

/// The outlined path, for what the thread counts.
#[derive(Clone, Copy)]
pub(crate) struct Calls {
    /// Begins a span in this session, and returns its number. 0 if it is not recorded.
    pub(crate) enter: unsafe fn(*const Header, &'static Site, u32) -> u64,
    /// Ends a span that is not the innermost one on the inlined path.
    pub(crate) exit: unsafe fn(*const Header, &'static Site, u64, u64),
    /// Begins a lap in this session, and returns whether it has.
    pub(crate) begin: unsafe fn(*const Header, &mut Lap, u32) -> bool,
    /// Ends a lap that `begin` has begun, and begins the next.
    pub(crate) lap: unsafe fn(*const Header, &'static Site, &mut Lap),
    /// Records a number for the innermost span, which ends next, and its ticks.
    pub(crate) number: unsafe fn(*const Header, u64, u64, u64),
    /// Records that a span of this thread has ended at these ticks, on another thread.
    #[cfg_attr(not(feature = "tracing"), allow(dead_code))]
    pub(crate) exit_elsewhere: unsafe fn(*const Header, &'static Site, u64, [u64; 2]),
    /// Records a time of the program's between these ticks, which is in no span.
    pub(crate) time: unsafe fn(*const Header, &'static Site, [u64; 2], Details),
    /// Allocates what a site's first span would.
    pub(crate) prepare: unsafe fn(*const Header, &'static Site),
}

/// A header that never changes.
struct Never(Header);

// SAFETY: its cells are never set, because nothing is recorded there.
unsafe impl Sync for Never {}

impl Never {
    const fn new(calls: Calls) -> Never {
        Never(Header {
            inlined: Cell::new(0),
            session: 0,
            open_inlined: Cell::new(NOT_INLINED),
            calls,
        })
    }
}

/// The header of threads that have no state yet.
static UNREGISTERED: Never =
    Never::new(Calls { enter: join_and_enter, begin: join_and_begin, ..LOSE });
/// The header of threads that are ending.
static ENDED: Never = Never::new(LOSE);

const LOSE: Calls = Calls {
    enter: lose_at_enter,
    exit: lose,
    begin: lose_begin,
    lap: lose_lap,
    number: lose_number,
    exit_elsewhere: lose_elsewhere,
    time: lose_time,
    prepare: lose_preparation,
};

thread_local! {
    /// Points to UNREGISTERED, ENDED or this thread's state.
    static CURRENT: Cell<*const Header> = const { Cell::new(&raw const UNREGISTERED.0) };
}

/// Returns this thread's header.
#[inline(always)]
pub(crate) fn header() -> *const Header {
    CURRENT.get()
}

/// Sets the state of this thread.
///
/// # Safety
/// The header is that of a state of this thread, which is alive until this is called again, or `forget` or `end`.
pub(crate) unsafe fn set(header: *const Header) {
    CURRENT.set(header);
}

/// The thread has no state until it joins a session.
pub(crate) fn forget() {
    CURRENT.set(&raw const UNREGISTERED.0);
}

/// The thread is ending, and records nothing any more.
pub(crate) fn end() {
    CURRENT.set(&raw const ENDED.0);
}

/// Returns this thread's header if it is a state's of this session.
fn joined(session: u32) -> Option<*const Header> {
    let header = header();
    // SAFETY: CURRENT points to a static or to this thread's state.
    (session != 0 && unsafe { (*header).session } == session).then_some(header)
}

/// Prepares this thread for a session, and returns its header. None if the session has ended, or the thread has no clock.
pub(crate) type Join = fn(u32) -> Option<*const Header>;

/// The session's `Join`, which is on a higher floor: null until the first session.
static JOIN: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

pub(crate) fn set_join(join: Join) {
    JOIN.store(join as *mut (), Ordering::Release);
}

/// Prepares this thread for its first span of a session.
#[cold]
#[inline(never)]
pub(crate) fn join(session: u32) -> Option<*const Header> {
    if let Some(header) = joined(session) {
        return Some(header);
    }
    let join = JOIN.load(Ordering::Acquire);
    if join.is_null() {
        return None;
    }
    // SAFETY: only `set_join` stores a pointer there, and it is that of a `Join`.
    let join = unsafe { std::mem::transmute::<*mut (), Join>(join) };
    join(session)
}

/// Begins the first span of a thread in a session.
pub(super) unsafe fn join_and_enter(_: *const Header, site: &'static Site, session: u32) -> u64 {
    match join(session) {
        // SAFETY: the header is this thread's, and its session is the one that it has joined.
        Some(header) => unsafe { ((*header).calls.enter)(header, site, session) },
        None => {
            count_lost(1);
            0
        }
    }
}

pub(super) unsafe fn join_and_begin(_: *const Header, lap: &mut Lap, session: u32) -> bool {
    match join(session) {
        // SAFETY: as in `join_and_enter`.
        Some(header) => unsafe { ((*header).calls.begin)(header, lap, session) },
        None => false,
    }
}

unsafe fn lose_at_enter(_: *const Header, _: &'static Site, _: u32) -> u64 {
    count_lost(1);
    0
}

unsafe fn lose_begin(_: *const Header, _: &mut Lap, _: u32) -> bool {
    false
}

/// Ends a span when its thread's state is gone.
unsafe fn lose(_: *const Header, _: &'static Site, number: u64, _: u64) {
    ended_elsewhere::add(number);
}

unsafe fn lose_lap(_: *const Header, _: &'static Site, _: &mut Lap) {
    count_lost(1);
}

unsafe fn lose_number(_: *const Header, _: u64, _: u64, _: u64) {}

unsafe fn lose_elsewhere(_: *const Header, _: &'static Site, _: u64, _: [u64; 2]) {
    count_lost(1);
}

unsafe fn lose_time(_: *const Header, _: &'static Site, _: [u64; 2], _: Details) {
    count_lost(1);
}

unsafe fn lose_preparation(_: *const Header, _: &'static Site) {}
