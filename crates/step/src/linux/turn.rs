//! One thread of a process counts at a time.
#![allow(unsafe_code)]

use crate::StepError;
use std::ffi::c_int;
use std::fs::File;
use std::io::Read;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// The thread that is counting, or 0: its process in the upper half, and its own number. A child that is forked meanwhile has its
/// parent's number here: it is not stepped, and may count by itself.
static OWNER: AtomicU64 = AtomicU64::new(0);

/// The turn of the thread that counts. Dropping it ends it. That of a thread that has ended is free.
#[derive(Debug)]
pub(crate) struct Turn(u64);

impl Turn {
    /// Takes the turn, or returns [`StepError::Busy`].
    pub(crate) fn take() -> Result<Turn, StepError> {
        // SAFETY: the calls take no argument.
        let (process, thread) = unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid)) };
        let this = u64::from(process as u32) << 32 | u64::from(thread as u32);
        let owner = OWNER.load(SeqCst);
        let is_of_this_process = owner >> 32 == this >> 32;
        if is_of_this_process && is_alive(process, owner as c_int)
            || OWNER.compare_exchange(owner, this, SeqCst, SeqCst).is_err()
        {
            return Err(StepError::Busy);
        }
        Ok(Turn(this))
    }

    /// Whether this is the process that took it, and not a child of it.
    #[cfg(any(not(target_arch = "x86_64"), test))]
    pub(crate) fn is_of_this_process(&self) -> bool {
        // SAFETY: the call takes no argument.
        self.0 >> 32 == u64::from(unsafe { libc::getpid() } as u32)
    }
}

/// Whether the process has this thread. True if the kernel does not say that it is gone.
fn is_alive(process: c_int, thread: c_int) -> bool {
    // SAFETY: no signal is sent: 0 asks whether one could be.
    let status = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) };
    let is_known = status == 0 || errno() != libc::ESRCH;
    is_known && !(thread == process && has_main_thread_ended())
}

/// Whether the first thread has ended. The kernel knows its number until the process ends.
fn has_main_thread_ended() -> bool {
    let mut text = [0; 128];
    let Ok(length) = File::open("/proc/self/stat").and_then(|mut file| file.read(&mut text)) else {
        return false;
    };
    // The program's name, which is at most 15 bytes, is in parentheses before the state.
    let text = text.get(..length).unwrap_or_default();
    text.rsplit(|byte| *byte == b')').next().is_some_and(|state| state.starts_with(b" Z"))
}

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

impl Drop for Turn {
    fn drop(&mut self) {
        // In a child that was forked meanwhile, the number is the parent's, or that of a counting of its own.
        let _ = OWNER.compare_exchange(self.0, 0, SeqCst, SeqCst);
    }
}
