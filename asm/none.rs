//! Every other target: user space can read neither a counter nor a tick counter.
#![allow(unsafe_code)]

use crate::kernel::ControlPage;
#[cfg(target_os = "linux")]
use std::ffi::c_void;

/// The way to no counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers;

impl Registers {
    /// Returns None: no width can be read here.
    pub(crate) fn of_width(_: u16) -> Option<Registers> {
        None
    }

    /// Returns registers for a page whose `index` stays 0.
    pub(crate) fn none() -> Registers {
        Registers
    }

    /// Returns None: there is no register.
    pub(crate) fn register(self, _: u32) -> Option<Register> {
        None
    }
}

/// Whether the kernel fixes capability and width when it maps the page. Its pages have no use here.
pub(crate) const FIXED_WHEN_MAPPED: bool = true;

/// Whether a stale read can fault. There is nothing to read.
pub(crate) const STALE_READ_FAULTS: bool = false;

/// The width that a group needs. There is nothing to read.
pub(crate) const WIDTH_IN_A_GROUP: Option<u16> = None;

/// Returns None.
///
/// # Safety
/// None needed: the page is not touched.
#[inline(always)]
pub(crate) unsafe fn count(_: *const ControlPage, _: Registers) -> Option<(u64, u32)> {
    None
}

/// Returns None.
///
/// # Safety
/// None needed: the pages are not touched.
#[inline(always)]
pub(crate) unsafe fn counts<const N: usize, const LOCKS: bool>(
    _: *const ControlPage,
    _: Registers,
) -> Option<([u64; N], u32)> {
    None
}

/// A register that does not exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register;

impl Register {
    /// Returns false.
    pub(crate) fn was_read_with(self, _: &[usize]) -> bool {
        false
    }
}

/// The value of no register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value;

/// Must not be called: there is no register.
///
/// # Safety
/// None needed: nothing is read.
pub(crate) unsafe fn value(_: Register) -> Value {
    Value
}

impl Value {
    /// Returns the placeholder.
    pub(crate) fn unread(_: Register) -> Value {
        Value
    }
    /// Returns the register that does not exist.
    pub(crate) fn register(self) -> Register {
        Register
    }
    /// Returns true: nothing is ever read.
    pub(crate) fn is_fault(self) -> bool {
        true
    }
    /// Returns 0.
    pub(crate) fn bits(self) -> u64 {
        0
    }
}

/// Does nothing.
pub(crate) fn fence() {}

/// Returns false: there is no code of known size here.
pub(crate) fn known_work(_: u64) -> bool {
    false
}

/// Returns no registers.
///
/// # Safety
/// None needed: the context is not touched.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn saved_registers<'a>(_: *mut c_void) -> &'a [usize] {
    &[]
}

/// Returns None: there is no read.
///
/// # Safety
/// None needed: the context is not touched.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn refused_read(_: *mut c_void, _: impl Fn(usize) -> bool) -> Option<usize> {
    None
}

/// Does nothing.
///
/// # Safety
/// None needed: the context is not touched.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn continue_after(_: usize, _: *mut c_void) {}

/// Returns 0.
///
/// # Safety
/// None needed. Nothing calls it, because there is no invariant tick counter.
#[inline(always)]
pub(crate) unsafe fn ticks<const ORDERED: bool>() -> u64 {
    0
}

/// The name of the tick counter. None is read here.
pub(crate) const TICKS: Option<&str> = None;

/// Returns false: no tick counter is read here.
pub(crate) fn ticks_are_invariant() -> bool {
    false
}

/// Returns the same number.
pub(crate) fn settled(number: u64) -> u64 {
    number
}
