//! Whether steps can be counted here.
#![allow(unsafe_code)]

use super::{Counting, start};
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
    let counted = |rounds: u64| {
        let counting = Counting::begin(1_000)?;
        start();
        countdown(rounds);
        counting.end()
    };
    counted(1)?;
    let (one, more) = (counted(1)?, counted(51)?);
    if more.checked_sub(one) != Some(2 * 50) {
        return Err(StepError::Inexact);
    }
    IS_EXACT.store(true, Relaxed);
    Ok(())
}

/// Runs rounds of two instructions.
#[inline(never)]
pub(crate) fn countdown(rounds: u64) {
    // SAFETY: counts in a register.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("2: dec {0}", "jnz 2b", inout(reg) rounds => _, options(nomem, nostack));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("2: subs {0}, {0}, #1", "b.ne 2b", inout(reg) rounds => _, options(nomem, nostack));
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
