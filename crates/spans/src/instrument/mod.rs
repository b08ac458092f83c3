//! The interface of instrumented code.

mod fiber;
mod laps;
mod moment;
mod polled;
mod recorded;
mod span;
#[cfg(feature = "tracing")]
mod tracing;
mod whole;

pub use fiber::{EnteredFiber, Fiber};
pub use laps::{Laps, Stage};
pub use moment::{Moment, Times};
pub use polled::Polled;
pub use recorded::{SpanSince, record_time};
pub use span::{NumberedSpan, Span};
#[cfg(feature = "tracing")]
pub use tracing::TracingLayer;
