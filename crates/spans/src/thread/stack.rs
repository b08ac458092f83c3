//! The open spans of a thread.
#![allow(unsafe_code)]

// A stack of slots that grows downwards from the last one, which stands for no span. A span is known by a number: the byte
// offset of its slot in the lowest bits, and above it a number that is new whenever a span ends out of order. So the numbers of
// a thread's open spans differ, and a span that is dropped out of order, or when its thread's state is gone or replaced,
// finds another number and is told apart. The number of the innermost span is the top, which the caller has.

use crate::counting::Start;
use crate::record::{AtomicU64, FLAGS_SHIFT, Faults, Flags, OFFSET, OUTERMOST, SLOT, Site};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{Ordering, compiler_fence};

/// The slots: one for each offset.
const SLOTS: usize = (OFFSET + 1) as usize / size_of::<Slot>();

const _: () = assert!(SLOT == size_of::<Slot>() as u64);

/// In place of the top: a record is being written. A span that begins now is in a signal handler or in the allocator.
pub(super) const BUSY: u64 = 0;

/// In the number of a span that has no counts at its beginning, or whose ticks are in its slot although it is on the
/// inlined path. Its number on the stack is without it.
pub(super) const UNCOUNTED: u64 = 1 << 63;

/// A span that is open.
#[repr(align(128))]
pub(crate) struct Slot {
    pub(crate) site: Cell<*const Site>,
    /// The ticks at the beginning of a span that began on the outlined path.
    pub(super) ticks: Cell<u64>,
    /// The number of the span that used this slot last. On the inlined path, see `numbered`.
    pub(crate) number: Cell<u64>,
    pub(super) start: Start,
    /// The thread's page faults at the beginning of the span of this number. 0 for none.
    pub(super) faults: Cell<(u64, Faults)>,
}

/// The slots of a thread.
#[repr(C)]
pub(crate) struct Stack {
    /// The first number of this stack, that of no span.
    pub(crate) born: u64,
    /// The offset down to which slots have their spans' numbers, if the inlined path leaves them out.
    numbered: Cell<u64>,
    /// The first number after those of spans that were given up. 0 if none were.
    given_up: Cell<u64>,
    slots: [Slot; SLOTS],
}

impl Stack {
    /// Makes a stack of memory that is zero, and returns its top, which is `born`. In place, because it takes 64 KiB. Few of these are
    /// ever used, so the others are not touched.
    ///
    /// # Safety
    /// `to` may be written, and all of its bytes are 0.
    pub(super) unsafe fn new_at(to: *mut Stack) -> u64 {
        /// More than most threads have open at once. Written, so that these do not fault when they are used.
        const USUAL: usize = 32;
        let born = new_number(OUTERMOST);
        // SAFETY: the caller's memory. Zeros are valid slots: no site, no ticks, no number, no snapshot, and no faults.
        unsafe {
            (&raw mut (*to).born).write(born);
            (&raw mut (*to).numbered).write(Cell::new(OUTERMOST));
            let slots = (&raw mut (*to).slots).cast::<Slot>();
            for place in SLOTS - USUAL..SLOTS {
                (&raw mut (*slots.add(place)).site).write_volatile(Cell::new(ptr::null()));
            }
        }
        born
    }

    /// Returns a stack of its own.
    #[cfg(test)]
    pub(crate) fn new() -> Box<Stack> {
        // SAFETY: a stack that is made of zeros, with the allocator and the layout of its box.
        unsafe {
            let memory = std::alloc::alloc_zeroed(std::alloc::Layout::new::<Stack>()).cast();
            Stack::new_at(memory);
            Box::from_raw(memory)
        }
    }

    /// Whether a number is from before this stack: that of an earlier session.
    pub(super) fn is_older(&self, number: u64) -> bool {
        number | OFFSET < self.born
    }

    /// Returns the slot of a number, and the address of the slot around it. That of the outermost slot is the end of the stack.
    #[inline(always)]
    pub(crate) fn slot_and_around(&self, number: u64) -> (&Slot, *const Slot) {
        let offset = (number & OFFSET) as usize;
        // SAFETY: OFFSET masks 16 bits, which are SLOTS * SLOT. Numbers change by SLOT alone, and begin with OUTERMOST, so
        // there is a slot at each of their offsets. So there is at 0, the offset of BUSY. The second address is computed from the
        // array's, because a reference to one slot may not be used for the next one.
        unsafe {
            let slot = self.slots.as_ptr().byte_add(offset);
            (&*slot, slot.add(1))
        }
    }

