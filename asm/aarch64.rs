//! arm64: `mrs`, whose operand names the counter, so each counter has an instruction of its own in a table.
#![allow(unsafe_code)]

// An `mrs` of the table that faults continues at the table's entry for `index` 0: no counter (`src/page/faults.rs`).
//
// The table's entries have no landing pads (`bti`), which would cost every read an instruction. The loader enforces
// them only in programs of which every object has them. Rust's standard library, as rustup installs it, has none. A
// program built with branch protection throughout (`-Z build-std -Z branch-protection=bti`) must not read counters
// with this library: the first read gets SIGILL.

use super::{ROUNDS, Value};
use crate::kernel::{ControlPage, STRIDE};
use std::arch::asm;
use std::ffi::c_void;
use std::mem::offset_of;

/// The way from the page's `index` to a counter: a table of 33 entries of 16 bytes.
///
/// The entry of an `index` reads its counter into `x9` and returns. If there is no such counter, or reading it
/// faults, `x9` is all ones, `lr` is 0, and `x11` has the bit [`POISON`]. `x10` is clobbered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers(*const Entry);

/// An entry of the table. It is code, not data: only its address is used.
#[repr(C)]
struct Entry([u32; 4]);

/// A value above any sum of eight locks, so that a sum that contains it is recognized.
const POISON: u64 = 1 << 62;

/// Emits a table and returns its address. `$extend` follows each `mrs`.
macro_rules! table {
    ($extend:literal) => {{
        let table: *const Entry;
        // SAFETY: the emitted code is in a section of its own and does not run here. What runs here forms an address.
        unsafe {
            asm!(
                ".pushsection .text.rdpmc_counters, \"ax\", @progbits",
                ".balign 16",
                "8:",                               // no counter
                "mov x9, #-1",
                "mov x10, lr",
                "mov lr, #0",
                "orr x11, x11, #{POISON}",
                "ret x10",
                ".balign 16",
                "2:",
                "b 8b",                             // index 0
                ".balign 16",
                ".irp n, pmevcntr0, pmevcntr1, pmevcntr2, pmevcntr3, pmevcntr4, pmevcntr5, \
                         pmevcntr6, pmevcntr7, pmevcntr8, pmevcntr9, pmevcntr10, pmevcntr11, \
                         pmevcntr12, pmevcntr13, pmevcntr14, pmevcntr15, pmevcntr16, pmevcntr17, \
                         pmevcntr18, pmevcntr19, pmevcntr20, pmevcntr21, pmevcntr22, pmevcntr23, \
                         pmevcntr24, pmevcntr25, pmevcntr26, pmevcntr27, pmevcntr28, pmevcntr29, \
                         pmevcntr30, pmccntr",      // index 1 to 32
                "mrs x9, \\n\\()_el0",
                $extend,
                "ret",
                ".balign 16",
                ".endr",
                ".popsection",
                "adrp {table}, 2b",
                "add  {table}, {table}, :lo12:2b",
                POISON = const POISON,
                table = out(reg) table,
                options(nomem, nostack, preserves_flags),
            );
        }
        table
    }};
}

impl Registers {
    /// Returns the table for counters of this width (`pmc_width`). None for a width that only the kernel reads.
    ///
    /// The kernel's driver has counters of 64 and of 32 bits. The upper bits of the latter are undefined.
    pub(crate) fn of_width(width: u16) -> Option<Registers> {
        match width {
            64 => Some(Registers::none()),
            32 => Some(Registers::of_32_bits()),
            _ => None,
        }
    }

    #[inline(never)]
    fn of_32_bits() -> Registers {
        Registers(table!("sxtw x9, w9"))
    }

    /// Returns registers for a page whose `index` stays 0. Any table serves.
    #[inline(never)]
    pub(crate) fn none() -> Registers {
        Registers(table!(""))
    }

    /// Returns the register of `index`, which counts from 1. None if no counter has that index.
    #[inline(always)]
    pub(crate) fn register(self, index: u32) -> Option<Register> {
        match index {
            1..=32 => Some(Register(self.0.wrapping_add(index as usize))),
            _ => None,
        }
    }
}

