//! Counts of several threads.

// Floor 8. `scope` says whose work is counted, `syscall_group` has the handle of several threads, `process` opens events on
// each thread of the process, and `per_thread` keeps a group for each thread that reads. Uses `open`, `counter` and the floors
// below them.

mod per_thread;
mod process;
mod scope;
mod syscall_group;

pub use per_thread::PerThread;
pub use scope::Scope;
pub use syscall_group::SyscallGroup;
