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
use crate::thread::ended_elsewhere;
use crate::thread::spans::UNCOUNTED;
use crate::thread::stack::{BUSY, new_number};
use crate::thread::state::Local;
use crate::thread::time::header_in_session;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{Ordering, compiler_fence};

/// What a thread knows of the fibers that it is in.
#[derive(Debug)]
pub(super) struct InFiber {
    /// The outermost first.
    stays: RefCell<Vec<Stay>>,
    /// The first number on the stack in the innermost fiber. No other stay on any thread has it. 0 in no fiber.
    current: Cell<u64>,
    /// The first number of the first stay, and a number that is later than those of the last stay that is over.
    first: Cell<u64>,
    left: Cell<u64>,
    moved: RefCell<Vec<Moved>>,
    /// The numbers of spans that do not go with their fiber, and their stays.
    bound: RefCell<Vec<(u64, u64)>>,
    /// The offset from which on spans began on the inlined path, before the thread entered a fiber. `NOT_INLINED` for none.
    inlined_from: Cell<u64>,
}

/// A fiber that the thread is in.
#[derive(Clone, Copy, Debug)]
struct Stay {
    /// See `InFiber::current`.
    number: u64,
    /// The top before.
    top: u64,
    /// The session, if the thread was on the inlined path before. Otherwise 0.
    inlined: u32,
}

/// A span that has come with a fiber.
#[derive(Clone, Copy, Debug)]
struct Moved {
    /// The number of its guard.
    of_guard: u64,
    /// Its number on the stack of this thread: 0 if it has found no slot.
    here: u64,
    stay: u64,
}

impl InFiber {
    pub(super) fn none() -> InFiber {
        InFiber {
            stays: RefCell::default(),
            current: Cell::new(0),
            first: Cell::new(0),
            left: Cell::new(0),
            moved: RefCell::default(),
            bound: RefCell::default(),
            inlined_from: Cell::new(NOT_INLINED),
        }
    }

    /// Returns what tells a stay from all others. 0 in no fiber.
    pub(super) fn current(&self) -> u64 {
        self.current.get()
    }

    /// Returns the number that the span of a guard has on the stack.
    pub(super) fn number_here(&self, of_guard: u64) -> u64 {
        // In use where a signal handler interrupts this. Its own spans have not come with a fiber.
        let Ok(moved) = self.moved.try_borrow() else { return of_guard };
        let is_it = |moved: &&Moved| moved.of_guard == of_guard & !UNCOUNTED;
        moved.iter().find(is_it).map_or(of_guard, |moved| moved.here)
    }

    /// As `number_here`, of a span that ends: later ones may have its number here.
    pub(super) fn end_number_here(&self, of_guard: u64) -> u64 {
        let number = self.number_here(of_guard);
        if number != of_guard {
            if let Ok(mut moved) = self.moved.try_borrow_mut() {
                moved.retain(|moved| moved.of_guard != of_guard & !UNCOUNTED);
            }
        }
        number
    }

    /// Returns the number that the guard of a span has.
    fn number_of_guard(&self, number: u64) -> u64 {
        let Ok(moved) = self.moved.try_borrow() else { return number };
        let is_it = |moved: &&Moved| moved.here & !UNCOUNTED == number;
        moved.iter().find(is_it).map_or(number, |moved| moved.of_guard)
    }

    /// Whether the span of this number began on the inlined path, before the thread entered a fiber.
    pub(super) fn is_of_inlined(&self, number: u64) -> bool {
        number & OFFSET >= self.inlined_from.get()
    }

    fn is_bound(&self, number: u64) -> bool {
        self.bound.try_borrow().is_ok_and(|bound| bound.iter().any(|(of, _)| *of == number))
    }

    /// Ends a stay, and all inside.
    fn end(&self, stay: u64) {
        let Ok(mut stays) = self.stays.try_borrow_mut() else { return };
        let place = stays.iter().position(|of| of.number == stay).unwrap_or(stays.len());
        let is_over = |stay: u64| stays.iter().skip(place).any(|of| of.number == stay);
        if let Ok(mut moved) = self.moved.try_borrow_mut() {
            moved.retain(|moved| !is_over(moved.stay));
        }
        if let Ok(mut bound) = self.bound.try_borrow_mut() {
            bound.retain(|(_, stay)| !is_over(*stay));
        }
        stays.truncate(place);
        self.current.set(stays.last().map_or(0, |around| around.number));
        self.left.set(new_number(0));
    }

    /// Tells that a span has ended, and the top since then. The span may be one that the thread had before it entered.
    pub(super) fn span_ended(&self, top: u64) {
        if self.current() == 0 {
            return;
        }
        if let Ok(mut stays) = self.stays.try_borrow_mut() {
            for stay in stays.iter_mut().filter(|stay| stay.top & OFFSET < top & OFFSET) {
                stay.top = top;
            }
        }
        if self.inlined_from.get() != NOT_INLINED {
            self.inlined_from.set(self.inlined_from.get().max(top & OFFSET));
        }
    }

    /// Whether the span of this number, which is not on the stack, began in a fiber that has left since then.
    pub(super) fn has_left(&self, number: u64) -> bool {
        let until = if self.current() == 0 { self.left.get() } else { self.current() };
        self.first.get() != 0 && (self.first.get()..until).contains(&(number | OFFSET))
    }
}

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
    if let Some(ended) = ended_elsewhere::since(parked.ended) {
        parked.spans.retain(|(_, of_guard)| !ended.contains(of_guard));
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
    if fiber.first.get() == 0 {
        fiber.first.set(number);
    }
    local.open.set(number);
    compiler_fence(Ordering::SeqCst); // a handler that finds no inlined path finds the top
    local.header.inlined.set(0);
    compiler_fence(Ordering::SeqCst); // until then, the top there is BUSY
    local.header.open_inlined.set(NOT_INLINED);
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
        parked.spans.reverse();
        parked.ended = ended_elsewhere::count();
        fiber.end(number);
        // Unless spans of the thread itself have ended meanwhile.
        let open = self.open.get();
        let open = if open == number { top } else { open };
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
