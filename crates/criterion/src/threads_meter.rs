//! A meter for all threads of the process, by system call.

use crate::meter::{Counts, MAX_EVENTS};
use rdpmc::error::ReadError;
use rdpmc::{PerEvent, Reading, SyscallGroup};
use std::cell::{Cell, RefCell};

/// Counts of several threads between two points of a benchmark.
#[derive(Debug)]
pub(crate) struct ThreadsMeter {
    group: SyscallGroup,
    start: Cell<Option<PerEvent<Reading>>>,
    /// The error of the last read that failed.
    error: RefCell<Option<ReadError>>,
}

impl ThreadsMeter {
    pub(crate) fn new(group: SyscallGroup) -> ThreadsMeter {
        ThreadsMeter { group, start: Cell::new(None), error: RefCell::new(None) }
    }

    /// Starts an interval.
    pub(crate) fn start(&self) {
        self.start.set(self.read());
    }

    /// Ends the interval.
    pub(crate) fn end(&self) -> Counts<MAX_EVENTS> {
        let now = self.read();
        Counts::of_readings(self.start.take().zip(now))
    }

    /// Returns the error of the last read that failed since the previous call.
    pub(crate) fn take_error(&self) -> Option<ReadError> {
        self.error.try_borrow_mut().ok()?.take()
    }

    #[inline(never)]
    fn read(&self) -> Option<PerEvent<Reading>> {
        match self.group.reading() {
            Ok(readings) => Some(readings),
            Err(error) => {
                if let Ok(mut last) = self.error.try_borrow_mut() {
                    *last = Some(error);
                }
                None
            }
        }
    }
}
