//! Chains of a known number of instructions, each of which needs the result of the one before.
#![allow(dead_code, unreachable_pub)]

use std::arch::asm;

/// Defines a function of `N` times this instruction.
macro_rules! chain {
    ($(#[$documentation:meta])* $name:ident, $x86_64:literal, $others:literal) => {
        $(#[$documentation])*
        #[inline(always)]
        pub fn $name<const N: usize>(x: u64) -> u64 {
            let mut x = x;
            // SAFETY: works on its own register only.
            unsafe {
                #[cfg(target_arch = "x86_64")]
                asm!(
                    ".rept {N}", $x86_64, ".endr",
                    x = inout(reg) x, N = const N, options(nomem, nostack),
                );
                #[cfg(not(target_arch = "x86_64"))]
                asm!(
                    ".rept {N}", $others, ".endr",
                    x = inout(reg) x, N = const N, options(nomem, nostack, preserves_flags),
                );
            }
            x
        }
    };
}

chain!(
    /// Makes `N` additions: `N` instructions.
    additions, "add {x}, {x}", "add {x}, {x}, {x}"
);
chain!(
    /// Makes `N` multiplications: `N` instructions.
    multiplications, "imul {x}, {x}", "mul {x}, {x}, {x}"
);
