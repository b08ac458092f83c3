//! The hot path: the pages of a group's events, read without a system call.
#![allow(unsafe_code)]

use crate::asm::{self, Register, Registers};
use crate::error::SyscallReason;
use crate::kernel::{ControlPage, capability};
use crate::page::{self, Page, Pages};

/// The pages of a group together with the way to the registers they speak of.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Reader<const N: usize> {
    pages: Pages<N>,
    registers: Registers,
}

impl<const N: usize> Reader<N> {
    /// Reads what the kernel publishes on `pages`, if this code can make use of it; otherwise why
    /// not, and by which of them.
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
                // There is one way to the registers for all of them.
                Some(all) if !asm::FIXED_WHEN_MAPPED || *widths.get_or_insert(bits) == bits => {
                    registers = all;
                }
                _ => return obstacle(SyscallReason::Width { bits }),
            }
        }
        Ok(Reader { pages, registers })
    }

    /// Answers None for ever.
    pub(crate) fn none() -> Reader<N> {
        Reader { pages: Pages::empty(), registers: Registers::none() }
    }

    /// All counts at one moment, or None while the `index` of one is 0.
    #[inline(always)]
    pub(crate) fn counts<const ORDERED: bool>(&self) -> Option<[u64; N]> {
        if N == 1 {
            // One by itself may have any width (riscv64's differ); `counts` takes the same for all.
            // SAFETY: as below.
            let count = unsafe { asm::count::<ORDERED>(self.pages.address(), self.registers) };
            return count.map(|count| [count; N]);
        }
        // SAFETY: Pages' addresses are readable while it lives. The kernel publishes an index where
        // it lets this thread read that counter: `new` has seen the capability, or where it moves
        // with the counter (FIXED_WHEN_MAPPED) an index comes with it.
        unsafe { asm::counts::<N, ORDERED>(self.pages.address(), self.registers) }
    }

    /// Whether the pages name a register each at this moment. Unlike a count, this reads none.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.pages.each().iter().all(|page| page.index() != 0)
    }

    /// The sum of the `lock`s. Each only ever advances, so if it is the same, so are they, short of
    /// 2^32 updates in between.
    #[inline(always)]
    pub(crate) fn locks(&self) -> u64 {
        self.pages.each().iter().fold(0, |sum, page| sum + u64::from(page.lock()))
    }

    /// The registers that the pages name at this moment, if they name one each.
    #[inline(always)]
    pub(crate) fn named(&self) -> Option<[Register; N]> {
        let pages = self.pages.each();
        let mut named = [self.registers.register(pages.first()?.index())?; N];
        for (register, page) in named.iter_mut().zip(pages).skip(1) {
            *register = self.registers.register(page.index())?;
        }
        Some(named)
    }

    /// The widths that the pages give the registers at this moment, in bits.
    pub(crate) fn widths(&self) -> [u16; N] {
        self.pages.each().map(Page::width)
    }
}

impl Reader<1> {
    /// What it takes to read, by itself.
    ///
    /// # Safety
    /// It is not read once the reader is gone.
    pub(crate) unsafe fn view(&self) -> View {
        View { address: self.pages.address(), registers: self.registers }
    }

    /// The count of an event that has no counter at this moment: while `index` is 0, all of it is in
    /// `offset`, as in the header's own loop. To be believed if the lock has not moved.
    fn count_at_rest(&self) -> Option<u64> {
        let [page] = self.pages.each();
        (page.index() == 0).then(|| page.offset() as u64)
    }
}

/// The sum of the counts of one event on several PMUs, of which one counts at a time. None while none
/// does, or one cannot be read.
#[inline(never)]
pub(crate) fn sum<'a, const ORDERED: bool>(
    first: &'a Reader<1>,
    others: impl Iterator<Item = &'a Reader<1>> + Clone,
) -> Option<u64> {
    loop {
        let locks = first.locks() + locks_of(others.clone()); // pairs with those at the end of the round
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

/// The sum of their `lock`s: see [`Reader::locks`].
pub(crate) fn locks_of<'a>(readers: impl Iterator<Item = &'a Reader<1>>) -> u64 {
    readers.fold(0, |sum, reader| sum + reader.locks())
}

/// What it takes to read one event, at the beginning of its handle; whose the page is, is said there.
///
/// In this order, so that arm64 loads both with one instruction.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct View {
    address: *const ControlPage,
    registers: Registers,
}

impl View {
    /// Answers None for ever.
    pub(crate) fn none() -> View {
        View { address: page::empty(), registers: Registers::none() }
    }

    /// The count, or None while `index` is 0.
    #[inline(always)]
    pub(crate) fn count<const ORDERED: bool>(&self) -> Option<u64> {
        // SAFETY: as in counts; the page is that of a reader which is still there, by `view`'s contract,
        // or a static one.
        unsafe { asm::count::<ORDERED>(self.address, self.registers) }
    }
}

impl<const N: usize> Reader<N> {
    /// The counts, read last of all, with the times of the first event; or None while an `index` is 0,
    /// and where the page has no clock if the times must be `TIMED`.
    #[inline]
    pub(crate) fn snapshot<const ORDERED: bool, const TIMED: bool>(&self) -> Option<Snapshot<N>> {
        let first = *self.pages.each().first()?;
        loop {
            let locks = self.locks(); // pairs with those at the end of the round
            let (time_enabled, time_running) = first.times();
            let more = match first.since_update() {
                // SAFETY: the page has a conversion, so it has cap_user_time; that a thread which
                // forbids itself the tick counter must not come here, Counter's documentation says.
                Some(clock) => clock.ticks_to_ns(unsafe { asm::ticks::<false>() }),
                // Before the counts: to read them may cost more than the system call that is made now.
                None if TIMED => return None,
                None => 0,
            };
            // Before the counts as well, so that what it is computed from leaves the registers.
            let more = asm::settled(more) as i64;
            let counts = self.counts::<ORDERED>()?;
            if self.locks() == locks {
                // There were counts, so the events were running up to now. The time may be a hair
                // before the page's last update, should the conversion round so.
                return Some(Snapshot {
                    counts,
                    time_enabled: time_enabled.saturating_add_signed(more),
                    time_running: time_running.saturating_add_signed(more),
                });
            }
        }
    }

    /// How long the first event has been without its counter, while enabled and the thread running; or
    /// None while an `index` is 0. Reads no counter.
    pub(crate) fn absence(&self) -> Option<u64> {
        let first = *self.pages.each().first()?;
        loop {
            let locks = self.locks(); // pairs with those at the end of the round
            let (time_enabled, time_running) = first.times();
            let is_scheduled = self.is_scheduled();
            if self.locks() == locks {
                // Both go on alike from the page's last update.
                return is_scheduled.then(|| time_enabled.wrapping_sub(time_running));
            }
        }
    }
}

/// The counts of a group at one moment, and its times: of this moment as well or, where the page has no
/// clock, of its last update. The difference of the two times is that of this moment all the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot<const N: usize> {
    pub(crate) counts: [u64; N],
    pub(crate) time_enabled: u64,
    pub(crate) time_running: u64,
}
