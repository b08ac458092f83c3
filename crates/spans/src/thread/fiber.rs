//! The open spans of a fiber, which leave a thread and enter another.
#![allow(unsafe_code)]

// A fiber that leaves ends its spans here, and one that enters begins them again: each stay is a record. The guards of its spans keep the
// numbers that they have. While the fiber is in, a table tells which numbers these spans have on the stack of this thread. Only the slow
// paths look at it: the top is never the number of such a guard. In a fiber, no span is on the inlined path, so that the slots have the
// ticks at which they began.

use crate::record::{MAX_DEPTH, OFFSET, Site};
use crate::thread::current::{Header, NOT_INLINED, header};
use crate::thread::spans::UNCOUNTED;
use crate::thread::stack::{BUSY, new_number};
use crate::thread::state::Local;
use crate::thread::time::header_in_session;
use std::cell::{Cell, RefCell};

/// What a thread knows of the fiber that it is in.
#[derive(Debug)]
pub(super) struct InFiber {
    /// The first number on the stack since it entered: no other entry on any thread has it. 0 in no fiber.
    entry: Cell<u64>,
    /// The numbers of guards, and those that their spans have here: 0 if they found no slot.
    moved: RefCell<Vec<(u64, u64)>>,
    /// The offset from which on spans began on the inlined path, before the thread entered a fiber. `NOT_INLINED` for none.
    inlined_from: Cell<u64>,
}

impl InFiber {
    pub(super) fn none() -> InFiber {
        InFiber {
            entry: Cell::new(0),
            moved: RefCell::default(),
            inlined_from: Cell::new(NOT_INLINED),
        }
    }

    pub(super) fn entry(&self) -> u64 {
        self.entry.get()
    }

    /// Returns the number that the span of a guard has on the stack.
    pub(super) fn number_here(&self, of_guard: u64) -> u64 {
        // In use in an allocator that the entry calls. Then the span is not found.
        let Ok(moved) = self.moved.try_borrow() else { return of_guard };
        let is_it = |(guard, _): &&(u64, u64)| *guard == of_guard & !UNCOUNTED;
        moved.iter().rev().find(is_it).map_or(of_guard, |(_, here)| *here)
    }

    /// As `number_here`, of a span that ends: later ones may have its number here.
    pub(super) fn end_number_here(&self, of_guard: u64) -> u64 {
        let number = self.number_here(of_guard);
        if number != of_guard {
            if let Ok(mut moved) = self.moved.try_borrow_mut() {
                moved.retain(|(guard, _)| *guard != of_guard & !UNCOUNTED);
            }
        }
        number
    }

    /// Returns the number that the guard of a span has.
    fn number_of_guard(&self, number: u64) -> u64 {
        let Ok(moved) = self.moved.try_borrow() else { return number };
        let is_it = |(_, here): &&(u64, u64)| here & !UNCOUNTED == number;
        moved.iter().rev().find(is_it).map_or(number, |(guard, _)| *guard)
    }

    /// Whether the span of this number began on the inlined path, before the thread entered a fiber.
    pub(super) fn is_of_inlined(&self, number: u64) -> bool {
        number & OFFSET >= self.inlined_from.get()
    }
}

/// The open spans of a fiber that is in no thread.
#[derive(Debug)]
pub(crate) struct Parked {
    /// The site of each, and the number of its guard. The outermost one first.
    spans: Vec<(&'static Site, u64)>,
    session: u32,
}

/// A thread's entry into a fiber.
#[derive(Debug)]
pub(crate) struct Entered {
    header: *const Header,
    session: u32,
    /// What the thread had before.
    top: u64,
    entry_before: u64,
    inlined_before: (u32, u64),
    moved_before: usize,
}

impl Parked {
    pub(crate) const fn new() -> Parked {
        Parked { spans: Vec::new(), session: 0 }
    }

