//! Floor 4: from a descriptor to its control page, and the reads of pages. Uses `kernel`, `asm`, `event` and `error`.
//!
//! This file maps the pages and loads their fields. `fork` covers them in the child of a fork, `reader` is the hot path
//! over them, `faults` contains the faults of reads.
#![allow(unsafe_code)]

pub(crate) mod faults;
pub(crate) mod fork;
pub(crate) mod reader;

use crate::kernel::conversion::Conversion;
use crate::kernel::{self, ControlPage, Descriptor, EEXIST, EINVAL, Errno, STRIDE, capability};
use fork::{Process, Watched};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::AtomicUsize;

/// The most events in a group.
pub(crate) const MOST: usize = 8;

/// Where a handle without a mapping points, so that reading it needs no case of its own: a page of zeros
/// (`index` 0, no capabilities) for each event that there may be. Nothing writes to it, so it takes
/// addresses and no memory. Its type is one that may change, so that the compiler puts it into `.bss`
/// rather than into the file.
static EMPTY: Zeros = Zeros([const { AtomicUsize::new(0) }; WORDS]);

const WORDS: usize = if kernel::SUPPORTED { MOST } else { 1 } * STRIDE / size_of::<usize>();

#[repr(C, align(64))]
struct Zeros([AtomicUsize; WORDS]);

const _: () = assert!(align_of::<Zeros>() >= align_of::<ControlPage>());
const _: () = assert!(STRIDE >= size_of::<ControlPage>());

/// The address of a page of zeros, followed by more of them, [`STRIDE`] apart.
pub(crate) fn empty() -> *const ControlPage {
    (&raw const EMPTY).cast()
}

/// `N` control pages that can be read, [`STRIDE`] apart, so that one address names them all: the
/// events' or such as say no to everything.
///
/// In this order, so that the address and what [`Reader`](crate::page::reader::Reader) puts after it lie
/// side by side: arm64 loads both with one instruction.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Pages<const N: usize> {
    /// They unmap what they own when dropped.
    _owner: Option<[Watched; N]>,
    address: *const ControlPage,
}

/// How often a new place is looked for if another thread has mapped something there meanwhile.
const PLACES: u32 = 64;

impl<const N: usize> Pages<N> {
    /// Pages that say no to everything.
    pub(crate) fn empty() -> Pages<N> {
        const { assert!(N <= MOST) };
        Pages { _owner: None, address: empty() }
    }

    /// Maps the pages of `N` events. None if this process is a fork of `process` by then. Then a page that
    /// this child may have mapped itself stays mapped: see [`Watched::new`].
    ///
    /// Nothing is ever mapped over anything: where the kernel refuses a page, it has already removed
    /// what was there, and another thread's mapping may come there.
    pub(crate) fn map<'a>(
        events: impl Iterator<Item = &'a Descriptor> + Clone,
        process: Process,
    ) -> Result<Option<Pages<N>>, Errno> {
        let mut others = 1..PLACES;
        let pages = loop {
            match map_in_a_row(events.clone(), process) {
                // Another thread was there first.
                Err(Errno(EEXIST)) if others.next().is_some() => {}
                pages => break pages,
            }
        };
        // A signal handler has forked: this child may have holes there.
        if process.is_past() {
            return Ok(None);
        }
        let (pages, address) = pages?;
        Ok(Some(Pages { _owner: Some(pages), address }))
    }

    /// The address of the first, the others [`STRIDE`] apart: readable, if changing, for as long as
    /// `self` lives.
    #[inline(always)]
    pub(crate) fn address(&self) -> *const ControlPage {
        self.address
    }

    /// Each of them. They are the kernel's memory, or a static of this size: no allocation of Rust's
    /// bounds the way from one to the next.
    #[inline(always)]
    pub(crate) fn each(&self) -> [Page<'_>; N] {
        let mut next = self.address;
        [(); N].map(|()| {
            let page = Page(next, PhantomData);
            next = next.wrapping_byte_add(STRIDE);
            page
        })
    }
}

