//! Tests that share what a process has once take turns. A test that hangs ends the process, with its name.
#![allow(dead_code, unreachable_pub)]
#![allow(clippy::expect_used)]
#![allow(clippy::disallowed_types, reason = "no child of a fork takes a turn")]

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Far above what the longest test takes beside other programs.
const BOUND: Duration = Duration::from_secs(600);

/// Held by the test whose turn it is.
pub struct Turn {
    _lock: MutexGuard<'static, ()>,
    _bound: Bound,
}

/// Waits for the turn of this test, which is then bounded.
pub fn turn() -> Turn {
    static TURN: Mutex<()> = Mutex::new(());
    Turn { _lock: TURN.lock().unwrap_or_else(PoisonError::into_inner), _bound: bounded() }
}

/// Held by a test that must end in time.
pub struct Bound(UnixStream);

impl Drop for Bound {
    fn drop(&mut self) {
        // Tells the watching thread, also if a child of a fork has a copy of the descriptor.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Ends the process, with the name of this test, if the test takes longer than any test should.
pub fn bounded() -> Bound {
    // The kernel keeps the time, because a test may have forbidden its threads to read the tick counter.
    let (end, mut ended) = UnixStream::pair().expect("a pair of sockets");
    ended.set_read_timeout(Some(BOUND)).expect("a time above 0");
    // The test runner gives a test's thread its name.
    let test = thread::current().name().unwrap_or("without a name").to_owned();
    thread::spawn(move || {
        block_signals();
        // SIGCONT interrupts the wait all the same.
        let is_over = loop {
            match ended.read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.is_ok(),
            }
        };
        if !is_over {
            let line = format!(
                "\ntest {test} has not ended after {BOUND:?}: one of its threads waits for ever\n"
            );
            let _ = std::io::stderr().write_all(line.as_bytes());
            std::process::abort();
        }
    });
    Bound(end)
}

/// Signals of the process go to the test's own threads.
fn block_signals() {
    // SAFETY: the set is filled before it is used.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}
