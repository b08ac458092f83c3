//! x86-64: `rdpmc`, which takes the counter's number in ECX, so that one instruction reads every counter.
#![allow(unsafe_code)]

// Every `rdpmc` here begins with two prefixes that have no effect, and that no compiler emits: see `READ`. So the handler
// of faults (`src/page/faults.rs`) knows it by its bytes. A read that faults goes on as if the register were 0.
//
// A forbidden counter does not always fault. Since Intel's Panther Cove (CPUID.23H:EBX bit 2, "RDPMC user disable"),
// it may read 0 instead. So 0 is never a count, on any CPU. This check takes one instruction. A check whether the CPU
// may hide counters would take two. A counter whose value is 0, one of 2^48, is left to the kernel to read.

use super::ROUNDS;
use crate::kernel::{ControlPage, STRIDE};
use std::arch::asm;
use std::arch::x86_64::__cpuid;
use std::ffi::c_void;
use std::mem::offset_of;

/// The way from the page's `index` to a counter. It is empty, because `rdpmc` takes the index directly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers;

impl Registers {
    /// Returns the way to counters of this width (`pmc_width`). None for a width that only the kernel reads.
    ///
    /// 48 bits is the width of nearly every CPU since 2008 (some Atoms have 40). It makes the sign extension one
    /// instruction.
    pub(crate) fn of_width(width: u16) -> Option<Registers> {
        match width {
            48 => Some(Registers),
            _ => None,
        }
    }

    /// Returns registers for a page whose `index` stays 0.
    pub(crate) fn none() -> Registers {
        Registers
    }

    /// Returns the register of `index`, which counts from 1. None for 0.
    #[inline(always)]
    pub(crate) fn register(self, index: u32) -> Option<Register> {
        Some(Register(index.checked_sub(1)?))
    }
}

pub(crate) const FIXED_WHEN_MAPPED: bool = true;

/// Whether reading a register that its event has lost can fault on a machine with one core type.
pub(crate) const STALE_READ_FAULTS: bool = false;

/// The width in bits that [`counts`] needs of all counters, if it needs one.
pub(crate) const WIDTH_IN_A_GROUP: Option<u16> = None;

/// `rdpmc` with the prefixes of [`READ`].
#[rustfmt::skip]
macro_rules! rdpmc {
    () => { ".byte 0x3e, 0x2e\nrdpmc" };
}

/// The code for a read that returned 0, behind the function's code. If `$compare` finds that a `lock` has changed, the counter
/// was moved and its old register cleared: all is read again. Otherwise there is no count. `$here` is the subsection of the
/// code around it.
#[rustfmt::skip]
macro_rules! zero {
    ($compare:expr, $again:literal, $end:literal, $here:literal) => {
        concat!(
            ".subsection 2\n",
            "9: ", $compare, "\n",
            "jne ", $again, "\n",
            "mov ecx, -1\n",
            "jmp ", $end, "\n",
            ".subsection ", $here,
        )
    };
}

/// The code of retries, behind the function's code: from label 5 on, `$round` at most [`ROUNDS`] times. Each ends at label 3 or,
/// if a `lock` has changed, at label 4. `$set`, `$begin` and `$next` use a register for their number. ECX is -1 in the end.
#[rustfmt::skip]
macro_rules! retries {
    ($set:literal, $begin:literal, $next:literal, $($round:expr),* $(,)?) => {
        concat!(
            ".subsection 1\n",
            "5: ", $set, "\n",
            "6: ", $begin, "\n",
            $($round, "\n",)*
            "4: ", $next, "\n",
            "jnz 6b\n",
            "mov ecx, -1\n",
            "jmp 3b\n",
            ".subsection 0",
        )
    };
}

