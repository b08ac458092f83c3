//! How often this thread gave up its CPU.
#![allow(unsafe_code)]

/// Returns the number of voluntary context switches of this thread. 0 if the system does not count them.
#[cfg(target_os = "linux")]
pub(crate) fn times() -> libc::c_long {
    // SAFETY: all fields of the structure are integers, for which 0 is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes a structure of this type there.
    let status = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    if status == 0 { usage.ru_nvcsw } else { 0 }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn times() -> i64 {
    0
}
