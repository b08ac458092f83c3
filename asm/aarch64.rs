//! How an arm64 processor reads a counter: `mrs`, whose operand names the counter, so that each
//! counter needs an instruction of its own and the index picks one from a table.
//!
//! Every such `mrs` has an entry in the exception table, see `src/faults.rs`. One that faults goes on
//! where the table's entry for `index` 0 does: no counter.
//!
//! The entries have no landing pads (`bti`), which would cost every read an instruction. The loader
//! enforces them only in programs of which every object has them; Rust's standard library, as rustup
//! installs it, has none. A program that is built with branch protection throughout
//! (`-Z build-std -Z branch-protection=bti`) must not read counters with this library: the first read
//! gets SIGILL.
#![allow(unsafe_code)]

use super::Value;
use crate::kernel::{ControlPage, STRIDE};
use std::arch::asm;
use std::ffi::c_void;
use std::mem::offset_of;

/// What names this processor's counters: a table of 33 entries of 16 bytes, each reading the counter
/// that an `index` stands for into `x9` and returning. Where there is no such counter, or reading it
/// faults, `x9` comes back as all ones, `lr` as 0 and [`POISON`] in `x11`; `x10` is used up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers(*const Entry);

/// Code, not data: its address only is taken.
#[repr(C)]
struct Entry([u32; 4]);

/// More than any sum of eight locks: what it is part of is no such sum.
const POISON: u64 = 1 << 62;

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
                "7:",
                "mrs x9, \\n\\()_el0",
                $extend,
                "ret",
                ".balign 16",
                ".pushsection rdpmc_faults, \"aR\", @progbits",
                ".balign 4",
                ".long 7b - .",
                ".long 8b - .",
                ".popsection",
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
    /// For counters of this width (`pmc_width`), if they can be read here: the kernel's driver has
    /// counters of 64 and of 32 bits. Above bit 32 the latter read as they please.
    #[inline(never)]
    pub(crate) fn of_width(width: u16) -> Option<Registers> {
        match width {
            64 => Some(Registers::none()),
            32 => Some(Registers(table!("sxtw x9, w9"))),
            _ => None,
        }
    }

    /// For a page whose `index` stays 0: any table will do.
    #[inline(never)]
    pub(crate) fn none() -> Registers {
        Registers(table!(""))
    }

    /// The register that `index` stands for, which counts from 1.
    #[inline(always)]
    pub(crate) fn register(self, index: u32) -> Option<Register> {
        match index {
            1..=32 => Some(Register(self.0.wrapping_add(index as usize))),
            _ => None,
        }
    }
}

pub(crate) const FIXED_WHEN_MAPPED: bool = true;

/// Whether a register that its event has lost can fault, on a machine of one core type.
pub(crate) const STALE_READ_FAULTS: bool = false;

/// The width, in bits, that all counters of a group must have for [`counts`], if it minds.
pub(crate) const WIDTH_IN_A_GROUP: Option<u16> = None;

/// `isb`, if the read is to be ordered: no later instruction starts before all earlier ones are
/// complete.
macro_rules! fence {
    () => {
        ".if {ORDERED}\nisb\n.endif"
    };
}

/// The event's count, or None while the page's `index` is 0 or if the read faults.
///
/// The seqlock: `lock` first and `lock` last, and a difference means the kernel has moved the
/// counter in between. It does so only while this thread is interrupted, so what lies between
/// the two loads may come in any order.
///
/// # Safety
/// `page` is readable. If the processor forbids to read the counter that `index` names, `mrs` traps: the
/// process gets SIGILL, which ends it unless faults are contained. A read that is allowed has no effect.
#[inline(always)]
pub(crate) unsafe fn count<const ORDERED: bool>(
    page: *const ControlPage,
    registers: Registers,
) -> Option<u64> {
    let count: u64;
    let from: u64;
    // SAFETY: the loads are within the page, which the caller vouches for. The kernel writes it on
    // this same processor, so no barrier but the compiler's is needed, which an asm block that may
    // touch memory is. The branch goes to an entry of the table whatever the index: those the
    // table does not hold are turned into 0, whose entry reads nothing.
    unsafe {
        asm!(
            "2:",
            "ldp  {lock:w}, {index:w}, [{page}, #{LOCK}]",  // pairs with the last load of lock
            "cmp  {index:w}, #33",
            "csel {index:w}, {index:w}, wzr, lo",
            "add  {entry}, {registers}, {index:w}, uxtw #4",
            fence!(),
            "blr  {entry}",                                 // mrs x9, sign-extended
            fence!(),
            "ldr  {offset}, [{page}, #{OFFSET}]",
            "ldr  {again:w}, [{page}, #{LOCK}]",            // pairs with the first load of lock
            "cmp  {again:w}, {lock:w}",
            "b.ne 2b",
            "add  {count}, x9, {offset}",
            page = in(reg) page,
            registers = in(reg) registers.0,
            lock = out(reg) _,
            index = out(reg) _,
            entry = out(reg) _,
            offset = out(reg) _,
            again = out(reg) _,
            LOCK = const offset_of!(ControlPage, lock),
            OFFSET = const offset_of!(ControlPage, offset),
            ORDERED = const ORDERED as u8,
            count = lateout(reg) count,
            out("x9") _,
            out("x10") _,
            out("x11") _,
            out("lr") from,
            options(nostack),
        );
    }
    if from == 0 { None } else { Some(count) }
}