/// Returns the event's count and the page's `lock`. None while the page's `index` is 0, or if user space may not read
/// the counter, or if the kernel moves the counter again and again.
///
/// The seqlock: `lock` is loaded first and last, and a difference means that the kernel has moved the counter in
/// between. The kernel does so only while this thread is interrupted. So the instructions between the two loads may
/// run in any order, and `offset` is added straight from memory.
///
/// # Safety
/// `page` is readable. If the CPU forbids reading the counter of `index`, `rdpmc` traps: the process gets SIGSEGV,
/// which ends it unless faults are contained. An allowed read has no effect.
#[inline(always)]
pub(crate) unsafe fn count(page: *const ControlPage, _: Registers) -> Option<(u64, u32)> {
    let count: u64;
    let (lock, register): (u64, u32);
    // Ends at label $end. Goes to $again if the lock has changed. $last checks that with one instruction. In a retry, the
    // upper half of `lock` has the number of those that are left: another register would cost the code around this one.
    #[rustfmt::skip]
    macro_rules! round {
        ($here:literal, $lock:literal, $again:literal, $end:literal, $last:literal) => {
            concat!(
                $lock, "\n",                            // loads the lock; pairs with the last load of it
                "mov   ecx, [{page} + {INDEX}]\n",
                "sub   ecx, 1\n",                       // index counts from 1. 0 means no counter
                "jb    ", $end, "\n",
                rdpmc!(), "\n",
                "movsx {count}, dx\n",                  // bits 32..48, sign-extended
                "shl   {count}, 32\n",
                "or    {count}, rax\n",                 // rax has bits 0..32
                zero!("cmp {lock:e}, [{page} + {LOCK}]", $again, $end, $here), "\n", // pairs with the first load of lock
                "jz    9b\n",                           // a forbidden counter reads 0
                "add   {count}, [{page} + {OFFSET}]\n",
                "cmp   {lock:e}, [{page} + {LOCK}]\n",  // pairs with the first load of lock
                $last,
            )
        };
    }
    // SAFETY: the loads are within the page, which the caller promises is readable. The kernel writes the page on
    // this CPU, so a compiler barrier is enough. An asm block that may touch memory is one. `rdpmc` runs with a
    // non-zero index only.
    unsafe {
        asm!(
            round!("0", "mov {lock:e}, [{page} + {LOCK}]", "5f", "3f", "jne 5f"),
            "3:",
            retries!(
                "mov {lock:e}, {ROUNDS}",
                "shl {lock}, 32",
                "shr {lock}, 32\ndec {lock:e}",
                round!("1", "mov eax, [{page} + {LOCK}]\nor {lock}, rax", "4f", "3b", "je 3b")
            ),
            page = in(reg) page,
            lock = out(reg) lock,
            ROUNDS = const ROUNDS,
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
    if register == u32::MAX { None } else { Some((count, lock as u32)) }
}

/// Returns the simultaneous counts of `N` events, at most 8, whose pages are [`STRIDE`] apart, and if `LOCKS` the sum of
/// their locks, otherwise any number. None while an `index` is 0, or if user space may not read one of the counters, or if
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
    _: Registers,
) -> Option<([u64; N], u32)> {
    let (a, b): (u64, u64);
    let (mut c, mut d, mut e, mut f, mut g, mut h) = (0, 0, 0, 0, 0, 0);
    let (sum, register): (u32, u32);
    // Reads one counter into one register. Empty if the group does not have it.
    #[rustfmt::skip]
    macro_rules! one {
        ($here:literal, $n:literal, $into:ident, $again:literal, $end:literal) => {
            concat!(
                ".if ", $n, " < {N}\n",
                ".if ", $n, " == 0\n",
                "mov   {locks:e}, [{pages} + {LOCK}]\n", // this load and the next pair with the last
                ".else\n",
                "add   {locks:e}, [{pages} + {STRIDE} * ", $n, " + {LOCK}]\n",
                ".endif\n",
                "mov   ecx, [{pages} + {STRIDE} * ", $n, " + {INDEX}]\n",
                "sub   ecx, 1\n",
                "jb    ", $end, "\n",
                rdpmc!(), "\n",
                "movsx {", stringify!($into), "}, dx\n",
                "shl   {", stringify!($into), "}, 32\n",
                "or    {", stringify!($into), "}, rax\n",
                zero!(concat!( // each lock so far pairs with its first load
                    ".irp k, 0, 1, 2, 3, 4, 5, 6, 7\n",
                    ".if \\k <= ", $n, "\n",
                    "sub {locks:e}, [{pages} + {STRIDE} * \\k + {LOCK}]\n",
                    ".endif\n",
                    ".endr"
                ), $again, $end, $here), "\n",
                "jz    9b\n",
                "add   {", stringify!($into), "}, [{pages} + {STRIDE} * ", $n, " + {OFFSET}]\n",
                ".endif",
            )
        };
    }
    // Loads its lock again.
    #[rustfmt::skip]
    macro_rules! again {
        ($n:literal) => {
            concat!(
                ".if ", $n, " < {N}\n",
                "sub   {locks:e}, [{pages} + {STRIDE} * ", $n, " + {LOCK}]\n", // pairs with the first load
                ".endif",
            )
        };
    }
    macro_rules! counts {
        ($($n:literal $into:ident),*) => {
            asm!(
                $(one!("0", $n, $into, "5f", "3f"),)*
                ".if {LOCKS}",
                "mov   eax, {locks:e}",
                ".endif",
                $(again!($n),)*
                "jne   5f",
                "3:",
                // The same instructions, so that the counts are as far apart. Of the general registers, none is free to
                // count the retries.
                retries!(
                    "mov eax, {ROUNDS}\nmovd xmm15, eax",
                    "",
                    "movd eax, xmm15\ndec eax\nmovd xmm15, eax",
                    $(one!("1", $n, $into, "4f", "3b"),)*
                    ".if {LOCKS}",
                    "mov   eax, {locks:e}",
                    ".endif",
                    $(again!($n),)*
                    "je    3b",
                ),
                out("xmm15") _,
                ROUNDS = const ROUNDS,
                pages = in(reg) pages,
                locks = out(reg) _,
                LOCK = const offset_of!(ControlPage, lock),
                INDEX = const offset_of!(ControlPage, index),
                OFFSET = const offset_of!(ControlPage, offset),
                STRIDE = const STRIDE,
                N = const N,
                LOCKS = const LOCKS as u8,
                $($into = out(reg) $into,)*
                out("rax") sum,
                out("rcx") register,
                out("rdx") _,
                options(nostack),
            )
        };
    }
    // SAFETY: the loads are within the pages, which the caller promises are readable. The kernel writes the pages on
    // this CPU, so a compiler barrier is enough. An asm block that may touch memory is one. `rdpmc` runs with
    // non-zero indices only.
    // A small group does not take registers that the code around it could use.
    unsafe {
        if N <= 2 {
            counts!(0 a, 1 b);
        } else if N <= 4 {
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
    Some((counts, sum))
}

/// A register that [`value`] reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register(u32);

impl Register {
    /// Whether code with these saved registers was reading this one.
    pub(crate) fn was_read_with(self, saved: &[usize]) -> bool {
        // The upper half is undefined.
        saved.get(libc::REG_RCX as usize).is_some_and(|rcx| *rcx as u32 == self.0)
    }
}

/// The value of a register: its lower and its upper half.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    low: u64,
    high: u64,
    register: Register,
}

/// Reads a register and nothing else: no instruction before the read and none after. [`Value::is_fault`] reports a
/// fault.
///
/// # Safety
/// None needed for memory. If the CPU forbids the read, it traps, as in [`count`].
#[inline(always)]
pub(crate) unsafe fn value(register: Register) -> Value {
    let (low, high): (u64, u64);
    // SAFETY: `rdpmc` touches no memory. The caller accepts the trap of a forbidden read.
    unsafe {
        asm!(
            rdpmc!(),
            out("rax") low,
            out("rdx") high,
            in("rcx") register.0,
            options(nostack, preserves_flags),
        );
    }
    Value { low, high, register }
}

impl Value {
    /// Returns a placeholder until the register is read.
    #[inline(always)]
    pub(crate) fn unread(register: Register) -> Value {
        Value { low: 0, high: 0, register }
    }

    /// Returns the register that it is read from.
    #[inline(always)]
    pub(crate) fn register(self) -> Register {
        self.register
    }

    /// Whether it is 0: the read faulted, or the CPU hides the counter.
    #[inline(always)]
    pub(crate) fn is_fault(self) -> bool {
        self.bits() == 0
    }

    /// Returns the register's bits. Those above its width are undefined.
    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        self.high << 32 | self.low
    }
}

/// Reads a register `rounds` times, at least once, in rounds of three instructions. Returns true: this target has such code.
///
/// # Safety
/// As for [`value`].
pub(crate) unsafe fn known_reads(register: Register, rounds: u64) -> bool {
    // SAFETY: `rdpmc` touches no memory. The caller accepts the trap of a forbidden read.
    unsafe {
        asm!(
            "2:",
            rdpmc!(),
            "dec {left}",
            "jnz 2b",
            left = inout(reg) rounds.max(1) => _,
            out("rax") _,
            out("rdx") _,
            in("rcx") register.0,
            options(nostack),
        );
    }
    true
}

/// Runs `lfence`: no later instruction starts before all earlier ones are complete.
#[inline(always)]
pub(crate) fn fence() {
    // SAFETY: `lfence` touches no register and no memory.
    unsafe { asm!("lfence", options(nostack, preserves_flags)) };
}

settled!();

saved_registers!(gregs);

/// The bytes of each `rdpmc` here: `ds` and `cs`, which have no effect on it, and the instruction.
const READ: [u8; 4] = [0x3e, 0x2e, 0x0f, 0x33];

/// Returns the address of the interrupted instruction, if it is a read of this library. `is_code` tells whether it is in code
/// that has such reads.
///
/// # Safety
/// `context` is what the kernel passed to a handler, which has not returned. Where `is_code` is true, there is readable code.
pub(crate) unsafe fn refused_read(
    context: *mut c_void,
    is_code: impl Fn(usize) -> bool,
) -> Option<usize> {
    const RIP: usize = libc::REG_RIP as usize;
    // SAFETY: the caller promises that `context` is the kernel's `ucontext_t`, which stays as it is until the handler returns.
    let at = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[RIP] } as usize;
    // The thread need not have come to this address: whoever writes a signal frame chooses it.
    // SAFETY: the caller promises that it is readable code. After a prefix, and after 0x0f, an instruction goes on.
    (is_code(at) && unsafe { begins_with(at, &READ) }).then_some(at)
}