    /// Returns the slot of a number.
    #[inline(always)]
    pub(super) fn slot(&self, number: u64) -> &Slot {
        self.slot_and_around(number).0
    }

    /// Returns the site of the span of a number. Null for none.
    #[inline(always)]
    pub(super) fn site(&self, number: u64) -> *const Site {
        self.slot(number).site.get()
    }

    /// Puts a span on the stack, and returns its number and slot. None if there are too many, or a record is being written.
    #[inline(always)]
    pub(crate) fn push(&self, top: &Cell<u64>, site: &'static Site) -> Option<(u64, &Slot)> {
        let around = top.get();
        if around & OFFSET == 0 {
            return None; // the last slot, or BUSY
        }
        let number = around.wrapping_sub(SLOT);
        // SAFETY: what is above the offset is never 0: see `new_number`. So the caller need not check for it.
        unsafe { std::hint::assert_unchecked(number != 0) };
        // First, so that a span in a signal handler of this thread has a slot of its own.
        top.set(number);
        compiler_fence(Ordering::SeqCst);
        let slot = self.slot(number);
        slot.site.set(site);
        Some((number, slot))
    }

    /// Writes the numbers of all open spans to their slots, where the inlined path has left them out.
    pub(super) fn number_all(&self, top: u64) {
        let mut offset = self.numbered.get();
        while offset > top & OFFSET {
            offset -= SLOT;
            self.slot(offset).number.set(top & !OFFSET | offset);
        }
        self.numbered.set(top & OFFSET);
    }

    /// Lets no guard find a slot inside of `top` whose span has this number, or a later one.
    pub(super) fn forget_numbers(&self, top: u64, number: u64) {
        let mut offset = top & OFFSET;
        while offset >= SLOT {
            offset -= SLOT;
            let slot = self.slot(offset);
            if slot.site.get().is_null() {
                return; // none inside has been used
            }
            if slot.number.get() | OFFSET >= number {
                slot.number.set(0);
            }
        }
    }

    /// Forgets all open spans.
    pub(super) fn give_up(&self, top: &Cell<u64>) {
        let number = new_number(OUTERMOST);
        self.given_up.set(number);
        self.numbered.set(OUTERMOST);
        top.set(number);
    }

    /// Whether this is the number of a span that was forgotten. It is not older than this stack.
    pub(super) fn is_given_up(&self, number: u64) -> bool {
        number | OFFSET < self.given_up.get()
    }

    /// Takes a span from the stack. Returns the site of the one around it, and its flags. None if it is not on the stack.
    ///
    /// Spans inside it that are still open are off the stack, too, and are not found when they end. `is_numbered`: every
    /// slot has its number.
    pub(crate) fn pop(
        &self,
        top: &Cell<u64>,
        number: u64,
        is_numbered: bool,
    ) -> Option<(*const Site, Flags)> {
        let innermost = top.get();
        let offset = number & OFFSET;
        // Below `numbered`, the numbers are those of the top.
        let in_slot = match is_numbered || offset >= self.numbered.get() {
            true => self.slot(offset).number.get(),
            false => innermost & !OFFSET | offset,
        };
        let is_open = offset < OUTERMOST && offset >= innermost & OFFSET;
        if innermost == BUSY || !is_open || number != in_slot {
            return None;
        }
        let around = offset + SLOT;
        let parent = self.site(around);
        if offset == innermost & OFFSET {
            top.set(innermost.wrapping_add(SLOT));
            self.numbered.set(self.numbered.get().max(around));
            return Some((parent, Flags::NONE));
        }
        // Later spans have other numbers. Those that are still open keep theirs.
        let mut numbered = self.numbered.get();
        while !is_numbered && numbered > around {
            numbered -= SLOT;
            self.slot(numbered).number.set(innermost & !OFFSET | numbered);
        }
        self.numbered.set(around);
        top.set(new_number(around));
        Some((parent, Flags::OUT_OF_ORDER))
    }
}

/// Returns a number that no span has had, for this offset.
pub(super) fn new_number(offset: u64) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    const BITS: u32 = FLAGS_SHIFT - 16;
    loop {
        let next = NEXT.fetch_add(1, Ordering::Relaxed) & !(!0 << BITS);
        if next != 0 {
            return (next * (OFFSET + 1)) | offset;
        }
    }
}

/// Returns a number one deeper than `around`, if there is such a depth: that of a lap, which has no slot.
pub(super) fn one_deeper(around: u64) -> u64 {
    if around & OFFSET == 0 { around } else { around.wrapping_sub(SLOT) }
}
