//! A record as its thread writes it: some words.
#![allow(unsafe_code)]

// A record has the number by which its thread knows the span: see the stack of open spans. The number's lowest bits are the
// offset of the span's slot, so the depth follows from it.

use crate::record::{Flags, Site};
use std::ptr;

/// The most events that a record has counts of.
pub const MAX_EVENTS: usize = 8;

/// The words of a record before its counts: the addresses of its site and of the site around it, the ticks at both
/// ends, and its number with the flags in the highest bits.
pub(crate) const HEAD: usize = 5;
/// The most words of a record.
pub(crate) const MAX_WORDS: usize = HEAD + MAX_EVENTS;
/// Where the flags are in the last word of the head.
pub(crate) const FLAGS_SHIFT: u32 = 56;
/// The bytes of a slot.
pub(crate) const SLOT: u64 = 128;
/// The bits of a span's number that are the offset of its slot.
pub(crate) const OFFSET: u64 = 0xffff;
/// The offset of the slot that stands for no span: the last one.
pub(crate) const OUTERMOST: u64 = OFFSET & !(SLOT - 1);
/// The most spans that can be open on a thread. More are dropped.
pub(crate) const MAX_DEPTH: u16 = (OUTERMOST / SLOT) as u16;

/// The site of records that tell how many spans inside an outermost one have no record: the first tick is their number, the
/// second one that of the outermost one's beginning. It comes before all of these.
pub(crate) static LEFT_OUT: Site = Site::new("spans that were left out", file!(), line!());

/// A record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw {
    pub(crate) site: &'static Site,
    pub(crate) parent: Option<&'static Site>,
    pub(crate) ticks: [u64; 2],
    /// The number of open spans, with this one. 0 for a recorded time, which is in no span.
    pub(crate) depth: u16,
    /// What its thread knew it by.
    pub(crate) span: u64,
    pub(crate) flags: Flags,
    /// Those without an event are 0.
    pub(crate) counts: [u64; MAX_EVENTS],
}

/// A site's address in a record.
#[inline(always)]
pub(crate) fn address(site: *const Site) -> u64 {
    site.expose_provenance() as u64
}

/// Returns the site of an address. None for 0.
///
/// # Safety
/// It is 0 or from `address`, of a static.
#[inline(always)]
pub(crate) unsafe fn site_at(address: u64) -> Option<&'static Site> {
    let site: *const Site = ptr::with_exposed_provenance(address as usize);
    // SAFETY: null or a static, by the caller's promise.
    unsafe { site.as_ref() }
}

/// Returns the number of open spans of a span's number.
#[inline(always)]
pub(crate) fn depth_of(number: u64) -> u16 {
    ((OUTERMOST - (number & OFFSET & !(SLOT - 1))) / SLOT) as u16
}

/// Returns the span's number of the last word of a head.
#[inline(always)]
pub(crate) fn span_of(last: u64) -> u64 {
    last & !(!0 << FLAGS_SHIFT)
}

/// Returns the difference of two ticks. 0 if the clock went backwards.
#[inline(always)]
pub(crate) fn ticks_between(start: u64, end: u64) -> u64 {
    // A clock that was set back in between yields a huge difference.
    match end.wrapping_sub(start) {
        ticks if ticks > u64::MAX / 2 => 0,
        ticks => ticks,
    }
}

impl Raw {
    /// Returns the record of these words, which are not a companion's. `site_at` returns the site of an address, and None for 0.
    pub(crate) fn decode(
        words: &[u64],
        mut site_at: impl FnMut(u64) -> Option<&'static Site>,
    ) -> Option<Raw> {
        let (&[site, parent, start, end, last], counted) = words.split_first_chunk::<HEAD>()?;
        let mut counts = [0; MAX_EVENTS];
        for (count, counted) in counts.iter_mut().zip(counted) {
            *count = *counted;
        }
        let (site, parent) = (site_at(site)?, site_at(parent));
        Some(Raw {
            site,
            parent,
            ticks: [start, end],
            depth: depth_of(last),
            span: span_of(last),
            flags: Flags::from_bits((last >> FLAGS_SHIFT) as u8),
            counts,
        })
    }

    /// Returns the length in ticks.
    pub(crate) fn time(&self) -> u64 {
        let [start, end] = self.ticks;
        ticks_between(start, end)
    }

    /// Returns the last word of its head, as far as it tells which span or lap it is.
    pub(crate) fn last(&self) -> u64 {
        self.span | u64::from(self.flags.bits() & Flags::LAP.bits()) << FLAGS_SHIFT
    }

    pub(crate) fn is_lap(&self) -> bool {
        self.flags.contains(Flags::LAP)
    }

    /// Whether it is a time that the program recorded: in no span, and perhaps of several threads.
    pub(crate) fn is_recorded_time(&self) -> bool {
        self.depth == 0 && self.left_out().is_none()
    }

    pub(crate) fn is_counted(&self) -> bool {
        !self.flags.contains(Flags::NOT_COUNTED)
    }

    /// Returns the ticks at which an outermost span began, and how many spans inside it have no record, if this record tells
    /// it.
    pub(crate) fn left_out(&self) -> Option<(u64, u64)> {
        let [spans, start] = self.ticks;
        ptr::eq(self.site, &LEFT_OUT).then_some((start, spans))
    }

    /// Sets whether the kernel executed instructions, if the count at `index` shows it.
    pub(crate) fn find_interrupts(&mut self, index: Option<usize>) {
        let count = index.and_then(|index| self.counts.get(index));
        if self.is_counted() && count.is_some_and(|count| *count > 0) {
            self.flags = self.flags.union(Flags::INTERRUPTED);
        }
    }
}
