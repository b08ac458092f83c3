//! What a thread knows of the fibers that it is in: see `fiber`.

use crate::record::OFFSET;
use crate::thread::current::NOT_INLINED;
use crate::thread::stack::UNCOUNTED;
use std::cell::{Cell, RefCell};

/// What a thread knows of the fibers that it is in.
#[derive(Debug)]
pub(super) struct InFiber {
    /// The outermost first.
    pub(super) stays: RefCell<Vec<Stay>>,
    /// The first number on the stack in the innermost fiber. No other stay on any thread has it. 0 in no fiber.
    pub(super) current: Cell<u64>,
    pub(super) moved: RefCell<Vec<Moved>>,
    /// The numbers of spans that do not go with their fiber, and their stays.
    pub(super) bound: RefCell<Vec<(u64, u64)>>,
    /// The offset from which on spans began on the inlined path, before the thread entered a fiber. `NOT_INLINED` for none.
    pub(super) inlined_from: Cell<u64>,
}

/// A fiber that the thread is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stay {
    /// See `InFiber::current`.
    pub(super) number: u64,
    /// The top before.
    pub(super) top: u64,
    /// The session, if the thread was on the inlined path before. Otherwise 0.
    pub(super) inlined: u32,
}

/// A span that has come with a fiber.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moved {
    /// The number of its guard.
    pub(super) of_guard: u64,
    /// Its number on the stack of this thread: 0 if it has found no slot.
    pub(super) here: u64,
    pub(super) stay: u64,
}

impl InFiber {
    pub(super) fn none() -> InFiber {
        InFiber {
            stays: RefCell::default(),
            current: Cell::new(0),
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
    pub(super) fn number_of_guard(&self, number: u64) -> u64 {
        let Ok(moved) = self.moved.try_borrow() else { return number };
        let is_it = |moved: &&Moved| moved.here & !UNCOUNTED == number;
        moved.iter().find(is_it).map_or(number, |moved| moved.of_guard)
    }

    /// Whether the span of this number began on the inlined path, before the thread entered a fiber.
    pub(super) fn is_of_inlined(&self, number: u64) -> bool {
        number & OFFSET >= self.inlined_from.get()
    }

    pub(super) fn is_bound(&self, number: u64) -> bool {
        self.bound.try_borrow().is_ok_and(|bound| bound.iter().any(|(of, _)| *of == number))
    }

    /// Ends a stay, and all inside.
    pub(super) fn end(&self, stay: u64) {
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
}
