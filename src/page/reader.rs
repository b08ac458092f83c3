//! The hot path: the pages of a group's events, read without a system call.
#![allow(unsafe_code)]

use crate::asm::{self, Register, Registers};
use crate::error::SyscallReason;
use crate::kernel::{ControlPage, capability};
use crate::page::{self, Page, Pages};

/// The pages of a group, and the way to the registers that they name.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Reader<const N: usize> {
    pages: Pages<N>,
    registers: Registers,
}

impl<const N: usize> Reader<N> {
    /// Returns a reader of `pages` if user space can read their counters. Otherwise returns the position of the first
    /// page that prevents it, and the reason.
    pub(crate) fn new(pages: Pages<N>) -> Result<Reader<N>, (usize, SyscallReason)> {
        let mut registers = Registers::none();
        let mut widths = None;
        for (place, page) in pages.each().into_iter().enumerate() {
            let obstacle = |why| Err((place, why));
            if !page.capabilities().are_sure() {
                return obstacle(SyscallReason::PageTooOld);
            }
            if asm::FIXED_WHEN_MAPPED && !page.capabilities().have(capability::USER_RDPMC) {
                return obstacle(SyscallReason::NotOffered);
            }
            let bits = page.width();
            match Registers::of_width(bits) {
                // All pages share one way to the registers.
                Some(all) if !asm::FIXED_WHEN_MAPPED || *widths.get_or_insert(bits) == bits => {
                    registers = all;
                }
                _ => return obstacle(SyscallReason::Width { bits }),
            }
        }
        Ok(Reader { pages, registers })
    }

    /// Returns a reader that always returns None.
    pub(crate) fn none() -> Reader<N> {
        Reader { pages: Pages::empty(), registers: Registers::none() }
    }

    /// Returns the simultaneous counts. None while an `index` is 0.
    #[inline(always)]
    pub(crate) fn counts<const ORDERED: bool>(&self) -> Option<[u64; N]> {
        if N == 1 {
            // A single counter may have any width (widths differ on riscv64). `counts` assumes one width for all.
            // SAFETY: the page is readable while `self` lives. The kernel publishes an index only if this thread may
            // read the counter: `new` has checked the capability, or an index implies it (FIXED_WHEN_MAPPED is
            // false).
            let count = unsafe { asm::count::<ORDERED>(self.pages.address(), self.registers) };
            return count.map(|count| [count; N]);
        }
        // SAFETY: the pages are readable while `self` lives. The kernel publishes an index only if this thread may
        // read the counter: `new` has checked the capability, or an index implies it (FIXED_WHEN_MAPPED is false).
        unsafe { asm::counts::<N, ORDERED>(self.pages.address(), self.registers) }
    }

    /// Whether each page names a register now. Reads no counter.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.pages.each().iter().all(|page| page.index() != 0)
    }

    /// Returns the sum of the `lock`s. Each only ever advances, so if the sum is unchanged, so are they, short of
    /// 2^32 updates in between.
    #[inline(always)]
    pub(crate) fn locks(&self) -> u64 {
        self.pages.each().iter().fold(0, |sum, page| sum + u64::from(page.lock()))
    }

    /// Returns the registers that the pages name now. None if a page names none.
    #[inline(always)]
    pub(crate) fn named(&self) -> Option<[Register; N]> {
        let pages = self.pages.each();
        let mut named = [self.registers.register(pages.first()?.index())?; N];
        for (register, page) in named.iter_mut().zip(pages).skip(1) {
            *register = self.registers.register(page.index())?;
        }
        Some(named)
    }

    /// Returns the register widths in the pages now, in bits.
    pub(crate) fn widths(&self) -> [u16; N] {
        self.pages.each().map(Page::width)
    }
}

impl Reader<1> {
    /// Returns the address and the way to the register, to be kept apart from the reader.
    ///
    /// # Safety
    /// The view is not read after the reader is dropped.
    pub(crate) unsafe fn view(&self) -> View {
        View { address: self.pages.address(), registers: self.registers }
    }

    /// Returns the count of an event that has no counter now. While `index` is 0, the whole count is in `offset`, as
    /// in the loop of the kernel's header. Valid if the lock has not moved.
    fn count_at_rest(&self) -> Option<u64> {
        let [page] = self.pages.each();
        (page.index() == 0).then(|| page.offset() as u64)
    }
}

