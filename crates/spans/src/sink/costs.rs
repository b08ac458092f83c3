//! What spans and laps cost, in the counts that are recorded.

use crate::record::MAX_EVENTS;

/// The counts that are subtracted. Those that vary are 0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Costs {
    /// Of an empty span, in its own counts.
    pub(crate) span: [u64; MAX_EVENTS],
    /// Of an empty span, in the counts of the span around it.
    pub(crate) in_parent: [u64; MAX_EVENTS],
    /// Of a span's number, in its counts and in those of the spans around it.
    pub(crate) number: [u64; MAX_EVENTS],
    /// Of an empty lap that begins where another ends: in its own counts, and in those of the span around it.
    pub(crate) lap: [u64; MAX_EVENTS],
    /// Of an empty lap that is the first one, in its own counts.
    pub(crate) first_lap: [u64; MAX_EVENTS],
}
