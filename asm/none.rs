//! Every other target: no counter can be read from user space, and no tick counter either.
#![allow(unsafe_code)]

use crate::kernel::ControlPage;
#[cfg(target_os = "linux")]
use std::{ffi::c_void, ops::Range};

/// What names this processor's counters: it has none to name.
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

    /// There is none.
    pub(crate) fn register(self, _: u32) -> Option<Register> {
        None
    }
}

/// See the other architectures: whatever this kernel publishes, it is of no use here.
pub(crate) const FIXED_WHEN_MAPPED: bool = true;

/// There is nothing to read.
pub(crate) const STALE_READ_FAULTS: bool = false;

/// There is nothing to read.
pub(crate) const WIDTH_IN_A_GROUP: Option<u16> = None;

/// Always None.
///
/// # Safety
/// None needed: the page is not touched.
#[inline(always)]
pub(crate) unsafe fn count<const ORDERED: bool>(
    _: *const ControlPage,
    _: Registers,
) -> Option<u64> {
    None
}

/// Always None.
///
/// # Safety
/// None needed: the pages are not touched.
#[inline(always)]
pub(crate) unsafe fn counts<const N: usize, const ORDERED: bool>(
    _: *const ControlPage,
    _: Registers,
) -> Option<[u64; N]> {
    None
}

/// There is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register;

/// What none held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value;

/// Not to be called.
///
/// # Safety
/// None needed: nothing is read.
pub(crate) unsafe fn value(_: Register) -> Value {
    Value
}

impl Value {
    /// See the other architectures.
    pub(crate) fn unread(_: Register) -> Value {
        Value
    }
    /// See the other architectures.
    pub(crate) fn register(self) -> Register {
        Register
    }
    /// Always.
    pub(crate) fn is_fault(self) -> bool {
        true
    }
    /// Always 0.
    pub(crate) fn bits(self) -> u64 {
        0
    }
}

/// Nothing.
pub(crate) fn fence() {}

/// Empty.
#[cfg(target_os = "linux")]
pub(crate) fn exception_table() -> Range<*const [i32; 2]> {
    std::ptr::null()..std::ptr::null()
}

/// Nowhere.
///
/// # Safety
/// None needed: the context is not touched.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn program_counter(_: *mut c_void) -> *mut usize {
    std::ptr::null_mut()
}

/// Always 0.
///
/// # Safety
/// None needed; and nobody calls it, since there is no counter that is invariant.
#[inline(always)]
pub(crate) unsafe fn ticks<const ORDERED: bool>() -> u64 {
    0
}

/// None is read here.
pub(crate) const TICKS: Option<&str> = None;

/// None is read here.
pub(crate) fn ticks_are_invariant() -> bool {
    false
}
