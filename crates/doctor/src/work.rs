//! Work with a known number of instructions and branches.
#![allow(unsafe_code)]

/// Defines `known_work` by an instruction that jumps past the loop if the register is 0, and the two of a round.
#[allow(unused_macros)] // on targets without such code
macro_rules! countdown {
    ($($instruction:literal),*) => {
        /// Runs `rounds` rounds of two instructions, one of which is a branch. False on targets without such code.
        pub(crate) fn known_work(rounds: u64) -> bool {
            // SAFETY: works on its own register only.
            unsafe {
                std::arch::asm!(
                    $($instruction,)*
                    left = inout(reg) rounds => _,
                    options(nomem, nostack),
                );
            }
            true
        }
    };
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
countdown!("test {left:r}, {left:r}", "jz 3f", "2:", "dec {left:r}", "jnz 2b", "3:");

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
countdown!("cbz {left}, 3f", "2:", "subs {left}, {left}, #1", "b.ne 2b", "3:");

#[cfg(all(target_os = "linux", target_arch = "riscv64"))]
countdown!("beqz {left}, 3f", "2:", "addi {left}, {left}, -1", "bnez {left}, 2b", "3:");

/// Runs nothing, and returns false: there is no code of known size here.
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
)))]
pub(crate) fn known_work(_: u64) -> bool {
    false
}
