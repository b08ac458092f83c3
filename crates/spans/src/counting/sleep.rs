//! Sleeping, where the kernel may refuse it.
#![allow(unsafe_code)]

use std::time::Duration;

/// Sleeps for less than a second, or returns at once if the kernel refuses: `std::thread::sleep` panics then.
#[cfg(target_os = "linux")]
pub(super) fn sleep(time: Duration) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: time.subsec_nanos() as _ };
    // SAFETY: reads the time, and writes nothing.
    let _ = unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
}

#[cfg(not(target_os = "linux"))]
pub(super) fn sleep(time: Duration) {
    std::thread::sleep(time);
}
