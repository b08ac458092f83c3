//! How an x86-64 processor reads a counter: `rdpmc`, which takes the counter's number in ECX, so
//! one instruction serves every counter.
//!
//! Every `rdpmc` here has an entry in the exception table, see `src/faults.rs`.
//!
//! A forbidden counter does not always fault: since Intel's Panther Cove (CPUID.23H:EBX bit 2, "RDPMC user
//! disable") it may read 0 instead. So 0 is no count, on every processor. To look for it costs one
//! instruction; to look first whether this processor may hide counters would cost two. A counter that is at 0,
//! one of 2^48 values, is left to the kernel to read.
#![allow(unsafe_code)]

use crate::kernel::{ControlPage, STRIDE};
use std::arch::asm;
use std::arch::x86_64::__cpuid;
use std::ffi::c_void;
use std::mem::offset_of;

/// What names this processor's counters: nothing, `rdpmc` takes the index as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers;

impl Registers {
    /// For counters of this width (`pmc_width`), if they can be read here: 48 bits, the width of
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

    /// The register that `index` stands for, which counts from 1.
    #[inline(always)]
    pub(crate) fn register(self, index: u32) -> Option<Register> {
        Some(Register(index.checked_sub(1)?))
    }
}

pub(crate) const FIXED_WHEN_MAPPED: bool = true;

/// Whether a register that its event has lost can fault, on a machine of one core type.
pub(crate) const STALE_READ_FAULTS: bool = false;

/// The width, in bits, that all counters of a group must have for [`counts`], if it minds.
pub(crate) const WIDTH_IN_A_GROUP: Option<u16> = None;

/// `rdpmc` and its entry in the exception table: if it faults, it makes a detour, in a section of
/// its own, through `$instead` to the label `$resume`.
#[rustfmt::skip]
macro_rules! rdpmc {
    ($instead:literal, $resume:literal) => {
        concat!(
            "7: rdpmc\n",
            ".pushsection .text.unlikely.rdpmc_faults, \"ax\", @progbits\n",
            "8: ", $instead, "\n",
            "jmp ", $resume, "\n",
            ".popsection\n",
            ".pushsection rdpmc_faults, \"aR\", @progbits\n",
            ".balign 4\n",
            ".long 7b - .\n",
            ".long 8b - .\n",
            ".popsection",
        )
    };
}

/// The same where a fault is to look like `index` 0, as which the label 3 takes it.
macro_rules! rdpmc_or_none {
    () => {
        rdpmc!("mov ecx, -1", "3f")
    };
}

/// Where a read that gave 0 goes, in a section of its own. If a `lock` has changed by what `$again` finds,
/// the counter was moved and its old register cleared, and all is read again. If not, there is no count.
#[rustfmt::skip]
macro_rules! zero {
    ($again:expr) => {
        concat!(
            ".pushsection .text.unlikely.rdpmc_faults, \"ax\", @progbits\n",
            "9: ", $again, "\n",
            "jne 2b\n",
            "mov ecx, -1\n",
            "jmp 3f\n",
            ".popsection",
        )
    };
}

/// `lfence`, if the read is to be ordered: no later instruction starts before all earlier ones are
/// complete.
macro_rules! fence {
    () => {
        ".if {ORDERED}\nlfence\n.endif"
    };
}

/// The event's count, or None while the page's `index` is 0, or if the counter is forbidden to user space.
///
/// The seqlock: `lock` first and `lock` last, and a difference means the kernel has moved the
/// counter in between. It does so only while this thread is interrupted, so what lies between
/// the two loads may come in any order, and `offset` is added straight from memory.
///
/// # Safety
/// `page` is readable. If the processor forbids to read the counter that `index` names, `rdpmc` traps: the
/// process gets SIGSEGV, which ends it unless faults are contained. A read that is allowed has no effect.
#[inline(always)]
pub(crate) unsafe fn count<const ORDERED: bool>(
    page: *const ControlPage,
    _: Registers,
) -> Option<u64> {
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
            fence!(),
            rdpmc_or_none!(),
            fence!(),
            "movsx {count}, dx",                    // bits 32..48, sign-extended
            "shl   {count}, 32",
            "or    {count}, rax",                   // rax has bits 0..32
            zero!("cmp {lock:e}, [{page} + {LOCK}]"), // pairs with the first load of lock
            "jz    9b",                             // 0 is a forbidden counter's
            "add   {count}, [{page} + {OFFSET}]",
            "cmp   {lock:e}, [{page} + {LOCK}]",    // pairs with the first load of lock
            "jne   2b",
            "3:",
            page = in(reg) page,
            lock = out(reg) _,
            LOCK = const offset_of!(ControlPage, lock),
            INDEX = const offset_of!(ControlPage, index),
            OFFSET = const offset_of!(ControlPage, offset),
            ORDERED = const ORDERED as u8,
            count = out(reg) count,
            out("rax") _,
            out("rcx") register,
            out("rdx") _,
            options(nostack),
        );
    }
    if register == u32::MAX { None } else { Some(count) }
}

