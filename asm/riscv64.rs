//! riscv64: `csrr`, whose operand names the counter, so each counter has an instruction of its own in a table.
#![allow(unsafe_code)]

// A `csrr` of the table that faults continues at the table's entry for `index` 0: no counter (`src/page/faults.rs`).
//
// The table's entries have no landing pads (`lpad`, Zicfilp), which would cost every read an instruction. They are
// enforced only in programs of which every object has them. Rust's standard library, as rustup installs it, has none.
//
// Reads of counters need no fence here. `fence` does not order them, and the architecture makes a CPU read a counter as if
// in program order.

use super::{ROUNDS, Value};
use crate::kernel::{ControlPage, STRIDE};
use std::arch::asm;
use std::ffi::c_void;
use std::mem::offset_of;

/// The way from the page's `index` to a counter: a table of 33 entries of 8 bytes.
///
/// The entry of an `index` reads its counter into `a0` and returns to `t0`. If there is no such counter, or reading
/// it faults, `a0` is all ones and `t2` is 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers(*const [u32; 2]);

impl Registers {
    /// Returns the table for every width: each read loads the width, because it moves with the counter.
    pub(crate) fn of_width(_: u16) -> Option<Registers> {
        Some(Registers::none())
    }

    /// Returns the only table. Its entry for `index` 0 reads nothing.
    #[inline(never)]
    pub(crate) fn none() -> Registers {
        let table: *const [u32; 2];
        // SAFETY: the emitted code is in a section of its own and does not run here. What runs here forms an address.
        unsafe {
            asm!(
                ".pushsection .text.rdpmc_counters, \"ax\", @progbits",
                ".option push",
                ".option norvc",                    // every instruction 4 bytes
                ".balign 8",
                "8:",                               // no counter
                "li   a0, -1",
                "li   t2, 0",
                "jr   t0",
                ".balign 8",
                "2:",
                "j    8b",                          // index 0
                "nop",
                "csrr a0, 0xc00",                   // index 1: cycle
                "jr   t0",
                "j    8b",                          // index 2 would be time, which counts no event
                "nop",
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

    /// Returns the register of `index`, which counts from 1. None if no counter has that index.
    #[inline(always)]
    pub(crate) fn register(self, index: u32) -> Option<Register> {
        match index {
            1..=32 => Some(Register(self.0.wrapping_add(index as usize))),
            _ => None,
        }
    }
}

pub(crate) const FIXED_WHEN_MAPPED: bool = false;

/// Whether a register that its event has lost can fault. It can, because the kernel closes it to user space.
pub(crate) const STALE_READ_FAULTS: bool = true;

/// The width in bits that [`counts`] needs of all counters, if it needs one.
pub(crate) const WIDTH_IN_A_GROUP: Option<u16> = Some(64);

/// The code of retries, behind the function's code: from label 5 on, `$round` at most [`ROUNDS`] times. Each ends at label 3
/// or, if a `lock` has changed, goes on. `$left` has their number between them. In the end, `t2` is 0, as for `index` 0.
#[rustfmt::skip]
macro_rules! retries {
    ($left:literal; $($round:expr),+ $(,)?) => {
        concat!(
            ".subsection 1\n",
            "5: li ", $left, ", {ROUNDS}\n",
            "6:\n",
            $($round, "\n",)*
            "addi  ", $left, ", ", $left, ", -1\n",
            "bnez  ", $left, ", 6b\n",
            "7: li t2, 0\n",
            "j     3b\n",
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
/// `page` is readable. If the CPU forbids reading the counter of `index`, `csrr` traps: the process gets SIGILL,
/// which ends it unless faults are contained. An allowed read has no effect.
#[inline(always)]
pub(crate) unsafe fn count(page: *const ControlPage, registers: Registers) -> Option<(u64, u32)> {
    let count: u64;
    let lock: u64;
    let counted: u64;
    // Ends at label $end, unless the lock has changed. In a retry, the upper half of `lock` has the number of those that are
    // left, and the comparison is two instructions longer. There, the width (which is not 0) and the offset are loaded before
    // the counter is read, so that as many instructions follow the read.
    #[rustfmt::skip]
    macro_rules! round {
        ($is_retry:literal, $lock:literal, $compare:literal, $end:literal) => {
            concat!(
                $lock, "\n",                          // loads the lock; pairs with the last load of it
                "lw    t1, {INDEX}({page})\n",
                "sltiu t2, t1, 33\n",
                "beqz  t2, ", $end, "\n",
                "slli  t1, t1, 3\n",
                "add   t1, {registers}, t1\n",
                ".if ", $is_retry, "\n",
                "lhu   t2, {WIDTH}({page})\n",
                "ld    {count}, {OFFSET}({page})\n",
                ".endif\n",
                "jalr  t0, 0(t1)\n",                  // csrr a0
                ".if ", $is_retry, "\n",
                "neg   t1, t2\n",                     // a shift by -width is a shift by 64 - width
                ".else\n",
                "lhu   t1, {WIDTH}({page})\n",
                "neg   t1, t1\n",
                ".endif\n",
                "sll   a0, a0, t1\n",
                "sra   a0, a0, t1\n",
                ".if ", $is_retry, " == 0\n",
                "ld    {count}, {OFFSET}({page})\n",
                ".endif\n",
                "add   {count}, {count}, a0\n",
                "lw    t1, {LOCK}({page})\n",         // pairs with the first load of lock
                $compare,
            )
        };
    }
    // SAFETY: the loads are within the page, which the caller promises is readable. The kernel writes the page on
    // this CPU, so a compiler barrier is enough. An asm block that may touch memory is one. The jump goes to entries
    // of the table only: an index without an entry skips it, with `t2` at 0.
    unsafe {
        asm!(
            round!("0", "lw {lock}, {LOCK}({page})", "beq t1, {lock}, 3f", "3f"),
            "j     5f",                                 // a conditional branch does not reach far
            "3:",
            retries!(
                "{lock}";
                "slli {lock}, {lock}, 32",
                round!(
                    "1",
                    "lwu t1, {LOCK}({page})\nor {lock}, {lock}, t1",
                    "sext.w a0, {lock}\nbne t1, a0, 4f\nj 3b\n4:", // a0 is in the count already
                    "7f"
                ),
                "srli {lock}, {lock}, 32",
            ),
            page = in(reg) page,
            registers = in(reg) registers.0,
            lock = out(reg) lock,
            ROUNDS = const ROUNDS,
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
    if counted == 0 { None } else { Some((count, lock as u32)) }
}

/// Returns the simultaneous counts of `N` events, at most 8, whose pages are [`STRIDE`] apart, and if `LOCKS` the sum of
/// their locks, otherwise any number. None while an `index` is 0, if a counter is not 64 bits wide, if a read faults, or if
/// the kernel moves a counter again and again.
///
/// One seqlock covers all pages. Each `lock` is loaded before its counter is read, and all are loaded again after the
/// last counter. Their sums are compared, because a lock only ever advances, also when a page is given up.
///
/// # Safety
/// As for [`count`], for each of the pages.
#[inline(always)]
pub(crate) unsafe fn counts<const N: usize, const LOCKS: bool>(
    pages: *const ControlPage,
    registers: Registers,
) -> Option<([u64; N], u32)> {
    let (a, b): (u64, u64);
    let (mut c, mut d, mut e, mut f, mut g, mut h) = (0, 0, 0, 0, 0, 0);
    let widths: u64;
    let sum: u32;
    // Reads one counter into one register. Empty if the group does not have it.
    #[rustfmt::skip]
    macro_rules! one {
        ($n:literal, $into:ident) => {
            concat!(
                ".if ", $n, " < {N}\n",
                ".if ", $n, " == 0\n",
                "lw    {locks}, {LOCK}({page})\n", // this load and the next pair with the last loads of lock
                "lhu   t2, {WIDTH}({page})\n",
                ".else\n",
                "add   {page}, {page}, {stride}\n",
                "lw    t1, {LOCK}({page})\n",
                "add   {locks}, {locks}, t1\n",
                "lhu   t1, {WIDTH}({page})\n",
                "and   t2, t2, t1\n", // 64 if all are 64, because none is wider
                ".endif\n",
                "lw    t1, {INDEX}({page})\n",
                "bgeu  t1, {end}, 7f\n",
                "slli  t1, t1, 3\n",
                "add   t1, {registers}, t1\n",
                "jalr  t0, 0(t1)\n", // csrr a0
                "ld    t1, {OFFSET}({page})\n",
                "add   {", stringify!($into), "}, t1, a0\n",
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
                "lw    t1, {LOCK}({page})\n", // pairs with the first loads of lock
                "sub   {locks}, {locks}, t1\n",
                ".if ", $n, " > 0\n",
                "sub   {page}, {page}, {stride}\n",
                ".endif\n",
                ".endif",
            )
        };
    }
    // The same in a retry. Another register would cost every read one, so the number of retries that are left is in the
    // upper bits of `locks`, above any sum. If `LOCKS`, as many instructions follow each read. Otherwise it is one more.
    #[rustfmt::skip]
    macro_rules! one_of_retry {
        ($n:literal, $into:ident) => {
            concat!(
                ".if ", $n, " < {N}\n",
                ".if ", $n, " > 0\n",
                "add   {page}, {page}, {stride}\n",
                ".endif\n",
                "lwu   t1, {LOCK}({page})\n", // pairs with the last loads of lock
                "add   {locks}, {locks}, t1\n",
                "lhu   t1, {WIDTH}({page})\n",
                ".if ", $n, " == 0\n",
                "mv    t2, t1\n",
                ".else\n",
                "and   t2, t2, t1\n",
                ".endif\n",
                "lw    t1, {INDEX}({page})\n",
                "bgeu  t1, {end}, 7f\n",
                "slli  t1, t1, 3\n",
                "add   t1, {registers}, t1\n",
                "ld    {", stringify!($into), "}, {OFFSET}({page})\n", // before the read, as in `count`
                "jalr  t0, 0(t1)\n",
                "add   {", stringify!($into), "}, {", stringify!($into), "}, a0\n",
                ".endif",
            )
        };
    }
    // Adds its lock, from the last page to the first.
    #[rustfmt::skip]
    macro_rules! again_of_retry {
        ($n:literal) => {
            concat!(
                ".if ", $n, " + 1 == {N}\n",
                "lwu   a0, {LOCK}({page})\n", // pairs with the first loads of lock
                ".elseif ", $n, " < {N}\n",
                "sub   {page}, {page}, {stride}\n",
                "lwu   t1, {LOCK}({page})\n", // pairs with the first loads of lock
                "add   a0, a0, t1\n",
                ".endif",
            )
        };
    }
    macro_rules! counts {
        ($($n:literal $into:ident),*; $($back:literal),*) => {
            asm!(
                $(one!($n, $into),)*
                ".if {LOCKS}",
                "mv    a0, {locks}",
                ".endif",
                $(again!($back),)*
                "beqz  {locks}, 3f",
                "j     5f",
                "7:",
                "li    t2, 0",
                "3:",
                retries!(
                    "{locks}";
                    "slli  {locks}, {locks}, 40",
                    $(one_of_retry!($n, $into),)*
                    $(again_of_retry!($back),)*
                    "slli  t1, {locks}, 24",
                    "srli  t1, t1, 24",
                    "bne   t1, a0, 4f",
                    "j     3b",
                    "4:",
                    "srli  {locks}, {locks}, 40"
                ),
                ROUNDS = const ROUNDS,
                page = inout(reg) pages => _,
                registers = in(reg) registers.0,
                stride = in(reg) STRIDE,
                end = in(reg) 33_u64,
                locks = out(reg) _,
                LOCK = const offset_of!(ControlPage, lock),
                INDEX = const offset_of!(ControlPage, index),
                OFFSET = const offset_of!(ControlPage, offset),
                WIDTH = const offset_of!(ControlPage, pmc_width),
                N = const N,
                LOCKS = const LOCKS as u8,
                $($into = out(reg) $into,)*
                out("a0") sum,
                out("t0") _,
                out("t1") _,
                out("t2") widths,
                options(nostack),
            )
        };
    }
    // SAFETY: the loads are within the pages, which the caller promises are readable. The kernel writes the pages on
    // this CPU, so a compiler barrier is enough. An asm block that may touch memory is one. The caller promises the
    // pages after one whose index is 0, too. The jumps go to entries of the table only: an index without an entry
    // ends the read, with `t2` at 0.
    // A small group does not take registers that the code around it could use.
    unsafe {
        if N <= 2 {
            counts!(0 a, 1 b; 1, 0);
        } else if N <= 4 {
            counts!(0 a, 1 b, 2 c, 3 d; 3, 2, 1, 0);
        } else {
            counts!(0 a, 1 b, 2 c, 3 d, 4 e, 5 f, 6 g, 7 h; 7, 6, 5, 4, 3, 2, 1, 0);
        }
    }
    if widths != 64 {
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
pub(crate) struct Register(*const [u32; 2]);

impl Register {
    /// Whether code with these saved registers was reading this one: the address of its entry is among them.
    pub(crate) fn was_read_with(self, saved: &[usize]) -> bool {
        saved.contains(&self.0.addr())
    }
}

/// Reads a register and nothing else: except for the jump there and back, no instruction before the read and none
/// after. [`Value::is_fault`] reports a fault.
///
/// # Safety
/// None needed for memory. If the CPU forbids the read, it traps, as in [`count`].
#[inline(always)]
pub(crate) unsafe fn value(register: Register) -> Value {
    let bits: u64;
    // SAFETY: the jump goes to an entry of the table, which uses only the registers named here.
    unsafe {
        asm!(
            "jalr  t0, 0({entry})",
            entry = in(reg) register.0,
            out("a0") bits,
            out("t0") _,
            out("t2") _,
            options(nostack, preserves_flags),
        );
    }
    Value::new(bits, register)
}

/// Does nothing: counters need no fence on this architecture.
#[inline(always)]
pub(crate) fn fence() {}

settled!();

// The program counter is in the slot of x0, which never changes.
saved_registers!(__gregs);

refused_read!([Registers::none()], __gregs[0]);

#[path = "kernels/riscv64.rs"]
#[allow(unreachable_pub, dead_code, reason = "tests compile this file too")]
mod kernels;

/// Runs `rounds` rounds of two instructions, one of which is a branch. Returns true: this target has such code.
pub(crate) fn known_work(rounds: u64) -> bool {
    kernels::countdown(rounds);
    true
}

/// Reads the tick counter that the page's clock fields convert: `time`.
///
/// Ordered, it needs fences, unlike counters: `time` does not belong to this CPU, and `fence` treats reading it as
/// input.
///
/// # Safety
/// None needed: Linux lets every thread read it.
#[inline(always)]
pub(crate) unsafe fn ticks<const ORDERED: bool>() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets every thread read `time`. The read touches no memory.
    unsafe {
        asm!(
            ".if {ORDERED}\nfence rw, i\n.endif",
            "rdtime {ticks}",
            ".if {ORDERED}\nfence i, rw\n.endif",
            ORDERED = const ORDERED as u8,
            ticks = out(reg) ticks,
            options(nostack, preserves_flags),
        );
    }
    ticks
}

/// The tick counter's name among the kernel's clock sources.
pub(crate) const TICKS: Option<&str> = Some("riscv_clocksource");

/// Whether the tick counter has a constant rate in every state of the CPU. The architecture guarantees it.
pub(crate) fn ticks_are_invariant() -> bool {
    true
}
