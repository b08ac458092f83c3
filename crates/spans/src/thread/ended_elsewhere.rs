//! The guards that have ended where their spans were not: in no thread, because their fiber had left, or on another thread.

// A fiber that enters looks here, so that it does not begin their spans again.

use crate::record::{AtomicU64, count_lost};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The latest numbers.
const LATEST: usize = 1_024;
static NUMBERS: [AtomicU64; LATEST] = [const { AtomicU64::new(0) }; LATEST];
/// How many have a place, and how many are there.
static PLACES: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Adds the number of a guard, and counts its span as lost.
pub(super) fn add(number: u64) {
    let place = PLACES.fetch_add(1, Ordering::Relaxed) % LATEST;
    if let Some(to) = NUMBERS.get(place) {
        to.store(number & !(1 << 63), Ordering::Relaxed);
    }
    COUNT.fetch_add(1, Ordering::Release); // the number first; pairs with `since`
    count_lost(1);
}

/// Returns how many have ended.
pub(super) fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// What has ended since an earlier time.
pub(super) enum Since {
    None,
    /// These, and others that had before.
    Some(Box<[u64]>),
    /// More than are known.
    Many,
}

/// Returns what has ended since there were `before`. Allocates.
pub(super) fn since(before: usize) -> Since {
    if COUNT.load(Ordering::Acquire) == before {
        return Since::None;
    }
    let latest = NUMBERS.iter().map(|number| number.load(Ordering::Relaxed)).collect();
    // After these, so that none was replaced before it was looked at.
    match PLACES.load(Ordering::Acquire).wrapping_sub(before) {
        ..=LATEST => Since::Some(latest),
        _ => Since::Many,
    }
}
