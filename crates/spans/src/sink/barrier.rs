//! A memory barrier on every thread of the process, by membarrier(2).
#![allow(unsafe_code)]

/// Lets this process use `barrier`. Returns whether the kernel has it.
pub(crate) fn allow_barriers() -> bool {
    membarrier(16) // MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED
}

/// Executes a memory barrier on every thread of the process. Returns false if the kernel refuses.
pub(crate) fn barrier() -> bool {
    membarrier(8) // MEMBARRIER_CMD_PRIVATE_EXPEDITED
}

#[cfg(all(target_os = "linux", not(miri)))]
fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: these commands touch no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

// Miri does not have the call.
#[cfg(not(all(target_os = "linux", not(miri))))]
fn membarrier(_: i32) -> bool {
    false
}
