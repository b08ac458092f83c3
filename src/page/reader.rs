//! The hot path: the pages of a group's events, read without a system call.
#![allow(unsafe_code)]

use crate::asm::{self, ROUNDS, Register, Registers};
use crate::error::SyscallReason;
use crate::kernel::{ControlPage, capability};
use crate::page::monitor::Monitor;
use crate::page::{self, Page, Pages};
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};

/// The address of a group's pages, and the way to the registers that they name: all that a read needs.
///
/// The fields are in this order so that arm64 loads both with one instruction.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct View<const N: usize> {
    /// Of the group's pages, or of pages of zeros if nothing is to be read.
    address: *const ControlPage,
    registers: Registers,
    /// The number of the reader, which tells snapshots of different readers apart. 0 for none.
    id: u32,
}

impl<const N: usize> View<N> {
    /// Returns a view that always returns None.
    pub(crate) fn none() -> View<N> {
        View { address: page::empty(), registers: Registers::none(), id: 0 }
    }

    /// Whether it always returns None.
    pub(crate) fn is_none(&self) -> bool {
        self.address == page::empty()
    }

    #[inline(always)]
    fn pages(&self) -> [Page<'_>; N] {
        page::each(self.address)
    }

    /// Returns the simultaneous counts. None while an `index` is 0.
    #[inline(always)]
    pub(crate) fn counts(&self) -> Option<[u64; N]> {
        self.counts_and_locks::<false>().map(|(counts, _)| counts)
    }

    /// Returns the simultaneous counts, and if `LOCKS` the sum of the `lock`s at that instant. None while an `index`
    /// is 0.
    #[inline(always)]
    pub(crate) fn counts_and_locks<const LOCKS: bool>(&self) -> Option<([u64; N], u32)> {
        if N == 1 {
            // A single counter may have any width (widths differ on riscv64). `counts` assumes one width for all.
            // SAFETY: the pages are static or those of a reader that is still alive, by `Reader::view`'s contract. The
            // kernel publishes an index only if this thread may read the counter: `Reader::new` has checked the
            // capability, or an index implies it (FIXED_WHEN_MAPPED is false).
            let counted = unsafe { asm::count(self.address, self.registers) };
            return counted.map(|(count, lock)| ([count; N], lock));
        }
        // SAFETY: the pages are static or those of a reader that is still alive, by `Reader::view`'s contract. The
        // kernel publishes an index only if this thread may read the counter: `Reader::new` has checked the
        // capability, or an index implies it (FIXED_WHEN_MAPPED is false).
        unsafe { asm::counts::<N, LOCKS>(self.address, self.registers) }
    }

    /// Returns the reader's number.
    #[inline(always)]
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Whether each page names a register now. Reads no counter.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.pages().iter().all(|page| page.index() != 0)
    }

    /// Returns the sum of the `lock`s. Each only ever advances, so if the sum is unchanged, so are they, short of
    /// 2^32 updates in between. (So does that of a page that is given up.)
    #[inline(always)]
    pub(crate) fn locks(&self) -> u64 {
        self.pages().iter().fold(0, |sum, page| sum + u64::from(page.lock()))
    }

    /// Returns the registers that the pages name now. None if a page names none.
    #[inline(always)]
    pub(crate) fn named(&self) -> Option<[Register; N]> {
        let pages = self.pages();
        let mut named = [self.registers.register(pages.first()?.index())?; N];
        for (register, page) in named.iter_mut().zip(pages).skip(1) {
            *register = self.registers.register(page.index())?;
        }
        Some(named)
    }

    /// Whether the pages are those of events. Zeros may be in place of a page whose reads fault, and have no
    /// capabilities.
    #[inline(always)]
    pub(crate) fn has_pages(&self) -> bool {
        self.pages().iter().all(|page| page.capabilities().are_sure())
    }

    /// Returns the register widths in the pages now, in bits.
    pub(crate) fn widths(&self) -> [u16; N] {
        self.pages().map(Page::width)
    }

    /// Calls `read` until the kernel leaves the pages alone during a call, and returns that result. None if it never
    /// does.
    #[inline(always)]
    fn undisturbed<T>(&self, mut read: impl FnMut() -> T) -> Option<T> {
        for _ in 0..ROUNDS {
            let locks = self.locks(); // pairs with the loads at the end of the round
            let result = read();
            if self.locks() == locks {
                return Some(result);
            }
        }
        None
    }

    /// Whether a read fails although the pages name counters: user access was revoked. Nothing else makes it fail while
    /// the kernel leaves the pages alone. False if the kernel does not.
    pub(crate) fn is_refused(&self) -> bool {
        let is_refused = self.undisturbed(|| {
            let is_none = self.counts().is_none();
            is_none && self.is_scheduled()
        });
        is_refused.unwrap_or(false)
    }
}

/// The owner of a group's pages, and the view of them.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Reader<const N: usize> {
    view: View<N>,
    pages: Pages<N>,
    /// A bit for each event that counts at least one instruction in any region.
    pub(crate) must_advance: u8,
}

impl<const N: usize> Deref for Reader<N> {
    type Target = View<N>;

