//! How often this thread gave up its CPU, and the time for which it had one.
#![allow(unsafe_code)]

use std::time::Duration;

/// What this thread has used since it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// The voluntary context switches.
    pub(crate) blocked: i64,
    /// The CPU time, in user space and in the kernel.
    pub(crate) cpu: Duration,
}

/// Returns what this thread has used. None if the system does not tell.
#[cfg(target_os = "linux")]
#[allow(clippy::useless_conversion, reason = "the fields have 32 bits on some targets")]
pub(crate) fn of_this_thread() -> Option<Usage> {
    // SAFETY: all fields of the structure are integers, for which 0 is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes a structure of this type there.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) } != 0 {
        return None;
    }
    let [user, kernel] = [usage.ru_utime, usage.ru_stime].map(|time| {
        let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or_default());
        seconds
            .saturating_add(Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or_default()))
    });
    Some(Usage { blocked: i64::from(usage.ru_nvcsw), cpu: user.saturating_add(kernel) })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn of_this_thread() -> Option<Usage> {
    None
}

/// Returns the number of voluntary context switches of this thread. 0 if the system does not count them.
pub(crate) fn blocked() -> i64 {
    of_this_thread().map_or(0, |usage| usage.blocked)
}
