//! Work with an exactly known number of instructions and branches, on x86-64.

use std::arch::asm;

/// Instructions that [`countdown`] takes besides two a round.
pub const COUNTDOWN_ENTRY: u64 = 2;

/// Counts down from `rounds` to 0: [`COUNTDOWN_ENTRY`] + 2 * `rounds` instructions, of which
/// 1 + `rounds` are branches.
#[inline(always)]
pub fn countdown(rounds: u64) {
    // SAFETY: works on its own register only.
    unsafe {
        asm!(
            "test {left}, {left}",
            "jz   3f",
            "2:",
            "dec  {left}",
            "jnz  2b",
            "3:",
            left = inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
}