/// Makes the thread continue behind a [`refused_read`], as if the register were 0.
///
/// # Safety
/// As for [`refused_read`], which has returned `read`.
pub(crate) unsafe fn continue_after(read: usize, context: *mut c_void) {
    const RAX: usize = libc::REG_RAX as usize;
    const RDX: usize = libc::REG_RDX as usize;
    const RIP: usize = libc::REG_RIP as usize;
    // SAFETY: the caller promises that `context` is the kernel's `ucontext_t`, which stays writable until the handler returns.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    registers[RAX] = 0;
    registers[RDX] = 0;
    registers[RIP] = (read + READ.len()) as i64;
}

/// Whether the bytes from `address` on are these. Reads as far as they are.
///
/// # Safety
/// Each byte is readable if those before it are these.
unsafe fn begins_with(address: usize, bytes: &[u8]) -> bool {
    let start = std::ptr::with_exposed_provenance::<u8>(address);
    bytes.iter().enumerate().all(|(place, byte)| {
        // SAFETY: the caller promises that this one is readable, because those before it were equal.
        *byte == unsafe { start.wrapping_add(place).read_volatile() }
    })
}

#[path = "kernels/x86_64.rs"]
#[allow(unreachable_pub, dead_code, reason = "tests compile this file too")]
mod kernels;

