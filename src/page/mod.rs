//! From a descriptor to its control page, and the reads of pages.
#![allow(unsafe_code)]

// Floor 5. Uses `kernel`, `asm`, `event`, `error` and `pmu`.
//
// This file maps the pages and loads their fields. `mapped` has the list of them, `process` tells a fork from its parent,
// `fork` has the fork handlers, `reader` is the hot path over the pages, and `faults` contains the faults of reads.

pub(crate) mod faults;
pub(crate) mod fork;
mod mapped;
pub(crate) mod process;
pub(crate) mod reader;

use crate::asm::ROUNDS;
use crate::kernel::conversion::Conversion;
use crate::kernel::{self, ControlPage, Descriptor, EEXIST, Errno, STRIDE, capability};
use mapped::Mapped;
use process::Process;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::AtomicUsize;

/// The maximum number of events in a group.
pub(crate) const MAX_EVENTS: usize = 8;

/// The pages of a handle without a mapping, so that reads need no special case: a page of zeros (`index` 0, no
/// capabilities) for each event.
///
/// Nothing writes to it, so it takes addresses and no memory. Its type has interior mutability, so that the compiler
/// puts it into `.bss` and not into the file.
static EMPTY: Zeros = Zeros([const { AtomicUsize::new(0) }; WORDS]);

const WORDS: usize = if kernel::SUPPORTED { MAX_EVENTS } else { 1 } * STRIDE / size_of::<usize>();

#[repr(C, align(64))]
struct Zeros([AtomicUsize; WORDS]);

const _: () = assert!(align_of::<Zeros>() >= align_of::<ControlPage>());
const _: () = assert!(STRIDE >= size_of::<ControlPage>());

/// Returns the address of a page of zeros, followed by more of them, [`STRIDE`] apart.
pub(crate) fn empty() -> *const ControlPage {
    (&raw const EMPTY).cast()
}

/// The readable control pages of a group's events, [`STRIDE`] apart, so that one base address reaches all of them. Or pages of
/// zeros.
#[derive(Debug)]
pub(crate) struct Pages {
    /// Unmaps the pages when dropped. One for each event, or none for pages of zeros.
    owners: Vec<Mapped>,
    address: *const ControlPage,
}

/// The maximum number of address ranges to try, if other threads map something into those chosen before.
const PLACES: u32 = 64;

impl Pages {
    /// Returns pages of zeros.
    pub(crate) fn empty() -> Pages {
        Pages { owners: Vec::new(), address: empty() }
    }

    /// Maps the pages of these events. None if this process is a fork of `process` by then. In that case, a page that
    /// this child may have mapped itself stays mapped: see [`Mapped::new`].
    ///
    /// Never maps over an existing mapping. If it did and the kernel refused the page, the old mapping would already
    /// be gone, and another thread's mapping could take its address.
    pub(crate) fn map(events: &[&Descriptor], process: Process) -> Result<Option<Pages>, Errno> {
        let mut others = 1..PLACES;
        let pages = loop {
            match map_in_a_row(events, process) {
                // Another thread has mapped something there.
                Err(Errno(EEXIST)) if others.next().is_some() => {}
                pages => break pages,
            }
        };
        // A signal handler has forked. This child may have holes in place of the pages.
        if process.is_past() { Ok(None) } else { pages.map(Some) }
    }

    /// Returns the address of the first page. The others follow, [`STRIDE`] apart. They are readable while `self`
    /// lives, and the kernel changes them.
    pub(crate) fn address(&self) -> *const ControlPage {
        self.address
    }

    /// Returns the first page.
    #[inline(always)]
    pub(crate) fn first(&self) -> Page<'_> {
        Page(self.address, PhantomData)
    }

    /// Returns each event's page.
    pub(crate) fn each(&self) -> impl Iterator<Item = Page<'_>> {
        let at = |place: usize| self.address.wrapping_byte_add(place * STRIDE);
        (0..self.owners.len()).map(move |place| Page(at(place), PhantomData))
    }

    /// Whether zeros are in place of a page, because reading its counter faults.
    pub(crate) fn are_given_up(&self) -> bool {
        self.owners.iter().any(Mapped::is_given_up)
    }

    /// Whether each page names a register now. Reads no counter.
    pub(crate) fn are_scheduled(&self) -> bool {
        !self.owners.is_empty() && self.each().all(|page| page.index() != 0)
    }

    /// Calls `read` until the kernel leaves the pages alone during a call, and returns that result. None if it never
    /// does.
    pub(crate) fn undisturbed<T>(&self, mut read: impl FnMut() -> T) -> Option<T> {
        let locks = || self.each().fold(0, |sum, page| sum + u64::from(page.lock()));
        for _ in 0..ROUNDS {
            let before = locks(); // pairs with the loads at the end of the round
            let result = read();
            if locks() == before {
                return Some(result);
            }
        }
        None
    }

    /// Returns for how many nanoseconds the first event has been without its counter while it was enabled and the
    /// thread running. None while an `index` is 0, or if the kernel updates a page each time. Reads no counter.
    pub(crate) fn absence(&self) -> Option<u64> {
        self.undisturbed(|| {
            let (time_enabled, time_running) = self.first().times();
            // Both times advance equally after the page's last update. Seen in the wild: a running time above the enabled
            // one.
            self.are_scheduled().then(|| time_enabled.saturating_sub(time_running))
        })?
    }
}

/// Returns each page from the address of the first. They are the kernel's memory or a static of this size, so no Rust
/// allocation bounds the steps from one to the next.
#[inline(always)]
fn each<'a, const N: usize>(address: *const ControlPage) -> [Page<'a>; N] {
    let mut next = address;
    [(); N].map(|()| {
        let page = Page(next, PhantomData);
        next = next.wrapping_byte_add(STRIDE);
        page
    })
}

