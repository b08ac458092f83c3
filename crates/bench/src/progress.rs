//! A line on the terminal while rows are measured.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shows how much is done once the measurement has taken a second, if the standard error is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    /// When the line was last written, or when the measurement began.
    last: Instant,
    is_terminal: bool,
    is_shown: bool,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        Progress { last: Instant::now(), is_terminal, is_shown: false }
    }

    /// Shows nothing from now on.
    pub(crate) fn hide(&mut self) {
        self.is_terminal = false;
    }

    /// Shows which share is done. May be called often.
    pub(crate) fn show(&mut self, done: f64) {
        if self.is_terminal && self.last.elapsed() > Duration::from_secs(1) {
            // A terminal that cannot be written to is no reason to stop.
            let _ = write!(std::io::stderr(), "\r\x1b[Kmeasured: {:.0} %", done * 100.0);
            let _ = std::io::stderr().flush();
            (self.last, self.is_shown) = (Instant::now(), true);
        }
    }

    /// Removes the line.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
            let _ = std::io::stderr().flush();
        }
    }
}
