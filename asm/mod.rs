//! How a CPU reads counters and ticks: whole sequences of instructions, one file per architecture.

// Floor 2. Uses `kernel`, for the control page's layout.
//
// # The contract
//
// Each architecture's file has the same items:
//
// - `Registers`: how to reach the counters. `of_width` takes the page's `pmc_width` and is None for a width that only
//   the kernel reads. `register` turns the page's `index` into a `Register`. None if no counter has that index.
//   `Register::was_read_with`: whether a read of it has faulted, from the saved registers.
// - `count` and `counts`: the seqlock. They load `lock`, `index` and `offset`, read the counter, and compare `lock`.
//   None while an `index` is 0, or if the read faults and faults are contained, or after `ROUNDS` retries. A retry
//   continues in a copy of the loop, out of line. So a read without a retry needs no instruction to count them. After each
//   counter, the copy executes as many instructions as the loop. So a difference does not depend on whether the first
//   read was retried. (The exception is a group's `counts` without `LOCKS` on riscv64, with one more.)
// - `value`: reads one `Register` and nothing else, for regions.
// - `fence`: no later instruction starts before all earlier ones are complete.
// - `ticks`: reads the tick counter that the page's clock fields convert, if `ORDERED` between fences.
// - `TICKS`: the tick counter's name among the kernel's clock sources.
// - `FIXED_WHEN_MAPPED`: whether the kernel fixes capability and width when it maps the page. Otherwise they move with
//   the counter, and a non-zero `index` implies access.
// - `STALE_READ_FAULTS`: whether reading a register that its event has lost can fault on a machine with one core type.
// - `WIDTH_IN_A_GROUP`: the width in bits that `counts` needs of all counters, if it needs one.
// - `processor`, `hypervisor`: the CPU's and the hypervisor's names for themselves (x86-64).
// - `ticks_are_invariant`: whether the CPU says that its tick counter has a constant rate.
// - `known_reads`: reads a register in rounds of three instructions (x86-64).
// - `settled`: the same number, computed by this point.
// - `known_work`: runs rounds of two instructions, one of which is a branch (`kernels/`). False if there is no such code.
// - `saved_registers`: the registers of the code that a signal handler has interrupted.
// - `refused_read`: the address of the interrupted instruction, if it is one of those here that read counters. They are known by
//   their bytes or by their addresses.
// - `continue_after`: makes the thread continue behind it as if there were no counter.

/// The maximum number of retries of a seqlock. The kernel updates a page a thousand times a second at most, and a round takes
/// a microsecond at most, or some with a hypervisor. So no thread needs as many, unless a debugger stops it after each
/// instruction: each stop is a context switch, which updates the pages.
pub(crate) const ROUNDS: u32 = 8;

/// Defines `settled`.
#[allow(unused_macros)] // none.rs does not use it
macro_rules! settled {
    () => {
        /// Returns the same number. The compiler must have computed it by this point, and cannot do so later.
        #[inline(always)]
        pub(crate) fn settled(number: u64) -> u64 {
            let mut number = number;
            // SAFETY: emits no instruction.
            unsafe { asm!("/* {0} */", inout(reg) number, options(nomem, nostack, preserves_flags)) };
            number
        }
    };
}

/// Defines `saved_registers`. `$registers` is the field of `mcontext_t` that has the general-purpose registers.
#[allow(unused_macros)] // none.rs does not use it
macro_rules! saved_registers {
    ($registers:ident) => {
        /// Returns the saved general-purpose registers of the code that a signal handler has interrupted.
        ///
        /// # Safety
        /// `context` is what the kernel passed to the handler, which has not returned.
        pub(crate) unsafe fn saved_registers<'a>(context: *mut c_void) -> &'a [usize] {
            // SAFETY: the caller promises that `context` is the kernel's `ucontext_t`, which stays as it is until the
            // handler returns. Its registers are words.
            unsafe {
                let registers =
                    &raw const (*context.cast::<libc::ucontext_t>()).uc_mcontext.$registers;
                std::slice::from_raw_parts(registers.cast(), (*registers).len())
            }
        }
    };
}

/// Defines `refused_read` and `continue_after` for counters that are read in tables of 33 entries, the first of which answers
/// "no counter". `$counter` is the path to the program counter in `mcontext_t`.
#[allow(unused_macros)] // x86_64.rs and none.rs do not use it
macro_rules! refused_read {
    ($tables:expr, $($counter:tt)+) => {
        /// Returns the table that the interrupted instruction is in. Its address is enough to know it.
        ///
        /// # Safety
        /// `context` is what the kernel passed to a handler, which has not returned.
        pub(crate) unsafe fn refused_read(
            context: *mut c_void,
            _: impl Fn(usize) -> bool,
        ) -> Option<usize> {
            // SAFETY: the caller promises that `context` is the kernel's `ucontext_t`, of which this is a field.
            let counter = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.$($counter)+ } as usize;
            let tables = $tables.into_iter().map(|Registers(table)| table);
            let mut ranges = tables.map(|table| table.addr()..table.wrapping_add(33).addr());
            ranges.find(|range| range.contains(&counter)).map(|range| range.start)
        }

        /// Makes the thread continue at the table's entry for `index` 0.
        ///
        /// # Safety
        /// As for [`refused_read`], which has returned `table`.
        pub(crate) unsafe fn continue_after(table: usize, context: *mut c_void) {
            // SAFETY: the caller promises that `context` is the kernel's `ucontext_t`, of which this is a field.
            unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.$($counter)+ = table as _ };
        }
    };
}

#[cfg_attr(
    all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64"),
    path = "x86_64.rs"
)]
#[cfg_attr(
    all(
        target_os = "linux",
        target_arch = "aarch64",
        target_pointer_width = "64",
        target_endian = "little"
    ),
    path = "aarch64.rs"
)]
#[cfg_attr(
    all(target_os = "linux", target_arch = "riscv64", target_pointer_width = "64"),
    path = "riscv64.rs"
)]
#[cfg_attr(
    not(all(
        target_os = "linux",
        target_pointer_width = "64",
        any(
            target_arch = "x86_64",
            all(target_arch = "aarch64", target_endian = "little"),
            target_arch = "riscv64"
        )
    )),
    path = "none.rs"
)]
mod architecture;
#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(all(target_arch = "aarch64", target_endian = "little"), target_arch = "riscv64")
))]
mod table_value;

pub(crate) use architecture::*;
#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(all(target_arch = "aarch64", target_endian = "little"), target_arch = "riscv64")
))]
pub(crate) use table_value::Value;

/// Reads a register `rounds` times, in rounds of three instructions. Returns false on targets without such code.
///
/// # Safety
/// As for [`value`].
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64")))]
#[allow(unsafe_code, reason = "the contract of x86-64's")]
pub(crate) unsafe fn known_reads(_: Register, _: u64) -> bool {
    false
}

/// Returns the vendor, the family and the model of an x86-64 CPU.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64")))]
pub(crate) fn processor() -> Option<([u8; 12], u32, u32)> {
    None
}

/// Returns the hypervisor's name for itself, if the CPU reports one.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64")))]
pub(crate) fn hypervisor() -> Option<[u8; 12]> {
    None
}
