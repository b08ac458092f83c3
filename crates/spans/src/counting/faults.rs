//! The page faults of a thread.
#![allow(unsafe_code)]

use crate::record::Faults;

/// Returns the page faults of this thread, by a system call. None if the kernel refuses it.
#[cfg(target_os = "linux")]
pub(crate) fn faults_of_this_thread() -> Option<Faults> {
    // SAFETY: zeros are a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes a rusage.
    let failed = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) } != 0;
    let [minor, major] = [usage.ru_minflt, usage.ru_majflt].map(|faults| faults as u64);
    (!failed).then_some(Faults { minor, major })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn faults_of_this_thread() -> Option<Faults> {
    None
}