/// The counts of `N` events, at most 8, whose pages lie [`STRIDE`] apart, all of one moment; or None
/// while the `index` of one is 0, or if one is forbidden to user space.
///
/// The seqlock over all of them: each `lock` is loaded before its counter is read, and all of them
/// again after the last. It is their sum that is compared: a lock only ever advances.
///
/// # Safety
/// As for [`count`], for each of the pages.
#[inline(always)]
pub(crate) unsafe fn counts<const N: usize, const ORDERED: bool>(
    pages: *const ControlPage,
    _: Registers,
) -> Option<[u64; N]> {
    let (a, b, c, d): (u64, u64, u64, u64);
    let (mut e, mut f, mut g, mut h) = (0, 0, 0, 0);
    let register: u32;
    // One counter, into one register; nothing if it is not among the N.
    #[rustfmt::skip]
    macro_rules! one {
        ($n:literal, $into:ident) => {
            concat!(
                ".if ", $n, " < {N}\n",
                ".if ", $n, " == 0\n",
                "mov   {locks:e}, [{pages} + {LOCK}]\n", // this and the next pair with the last loads
                fence!(), "\n",
                ".else\n",
                "add   {locks:e}, [{pages} + {STRIDE} * ", $n, " + {LOCK}]\n",
                ".endif\n",
                "mov   ecx, [{pages} + {STRIDE} * ", $n, " + {INDEX}]\n",
                "sub   ecx, 1\n",
                "jb    3f\n",
                rdpmc_or_none!(), "\n",
                "movsx {", stringify!($into), "}, dx\n",
                "shl   {", stringify!($into), "}, 32\n",
                "or    {", stringify!($into), "}, rax\n",
                zero!(concat!( // each lock so far pairs with its first load
                    ".irp k, 0, 1, 2, 3, 4, 5, 6, 7\n",
                    ".if \\k <= ", $n, "\n",
                    "sub {locks:e}, [{pages} + {STRIDE} * \\k + {LOCK}]\n",
                    ".endif\n",
                    ".endr"
                )), "\n",
                "jz    9b\n",
                "add   {", stringify!($into), "}, [{pages} + {STRIDE} * ", $n, " + {OFFSET}]\n",
                ".endif",
            )
        };
    }
    // Its lock again.
    #[rustfmt::skip]
    macro_rules! again {
        ($n:literal) => {
            concat!(
                ".if ", $n, " < {N}\n",
                "sub   {locks:e}, [{pages} + {STRIDE} * ", $n, " + {LOCK}]\n", // pairs with the first
                ".endif",
            )
        };
    }
    macro_rules! counts {
        ($($n:literal $into:ident),*) => {
            asm!(
                "2:",
                $(one!($n, $into),)*
                fence!(),
                $(again!($n),)*
                "jne   2b",
                "3:",
                pages = in(reg) pages,
                locks = out(reg) _,
                LOCK = const offset_of!(ControlPage, lock),
                INDEX = const offset_of!(ControlPage, index),
                OFFSET = const offset_of!(ControlPage, offset),
                STRIDE = const STRIDE,
                N = const N,
                ORDERED = const ORDERED as u8,
                $($into = out(reg) $into,)*
                out("rax") _,
                out("rcx") register,
                out("rdx") _,
                options(nostack),
            )
        };
    }
    // SAFETY: as in count. Four need not use registers that their caller wants back.
    unsafe {
        if N <= 4 {
            counts!(0 a, 1 b, 2 c, 3 d);
        } else {
            counts!(0 a, 1 b, 2 c, 3 d, 4 e, 5 f, 6 g, 7 h);
        }
    }
    if register == u32::MAX {
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
pub(crate) struct Register(u32);

/// What a register held: its lower and its upper half.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    low: u64,
    high: u64,
    register: Register,
}

/// Reads a register, and does nothing else: not one instruction before it, nor after. If it faults,
/// the value says so.
///
/// # Safety
/// None needed by memory. If the processor forbids the read, it traps, as in [`count`].
#[inline(always)]
pub(crate) unsafe fn value(register: Register) -> Value {
    let (low, high): (u64, u64);
    // SAFETY: the caller's promise; nothing else is touched.
    unsafe {
        asm!(
            rdpmc!("mov edx, -1", "2f"),
            "2:",
            out("rax") low,
            out("rdx") high,
            in("rcx") register.0,
            options(nostack, preserves_flags),
        );
    }
    Value { low, high, register }
}

impl Value {
    /// In its place until it is read.
    #[inline(always)]
    pub(crate) fn unread(register: Register) -> Value {
        Value { low: 0, high: 0, register }
    }

    /// Where it came from, for the read that follows.
    #[inline(always)]
    pub(crate) fn register(self) -> Register {
        self.register
    }

    /// Whether there was no value: the read faulted, or gave 0 in place of a forbidden counter's. Were the
    /// bits above a register's 48 ones rather than zeros, one near its end would look so, too, which is a
    /// sample thrown away, and not a wrong one.
    #[inline(always)]
    pub(crate) fn is_fault(self) -> bool {
        self.high == u64::from(u32::MAX) || self.bits() == 0
    }

    /// What the register held, as the processor gives it: the bits above its width are anything.
    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        self.high << 32 | self.low
    }
}