// One `ldp` loads both.
const _: () = assert!(offset_of!(ControlPage, index) == offset_of!(ControlPage, lock) + 4);

/// The counts of `N` events, at most 8, whose pages lie [`STRIDE`] apart, all of one moment; or None
/// while the `index` of one is 0 or if a read faults.
///
/// The seqlock over all of them: each `lock` is loaded before its counter is read, and all of them
/// again after the last. It is their sum that is compared: a lock only ever advances, so if one has
/// changed, what is left is below 0. Above it is what [`POISON`] leaves.
///
/// # Safety
/// As for [`count`], for each of the pages.
#[inline(always)]
pub(crate) unsafe fn counts<const N: usize, const ORDERED: bool>(
    pages: *const ControlPage,
    registers: Registers,
) -> Option<[u64; N]> {
    let (a, b, c, d): (u64, u64, u64, u64);
    let (mut e, mut f, mut g, mut h) = (0, 0, 0, 0);
    let left: u64;
    // One counter, into one register; nothing if it is not among the N.
    #[rustfmt::skip]
    macro_rules! one {
        ($n:literal, $into:ident) => {
            concat!(
                ".if ", $n, " < {N}\n",
                ".if ", $n, " == 0\n",
                "ldp  w11, {index:w}, [{page}, #{LOCK}]\n", // this and the next pair with the last loads
                ".else\n",
                "add  {page}, {page}, #{STRIDE} >> 12, lsl #12\n",
                "ldp  {lock:w}, {index:w}, [{page}, #{LOCK}]\n",
                "add  x11, x11, {lock}\n",
                ".endif\n",
                "cmp  {index:w}, #33\n",
                "csel {index:w}, {index:w}, wzr, lo\n",
                "add  {entry}, {registers}, {index:w}, uxtw #4\n",
                ".if ", $n, " == 0\n",
                fence!(), "\n",
                ".endif\n",
                "blr  {entry}\n", // mrs x9, sign-extended
                "ldr  {", stringify!($into), "}, [{page}, #{OFFSET}]\n",
                "add  {", stringify!($into), "}, {", stringify!($into), "}, x9\n",
                ".endif",
            )
        };
    }
    // Its lock again: from the last page to the first.
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
                "2:",
                $(one!($n, $into),)*
                fence!(),
                $(again!($back),)*
                "tbnz x11, #63, 2b",
                page = inout(reg) pages => _,
                registers = in(reg) registers.0,
                lock = out(reg) _,
                index = out(reg) _,
                entry = out(reg) _,
                LOCK = const offset_of!(ControlPage, lock),
                OFFSET = const offset_of!(ControlPage, offset),
                STRIDE = const STRIDE,
                N = const N,
                ORDERED = const ORDERED as u8,
                $($into = out(reg) $into,)*
                out("x9") _,
                out("x10") _,
                out("x11") left,
                out("lr") _,
                options(nostack),
            )
        };
    }
    // SAFETY: as in count. That the pages after one whose index is 0 are readable, the caller vouches
    // for as well. Four need not use registers that their caller wants back.
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
    Some(counts)
}

/// A register, for [`value`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register(*const Entry);

/// Reads a register, and does nothing else: but for the branch there and back, not one instruction
/// before it, nor after. If it faults, the value says so.
///
/// # Safety
/// None needed by memory. If the processor forbids the read, it traps, as in [`count`].
#[inline(always)]
pub(crate) unsafe fn value(register: Register) -> Value {
    let bits: u64;
    // SAFETY: the branch goes to an entry of the table, which uses the registers named here.
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

/// `isb`: no later instruction starts before all earlier ones are complete.
#[inline(always)]
pub(crate) fn fence() {
    // SAFETY: touches nothing.
    unsafe { asm!("isb", options(nostack, preserves_flags)) };
}

exception_table!(
    "adrp {start}, __start_rdpmc_faults",
    "add  {start}, {start}, :lo12:__start_rdpmc_faults",
    "adrp {end}, __stop_rdpmc_faults",
    "add  {end}, {end}, :lo12:__stop_rdpmc_faults"
);

/// Where the processor goes on after a signal handler.
///
/// # Safety
/// `context` is what the kernel gave the handler.
pub(crate) unsafe fn program_counter(context: *mut c_void) -> *mut usize {
    // SAFETY: by the caller's promise, context is a `ucontext_t`.
    unsafe { (&raw mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.pc).cast() }
}

/// The tick counter that the page's clock fields convert: the virtual count.
///
/// # Safety
/// This thread has not forbidden itself to read it (`PR_SET_TSC`, since Linux 6.12).
#[inline(always)]
pub(crate) unsafe fn ticks<const ORDERED: bool>() -> u64 {
    let ticks: u64;
    // SAFETY: the caller's promise that user space may read it; nothing else is touched.
    unsafe {
        asm!(
            fence!(),
            "mrs {ticks}, cntvct_el0",
            fence!(),
            ORDERED = const ORDERED as u8,
            ticks = out(reg) ticks,
            options(nostack, preserves_flags),
        );
    }
    ticks
}

/// What the kernel calls the tick counter among its clock sources.
pub(crate) const TICKS: Option<&str> = Some("arch_sys_counter");

/// Whether the tick counter goes on at one rate, whatever the processor does: by the architecture.
pub(crate) fn ticks_are_invariant() -> bool {
    true
}