pub(crate) const FIXED_WHEN_MAPPED: bool = true;

/// Whether reading a register that its event has lost can fault on a machine with one core type.
pub(crate) const STALE_READ_FAULTS: bool = false;

/// The width in bits that [`counts`] needs of all counters, if it needs one.
pub(crate) const WIDTH_IN_A_GROUP: Option<u16> = None;

/// The code of retries, behind the function's code: from label 5 on, `$round` at most [`ROUNDS`] times. Each ends at label 3
/// or, if a `lock` has changed, goes on. `$left` has their number. In the end, `$none` makes the result that of `index` 0.
#[rustfmt::skip]
macro_rules! retries {
    ($left:literal; $($round:expr),+ $(,)?; $none:literal) => {
        concat!(
            ".subsection 1\n",
            "5: mov ", $left, ", #{ROUNDS}\n",
            "6:\n",
            $($round, "\n",)*
            "subs ", $left, ", ", $left, ", #1\n",
            "b.ne 6b\n",
            $none, "\n",
            "b    3b\n",
            ".previous",
        )
    };
}

/// Returns the event's count and the page's `lock`. None while the page's `index` is 0, or if the read faults, or if the
/// kernel moves the counter again and again.
///
/// The seqlock: `lock` is loaded first and last, and a difference means that the kernel has moved the counter in
/// between. The kernel does so only while this thread is interrupted. So the instructions between the two loads may
/// run in any order.
///
/// # Safety
/// `page` is readable. If the CPU forbids reading the counter of `index`, `mrs` traps: the process gets SIGILL, which
/// ends it unless faults are contained. An allowed read has no effect.
#[inline(always)]
pub(crate) unsafe fn count(page: *const ControlPage, registers: Registers) -> Option<(u64, u32)> {
    let count: u64;
    let lock: u32;
    let from: u64;
    // $end goes to label 3 if the lock has not changed. In a retry, that is one instruction more. There, the offset is loaded
    // before the counter is read, so that as many instructions follow the read.
    #[rustfmt::skip]
    macro_rules! round {
        ($is_retry:literal, $end:literal) => {
            concat!(
                "ldp  {lock:w}, {index:w}, [{page}, #{LOCK}]\n", // pairs with the last load of lock
                "cmp  {index:w}, #33\n",
                "csel {index:w}, {index:w}, wzr, lo\n",
                "add  {entry}, {registers}, {index:w}, uxtw #4\n",
                ".if ", $is_retry, "\n",
                "ldr  {offset}, [{page}, #{OFFSET}]\n",
                ".endif\n",
                "blr  {entry}\n",                                // mrs x9, sign-extended
                ".if ", $is_retry, " == 0\n",
                "ldr  {offset}, [{page}, #{OFFSET}]\n",
                ".endif\n",
                "ldr  {again:w}, [{page}, #{LOCK}]\n",           // pairs with the first load of lock
                "cmp  {again:w}, {lock:w}\n",
                $end,
            )
        };
    }
    // SAFETY: the loads are within the page, which the caller promises is readable. The kernel writes the page on
    // this CPU, so a compiler barrier is enough. An asm block that may touch memory is one. The branch goes to an
    // entry of the table whatever the index: an index without an entry becomes 0, whose entry reads nothing.
    unsafe {
        asm!(
            round!("0", "b.eq 3f"),
            "b    5f",                                            // a conditional branch does not reach far
            "3:",
            "add  {count}, x9, {offset}",
            retries!("w11"; round!("1", "b.ne 4f\nb 3b\n4:"); "mov lr, #0"), // the table changes the upper half of x11 alone
            page = in(reg) page,
            registers = in(reg) registers.0,
            lock = out(reg) lock,
            index = out(reg) _,
            entry = out(reg) _,
            offset = out(reg) _,
            again = out(reg) _,
            ROUNDS = const ROUNDS,
            LOCK = const offset_of!(ControlPage, lock),
            OFFSET = const offset_of!(ControlPage, offset),
            count = lateout(reg) count,
            out("x9") _,
            out("x10") _,
            out("x11") _,
            out("lr") from,
            options(nostack),
        );
    }
    if from == 0 { None } else { Some((count, lock)) }
}

