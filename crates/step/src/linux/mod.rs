//! Linux on CPUs that have a single step: by the trap flag in this process, or by another process that traces this thread.

mod check;
// Where there is a trap flag, the tests compare the two.
#[cfg(any(not(target_arch = "x86_64"), test))]
mod tracer;
#[cfg(target_arch = "x86_64")]
mod trap_flag;
mod turn;

pub(crate) use check::check;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use tracer::{Counting, start};
#[cfg(target_arch = "x86_64")]
pub(crate) use trap_flag::{Counting, start};