    pub(crate) fn spans(&self) -> usize {
        self.spans.len()
    }
}

/// Begins the spans of a fiber on this thread. None if spans are off, or a record is being written: then the fiber's spans wait.
pub(crate) fn enter_fiber(parked: &mut Parked) -> Option<Entered> {
    // First, so that spans in an allocator find the thread as it was.
    parked.spans.reserve(1);
    let header = header_in_session()?;
    // SAFETY: a header with a session is that of this thread's state, which only `join` and the end of the thread replace.
    let local = unsafe { &*header.cast::<Local>() };
    let (session, top) = (local.header.session, local.top().get());
    if top == BUSY {
        return None;
    }
    if parked.session != session {
        // Their guards will find that they are of an earlier session.
        parked.spans.clear();
        parked.session = session;
    }
    let fiber = &local.fiber;
    let mut moved = fiber.moved.try_borrow_mut().ok()?;
    moved.reserve(parked.spans.len());
    let moved_before = moved.len();
    drop(moved);
    let inlined_before = (local.header.inlined.get(), fiber.inlined_from.get());
    if inlined_before.0 != 0 {
        local.stack.number_all(top);
        fiber.inlined_from.set(top & OFFSET);
        local.header.open_inlined.set(NOT_INLINED);
        local.header.inlined.set(0);
    }
    // No span before has this number, so no guard takes a slot of the fiber for its own.
    let fresh = new_number(top & OFFSET);
    local.open.set(fresh);
    let entry_before = fiber.entry.replace(fresh);
    for (site, of_guard) in &parked.spans {
        // SAFETY: the header is this thread's, and the session is its own.
        let number = unsafe { (local.header.calls().enter)(header, site, session) };
        if let Ok(mut moved) = fiber.moved.try_borrow_mut() {
            moved.push((*of_guard, number));
        }
    }
    Some(Entered { header, session, top, entry_before, inlined_before, moved_before })
}

/// Ends the spans of a fiber on this thread, which has entered it, and keeps them.
pub(crate) fn leave_fiber(parked: &mut Parked, entered: Entered) {
    let Entered { header, session, top, entry_before, inlined_before, moved_before } = entered;
    parked.spans.clear();
    // The thread is ending.
    if header != self::header() {
        return;
    }
    // SAFETY: it is this thread's state, as in `enter_fiber`, or another one there.
    let local = unsafe { &*header.cast::<Local>() };
    // It is in another session since then.
    if local.header.session != session {
        return;
    }
    let (fiber, fresh) = (&local.fiber, local.fiber.entry.get());
    // The innermost first. Each takes one from the stack, unless a record is being written.
    for _ in 0..=MAX_DEPTH {
        let innermost = local.open.get();
        if innermost == BUSY || innermost & OFFSET >= top & OFFSET {
            break;
        }
        let slot = local.stack.slot(innermost);
        // SAFETY: the slot of an open span has its site, a static.
        let Some(site) = (unsafe { slot.site.get().as_ref() }) else { break };
        let number = slot.number.get();
        let (of_faults, _) = slot.faults.get();
        let uncounted = if of_faults == number | UNCOUNTED { UNCOUNTED } else { 0 };
        parked.spans.push((site, fiber.number_of_guard(number)));
        // SAFETY: the header is this thread's.
        unsafe { (local.header.calls().exit)(header, site, number | uncounted, 0) };
        if local.open.get() == innermost {
            break; // it was given up
        }
    }
    parked.spans.reverse();
    if let Ok(mut moved) = fiber.moved.try_borrow_mut() {
        moved.truncate(moved_before);
    }
    // Unless spans of the thread itself have ended meanwhile.
    if local.open.get() == fresh {
        local.open.set(top);
    }
    fiber.entry.set(entry_before);
    let (inlined, inlined_from) = inlined_before;
    if inlined != 0 {
        local.header.open_inlined.set(local.open.get());
        local.header.inlined.set(inlined);
    }
    fiber.inlined_from.set(inlined_from);
}
