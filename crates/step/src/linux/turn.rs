//! One thread of a process counts at a time.
#![allow(unsafe_code)]

use crate::StepError;
use std::ffi::c_int;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::SeqCst;

/// The process in which a thread is counting, or 0. A child that is forked meanwhile has its parent's number here: it is not
/// stepped, and may count by itself.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// The turn of the thread that counts. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Turn(c_int);

impl Turn {
    /// Takes the turn, or returns [`StepError::Busy`].
    pub(crate) fn take() -> Result<Turn, StepError> {
        // SAFETY: the call takes no argument.
        let this = unsafe { libc::getpid() };
        let owner = PROCESS.load(SeqCst);
        if owner == this || PROCESS.compare_exchange(owner, this, SeqCst, SeqCst).is_err() {
            return Err(StepError::Busy);
        }
        Ok(Turn(this))
    }

    /// Whether this is the process that took it, and not a child of it.
    #[cfg(any(not(target_arch = "x86_64"), test))]
    pub(crate) fn is_of_this_process(&self) -> bool {
        // SAFETY: the call takes no argument.
        self.0 == unsafe { libc::getpid() }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // In a child that was forked meanwhile, the number is the parent's, or that of a counting of its own.
        if PROCESS.load(SeqCst) == self.0 {
            PROCESS.store(0, SeqCst);
        }
    }
}
