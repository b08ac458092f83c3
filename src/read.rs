//! The hot path: one event's page, read without a system call.
#![allow(unsafe_code)]

use crate::asm::{self, Registers};
use crate::error::NoUserAccess;
use crate::math;
use crate::page::Page;
use crate::sys::capability;

/// A page together with the way to the registers it speaks of.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Reader {
    page: Page,
    registers: Registers,
}

impl Reader {
    /// Reads what the kernel publishes on `page`, if this code can make use of it.
    pub(crate) fn new(page: Page) -> Result<Reader, NoUserAccess> {
        if !page.capabilities().are_sure() {
            return Err(NoUserAccess::PageTooOld);
        }
        if asm::FIXED_WHEN_MAPPED && !page.capabilities().have(capability::USER_RDPMC) {
            return Err(NoUserAccess::NotOffered);
        }
        let bits = page.width();
        match Registers::of_width(bits) {
            Some(registers) => Ok(Reader { page, registers }),
            None => Err(NoUserAccess::Width { bits }),
        }
    }

    /// Answers None for ever.
    pub(crate) fn none() -> Reader {
        Reader { page: Page::empty(), registers: Registers::none() }
    }

    /// The count, or None while `index` is 0.
    #[inline(always)]
    pub(crate) fn count(&self) -> Option<u64> {
        // SAFETY: Page's address is readable while it lives. The kernel publishes an index where it
        // lets this thread read that counter: `new` has seen the capability, or where it moves
        // with the counter (FIXED_WHEN_MAPPED) an index comes with it.
        unsafe { asm::count(self.page.address(), self.registers) }
    }

    /// Whether the page names a register at this moment. Unlike [`count`](Reader::count), this
    /// does not read it.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.page.index() != 0
    }

    /// The count with the times brought up to now, or None while `index` is 0 or where the page
    /// has no clock.
    pub(crate) fn reading(&self) -> Option<Reading> {
        loop {
            let lock = self.page.lock(); // pairs with the load at the end of the round
            let (enabled, running) = self.page.times();
            let conversion = self.page.conversion()?;
            let value = self.count()?;
            // SAFETY: the page has a conversion, so it has cap_user_time; that a thread which forbids
            // itself the tick counter must not come here, Counter's documentation says.
            let elapsed = conversion.elapsed(unsafe { asm::ticks() })?;
            if self.page.lock() == lock {
                // There was a count, so the event was running up to now.
                return Some(Reading {
                    value,
                    // A hair before the page's last update, should the conversion round so.
                    time_enabled: enabled.saturating_add_signed(elapsed as i64),
                    time_running: running.saturating_add_signed(elapsed as i64),
                });
            }
        }
    }
}

/// A count and the times it took, from [`Counter::reading`](crate::Counter::reading).
///
/// When more events are open than the PMU has counters, the kernel lets them take turns
/// (multiplexing): then `time_running` is less than `time_enabled`, and `value` is what was
/// counted during the former.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// Events counted while a counter was there to count them.
    pub value: u64,
    /// Nanoseconds this thread ran with the event enabled (`time_enabled`).
    pub time_enabled: u64,
    /// Nanoseconds of these that the event had a counter (`time_running`).
    pub time_running: u64,
}

impl Reading {
    /// Whether the event was without a counter part of the time, so that `value` is not all.
    pub fn is_multiplexed(&self) -> bool {
        self.time_running != self.time_enabled
    }

    /// An estimate of the events in all of `time_enabled`, rounded down: `value` times
    /// `time_enabled` over `time_running`, exact in 128 bits.
    ///
    /// None if the event never had a counter, or if the estimate exceeds 64 bits.
    pub fn scaled(&self) -> Option<u64> {
        math::scale(self.value, self.time_enabled, self.time_running)
    }
}
