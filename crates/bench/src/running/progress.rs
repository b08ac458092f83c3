//! A line on the terminal while rows are measured.

use std::fmt;
use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// Shows how much is done once the measurement has taken a second, if the standard error is a terminal.
pub(crate) struct Progress {
    /// None if the output is hidden.
    terminal: Option<Box<dyn Write>>,
    /// When the line was last written, or when the measurement began.
    last: Instant,
    is_shown: bool,
    /// The largest completed fraction so far.
    done: f64,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        let is_terminal = stderr().is_terminal();
        Progress::on(is_terminal.then(|| Box::new(stderr()) as Box<dyn Write>))
    }

    fn on(terminal: Option<Box<dyn Write>>) -> Progress {
        Progress { terminal, last: Instant::now(), is_shown: false, done: 0.0 }
    }

    /// Shows nothing from now on.
    pub(crate) fn hide(&mut self) {
        self.terminal = None;
    }

    /// Shows the completed fraction, which never decreases. May be called often.
    pub(crate) fn show(&mut self, done: f64) {
        self.done = self.done.max(done);
        let Some(terminal) = &mut self.terminal else { return };
        if self.last.elapsed() > Duration::from_secs(1) {
            // A terminal that cannot be written to is no reason to stop.
            let _ = write!(terminal, "\r\x1b[Kmeasured: {:.0} %", self.done * 100.0);
            let _ = terminal.flush();
            (self.last, self.is_shown) = (Instant::now(), true);
        }
    }

    /// Removes the line.
    pub(crate) fn end(&mut self) {
        if let Some(terminal) = self.terminal.as_mut().filter(|_| self.is_shown) {
            let _ = write!(terminal, "\r\x1b[K");
            let _ = terminal.flush();
            self.is_shown = false;
        }
    }
}

/// An error or a panic leaves no line behind.
impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("done", &self.done).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[derive(Clone, Default)]
    struct Terminal(Rc<RefCell<Vec<u8>>>);

    impl Write for Terminal {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_line_on_a_terminal() {
        let terminal = Terminal::default();
        let mut progress = Progress::on(Some(Box::new(terminal.clone())));
        progress.show(0.1);
        assert!(terminal.0.borrow().is_empty(), "a second has not passed");
        for done in [0.5, 0.2] {
            let before = Instant::now().checked_sub(Duration::from_secs(2));
            progress.last = before.unwrap_or(progress.last);
            progress.show(done);
        }
        drop(progress);
        let shown = String::from_utf8(terminal.0.take()).unwrap_or_default();
        assert_eq!(shown, "\r\x1b[Kmeasured: 50 %\r\x1b[Kmeasured: 50 %\r\x1b[K");
        // Where nothing was shown, nothing is removed.
        drop(Progress::on(Some(Box::new(terminal.clone()))));
        assert!(terminal.0.borrow().is_empty());
    }
}
