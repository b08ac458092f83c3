//! Every other target: no counter can be read from user space, and no tick counter either.
#![allow(unsafe_code)]

use crate::sys::ControlPage;

/// What names this processor's counters to [`count`]: it has none to name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers;

impl Registers {
    /// No width can be read here.
    pub(crate) fn of_width(_: u16) -> Option<Registers> {
        None
    }

    /// For a page whose `index` stays 0.
    pub(crate) fn none() -> Registers {
        Registers
    }
}

/// See the other architectures: whatever this kernel publishes, it is of no use here.
pub(crate) const FIXED_WHEN_MAPPED: bool = true;

/// Always None.
///
/// # Safety
/// None needed: the page is not touched.
#[inline(always)]
pub(crate) unsafe fn count(_: *const ControlPage, _: Registers) -> Option<u64> {
    None
}

/// Always 0.
///
/// # Safety
/// None needed; and nobody calls it, since nothing is ever counted in user space here.
#[inline(always)]
pub(crate) unsafe fn ticks() -> u64 {
    0
}