/// Maps the pages of `N` events, [`STRIDE`] apart, and gives the address of the first; `EEXIST` if
/// another thread has mapped something there meanwhile. Each is on the list before the next is mapped,
/// so that those that were mapped are unmapped by their owners if one is refused.
fn map_in_a_row<'a, const N: usize>(
    events: impl Iterator<Item = &'a Descriptor>,
    process: Process,
) -> Result<([Watched; N], *const ControlPage), Errno> {
    let first = if N == 1 { ptr::null_mut() } else { kernel::free_place(N * STRIDE)? };
    let (mut place, mut address) = (first, first);
    let mut pages = Vec::with_capacity(N);
    for event in events.take(N) {
        if process.is_past() {
            break; // these are the parent's events, which this child's mappings would keep open
        }
        let page = kernel::map_at(event, place)?;
        if pages.is_empty() {
            address = page.as_ptr();
        }
        // SAFETY: mapped just now by this thread, and nobody else knows it.
        pages.push(unsafe { Watched::new(page, process) });
        place = place.wrapping_byte_add(STRIDE);
    }
    Ok((pages.try_into().map_err(|_| Errno(EINVAL))?, address)) // EINVAL: a fork, or too few events
}

/// One control page, while its owner lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a>(*const ControlPage, PhantomData<&'a ControlPage>);

impl Page<'_> {
    /// `lock`.
    #[inline(always)]
    pub(crate) fn lock(self) -> u32 {
        // SAFETY: as for every load here: the page is readable for as long as its owner lives, and
        // the loads are volatile because the kernel writes it. The kernel does so on this
        // processor, while this thread is interrupted, so the compiler's order is order enough.
        unsafe { (&raw const (*self.0).lock).read_volatile() }
    }

    /// Where `lock` is.
    pub(crate) fn lock_at(self) -> *const u32 {
        // SAFETY: within the page.
        unsafe { &raw const (*self.0).lock }
    }

    /// `index`.
    #[inline(always)]
    pub(crate) fn index(self) -> u32 {
        // SAFETY: see lock.
        unsafe { (&raw const (*self.0).index).read_volatile() }
    }

    /// `offset`.
    pub(crate) fn offset(self) -> i64 {
        // SAFETY: see lock.
        unsafe { (&raw const (*self.0).offset).read_volatile() }
    }

    /// `pmc_width`.
    #[inline(always)]
    pub(crate) fn width(self) -> u16 {
        // SAFETY: see lock.
        unsafe { (&raw const (*self.0).pmc_width).read_volatile() }
    }

    /// `time_enabled` and `time_running`, in nanoseconds, as of the page's last update.
    pub(crate) fn times(self) -> (u64, u64) {
        // SAFETY: see lock.
        unsafe {
            (
                (&raw const (*self.0).time_enabled).read_volatile(),
                (&raw const (*self.0).time_running).read_volatile(),
            )
        }
    }

    /// What the page is good for.
    pub(crate) fn capabilities(self) -> Capabilities {
        // SAFETY: see lock.
        Capabilities(unsafe { (&raw const (*self.0).capabilities).read_volatile() })
    }

    /// How ticks become nanoseconds since the page's last update, if it says so (`cap_user_time`).
    pub(crate) fn since_update(self) -> Option<Conversion> {
        // SAFETY: see lock.
        let offset = unsafe { (&raw const (*self.0).time_offset).read_volatile() };
        self.conversion(capability::USER_TIME, offset)
    }

    /// How ticks become nanoseconds on the timeline of perf's timestamps, if it says so
    /// (`cap_user_time_zero`).
    pub(crate) fn since_zero(self) -> Option<Conversion> {
        // SAFETY: see lock.
        let zero = unsafe { (&raw const (*self.0).time_zero).read_volatile() };
        self.conversion(capability::USER_TIME | capability::USER_TIME_ZERO, zero)
    }

    /// From `zero` on, if the page has these capabilities.
    fn conversion(self, needed: u64, zero: u64) -> Option<Conversion> {
        let capabilities = self.capabilities();
        if !capabilities.have(needed) {
            return None;
        }
        // SAFETY: see lock.
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
        // SAFETY: see lock.
        let (cycles, mask) = unsafe {
            (
                (&raw const (*self.0).time_cycles).read_volatile(),
                (&raw const (*self.0).time_mask).read_volatile(),
            )
        };
        Some(conversion.narrow(cycles, mask))
    }
}

/// `capabilities` of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capabilities(u64);

impl Capabilities {
    /// Whether the bits mean what they say: before Linux 3.12 two of them shared one place.
    pub(crate) fn are_sure(self) -> bool {
        self.0 & capability::BIT0_IS_DEPRECATED != 0
    }

    /// Whether the page surely has these [`capability`] bits, all of them.
    pub(crate) fn have(self, which: u64) -> bool {
        self.are_sure() && self.0 & which == which
    }
}
