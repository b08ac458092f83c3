//! A line on the terminal while rows are measured.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shows the current row once the measurement has taken a second, if the standard error is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    /// When the first row began.
    begun: Option<Instant>,
    is_terminal: bool,
    is_shown: bool,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        Progress { begun: None, is_terminal, is_shown: false }
    }

    /// Shows this row, after `done` others. May be called often.
    pub(crate) fn show(&mut self, name: &str, done: usize) {
        if !self.is_terminal || self.is_shown {
            return;
        }
        let begun = *self.begun.get_or_insert_with(Instant::now);
        if begun.elapsed() > Duration::from_secs(1) {
            // A terminal that cannot be written to is no reason to stop.
            let _ =
                write!(std::io::stderr(), "\r\x1b[K{done} measured, now {}", name.escape_debug());
            let _ = std::io::stderr().flush();
            self.is_shown = true;
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