// One `ldp` loads both fields.
const _: () = assert!(offset_of!(ControlPage, index) == offset_of!(ControlPage, lock) + 4);

/// Returns the simultaneous counts of `N` events, at most 8, whose pages are [`STRIDE`] apart, and if `LOCKS` the sum of
/// their locks, otherwise any number. None while an `index` is 0, or if a read faults, or if the kernel moves a counter
/// again and again.
///
/// One seqlock covers all pages. Each `lock` is loaded before its counter is read, and all are loaded again after the
/// last counter. Their sums are subtracted: a lock only ever advances, so the difference is negative if one has
/// changed. A positive difference contains [`POISON`].
///
/// # Safety
/// As for [`count`], for each of the pages.
#[inline(always)]
pub(crate) unsafe fn counts<const N: usize, const LOCKS: bool>(
    pages: *const ControlPage,
    registers: Registers,
) -> Option<([u64; N], u32)> {
    let (a, b, c, d): (u64, u64, u64, u64);
    let (mut e, mut f, mut g, mut h) = (0, 0, 0, 0);
    let left: u64;
    let sum: u32;
    // Reads one counter into one register. Empty if the group does not have it. In a retry, the offset is loaded first, as in
    // `count`.
    #[rustfmt::skip]
    macro_rules! one {
        ($is_retry:literal, $n:literal, $into:ident) => {
            concat!(
                ".if ", $n, " < {N}\n",
                ".if ", $n, " == 0\n",
                "ldp  w11, {index:w}, [{page}, #{LOCK}]\n", // this load and the next pair with the last
                ".else\n",
                "add  {page}, {page}, #{STRIDE} >> 12, lsl #12\n",
                "ldp  {lock:w}, {index:w}, [{page}, #{LOCK}]\n",
                "add  x11, x11, {lock}\n",
                ".endif\n",
                "cmp  {index:w}, #33\n",
                "csel {index:w}, {index:w}, wzr, lo\n",
                "add  {entry}, {registers}, {index:w}, uxtw #4\n",
                ".if ", $is_retry, "\n",
                "ldr  {", stringify!($into), "}, [{page}, #{OFFSET}]\n",
                ".endif\n",
                "blr  {entry}\n", // mrs x9, sign-extended
                ".if ", $is_retry, " == 0\n",
                "ldr  {", stringify!($into), "}, [{page}, #{OFFSET}]\n",
                ".endif\n",
                "add  {", stringify!($into), "}, {", stringify!($into), "}, x9\n",
                ".endif",
            )
        };
    }
    // Loads its lock again, from the last page to the first.
    #[rustfmt::skip]
    macro_rules! again {
        ($n:literal) => {
            concat!(
                ".if ", $n, " < {N}\n",
                "ldr  {lock:w}, [{page}, #{LOCK}]\n", // pairs with the first loads of lock
                "sub  x11, x11, {lock}\n",
                ".if ", $n, " > 0\n",
                "sub  {page}, {page}, #{STRIDE} >> 12, lsl #12\n",
                ".endif\n",
                ".endif",
            )
        };
    }
    macro_rules! counts {
        ($($n:literal $into:ident),*; $($back:literal),*) => {
            asm!(
                $(one!("0", $n, $into),)*
                ".if {LOCKS}",
                "mov  {index:w}, w11",
                ".endif",
                $(again!($back),)*
                "tbz  x11, #63, 3f",
                "b    5f", // a conditional branch does not reach far
                "3:",
                retries!(
                    "w10"; // the table changes x10 only if there is no counter, and then there is no retry
                    $(one!("1", $n, $into),)*
                    ".if {LOCKS}",
                    "mov  {index:w}, w11",
                    ".endif",
                    $(again!($back),)*
                    "tbnz x11, #63, 4f",
                    "b    3b",
                    "4:";
                    "" // x11 is negative
                ),
                ROUNDS = const ROUNDS,
                page = inout(reg) pages => _,
                registers = in(reg) registers.0,
                lock = out(reg) _,
                index = out(reg) sum,
                entry = out(reg) _,
                LOCK = const offset_of!(ControlPage, lock),
                OFFSET = const offset_of!(ControlPage, offset),
                STRIDE = const STRIDE,
                N = const N,
                LOCKS = const LOCKS as u8,
                $($into = out(reg) $into,)*
                out("x9") _,
                out("x10") _,
                out("x11") left,
                out("lr") _,
                options(nostack),
            )
        };
    }
    // SAFETY: the loads are within the pages, which the caller promises are readable. The kernel writes the pages on
    // this CPU, so a compiler barrier is enough. An asm block that may touch memory is one. The caller promises the
    // pages after one whose index is 0, too. Each branch goes to an entry of the table whatever the index: an index
    // without an entry becomes 0, whose entry reads nothing.
    // Up to four counts need no callee-saved register.
    unsafe {
        if N <= 4 {
            counts!(0 a, 1 b, 2 c, 3 d; 3, 2, 1, 0);
        } else {
            counts!(0 a, 1 b, 2 c, 3 d, 4 e, 5 f, 6 g, 7 h; 7, 6, 5, 4, 3, 2, 1, 0);
        }
    }
    if left != 0 {
        return None;
    }
    let mut counts = [0; N];
    for (count, value) in counts.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *count = value;
    }
    Some((counts, sum))
}

