//! From a descriptor to its control page, and the reads of pages.
#![allow(unsafe_code)]

// Floor 4. Uses `kernel`, `asm`, `event`, `pmu` and `error`.
//
// This file maps the pages and loads their fields. `mapped` has the list of them, `process` tells a fork from its parent,
// `fork` has the fork handlers, `reader` is the hot path over the pages, `faults` contains the faults of reads, and
// `monitor` shows other threads how a handle is read.

pub(crate) mod faults;
pub(crate) mod fork;
mod mapped;
pub(crate) mod monitor;
pub(crate) mod process;
pub(crate) mod reader;

use crate::kernel::conversion::Conversion;
use crate::kernel::{self, ControlPage, Descriptor, EEXIST, EINVAL, Errno, STRIDE, capability};
use mapped::Mapped;
use monitor::Monitor;
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

/// `N` readable control pages, [`STRIDE`] apart, so that one base address reaches all of them: the events' pages, or
/// pages of zeros.
#[derive(Debug)]
pub(crate) struct Pages<const N: usize> {
    /// Unmaps the pages when dropped.
    owner: Option<[Mapped; N]>,
    address: *const ControlPage,
    monitor: Monitor,
}

/// The maximum number of address ranges to try, if other threads map something into those chosen before.
const PLACES: u32 = 64;

impl<const N: usize> Pages<N> {
    /// Returns pages of zeros.
    pub(crate) fn empty() -> Pages<N> {
        const { assert!(N <= MAX_EVENTS) };
        Pages { owner: None, address: empty(), monitor: Monitor::new() }
    }

    /// Maps the pages of `N` events. None if this process is a fork of `process` by then. In that case, a page that
    /// this child may have mapped itself stays mapped: see [`Mapped::new`]. `monitor` is shown when a page is given up.
    ///
    /// Never maps over an existing mapping. If it did and the kernel refused the page, the old mapping would already
    /// be gone, and another thread's mapping could take its address.
    pub(crate) fn map<'a>(
        events: impl Iterator<Item = &'a Descriptor> + Clone,
        process: Process,
        monitor: Monitor,
    ) -> Result<Option<Pages<N>>, Errno> {
        let mut others = 1..PLACES;
        let pages = loop {
            match map_in_a_row(events.clone(), process, &monitor) {
                // Another thread has mapped something there.
                Err(Errno(EEXIST)) if others.next().is_some() => {}
                pages => break pages,
            }
        };
        // A signal handler has forked. This child may have holes in place of the pages.
        if process.is_past() {
            return Ok(None);
        }
        let (pages, address) = pages?;
        Ok(Some(Pages { owner: Some(pages), address, monitor }))
    }

    /// Returns the address of the first page. The others follow, [`STRIDE`] apart. They are readable while `self`
    /// lives, and the kernel changes them.
    #[inline(always)]
    pub(crate) fn address(&self) -> *const ControlPage {
        self.address
    }

    /// Returns what other threads can see of the handle.
    pub(crate) fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// Whether zeros are in place of a page, because reading its counter faults.
    pub(crate) fn are_given_up(&self) -> bool {
        self.owner.as_ref().is_some_and(|pages| pages.iter().any(Mapped::is_given_up))
    }

    /// Returns each page.
    #[inline(always)]
    pub(crate) fn each(&self) -> [Page<'_>; N] {
        each(self.address)
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

/// Maps the pages of `N` events, [`STRIDE`] apart, and returns the address of the first. `EEXIST` if another thread
/// has mapped something there.
///
/// Each page is on the thread's list before the next is mapped. If one is refused, the owners of those before it
/// unmap them.
fn map_in_a_row<'a, const N: usize>(
    events: impl Iterator<Item = &'a Descriptor>,
    process: Process,
    monitor: &Monitor,
) -> Result<([Mapped; N], *const ControlPage), Errno> {
    let first = if N == 1 { ptr::null_mut() } else { kernel::free_place(N * STRIDE)? };
    let (mut place, mut address) = (first, first);
    let mut pages = Vec::with_capacity(N);
    for event in events.take(N) {
        if process.is_past() {
            break; // this child's mappings would keep the parent's events open
        }
        let page = kernel::map_at(event, place)?;
        if pages.is_empty() {
            address = page.as_ptr();
        }
        // SAFETY: this thread has just mapped the page, and nothing else knows its address.
        pages.push(unsafe { Mapped::new(page, process, monitor.clone()) });
        place = place.wrapping_byte_add(STRIDE);
    }
    Ok((pages.try_into().map_err(|_| Errno(EINVAL))?, address)) // EINVAL: a fork or too few events
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
