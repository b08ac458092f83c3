//! The hot path: the pages of a group's events, read without a system call.
#![allow(unsafe_code)]

use crate::asm::{self, ROUNDS, Register, Registers};
use crate::error::{Error, ErrorKind};
use crate::kernel::{ControlPage, capability};
use crate::page::{self, Page, Pages};
use std::sync::atomic::{AtomicU32, Ordering};

/// The address of a group's pages, and the way to the registers that they name: all that a read needs. Methods that take `N`
/// read the pages of `N` events.
///
/// The fields are in this order so that arm64 loads both with one instruction.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct View {
    /// Of the group's pages, or of pages of zeros if nothing is to be read.
    address: *const ControlPage,
    registers: Registers,
    /// The number of the handle, which tells snapshots of different handles apart.
    id: u32,
}

/// Reads the counts a number of times. None if one read fails. See [`View::repeat`].
pub(crate) type Repeat = fn(&View, u64) -> Option<()>;

impl View {
    /// Returns a view of pages if user space can read their counters. Otherwise returns the position of the first page that
    /// prevents it, and the reason.
    ///
    /// # Safety
    /// The view and its copies are not read after the pages are dropped, and not as more events than there are pages: `N` of
    /// its methods is at most their number. `OpenGroup` keeps it beside the pages, and `Group` and `DynGroup` are made with the
    /// number of its events.
    pub(crate) unsafe fn of_pages(pages: &Pages) -> Result<View, (usize, Error)> {
        let mut registers = Registers::none();
        let mut widths = None;
        for (place, page) in pages.each().enumerate() {
            let obstacle = |why| Err((place, why));
            if !page.capabilities().are_sure() {
                return obstacle(Error::new(
                    ErrorKind::PageTooOld,
                    "the control page has the layout of a kernel before 3.12, whose capability bits are ambiguous",
                    "Use a newer kernel",
                ));
            }
            if asm::FIXED_WHEN_MAPPED && !page.capabilities().have(capability::USER_RDPMC) {
                return obstacle(Error::not_offered());
            }
            let bits = page.width();
            match Registers::of_width(bits) {
                // All pages share one way to the registers.
                Some(all) if !asm::FIXED_WHEN_MAPPED || *widths.get_or_insert(bits) == bits => {
                    registers = all;
                }
                _ => return obstacle(Error::of_width(bits)),
            }
        }
        Ok(View { address: pages.address(), registers, id: next_id() })
    }

    /// Returns a view that always returns None.
    pub(crate) fn none() -> View {
        View { address: page::empty(), registers: Registers::none(), id: next_id() }
    }

    /// Whether it always returns None.
    pub(crate) fn is_none(&self) -> bool {
        self.address == page::empty()
    }

    /// Gives the view a new number, so that snapshots before and after have no difference.
    pub(crate) fn renumber(&mut self) {
        self.id = next_id();
    }

    #[inline(always)]
    fn pages<const N: usize>(&self) -> [Page<'_>; N] {
        page::each(self.address)
    }

    /// Returns the count. None while `index` is 0.
    #[inline(always)]
    pub(crate) fn count(&self) -> Option<u64> {
        self.count_and_lock().map(|(count, _)| count)
    }

    /// Returns the count, and the `lock` at that instant. None while `index` is 0.
    #[inline(always)]
    fn count_and_lock(&self) -> Option<(u64, u32)> {
        // SAFETY: the page is static or that of pages that are still alive, by the contract of `View::of_pages`. There is at least one. The kernel
        // publishes an index only if this thread may read the counter: `View::of_pages` has checked the capability, or an
        // index implies it (FIXED_WHEN_MAPPED is false).
        unsafe { asm::count(self.address, self.registers) }
    }

    /// Returns the simultaneous counts. None while an `index` is 0.
    #[inline(always)]
    pub(crate) fn counts<const N: usize>(&self) -> Option<[u64; N]> {
        self.counts_and_locks::<N, false>().map(|(counts, _)| counts)
    }

