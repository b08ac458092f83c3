//! Whether steps can be counted here.
#![allow(unsafe_code)]

use super::{Counting, Room, start};
use crate::StepError;
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Checks that nothing else takes the steps, and once that known code is counted right.
pub(crate) fn check() -> Result<(), StepError> {
    static IS_EXACT: AtomicBool = AtomicBool::new(false);
    if let Some(tracer) = tracer() {
        return Err(StepError::Traced { tracer });
    }
    if IS_EXACT.load(Relaxed) {
        return Ok(());
    }
    counted(1)?;
    let (one, more) = (counted(1)?, counted(51)?);
    if more.checked_sub(one) != Some(50 * ROUND) {
        return Err(StepError::Inexact);
    }
    IS_EXACT.store(true, Relaxed);
    Ok(())
}

/// Counts the instructions of some rounds, and a constant number. Two copies of this code could have two constants.
#[inline(never)]
fn counted(rounds: u64) -> Result<u64, StepError> {
    let counting = Counting::begin(1_000, Room::NONE).map_err(|(why, _)| why)?;
    start();
    countdown(rounds);
    // This code, not the caller's: under valgrind, or with a sanitizer in every function.
    counting.end().0.map_err(|why| match why {
        StepError::TooLong { .. } | StepError::Disturbed => StepError::Inexact,
        other => other,
    })
}

/// The instructions of a round.
pub(crate) const ROUND: u64 = 4;

/// Runs rounds of known instructions, one of which is a system call: CPUs and kernels differ in the trap after one.
#[inline(never)]
pub(crate) fn countdown(rounds: u64) {
    // SAFETY: counts in a register, and asks for the process number.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("2: mov eax, {call}", "syscall", "dec {rounds}", "jnz 2b", rounds = inout(reg) rounds => _,
            call = const libc::SYS_getpid, out("rax") _, out("rcx") _, out("r11") _, options(nostack));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("2: mov x8, {call}", "svc 0", "subs {rounds}, {rounds}, #1", "b.ne 2b",
            rounds = inout(reg) rounds => _, call = const libc::SYS_getpid, out("x0") _, out("x8") _, options(nostack));
    }
}

/// Returns the process that traces this thread. None if there is none, or if `/proc` does not tell.
pub(super) fn tracer() -> Option<u32> {
    let mut status = [0; 1_024];
    let length = File::open("/proc/thread-self/status").ok()?.read(&mut status).ok()?;
    // The name of the program, in the first line, may be no text.
    let mut lines = status.get(..length)?.split(|byte| *byte == b'\n');
    let line = lines.find_map(|line| line.strip_prefix(b"TracerPid:"))?;
    std::str::from_utf8(line).ok()?.trim().parse().ok().filter(|tracer| *tracer != 0)
}
