//! A recording, and what was recorded in an interval of it.

mod interval;
mod record;
mod settings;
mod spans;
mod start_error;

pub use interval::{Interval, OtherRecording};
pub use record::{Record, SlowSpan};
pub use settings::Settings;
pub use spans::Spans;
pub use start_error::StartError;
