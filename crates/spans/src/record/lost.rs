//! The number of spans without a record.

use super::AtomicU64;
use std::sync::atomic::Ordering;

/// Spans that could not be recorded: see [`Report::lost`](crate::Report::lost).
static LOST: AtomicU64 = AtomicU64::new(0);

pub(crate) fn count_lost(spans: u64) {
    LOST.fetch_add(spans, Ordering::Relaxed);
}

pub(crate) fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}