    /// Returns the simultaneous counts, and if `LOCKS` the sum of the `lock`s at that instant. None while an `index`
    /// is 0.
    #[inline(always)]
    pub(crate) fn counts_and_locks<const N: usize, const LOCKS: bool>(
        &self,
    ) -> Option<([u64; N], u32)> {
        if N == 1 {
            // A single counter may have any width (widths differ on riscv64). `counts` assumes one width for all.
            return self.count_and_lock().map(|(count, lock)| ([count; N], lock));
        }
        // SAFETY: the pages are static or alive, as in `count_and_lock`, and their indexes imply access as there. By the contract of
        // `View::of_pages`, there are as many; there are `MAX_EVENTS` static ones.
        unsafe { asm::counts::<N, LOCKS>(self.address, self.registers) }
    }

    /// Reads the counts `times` times. None if one read fails.
    pub(crate) fn repeat<const N: usize>(&self, times: u64) -> Option<()> {
        (0..times).try_for_each(|_| self.counts::<N>().map(drop))
    }

    /// Returns the handle's number.
    #[inline(always)]
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Returns the sum of the `lock`s. Each only ever advances, so if the sum is unchanged, so are they, short of
    /// 2^32 updates in between. (So does that of a page that is given up.)
    #[inline(always)]
    pub(crate) fn locks<const N: usize>(&self) -> u64 {
        self.pages::<N>().iter().fold(0, |sum, page| sum + u64::from(page.lock()))
    }

    /// Returns the registers that the pages name now. None if a page names none.
    #[inline(always)]
    pub(crate) fn named<const N: usize>(&self) -> Option<[Register; N]> {
        let pages = self.pages::<N>();
        let mut named = [self.registers.register(pages.first()?.index())?; N];
        for (register, page) in named.iter_mut().zip(pages).skip(1) {
            *register = self.registers.register(page.index())?;
        }
        Some(named)
    }

    /// Returns the register widths in the pages now, in bits.
    #[inline(always)]
    pub(crate) fn widths<const N: usize>(&self) -> [u16; N] {
        self.pages().map(Page::width)
    }

    /// Returns the count of an event that has no counter now. While `index` is 0, the whole count is in `offset`, as
    /// in the loop of the kernel's header. Valid if the lock has not moved. None if there is no page: zeros may be in place of
    /// one whose reads fault, and have no capabilities.
    fn count_at_rest(&self) -> Option<u64> {
        let [page] = self.pages();
        (page.index() == 0 && page.capabilities().are_sure()).then(|| page.offset() as u64)
    }

    /// Returns the counts, read last, with the times of the first event. None while an `index` is 0, or if the kernel
    /// updates a page each time. If `TIMED`, also None if the page has no clock.
    #[inline]
    pub(crate) fn timed<const N: usize, const TIMED: bool>(&self) -> Option<Timed<N>> {
        let first = *self.pages::<N>().first()?;
        let mut left = u64::from(ROUNDS);
        loop {
            let locks = self.locks::<N>(); // pairs with the loads at the end of the round
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
            let counts = self.counts::<N>()?;
            if self.locks::<N>() == locks {
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
}

/// Returns the number of a new handle, from 1. An address would not do: it may be that of a closed handle.
fn next_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Returns the sum of the counts of one event on several PMUs, of which one counts at a time, and the sum of the pages'
/// locks, modulo 2^32. None while none counts, or if one cannot be read, or if the kernel updates a page each time.
#[inline(never)]
pub(crate) fn sum<'a>(views: impl Iterator<Item = &'a View> + Clone) -> Option<(u64, u32)> {
    for _ in 0..ROUNDS {
        let locks = locks_of(views.clone()); // pairs with the loads at the end of the round
        let (mut sum, mut is_running, mut are_readable) = (0_u64, false, true);
        for view in views.clone() {
            let count = match view.count() {
                Some(count) => {
                    is_running = true;
                    Some(count)
                }
                None => view.count_at_rest(),
            };
            are_readable &= count.is_some();
            sum = sum.wrapping_add(count.unwrap_or(0));
        }
        if locks_of(views.clone()) == locks {
            return (is_running && are_readable).then_some((sum, locks as u32));
        }
    }
    None
}

/// Returns the sum of their `lock`s: see [`View::locks`].
pub(crate) fn locks_of<'a>(views: impl Iterator<Item = &'a View>) -> u64 {
    views.fold(0, |sum, view| sum + view.locks::<1>())
}

/// The simultaneous counts of a group, and its times. If the page has no clock, the times are those of its last
/// update. Their difference is current in both cases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed<const N: usize> {
    pub(crate) counts: [u64; N],
    pub(crate) time_enabled: u64,
    pub(crate) time_running: u64,
}
