//! How an arm64 processor reads a counter: `mrs`, whose operand names the counter, so that each
//! counter needs an instruction of its own and the index picks one from a table.
#![allow(unsafe_code)]

use crate::sys::ControlPage;
use std::arch::asm;
use std::mem::offset_of;

/// What names this processor's counters to [`count`]: a table of 33 entries of 16 bytes, each
/// reading the counter that an `index` stands for into `x9` and returning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers(*const Entry);

/// Code, not data: its address only is taken.
#[repr(C)]
struct Entry([u32; 4]);

/// Emits a table and yields its address. `$extend` follows each `mrs`.
macro_rules! table {
    ($extend:literal) => {{
        let table: *const Entry;
        // SAFETY: the code emitted goes to a section of its own and does not run here; what runs
        // here forms an address.
        unsafe {
            asm!(
                ".pushsection .text.rdpmc_counters, \"ax\", @progbits",
                ".balign 16",
                "2:",
                "ret",                              // index 0: no counter
                ".balign 16",
                ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, \
                         16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30",
                "mrs x9, pmevcntr\\n\\()_el0",      // index n + 1
                $extend,
                "ret",
                ".balign 16",
                ".endr",
                "mrs x9, pmccntr_el0",              // index 32
                $extend,
                "ret",
                ".balign 16",
                ".popsection",
                "adrp {table}, 2b",
                "add  {table}, {table}, :lo12:2b",
                table = out(reg) table,
                options(nomem, nostack, preserves_flags),
            );
        }
        table
    }};
}

impl Registers {
    /// For counters of this width (`pmc_width`), if [`count`] can read them: the kernel's driver
    /// has counters of 64 and of 32 bits. Above bit 32 the latter read as they please.
    #[inline(never)]
    pub(crate) fn of_width(width: u16) -> Option<Registers> {
        match width {
            64 => Some(Registers(table!(""))),
            32 => Some(Registers(table!("sxtw x9, w9"))),
            _ => None,
        }
    }

    /// For a page whose `index` stays 0: any table will do.
    pub(crate) fn none() -> Registers {
        Registers(table!(""))
    }
}

/// Whether this processor's kernel fixes capability and width when it maps the page. Otherwise
/// they move with the counter, and a non-zero `index` says all there is to say.
pub(crate) const FIXED_WHEN_MAPPED: bool = true;

/// The event's count, or None while the page's `index` is 0.
///
/// The seqlock: `lock` first and `lock` last, and a difference means the kernel has moved the
/// counter in between. It does so only while this thread is interrupted, so what lies between
/// the two loads may come in any order.
///
/// # Safety
/// `page` is readable, and while its `index` is not 0 reading that counter is allowed.
#[inline(always)]
pub(crate) unsafe fn count(page: *const ControlPage, registers: Registers) -> Option<u64> {
    let count: u64;
    let index: u32;
    // SAFETY: the loads are within the page, which the caller vouches for. The kernel writes it on
    // this same processor, so no barrier but the compiler's is needed, which an asm block that may
    // touch memory is. The branch goes to an entry of the table whatever the index: those the
    // table does not hold are turned into 0, whose entry only returns.
    unsafe {
        asm!(
            "2:",
            "ldp  {lock:w}, {index:w}, [{page}, #{LOCK}]",  // pairs with the last load of lock
            "cmp  {index:w}, #33",
            "csel {index:w}, {index:w}, wzr, lo",
            "add  {entry}, {registers}, {index:w}, uxtw #4",
            "blr  {entry}",                                 // mrs x9, sign-extended
            "ldr  {offset}, [{page}, #{OFFSET}]",
            "ldr  {again:w}, [{page}, #{LOCK}]",            // pairs with the first load of lock
            "cmp  {again:w}, {lock:w}",
            "b.ne 2b",
            "add  {count}, x9, {offset}",
            page = in(reg) page,
            registers = in(reg) registers.0,
            lock = out(reg) _,
            index = out(reg) index,
            entry = out(reg) _,
            offset = out(reg) _,
            again = out(reg) _,
            LOCK = const offset_of!(ControlPage, lock),
            OFFSET = const offset_of!(ControlPage, offset),
            count = lateout(reg) count,
            out("x9") _,
            out("lr") _,
            options(nostack),
        );
    }
    if index == 0 { None } else { Some(count) }
}

// One `ldp` loads both.
const _: () = assert!(offset_of!(ControlPage, index) == offset_of!(ControlPage, lock) + 4);

/// The tick counter that the page's clock fields convert: the virtual count.
///
/// # Safety
/// The page has `cap_user_time`: the kernel found the counter usable.
#[inline(always)]
pub(crate) unsafe fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: the caller's promise that user space may read it; nothing else is touched.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags)) };
    ticks
}
