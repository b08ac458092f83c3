//! The events to count: which fit together, and their open counters.

pub(crate) mod counters;
pub(crate) mod sets;
