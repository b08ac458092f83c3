//! Work with an exactly known number of instructions and branches, on arm64.

use std::arch::asm;

/// Instructions that [`countdown`] takes besides two a round.
pub const COUNTDOWN_ENTRY: u64 = 1;

/// Counts down from `rounds` to 0: [`COUNTDOWN_ENTRY`] + 2 * `rounds` instructions, of which
/// 1 + `rounds` are branches.
#[inline(always)]
pub fn countdown(rounds: u64) {
    // SAFETY: works on its own register only.
    unsafe {
        asm!(
            "cbz  {left}, 3f",
            "2:",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            "3:",
            left = inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
}
