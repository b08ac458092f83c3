//! The open spans of a fiber, which leave a thread and enter another.
#![allow(unsafe_code)]

// A fiber that leaves ends its spans here, and one that enters begins them again: each stay is a record. The guards of its spans keep the
// numbers that they have. While the fiber is in, a table tells which numbers these spans have on the stack of this thread. Only the slow
// paths look at it: the top is never the number of such a guard. In a fiber, no span is on the inlined path, so that the slots have the
// ticks at which they began.
//
// A signal handler may come in between any two instructions here. It finds a stack that works, or BUSY. So it does in an allocator that is
// called from here: then the top is BUSY, and `join` does not replace the thread's state.

use crate::record::{MAX_DEPTH, OFFSET, SLOT, Site, count_lost, depth_of};
use crate::thread::current::{Header, NOT_INLINED, header, recording};
use crate::thread::ended_elsewhere::{self, Since};
use crate::thread::in_fiber::{Moved, Stay};
use crate::thread::stack::{BUSY, UNCOUNTED, new_number};
use crate::thread::state::Local;
use crate::thread::time::header_in_session;
use std::sync::atomic::{Ordering, compiler_fence};

/// The open spans of a fiber that is in no thread.
#[derive(Debug)]
pub(crate) struct Parked {
    /// The site of each, and the number of its guard. The outermost one first.
    spans: Vec<(&'static Site, u64)>,
    session: u32,
    /// How many guards had ended elsewhere when it left.
    ended: usize,
}

/// A thread's entry into a fiber.
#[derive(Debug)]
pub(crate) struct Entered {
    header: *const Header,
    session: u32,
    /// 0 if the thread could not enter.
    stay: u64,
}

impl Parked {
    pub(crate) const fn new() -> Parked {
        Parked { spans: Vec::new(), session: 0, ended: 0 }
    }

    pub(crate) fn spans(&self) -> usize {
        self.spans.len()
    }
}

/// Returns this thread's header in the session that records. If none does, its header in the last one. None if it has no state.
fn header_in_some_session() -> Option<*const Header> {
    if recording() != 0 {
        return header_in_session();
    }
    let header = header();
    // SAFETY: CURRENT points to a static or to this thread's state.
    (unsafe { (*header).session } != 0).then_some(header)
}

/// Tells that a span of this thread that has begun, or ends, does not go with the fiber that the thread may be in.
#[cfg(feature = "tracing")]
pub(crate) fn bind(number: u64, is_open: bool) {
    let header = header();
    // SAFETY: CURRENT points to a static or to this thread's state. A header with a session is that of a state.
    unsafe {
        if (*header).session != 0 {
            (*header.cast::<Local>()).bind(number & !UNCOUNTED, is_open);
        }
    }
}

/// Begins the spans of a fiber on this thread. If it has no state, or a record is being written, they wait.
pub(crate) fn enter_fiber(parked: &mut Parked) -> Entered {
    let found = header_in_some_session();
    let header = found.unwrap_or_else(header);
    // SAFETY: CURRENT points to a static or to this thread's state.
    let session = unsafe { (*header).session };
    // SAFETY: a header with a session is that of this thread's state. What may replace that is not called here, but with a top that is BUSY.
    let stay = found.and_then(|header| stay(unsafe { &*header.cast::<Local>() }, parked));
    let stay = stay.unwrap_or(0);
    if stay != 0 {
        for (site, of_guard) in &parked.spans {
            // SAFETY: the header is this thread's, and the session is its own.
            let (here, local) = unsafe {
                (((*header).calls().enter)(header, site, session), &*header.cast::<Local>())
            };
            if let Ok(mut moved) = local.fiber.moved.try_borrow_mut() {
                moved.push(Moved { of_guard: *of_guard, here, stay }); // there is room
            }
        }
    }
    Entered { header, session, stay }
}

/// Begins a stay, and returns its number. None if a record is being written.
fn stay(local: &Local, parked: &mut Parked) -> Option<u64> {
    let (fiber, top, inlined) = (&local.fiber, local.top().get(), local.header.inlined.get());
    let (mut stays, mut moved) =
        (fiber.stays.try_borrow_mut().ok()?, fiber.moved.try_borrow_mut().ok()?);
    if top == BUSY {
        return None;
    }
    local.top().set(BUSY);
    compiler_fence(Ordering::SeqCst); // a signal handler and the allocator see it first
    if parked.session != local.header.session {
        // Their guards will find that they are of an earlier session.
        parked.spans.clear();
        parked.session = local.header.session;
    }
    match ended_elsewhere::since(parked.ended) {
        Since::None => {}
        Since::Some(ended) => parked.spans.retain(|(_, of_guard)| !ended.contains(of_guard)),
        // Some of these may have ended. All are lost when their guards end.
        Since::Many => parked.spans.clear(),
    }
    stays.reserve(1);
    moved.reserve(parked.spans.len());
    // No span before has this number, so no guard takes a slot of the fiber for its own.
    let number = new_number(top & OFFSET);
    stays.push(Stay { number, top, inlined });
    if inlined != 0 {
        local.stack.number_all(top);
        fiber.inlined_from.set(top & OFFSET);
    }
    fiber.current.set(number);
    local.open.set(number);
    compiler_fence(Ordering::SeqCst); // a handler that finds no inlined path finds the top
    local.header.inlined.set(0);
    compiler_fence(Ordering::SeqCst); // until then, the top there is BUSY
    if inlined != 0 {
        local.header.open_inlined.set(NOT_INLINED);
    }
    Some(number)
}

/// Ends the spans of a fiber on this thread, which has entered it, and keeps them.
pub(crate) fn leave_fiber(parked: &mut Parked, entered: Entered) {
    let Entered { header, session, stay } = entered;
    parked.spans.clear();
    let now = self::header();
    // SAFETY: CURRENT points to a static or to this thread's state.
    let session_now = unsafe { (*now).session };
    if session_now == 0 {
        return; // it has no spans, or is ending
    }
    // SAFETY: a header with a session is that of this thread's state: see `enter_fiber`.
    let local = unsafe { &*now.cast::<Local>() };
    if (now, session_now) != (header, session) {
        // It has joined a recording since it entered, so what is open there is the fiber's, and its ticks may not be known.
        return local.give_up_all();
    }
    // 0 is that of none: it has not entered.
    if stay != 0 {
        local.leave(parked, stay);
    }
}

impl Local {
    #[cfg(feature = "tracing")]
    fn bind(&self, number: u64, is_open: bool) {
        let (stay, top) = (self.fiber.current(), self.top().get());
        let Ok(mut bound) = self.fiber.bound.try_borrow_mut() else { return };
        if stay == 0 || top == BUSY {
            return;
        }
        self.top().set(BUSY);
        compiler_fence(Ordering::SeqCst); // as in `stay`, because this may allocate
        match is_open {
            true => bound.push((number, stay)),
            false => bound.retain(|(of, _)| *of != number),
        }
        compiler_fence(Ordering::SeqCst);
        self.top().set(top);
    }