    #[inline(always)]
    fn deref(&self) -> &View<N> {
        &self.view
    }
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
        let view = View { address: pages.address(), registers, id: next_id() };
        Ok(Reader { view, pages, must_advance: 0 })
    }

    /// Gives the reader a new number, so that snapshots before and after have no difference.
    pub(crate) fn renumber(&mut self) {
        self.view.id = next_id();
    }

    /// Returns a reader that always returns None.
    pub(crate) fn none() -> Reader<N> {
        Reader { view: View::none(), pages: Pages::empty(), must_advance: 0 }
    }

    /// Returns a view of the pages, to be kept apart from the reader.
    ///
    /// # Safety
    /// The view is not read after the reader is dropped.
    pub(crate) unsafe fn view(&self) -> View<N> {
        View { address: self.pages.address(), registers: self.view.registers, id: self.view.id }
    }

    /// Returns what other threads can see of the handle.
    pub(crate) fn monitor(&self) -> &Monitor {
        self.pages.monitor()
    }

    /// Whether a read has faulted, so that zeros are in place of a page: see [`faults`](super::faults).
    pub(crate) fn is_given_up(&self) -> bool {
        self.pages.are_given_up()
    }
}

/// Returns the number of a new reader, from 1. An address would not do: it may be that of a closed handle.
fn next_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl View<1> {
    /// Returns the count. None while `index` is 0.
    #[inline(always)]
    pub(crate) fn count(&self) -> Option<u64> {
        // SAFETY: the page is static or that of a reader that is still alive, by `Reader::view`'s contract. The kernel
        // publishes an index only if this thread may read the counter: `Reader::new` has checked the capability, or an
        // index implies it (FIXED_WHEN_MAPPED is false).
        let counted = unsafe { asm::count(self.address, self.registers) };
        counted.map(|(count, _)| count)
    }

    /// Returns the count of an event that has no counter now. While `index` is 0, the whole count is in `offset`, as
    /// in the loop of the kernel's header. Valid if the lock has not moved. None if there is no page.
    fn count_at_rest(&self) -> Option<u64> {
        let [page] = self.pages();
        (page.index() == 0 && self.has_pages()).then(|| page.offset() as u64)
    }
}

/// Returns the sum of the counts of one event on several PMUs, of which one counts at a time, and the sum of the pages'
/// locks, modulo 2^32. None while none counts, or if one cannot be read, or if the kernel updates a page each time.
#[inline(never)]
pub(crate) fn sum<'a>(readers: impl Iterator<Item = &'a Reader<1>> + Clone) -> Option<(u64, u32)> {
    for _ in 0..ROUNDS {
        let locks = locks_of(readers.clone()); // pairs with the loads at the end of the round
        let (mut sum, mut is_running, mut are_readable) = (0_u64, false, true);
        for reader in readers.clone() {
            let count = match reader.count() {
                Some(count) => {
                    is_running = true;
                    Some(count)
                }
                None => reader.count_at_rest(),
            };
            are_readable &= count.is_some();
            sum = sum.wrapping_add(count.unwrap_or(0));
        }
        if locks_of(readers.clone()) == locks {
            return (is_running && are_readable).then_some((sum, locks as u32));
        }
    }
    None
}

/// Returns the sum of their `lock`s: see [`Reader::locks`].
pub(crate) fn locks_of<'a>(readers: impl Iterator<Item = &'a Reader<1>>) -> u64 {
    readers.fold(0, |sum, reader| sum + reader.locks())
}

impl<const N: usize> View<N> {
    /// Returns the counts, read last, with the times of the first event. None while an `index` is 0, or if the kernel
    /// updates a page each time. If `TIMED`, also None if the page has no clock.
    #[inline]
    pub(crate) fn timed<const TIMED: bool>(&self) -> Option<Timed<N>> {
        let first = *self.pages().first()?;
        let mut left = u64::from(ROUNDS);
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
            let counts = self.counts()?;
            if self.locks() == locks {
                // The events had counts, so they were running until now. The time may be slightly before the page's
                // last update if the conversion rounds so.
                return Some(Timed {
                    counts,
                    time_enabled: time_enabled.saturating_add_signed(more),
                    time_running: time_running.saturating_add_signed(more),
                });
            }
            // The compiler would unroll a loop of known length.
            left = asm::settled(left) - 1;
            if left == 0 {
                return None;
            }
        }
    }

    /// Returns for how many nanoseconds the first event has been without its counter while it was enabled and the
    /// thread running. None while an `index` is 0, or if the kernel updates a page each time. Reads no counter.
    pub(crate) fn absence(&self) -> Option<u64> {
        let first = *self.pages().first()?;
        self.undisturbed(|| {
            let (time_enabled, time_running) = first.times();
            // Both times advance equally after the page's last update. Seen in the wild: a running time above the enabled
            // one.
            self.is_scheduled().then(|| time_enabled.saturating_sub(time_running))
        })?
    }
}

/// The simultaneous counts of a group, and its times. If the page has no clock, the times are those of its last
/// update. Their difference is current in both cases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed<const N: usize> {
    pub(crate) counts: [u64; N],
    pub(crate) time_enabled: u64,
    pub(crate) time_running: u64,
}
