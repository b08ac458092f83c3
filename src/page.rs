//! The control pages of a group's events, one each, shared with the kernel, read-only.
#![allow(unsafe_code)]

use crate::fork::Watched;
use crate::math::Conversion;
use crate::sys::{self, ControlPage, Descriptor, EINVAL, Errno, STRIDE, capability};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Where a handle without a mapping points, so that reading it needs no case of its own.
pub(crate) static EMPTY: ControlPage = ControlPage::EMPTY;

/// `N` control pages that can be read, [`STRIDE`] apart, so that one address names them all: the
/// events' or such as say no to everything.
///
/// In this order, so that the address and what [`Reader`](crate::read::Reader) puts after it lie
/// side by side: arm64 loads both with one instruction.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Pages<const N: usize> {
    /// They unmap what they own when dropped.
    _owner: Owner<N>,
    address: *const ControlPage,
}

#[derive(Debug)]
enum Owner<const N: usize> {
    /// Nobody: it is [`EMPTY`].
    Program,
    /// Zeros, where the events' pages would be.
    Zeros { _room: Room },
    /// The events' pages.
    Events { _pages: [Watched; N] },
}

impl<const N: usize> Pages<N> {
    /// Pages that say no to everything.
    pub(crate) fn empty() -> Result<Pages<N>, Errno> {
        if N == 1 {
            return Ok(Pages { address: &raw const EMPTY, _owner: Owner::Program });
        }
        let room = Room::new(N)?;
        Ok(Pages { address: room.start.as_ptr(), _owner: Owner::Zeros { _room: room } })
    }

    /// Maps the pages of `N` events.
    pub(crate) fn map<'a>(
        mut events: impl Iterator<Item = &'a Descriptor>,
    ) -> Result<Pages<N>, Errno> {
        let pages = if N == 1 {
            let event = events.next().ok_or(Errno(EINVAL))?;
            [sys::map(event)?; N]
        } else {
            let room = Room::new(N)?;
            let places: [NonNull<ControlPage>; N] = room.places();
            for place in places {
                let event = events.next().ok_or(Errno(EINVAL))?;
                // SAFETY: the place is a page of the room's own, which nobody has looked at yet.
                unsafe { sys::map_over(event, place)? };
            }
            room.give_back_all_but(places);
            places
        };
        let address = pages.first().map_or(&raw const EMPTY, |page| page.as_ptr());
        // SAFETY: mapped just now, each by itself, and nobody else knows them.
        let pages = pages.map(|page| unsafe { Watched::new(page) });
        Ok(Pages { address, _owner: Owner::Events { _pages: pages } })
    }

    /// The address of the first, the others [`STRIDE`] apart: readable, if changing, for as long as
    /// `self` lives.
    #[inline(always)]
    pub(crate) fn address(&self) -> *const ControlPage {
        self.address
    }

    /// Each of them.
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

/// Memory for pages that are to lie [`STRIDE`] apart, all zeros, and all ours until it is dropped.
#[derive(Debug)]
struct Room {
    start: NonNull<ControlPage>,
    pages: usize,
}

impl Room {
    fn new(pages: usize) -> Result<Room, Errno> {
        Ok(Room { start: sys::map_zeros(pages * STRIDE)?, pages })
    }

    /// Where the pages go, as many as the room is for.
    fn places<const N: usize>(&self) -> [NonNull<ControlPage>; N] {
        let mut place = self.start;
        [(); N].map(|()| {
            let this = place;
            // SAFETY: at most the end of the room, which is N strides long: Pages<N> made it so.
            place = unsafe { place.byte_add(STRIDE) };
            this
        })
    }

    /// Gives back what lies between the pages, which are somebody else's from now on.
    fn give_back_all_but<const N: usize>(self, places: [NonNull<ControlPage>; N]) {
        for place in places {
            // SAFETY: the rest of the stride is the room's own, and nobody has looked at it.
            unsafe { sys::unmap_behind(place, STRIDE) };
        }
        std::mem::forget(self);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: all of it is ours, with whatever was mapped over it.
        unsafe { sys::unmap(self.start, self.pages * STRIDE) };
    }
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
