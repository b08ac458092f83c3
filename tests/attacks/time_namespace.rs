//! A clock whose process enters another time namespace: in the child of a fork, or by `setns`.
//!
//! CLOCK_MONOTONIC_RAW jumps there by a known offset. The clock must go on as if nothing had happened.

use crate::process::{fork, monotonic_raw, wait};
use rdpmc::Clock;
use rdpmc::clock::ClockKind;
use std::time::Duration;

/// How the process enters the namespace.
#[derive(Clone, Copy, Debug)]
enum By {
    Fork,
    Setns,
}

const SECOND: i64 = 1_000_000_000;
/// The offsets of the namespaces, in nanoseconds. The kernel refuses one that makes a clock negative.
fn offsets() -> [i64; 4] {
    let behind = (60 * SECOND).min(monotonic_raw() as i64 / 2);
    [-behind, 60 * SECOND, -SECOND / 2, SECOND / 2]
}

/// A refusal that is no fault of the clock.
const REFUSED: i32 = 77;

/// Tries all. None if this process may not make a time namespace. Returns the kind of the clocks, and what went wrong.
pub fn each(may_read_ticks: bool) -> Option<Result<(), String>> {
    let mut wrong = Vec::new();
    for offset in offsets() {
        for by in [By::Fork, By::Setns] {
            let status = wait(fork(|| {
                if !may_read_ticks {
                    // SAFETY: the call takes integers. Clocks that are opened afterwards are the kernel's.
                    unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) };
                }
                // SAFETY: alarm takes a number. A child that hangs is killed.
                unsafe { libc::alarm(60) };
                let clock = Clock::open().expect("a clock");
                match goes_on(&clock, offset, by) {
                    Ok(status) => status,
                    Err(why) => {
                        eprintln!("{:?} by {by:?}, {offset} ns: {why}", clock.kind());
                        1
                    }
                }
            }));
            match libc::WEXITSTATUS(status) {
                REFUSED => return None,
                _ if status != 0 => {
                    wrong.push(format!("{offset} by {by:?}: wait status {status:#x}"));
                }
                _ => {}
            }
        }
    }
    Some(if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) })
}

/// The difference of the clock to CLOCK_MONOTONIC_RAW, in nanoseconds: at least the first, and at most the second.
fn distance(clock: &Clock) -> (i64, i64) {
    // The narrowest of a few, because the thread may be switched out in between.
    let once = || {
        let before = clock.now();
        let raw = monotonic_raw();
        let after = clock.now();
        [before, after].map(|now| now.wrapping_sub(raw) as i64)
    };
    let mut all: Vec<[i64; 2]> = (0..5).map(|_| once()).collect();
    all.sort_by_key(|[low, high]| high - low);
    (all[0][0], all[0][1])
}

/// Returns an exit status.
fn goes_on(clock: &Clock, offset: i64, by: By) -> Result<i32, String> {
    let is_kernels = matches!(clock.kind(), ClockKind::Kernel(_));
    if is_kernels && offset > 0 {
        return Ok(0); // as documented: the kernel's clock is ahead there
    }
    let before = distance(clock);
    if offset == -SECOND / 2 {
        // Longer than the jump, so that neither time is before the last one that the clock returned.
        std::thread::sleep(Duration::from_millis(700));
    }
    if !enter(offset) {
        return Ok(REFUSED);
    }
    match by {
        By::Fork => {
            let status = wait(fork(|| match is_right(clock, before, offset, is_kernels) {
                Ok(()) => 0,
                Err(why) => {
                    eprintln!("in the child, {:?}, {offset} ns: {why}", clock.kind());
                    1
                }
            }));
            if status == 0 { Ok(0) } else { Err(format!("the child's wait status {status:#x}")) }
        }
        By::Setns => {
            let path = c"/proc/self/ns/time_for_children";
            // SAFETY: the path ends with a zero, and the other call takes integers. This process has one thread.
            let entered = unsafe {
                let namespace = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
                libc::setns(namespace, libc::CLONE_NEWTIME)
            };
            if entered != 0 {
                return Ok(REFUSED);
            }
            is_right(clock, before, offset, is_kernels).map(|()| 0)
        }
    }
}

/// Makes a namespace for the children of this process.
fn enter(offset: i64) -> bool {
    // SAFETY: the call takes an integer.
    let is_new = unsafe { libc::unshare(libc::CLONE_NEWTIME) == 0 };
    let (seconds, nanoseconds) = (offset.div_euclid(SECOND), offset.rem_euclid(SECOND));
    let offsets = format!("monotonic {seconds} {nanoseconds}\n");
    is_new && std::fs::write("/proc/self/timens_offsets", offsets).is_ok()
}

/// Compares for a while, in which the clock takes samples.
fn is_right(
    clock: &Clock,
    before: (i64, i64),
    offset: i64,
    is_kernels: bool,
) -> Result<(), String> {
    let mut first = None;
    let conversion = clock.conversion();
    let bounded = conversion.error_bound(clock.ticks()).is_some();
    if is_kernels && bounded != clock.error_bound().is_some() {
        return Err(format!("the conversion has a bound: {bounded}, unlike the clock"));
    }
    for _ in 0..40 {
        // Against the clock as it would be without the namespace.
        let (low, high) = distance(clock);
        let (low, high) = (low + offset, high + offset);
        // Clocks that are not calibrated have no error of their own, and may run at another rate.
        let bound = match clock.kind() {
            ClockKind::Calibrated(_) => clock.error_bound().map_or(0, |b| b.as_nanos() as i64),
            _ => SECOND / 1_000,
        };
        // The kernel's own clock goes on when it is read: what passed between is lost.
        let (least, most) = if is_kernels { *first.get_or_insert((low, high)) } else { before };
        // A bound as wide as the offsets would hide them.
        if high + bound < least || low - bound > most || bound > SECOND / 10 {
            return Err(format!(
                "{low} to {high} ns from CLOCK_MONOTONIC_RAW, {least} to {most} before, bound {bound}"
            ));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
