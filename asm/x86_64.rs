//! How an x86-64 processor reads a counter: `rdpmc`, which takes the counter's number in ECX, so
//! one instruction serves every counter.
#![allow(unsafe_code)]

use crate::sys::ControlPage;
use std::arch::asm;
use std::mem::offset_of;

/// What names this processor's counters to [`count`]: nothing, `rdpmc` takes the index as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers;

impl Registers {
    /// For counters of this width (`pmc_width`), if [`count`] can read them: 48 bits, the width of
    /// nearly every processor since 2008 (some Atoms have 40), which makes the sign extension one
    /// instruction.
    pub(crate) fn of_width(width: u16) -> Option<Registers> {
        match width {
            48 => Some(Registers),
            _ => None,
        }
    }

    /// For a page whose `index` stays 0.
    pub(crate) fn none() -> Registers {
        Registers
    }
}

/// Whether this processor's kernel fixes capability and width when it maps the page. Otherwise
/// they move with the counter, and a non-zero `index` says all there is to say.
pub(crate) const FIXED_WHEN_MAPPED: bool = true;

/// The event's count, or None while the page's `index` is 0.
///
/// The seqlock: `lock` first and `lock` last, and a difference means the kernel has moved the
/// counter in between. It does so only while this thread is interrupted, so what lies between
/// the two loads may come in any order, and `offset` is added straight from memory.
///
/// # Safety
/// `page` is readable, and while its `index` is not 0 `rdpmc` of it is allowed.
#[inline(always)]
pub(crate) unsafe fn count(page: *const ControlPage, _: Registers) -> Option<u64> {
    let count: u64;
    let register: u32;
    // SAFETY: the loads are within the page, which the caller vouches for. The kernel writes it on
    // this same processor, so no barrier but the compiler's is needed, which an asm block that may
    // touch memory is. `rdpmc` is reached with a non-zero index only.
    unsafe {
        asm!(
            "2:",
            "mov   {lock:e}, [{page} + {LOCK}]",    // pairs with the last load of lock
            "mov   ecx, [{page} + {INDEX}]",
            "sub   ecx, 1",                         // index counts from 1, 0 means no counter
            "jb    3f",
            "rdpmc",
            "movsx rdx, dx",                        // bits 32..48, sign-extended
            "shl   rdx, 32",
            "lea   {count}, [rax + rdx]",           // rax has bits 0..32
            "add   {count}, [{page} + {OFFSET}]",
            "cmp   {lock:e}, [{page} + {LOCK}]",    // pairs with the first load of lock
            "jne   2b",
            "3:",
            page = in(reg) page,
            lock = out(reg) _,
            LOCK = const offset_of!(ControlPage, lock),
            INDEX = const offset_of!(ControlPage, index),
            OFFSET = const offset_of!(ControlPage, offset),
            count = out(reg) count,
            out("rax") _,
            out("rcx") register,
            out("rdx") _,
            options(nostack),
        );
    }
    if register == u32::MAX { None } else { Some(count) }
}

/// The tick counter that the page's clock fields convert: the time stamp counter.
///
/// # Safety
/// The page has `cap_user_time`: the kernel found the counter usable, and this thread has not
/// forbidden itself to read it (`PR_SET_TSC`).
#[inline(always)]
pub(crate) unsafe fn ticks() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: the caller's promise that user space may read it; nothing else is touched.
    unsafe { asm!("rdtsc", out("rax") low, out("rdx") high, options(nostack, preserves_flags)) };
    high << 32 | low
}