/// `lfence`: no later instruction starts before all earlier ones are complete.
#[inline(always)]
pub(crate) fn fence() {
    // SAFETY: touches nothing.
    unsafe { asm!("lfence", options(nostack, preserves_flags)) };
}

exception_table!(
    "lea {start}, [rip + __start_rdpmc_faults]",
    "lea {end}, [rip + __stop_rdpmc_faults]"
);

/// Where the processor goes on after a signal handler.
///
/// # Safety
/// `context` is what the kernel gave the handler.
pub(crate) unsafe fn program_counter(context: *mut c_void) -> *mut usize {
    // SAFETY: the caller's promise, and the register is one of those saved there.
    unsafe {
        let registers = &raw mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        registers.cast::<usize>().add(libc::REG_RIP as usize)
    }
}

/// The tick counter that the page's clock fields convert: the time stamp counter.
///
/// # Safety
/// This thread has not forbidden itself to read it (`PR_SET_TSC`).
#[inline(always)]
pub(crate) unsafe fn ticks<const ORDERED: bool>() -> u64 {
    let ticks: u64;
    // SAFETY: the caller's promise that user space may read it; nothing else is touched.
    unsafe {
        asm!(
            fence!(),
            "rdtsc",
            "shl rdx, 32",
            "or  rax, rdx",
            fence!(),
            ORDERED = const ORDERED as u8,
            out("rax") ticks,
            out("rdx") _,
            options(nostack),
        );
    }
    ticks
}

/// What the kernel calls the tick counter among its clock sources.
pub(crate) const TICKS: Option<&str> = Some("tsc");

/// The name by which the hypervisor calls itself, where the processor says so: `KVMKVMKVM`, zeros after it.
pub(crate) fn hypervisor() -> Option<[u8; 12]> {
    const NAME: u32 = 0x4000_0000;
    #[allow(unused_unsafe, reason = "newer Rust has it safe")]
    // SAFETY: every x86-64 processor has cpuid, and a hypervisor that shows itself has this leaf.
    let words = unsafe {
        if __cpuid(1).ecx & 1 << 31 == 0 {
            return None;
        }
        let leaf = __cpuid(NAME);
        [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes)
    };
    words.concat().try_into().ok()
}

/// Whether the tick counter goes on at one rate, whatever the processor does, by its own word
/// (`CPUID` 8000_0007, EDX bit 8).
pub(crate) fn ticks_are_invariant() -> bool {
    const LAST: u32 = 0x8000_0000;
    const POWER: u32 = 0x8000_0007;
    #[allow(unused_unsafe, reason = "newer Rust has it safe")]
    // SAFETY: every x86-64 processor has the instruction.
    unsafe {
        __cpuid(LAST).eax >= POWER && __cpuid(POWER).edx & 1 << 8 != 0
    }
}