/// Maps the pages of these events, [`STRIDE`] apart. `EEXIST` if another thread has mapped something there.
///
/// Each page is on the thread's list before the next is mapped. If one is refused, the owners of those before it
/// unmap them.
fn map_in_a_row(events: &[&Descriptor], process: Process) -> Result<Pages, Errno> {
    let first = match events.len() {
        1 => ptr::null_mut(),
        more => kernel::free_place(more * STRIDE)?,
    };
    let (mut place, mut pages) = (first, Pages { owners: Vec::new(), address: first });
    for event in events {
        if process.is_past() {
            break; // this child's mappings would keep the parent's events open
        }
        let page = kernel::map_at(event, place)?;
        if pages.owners.is_empty() {
            pages.address = page.as_ptr();
        }
        // SAFETY: this thread has just mapped the page, and nothing else knows its address.
        pages.owners.push(unsafe { Mapped::new(page, process) });
        place = place.wrapping_byte_add(STRIDE);
    }
    Ok(pages)
}

/// One control page, while its owner lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a>(*const ControlPage, PhantomData<&'a ControlPage>);

impl Page<'_> {
    /// Returns `lock`.
    #[inline(always)]
    pub(crate) fn lock(self) -> u32 {
        // SAFETY: the page is readable while its owner lives. The load is volatile, because the kernel writes the
        // page. It does so on this CPU, while this thread is interrupted, so the compiler's order is enough.
        unsafe { (&raw const (*self.0).lock).read_volatile() }
    }

    /// Returns the address of `lock`.
    pub(crate) fn lock_at(self) -> *const u32 {
        // SAFETY: the field is within the page.
        unsafe { &raw const (*self.0).lock }
    }

    /// Returns `index`.
    #[inline(always)]
    pub(crate) fn index(self) -> u32 {
        // SAFETY: the page is readable while its owner lives. Volatile, because the kernel writes it.
        unsafe { (&raw const (*self.0).index).read_volatile() }
    }

    /// Returns `offset`.
    pub(crate) fn offset(self) -> i64 {
        // SAFETY: the page is readable while its owner lives. Volatile, because the kernel writes it.
        unsafe { (&raw const (*self.0).offset).read_volatile() }
    }

    /// Returns `pmc_width`.
    #[inline(always)]
    pub(crate) fn width(self) -> u16 {
        // SAFETY: the page is readable while its owner lives. Volatile, because the kernel writes it.
        unsafe { (&raw const (*self.0).pmc_width).read_volatile() }
    }

    /// Returns `time_enabled` and `time_running`, in nanoseconds, as of the page's last update.
    pub(crate) fn times(self) -> (u64, u64) {
        // SAFETY: the page is readable while its owner lives. The loads are volatile, because the kernel writes it.
        unsafe {
            (
                (&raw const (*self.0).time_enabled).read_volatile(),
                (&raw const (*self.0).time_running).read_volatile(),
            )
        }
    }

    /// Returns the page's capabilities.
    #[inline(always)]
    pub(crate) fn capabilities(self) -> Capabilities {
        // SAFETY: the page is readable while its owner lives. Volatile, because the kernel writes it.
        Capabilities(unsafe { (&raw const (*self.0).capabilities).read_volatile() })
    }

    /// Returns the conversion of ticks to nanoseconds since the page's last update. None without `cap_user_time`.
    pub(crate) fn since_update(self) -> Option<Conversion> {
        // SAFETY: the page is readable while its owner lives. Volatile, because the kernel writes it.
        let offset = unsafe { (&raw const (*self.0).time_offset).read_volatile() };
        self.conversion(capability::USER_TIME, offset)
    }

    /// Returns the conversion of ticks to nanoseconds on the timeline of perf's timestamps. None without
    /// `cap_user_time_zero`.
    pub(crate) fn since_zero(self) -> Option<Conversion> {
        // SAFETY: the page is readable while its owner lives. Volatile, because the kernel writes it.
        let zero = unsafe { (&raw const (*self.0).time_zero).read_volatile() };
        self.conversion(capability::USER_TIME | capability::USER_TIME_ZERO, zero)
    }

    /// Returns the conversion that starts at `zero`. None if the page lacks one of the `needed` capabilities.
    fn conversion(self, needed: u64, zero: u64) -> Option<Conversion> {
        let capabilities = self.capabilities();
        if !capabilities.have(needed) {
            return None;
        }
        // SAFETY: the page is readable while its owner lives. The loads are volatile, because the kernel writes it.
        let (shift, mult) = unsafe {
            (
                (&raw const (*self.0).time_shift).read_volatile(),
                (&raw const (*self.0).time_mult).read_volatile(),
            )
        };
        let conversion = Conversion::new(mult.into(), shift, zero)?;
        if !capabilities.have(capability::USER_TIME_SHORT) {
            return Some(conversion);
        }
        // SAFETY: the page is readable while its owner lives. The loads are volatile, because the kernel writes it.
        let (cycles, mask) = unsafe {
            (
                (&raw const (*self.0).time_cycles).read_volatile(),
                (&raw const (*self.0).time_mask).read_volatile(),
            )
        };
        Some(conversion.narrow(cycles, mask))
    }
}

/// The `capabilities` of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capabilities(u64);

impl Capabilities {
    /// Whether the bits are unambiguous. Before Linux 3.12, two of them shared one bit.
    #[inline(always)]
    pub(crate) fn are_sure(self) -> bool {
        self.0 & capability::BIT0_IS_DEPRECATED != 0
    }

    /// Whether the page has all of these [`capability`] bits, and they are unambiguous.
    pub(crate) fn have(self, which: u64) -> bool {
        self.are_sure() && self.0 & which == which
    }
}