/// Runs `rounds` rounds of two instructions, one of which is a branch. Returns true: this target has such code.
pub(crate) fn known_work(rounds: u64) -> bool {
    kernels::countdown(rounds);
    true
}

/// Reads the tick counter that the page's clock fields convert: the time stamp counter.
///
/// # Safety
/// This thread has not forbidden itself to read it (`PR_SET_TSC`).
#[inline(always)]
pub(crate) unsafe fn ticks<const ORDERED: bool>() -> u64 {
    let ticks: u64;
    // SAFETY: the caller promises that this thread may read the tick counter. `rdtsc` touches no memory.
    unsafe {
        asm!(
            ".if {ORDERED}\nlfence\n.endif",
            "rdtsc",
            "shl rdx, 32",
            "or  rax, rdx",
            ".if {ORDERED}\nlfence\n.endif",
            ORDERED = const ORDERED as u8,
            out("rax") ticks,
            out("rdx") _,
            options(nostack),
        );
    }
    // `.ci/parts/coarse` runs tests with a counter that advances in steps of 10 ns, as on AMD's CPUs.
    #[cfg(rdpmc_coarse_ticks)]
    let ticks = ticks / 26 * 26;
    ticks
}

/// The tick counter's name among the kernel's clock sources.
pub(crate) const TICKS: Option<&str> = Some("tsc");

/// Returns the hypervisor's name for itself, if the CPU reports one: `KVMKVMKVM`, padded with zeros.
pub(crate) fn hypervisor() -> Option<[u8; 12]> {
    const NAME: u32 = 0x4000_0000;
    #[allow(unused_unsafe, reason = "newer Rust has it safe")]
    // SAFETY: every x86-64 CPU has `cpuid`, and a hypervisor that announces itself (ECX bit 31) has this leaf.
    let words = unsafe {
        if __cpuid(1).ecx & 1 << 31 == 0 {
            return None;
        }
        let leaf = __cpuid(NAME);
        [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes)
    };
    words.concat().try_into().ok()
}

/// Returns the vendor, the family and the model of this CPU.
pub(crate) fn processor() -> Option<([u8; 12], u32, u32)> {
    #[allow(unused_unsafe, reason = "newer Rust has it safe")]
    // SAFETY: every x86-64 CPU has `cpuid`.
    let (vendor, version) = unsafe { (__cpuid(0), __cpuid(1).eax) };
    let vendor = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat();
    let (family, model) = (version >> 8 & 0xf, version >> 4 & 0xf | version >> 12 & 0xf0);
    let more = if family == 0xf { version >> 20 & 0xff } else { 0 };
    Some((vendor.try_into().ok()?, family + more, model))
}

/// Whether the tick counter has a constant rate in every state of the CPU, as the CPU reports (`CPUID` 8000_0007, EDX
/// bit 8).
pub(crate) fn ticks_are_invariant() -> bool {
    const LAST: u32 = 0x8000_0000;
    const POWER: u32 = 0x8000_0007;
    #[allow(unused_unsafe, reason = "newer Rust has it safe")]
    // SAFETY: every x86-64 CPU has `cpuid`.
    unsafe {
        __cpuid(LAST).eax >= POWER && __cpuid(POWER).edx & 1 << 8 != 0
    }
}