/// Returns the sum of the counts of one event on several PMUs, of which one counts at a time. None while none counts,
/// or if one cannot be read.
#[inline(never)]
pub(crate) fn sum<'a, const ORDERED: bool>(
    first: &'a Reader<1>,
    others: impl Iterator<Item = &'a Reader<1>> + Clone,
) -> Option<u64> {
    loop {
        let locks = first.locks() + locks_of(others.clone()); // pairs with the loads at the end of the round
        let (mut sum, mut is_running, mut are_readable) = (0_u64, false, true);
        let mut add = |reader: &Reader<1>| {
            let count = match reader.counts::<ORDERED>() {
                Some([count]) => {
                    is_running = true;
                    Some(count)
                }
                None => reader.count_at_rest(),
            };
            are_readable &= count.is_some();
            sum = sum.wrapping_add(count.unwrap_or(0));
        };
        add(first);
        others.clone().for_each(&mut add);
        if first.locks() + locks_of(others.clone()) == locks {
            return (is_running && are_readable).then_some(sum);
        }
    }
}

/// Returns the sum of their `lock`s: see [`Reader::locks`].
pub(crate) fn locks_of<'a>(readers: impl Iterator<Item = &'a Reader<1>>) -> u64 {
    readers.fold(0, |sum, reader| sum + reader.locks())
}

/// The address and the way to the register of one event, at the beginning of its handle. The handle's field documents
/// whose page it is.
///
/// The fields are in this order so that arm64 loads both with one instruction.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct View {
    address: *const ControlPage,
    registers: Registers,
}

impl View {
    /// Returns a view that always returns None.
    pub(crate) fn none() -> View {
        View { address: page::empty(), registers: Registers::none() }
    }

    /// Returns the count. None while `index` is 0.
    #[inline(always)]
    pub(crate) fn count<const ORDERED: bool>(&self) -> Option<u64> {
        // SAFETY: the page is static or that of a reader that is still alive, by `view`'s contract. The kernel
        // publishes an index only if this thread may read the counter: `Reader::new` has checked the capability, or
        // an index implies it (FIXED_WHEN_MAPPED is false).
        unsafe { asm::count::<ORDERED>(self.address, self.registers) }
    }
}

impl<const N: usize> Reader<N> {
    /// Returns the counts, read last, with the times of the first event. None while an `index` is 0. If `TIMED`, also
    /// None if the page has no clock.
    #[inline]
    pub(crate) fn snapshot<const ORDERED: bool, const TIMED: bool>(&self) -> Option<Snapshot<N>> {
        let first = *self.pages.each().first()?;
        loop {
            let locks = self.locks(); // pairs with the loads at the end of the round
            let (time_enabled, time_running) = first.times();
            let more = match first.since_update() {
                // SAFETY: the page has a conversion, so it has cap_user_time. `Counter` documents that a thread that
                // forbids itself the tick counter must not come here.
                Some(clock) => clock.ticks_to_ns(unsafe { asm::ticks::<false>() }),
                // Before the counts: reading them may take longer than the system call that follows.
                None if TIMED => return None,
                None => 0,
            };
            // Before the counts: then the inputs of the computation no longer occupy registers.
            let more = asm::settled(more) as i64;
            let counts = self.counts::<ORDERED>()?;
            if self.locks() == locks {
                // The events had counts, so they were running until now. The time may be slightly before the page's
                // last update if the conversion rounds so.
                return Some(Snapshot {
                    counts,
                    time_enabled: time_enabled.saturating_add_signed(more),
                    time_running: time_running.saturating_add_signed(more),
                });
            }
        }
    }

    /// Returns for how many nanoseconds the first event has been without its counter while it was enabled and the
    /// thread running. None while an `index` is 0. Reads no counter.
    pub(crate) fn absence(&self) -> Option<u64> {
        let first = *self.pages.each().first()?;
        loop {
            let locks = self.locks(); // pairs with the loads at the end of the round
            let (time_enabled, time_running) = first.times();
            let is_scheduled = self.is_scheduled();
            if self.locks() == locks {
                // Both times advance equally after the page's last update.
                return is_scheduled.then(|| time_enabled.wrapping_sub(time_running));
            }
        }
    }
}

/// The simultaneous counts of a group, and its times. If the page has no clock, the times are those of its last
/// update. Their difference is current in both cases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot<const N: usize> {
    pub(crate) counts: [u64; N],
    pub(crate) time_enabled: u64,
    pub(crate) time_running: u64,
}