/// A register that [`value`] reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register(*const Entry);

impl Register {
    /// Whether code with these saved registers was reading this one: the address of its entry is among them.
    pub(crate) fn was_read_with(self, saved: &[usize]) -> bool {
        saved.contains(&self.0.addr())
    }
}

/// Reads a register and nothing else: except for the branch there and back, no instruction before the read and none
/// after. [`Value::is_fault`] reports a fault.
///
/// # Safety
/// None needed for memory. If the CPU forbids the read, it traps, as in [`count`].
#[inline(always)]
pub(crate) unsafe fn value(register: Register) -> Value {
    let bits: u64;
    // SAFETY: the branch goes to an entry of the table, which uses only the registers named here.
    unsafe {
        asm!(
            "blr {entry}",
            entry = in(reg) register.0,
            out("x9") bits,
            out("x10") _,
            out("x11") _,
            out("lr") _,
            options(nostack, preserves_flags),
        );
    }
    Value::new(bits, register)
}

/// Runs `isb`: no later instruction starts before all earlier ones are complete.
#[inline(always)]
pub(crate) fn fence() {
    // SAFETY: `isb` touches no register and no memory.
    unsafe { asm!("isb", options(nostack, preserves_flags)) };
}

settled!();

saved_registers!(regs);

refused_read!([Registers::none(), Registers::of_32_bits()], pc);

#[path = "kernels/aarch64.rs"]
#[allow(unreachable_pub, dead_code, reason = "tests compile this file too")]
mod kernels;

/// Runs `rounds` rounds of two instructions, one of which is a branch. Returns true: this target has such code.
pub(crate) fn known_work(rounds: u64) -> bool {
    kernels::countdown(rounds);
    true
}

/// Reads the tick counter that the page's clock fields convert: the virtual count.
///
/// # Safety
/// This thread has not forbidden itself to read it (`PR_SET_TSC`, since Linux 6.12).
#[inline(always)]
pub(crate) unsafe fn ticks<const ORDERED: bool>() -> u64 {
    let ticks: u64;
    // SAFETY: the caller promises that this thread may read the tick counter. The read touches no memory.
    unsafe {
        asm!(
            ".if {ORDERED}\nisb\n.endif",
            "mrs {ticks}, cntvct_el0",
            ".if {ORDERED}\nisb\n.endif",
            ORDERED = const ORDERED as u8,
            ticks = out(reg) ticks,
            options(nostack, preserves_flags),
        );
    }
    ticks
}

/// The tick counter's name among the kernel's clock sources.
pub(crate) const TICKS: Option<&str> = Some("arch_sys_counter");

/// Whether the tick counter has a constant rate in every state of the CPU. The architecture guarantees it.
pub(crate) fn ticks_are_invariant() -> bool {
    true
}
