//! Voluntary context switches and CPU time of this thread.
#![allow(unsafe_code)]

use std::time::Duration;

/// Returns the number of voluntary context switches of this thread. None if the system does not count them.
#[cfg(target_os = "linux")]
#[allow(clippy::useless_conversion, reason = "it has 32 bits on some targets")]
pub(crate) fn blocked() -> Option<i64> {
    // SAFETY: all fields of the structure are integers, for which 0 is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes a structure of this type there.
    let status = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    (status == 0).then(|| i64::from(usage.ru_nvcsw))
}

/// Returns the CPU time of this thread, up to now. The times of `getrusage` can be as old as the last timer interrupt. None if the system
/// has no such clock.
#[cfg(target_os = "linux")]
pub(crate) fn cpu_time() -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes a structure of this type there.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    if status != 0 {
        return None;
    }
    let seconds = Duration::from_secs(u64::try_from(time.tv_sec).ok()?);
    seconds.checked_add(Duration::from_nanos(u64::try_from(time.tv_nsec).ok()?))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn blocked() -> Option<i64> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn cpu_time() -> Option<Duration> {
    None
}
