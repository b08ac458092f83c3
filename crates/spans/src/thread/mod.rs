//! A thread that records: its open spans, and the hot paths of spans and laps.

mod current;
mod ended_elsewhere;
mod fiber;
mod in_fiber;
mod laps;
mod spans;
mod stack;
mod state;
mod time;

pub(crate) use current::{
    Header, Lap, RECORDING, end, forget, header, join, recording, set, set_join,
};
#[cfg(feature = "tracing")]
pub(crate) use fiber::bind;
pub(crate) use fiber::{Entered, Parked, enter_fiber, leave_fiber};
#[cfg(feature = "tracing")]
pub(crate) use spans::exit_elsewhere;
pub(crate) use spans::{enter, exit, is_busy, record_number};
#[cfg(test)]
pub(crate) use stack::Stack;
pub(crate) use state::State;
pub(crate) use time::{record_time, with_clock};
