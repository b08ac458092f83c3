//! A meter for a number of events known only at run time.

use crate::meter::{Counts, MAX_EVENTS, Meter};
use crate::threads_meter::ThreadsMeter;
use rdpmc::error::ReadError;
use rdpmc::{DynGroup, Group, SyscallGroup, WithGroup};
use std::fmt::Debug;

/// A meter of any size.
#[derive(Debug)]
pub(crate) struct SizedMeter(Box<dyn AnyMeter>);

trait AnyMeter: Debug {
    fn start(&self);
    fn end(&self) -> Counts<MAX_EVENTS>;
    fn take_error(&self) -> Option<ReadError>;
}

impl<const N: usize> AnyMeter for Meter<N> {
    fn start(&self) {
        self.start();
    }

    fn end(&self) -> Counts<MAX_EVENTS> {
        self.end().widened()
    }

    fn take_error(&self) -> Option<ReadError> {
        self.take_error()
    }
}

impl AnyMeter for ThreadsMeter {
    fn start(&self) {
        self.start();
    }

    fn end(&self) -> Counts<MAX_EVENTS> {
        self.end()
    }

    fn take_error(&self) -> Option<ReadError> {
        self.take_error()
    }
}

impl SizedMeter {
    pub(crate) fn of_threads(group: SyscallGroup) -> SizedMeter {
        SizedMeter(Box::new(ThreadsMeter::new(group)))
    }

    pub(crate) fn new(group: DynGroup) -> SizedMeter {
        struct OfAnySize;
        impl WithGroup for OfAnySize {
            type Output = Box<dyn AnyMeter>;
            fn with<const N: usize>(self, group: Group<N>) -> Box<dyn AnyMeter> {
                Box::new(Meter::new(group))
            }
        }
        SizedMeter(group.with(OfAnySize))
    }

    #[inline(always)]
    pub(crate) fn start(&self) {
        self.0.start();
    }

    #[inline(always)]
    pub(crate) fn end(&self) -> Counts<MAX_EVENTS> {
        self.0.end()
    }

    /// Returns the error of the last read that failed since the previous call.
    pub(crate) fn take_error(&self) -> Option<ReadError> {
        self.0.take_error()
    }
}
