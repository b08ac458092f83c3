//! Linux on CPUs that have a single step: by the trap flag in this process (x86-64), or by another process that traces this thread (arm64).

// Where there is a trap flag, the tests compare the two.
#[cfg(any(not(target_arch = "x86_64"), test))]
mod aarch64_ptrace;
mod check;
mod room;
mod turn;
#[cfg(target_arch = "x86_64")]
mod x86_64_trap_flag;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use aarch64_ptrace::{Counting, start};
pub(crate) use check::check;
pub(crate) use room::Room;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64_trap_flag::{Counting, start};
