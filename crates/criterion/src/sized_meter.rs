//! A meter for a number of events known only at run time.

use crate::meter::{Counts, MOST, Meter};
use rdpmc::error::{OpenError, ReadError};
use rdpmc::{Event, Group};

/// One meter type for each number of events.
#[derive(Debug)]
pub(crate) enum SizedMeter {
    Of1(Meter<1>),
    Of2(Meter<2>),
    Of3(Meter<3>),
    Of4(Meter<4>),
    Of5(Meter<5>),
    Of6(Meter<6>),
    Of7(Meter<7>),
    Of8(Meter<8>),
}

/// Evaluates the expression for whichever meter it is.
macro_rules! with_meter {
    ($sized:expr, $meter:ident => $value:expr) => {
        match $sized {
            SizedMeter::Of1($meter) => $value,
            SizedMeter::Of2($meter) => $value,
            SizedMeter::Of3($meter) => $value,
            SizedMeter::Of4($meter) => $value,
            SizedMeter::Of5($meter) => $value,
            SizedMeter::Of6($meter) => $value,
            SizedMeter::Of7($meter) => $value,
            SizedMeter::Of8($meter) => $value,
        }
    };
}

/// Opens a meter for the events if they are as many as one of the meters has.
macro_rules! open {
    ($events:expr, $($size:ident)*) => {
        $(if let Ok(events) = $events.try_into() {
            return Group::open(events).map(|group| Some(SizedMeter::$size(Meter::new(group))));
        })*
    };
}

impl SizedMeter {
    /// Opens a group of 1 to 8 events. None for another number.
    pub(crate) fn open(events: &[Event]) -> Result<Option<SizedMeter>, OpenError> {
        open!(events, Of1 Of2 Of3 Of4 Of5 Of6 Of7 Of8);
        Ok(None)
    }

    #[inline(always)]
    pub(crate) fn start(&self) {
        with_meter!(self, meter => meter.start());
    }

    #[inline(always)]
    pub(crate) fn end(&self) -> Counts<MOST> {
        with_meter!(self, meter => meter.end().widened())
    }

    /// Returns the error of the last read that failed since the previous call.
    pub(crate) fn take_error(&self) -> Option<ReadError> {
        with_meter!(self, meter => meter.take_error())
    }
}
