//! A value that is computed at a given point.
#![allow(unsafe_code)]

/// Returns the same number. The compiler must have computed it by this point, and cannot do so later.
#[inline(always)]
pub(crate) fn settled(number: u64) -> u64 {
    let mut number = number;
    #[cfg(target_pointer_width = "64")]
    // SAFETY: emits no instruction.
    unsafe {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
        std::arch::asm!("/* {0} */", inout(reg) number, options(nomem, nostack, preserves_flags));
    }
    number
}
