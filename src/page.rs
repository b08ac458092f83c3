//! The control page of an event: exactly one page, shared with the kernel, read-only.
#![allow(unsafe_code)]

use crate::fork::Watched;
use crate::math::{Conversion, Short};
use crate::sys::{self, ControlPage, Descriptor, Errno, capability};

/// Where handles without a mapping point, so that reading them needs no case of its own.
static EMPTY: ControlPage = ControlPage::EMPTY;

/// A control page that can be read: an event's, or [`EMPTY`].
///
/// In this order, so that the address and what [`Reader`](crate::read::Reader) puts after it lie
/// side by side: arm64 loads both with one instruction.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Page {
    /// Unmaps the page when dropped.
    _mapping: Option<Watched>,
    address: *const ControlPage,
}

impl Page {
    /// The page that says no to everything.
    pub(crate) fn empty() -> Page {
        Page { address: &raw const EMPTY, _mapping: None }
    }

    /// Maps the page of `event`.
    pub(crate) fn map(event: &Descriptor) -> Result<Page, Errno> {
        let page = sys::map(event)?;
        // SAFETY: mapped just now, and nobody else knows it.
        let mapping = unsafe { Watched::new(page) };
        Ok(Page { address: page.as_ptr(), _mapping: Some(mapping) })
    }

    /// Its address: readable, if changing, for as long as `self` lives.
    #[inline(always)]
    pub(crate) fn address(&self) -> *const ControlPage {
        self.address
    }

    /// `lock`.
    pub(crate) fn lock(&self) -> u32 {
        // SAFETY: as for every load here: the page is readable for as long as self lives, and the
        // loads are volatile because the kernel writes it. The kernel does so on this processor,
        // while this thread is interrupted, so the compiler's order is order enough.
        unsafe { (&raw const (*self.address).lock).read_volatile() }
    }

    /// `index`.
    pub(crate) fn index(&self) -> u32 {
        // SAFETY: see lock.
        unsafe { (&raw const (*self.address).index).read_volatile() }
    }

    /// `pmc_width`.
    pub(crate) fn width(&self) -> u16 {
        // SAFETY: see lock.
        unsafe { (&raw const (*self.address).pmc_width).read_volatile() }
    }

    /// `time_enabled` and `time_running`, in nanoseconds, as of the page's last update.
    pub(crate) fn times(&self) -> (u64, u64) {
        // SAFETY: see lock.
        unsafe {
            (
                (&raw const (*self.address).time_enabled).read_volatile(),
                (&raw const (*self.address).time_running).read_volatile(),
            )
        }
    }

    /// What the page is good for.
    pub(crate) fn capabilities(&self) -> Capabilities {
        // SAFETY: see lock.
        Capabilities(unsafe { (&raw const (*self.address).capabilities).read_volatile() })
    }

    /// How ticks become nanoseconds, if `cap_user_time` is set.
    pub(crate) fn conversion(&self) -> Option<Conversion> {
        let capabilities = self.capabilities();
        if !capabilities.have(capability::USER_TIME) {
            return None;
        }
        // SAFETY: see lock.
        unsafe {
            let short = capabilities.have(capability::USER_TIME_SHORT).then(|| Short {
                cycles: (&raw const (*self.address).time_cycles).read_volatile(),
                mask: (&raw const (*self.address).time_mask).read_volatile(),
            });
            Some(Conversion {
                shift: (&raw const (*self.address).time_shift).read_volatile(),
                mult: (&raw const (*self.address).time_mult).read_volatile(),
                offset: (&raw const (*self.address).time_offset).read_volatile(),
                short,
            })
        }
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

    /// Whether the page surely has this [`capability`].
    pub(crate) fn have(self, which: u64) -> bool {
        self.are_sure() && self.0 & which != 0
    }
}
