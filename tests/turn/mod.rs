//! Tests that share what a process has once take turns. A test that hangs in its turn ends the process, with its name.
#![allow(dead_code, unreachable_pub)]
#![allow(clippy::expect_used)]
#![allow(clippy::disallowed_types, reason = "no child of a fork takes a turn")]

use std::io::{Read, Write};
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
    end: UnixStream,
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Tells the watching thread, also if a child of a fork has a copy of the descriptor.
        let _ = self.end.shutdown(Shutdown::Both);
    }
}

/// Waits for the turn of this test.
pub fn turn() -> Turn {
    static TURN: Mutex<()> = Mutex::new(());
    let lock = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // The kernel keeps the time, because a test may have forbidden its threads to read the tick counter.
    let (end, mut ended) = UnixStream::pair().expect("a pair of sockets");
    ended.set_read_timeout(Some(BOUND)).expect("a time above 0");
    // The test runner gives a test's thread its name.
    let test = thread::current().name().unwrap_or("without a name").to_owned();
    thread::spawn(move || {
        if ended.read(&mut [0]).is_err() {
            let line = format!(
                "\ntest {test} has not ended after {BOUND:?}: one of its threads waits for ever\n"
            );
            let _ = std::io::stderr().write_all(line.as_bytes());
            std::process::abort();
        }
    });
    Turn { _lock: lock, end }
}