    /// Ends the spans of a stay, and of all inside, and keeps those of the first. Nothing is allocated but with a top that is BUSY.
    fn leave(&self, parked: &mut Parked, stay: u64) {
        let fiber = &self.fiber;
        let found = |stays: &Vec<Stay>| {
            let place = stays.iter().position(|of| of.number == stay)?;
            // Those of fibers inside it are lost when their guards end.
            let kept_from = stays.get(place + 1).map_or(0, |inner| inner.top & OFFSET);
            Some((*stays.get(place)?, kept_from))
        };
        let Ok(stays) = fiber.stays.try_borrow() else { return };
        // Not if a fiber around it has left.
        let Some((Stay { number, top, inlined }, kept_from)) = found(&stays) else { return };
        drop(stays);
        let open = self.open.get();
        if open == BUSY {
            return;
        }
        self.open.set(BUSY);
        compiler_fence(Ordering::SeqCst); // as in `stay`
        parked.spans.reserve(((top & OFFSET).saturating_sub(open & OFFSET) / SLOT) as usize);
        compiler_fence(Ordering::SeqCst);
        self.open.set(open);
        // The innermost first. Each takes one from the stack, unless it was given up.
        for _ in 0..=MAX_DEPTH {
            let innermost = self.open.get();
            if innermost & OFFSET >= top & OFFSET {
                break;
            }
            let slot = self.stack.slot(innermost);
            // SAFETY: the slot of an open span has its site, a static.
            let Some(site) = (unsafe { slot.site.get().as_ref() }) else { break };
            let here = slot.number.get();
            let (of_faults, _) = slot.faults.get();
            let uncounted = if of_faults == here | UNCOUNTED { UNCOUNTED } else { 0 };
            if here & OFFSET >= kept_from && !fiber.is_bound(here) {
                parked.spans.push((site, fiber.number_of_guard(here)));
            }
            // SAFETY: the header is this thread's.
            unsafe {
                (self.header.calls().exit)(&raw const self.header, site, here | uncounted, 0)
            };
            if self.open.get() == innermost {
                break;
            }
            slot.number.set(0); // its guard does not find it
        }
        // Those that ended out of order, and whose guards have not.
        self.stack.forget_numbers(top, number);
        parked.spans.reverse();
        parked.ended = ended_elsewhere::count();
        fiber.end(number);
        // Unless spans of the thread itself have ended meanwhile.
        let open = self.open.get();
        let open = if open == number { top } else { new_number(open & OFFSET) };
        if inlined == 0 {
            return self.open.set(open);
        }
        // A handler in between finds a stack that works, as in `stay`. No span has the number that `open` has then.
        self.header.open_inlined.set(open);
        compiler_fence(Ordering::SeqCst);
        self.header.inlined.set(inlined);
        compiler_fence(Ordering::SeqCst);
        self.open.set(self.stack.born);
        fiber.inlined_from.set(NOT_INLINED);
    }

    /// Forgets all open spans of this thread, and counts them as lost.
    fn give_up_all(&self) {
        let top = self.top().get();
        let open = depth_of(top);
        if top != BUSY && open > 0 {
            self.stack.give_up(self.top());
            count_lost(open.into());
        }
    }
}
