//! The interface of instrumented code.

mod laps;
mod polled;
mod span;
#[cfg(feature = "tracing")]
mod tracing;

pub use laps::{Laps, Stage};
pub use polled::Polled;
pub use span::{NumberedSpan, Span};
#[cfg(feature = "tracing")]
pub use tracing::TracingLayer;
