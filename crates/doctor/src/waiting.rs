//! A line on the terminal while the report takes long: on an emulated machine, or where a hypervisor traps each read.

use std::io::{IsTerminal, Write, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Shows how long it has taken, each second from the first on, until it is dropped. Nothing if the standard error is not a terminal.
pub(crate) struct Waiting {
    watcher: Option<(Sender<()>, thread::JoinHandle<()>)>,
}

impl Waiting {
    /// Begins. `what` is being done.
    pub(crate) fn new(what: &'static str) -> Waiting {
        if !stderr().is_terminal() {
            return Waiting { watcher: None };
        }
        let (end, is_over) = channel::<()>();
        let watch = move || {
            let begun = Instant::now();
            let mut is_shown = false;
            while is_over.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                // A terminal that cannot be written to is no reason to stop.
                let _ = write!(stderr(), "\r\x1b[K{what}: {} s", begun.elapsed().as_secs());
                is_shown = true;
            }
            if is_shown {
                let _ = write!(stderr(), "\r\x1b[K");
            }
        };
        // Without a thread, there is no line.
        let watcher = thread::Builder::new().spawn(watch).ok();
        Waiting { watcher: watcher.map(|thread| (end, thread)) }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.watcher.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}
