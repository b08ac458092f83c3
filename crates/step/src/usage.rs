//! CPU times and voluntary context switches, as the kernel counts them.
#![allow(unsafe_code)]

use std::time::Duration;

/// Returns the number of times that this thread gave up its CPU because it had to wait: for another thread, a device, or the end of a sleep.
/// None if the system does not count them. Takes a system call.
#[cfg(target_os = "linux")]
#[allow(clippy::useless_conversion, reason = "it has 32 bits on some targets")]
pub fn waits() -> Option<i64> {
    // SAFETY: all fields of the structure are integers, for which 0 is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes a structure of this type there.
    let status = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    (status == 0).then(|| i64::from(usage.ru_nvcsw))
}

/// Returns a CPU time, up to now. (The times of `getrusage` can be as old as the last timer interrupt.) None if the system has no such
/// clock, or refuses the call.
#[cfg(target_os = "linux")]
fn time_of(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes a structure of this type there.
    let status = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (status == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Returns the CPU time of all threads of the process.
#[cfg(target_os = "linux")]
pub(crate) fn process_time() -> Option<Duration> {
    time_of(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the CPU time of this thread.
#[cfg(target_os = "linux")]
pub(crate) fn thread_time() -> Option<Duration> {
    time_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the number of times that this thread gave up its CPU because it had to wait. This system does not count them.
#[cfg(not(target_os = "linux"))]
pub fn waits() -> Option<i64> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn process_time() -> Option<Duration> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn thread_time() -> Option<Duration> {
    None
}
