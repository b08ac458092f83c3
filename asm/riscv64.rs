//! How a riscv64 processor reads a counter: `csrr`, whose operand names the counter, so that each
//! counter needs an instruction of its own and the index picks one from a table.
#![allow(unsafe_code)]

use crate::sys::ControlPage;
use std::arch::asm;
use std::mem::offset_of;

/// What names this processor's counters to [`count`]: a table of 33 entries of 8 bytes, each
/// reading the counter that an `index` stands for into `a0` and returning to `t0`; where there is
/// no such counter, it sets `t2` to 0 instead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers(*const [u32; 2]);

impl Registers {
    /// The width is the business of each read here: it moves with the counter.
    pub(crate) fn of_width(_: u16) -> Option<Registers> {
        Some(Registers::none())
    }

    /// The one table there is; its entry for `index` 0 reads nothing.
    #[inline(never)]
    pub(crate) fn none() -> Registers {
        let table: *const [u32; 2];
        // SAFETY: the code emitted goes to a section of its own and does not run here; what runs
        // here forms an address.
        unsafe {
            asm!(
                ".pushsection .text.rdpmc_counters, \"ax\", @progbits",
                ".option push",
                ".option norvc",                    // every instruction 4 bytes
                ".balign 8",
                "2:",
                "li   t2, 0",                       // index 0: no counter
                "jr   t0",
                "csrr a0, 0xc00",                   // index 1: cycle
                "jr   t0",
                "li   t2, 0",                       // index 2 would be time, which counts no event
                "jr   t0",
                ".irp n, 0xc02, 0xc03, 0xc04, 0xc05, 0xc06, 0xc07, 0xc08, 0xc09, 0xc0a, 0xc0b, \
                         0xc0c, 0xc0d, 0xc0e, 0xc0f, 0xc10, 0xc11, 0xc12, 0xc13, 0xc14, 0xc15, \
                         0xc16, 0xc17, 0xc18, 0xc19, 0xc1a, 0xc1b, 0xc1c, 0xc1d, 0xc1e, 0xc1f",
                "csrr a0, \\n",                     // instret, hpmcounter3 to hpmcounter31
                "jr   t0",
                ".endr",
                ".option pop",
                ".popsection",
                "lla  {table}, 2b",
                table = out(reg) table,
                options(nomem, nostack, preserves_flags),
            );
        }
        Registers(table)
    }
}

/// Whether this processor's kernel fixes capability and width when it maps the page. Otherwise
/// they move with the counter, and a non-zero `index` says all there is to say.
pub(crate) const FIXED_WHEN_MAPPED: bool = false;

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
    let counted: u64;
    // SAFETY: the loads are within the page, which the caller vouches for. The kernel writes it on
    // this same processor, so no barrier but the compiler's is needed, which an asm block that may
    // touch memory is. The jump goes to an entry of the table only: an index it does not hold
    // leaves before, with t2 at 0.
    unsafe {
        asm!(
            "2:",
            "lw    {lock}, {LOCK}({page})",     // pairs with the last load of lock
            "lw    t1, {INDEX}({page})",
            "sltiu t2, t1, 33",
            "beqz  t2, 3f",
            "slli  t1, t1, 3",
            "add   t1, {registers}, t1",
            "jalr  t0, 0(t1)",                  // csrr a0
            "lhu   t1, {WIDTH}({page})",
            "neg   t1, t1",                     // a shift by -width is one by 64 - width
            "sll   a0, a0, t1",
            "sra   a0, a0, t1",
            "ld    {count}, {OFFSET}({page})",
            "add   {count}, {count}, a0",
            "lw    t1, {LOCK}({page})",         // pairs with the first load of lock
            "bne   t1, {lock}, 2b",
            "3:",
            page = in(reg) page,
            registers = in(reg) registers.0,
            lock = out(reg) _,
            LOCK = const offset_of!(ControlPage, lock),
            INDEX = const offset_of!(ControlPage, index),
            OFFSET = const offset_of!(ControlPage, offset),
            WIDTH = const offset_of!(ControlPage, pmc_width),
            count = out(reg) count,
            out("a0") _,
            out("t0") _,
            out("t1") _,
            out("t2") counted,
            options(nostack),
        );
    }
    if counted == 0 { None } else { Some(count) }
}

/// The tick counter that the page's clock fields convert: `time`.
///
/// # Safety
/// The page has `cap_user_time`: the kernel found the counter usable.
#[inline(always)]
pub(crate) unsafe fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: the caller's promise that user space may read it; nothing else is touched.
    unsafe { asm!("rdtime {}", out(reg) ticks, options(nostack, preserves_flags)) };
    ticks
}
