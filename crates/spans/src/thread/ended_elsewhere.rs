//! The guards that have ended where their spans were not: in no thread, because their fiber had left, or on another thread.

// A fiber that enters looks here, so that it does not begin their spans again.

use crate::record::{AtomicU64, count_lost};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The latest numbers. If more than this many have ended while a fiber was out, its spans may be begun again.
const LATEST: usize = 256;
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

/// Returns the latest of them. None if none has ended since there were `before`.
pub(super) fn since(before: usize) -> Option<[u64; LATEST]> {
    (COUNT.load(Ordering::Acquire) != before)
        .then(|| NUMBERS.each_ref().map(|number| number.load(Ordering::Relaxed)))
}
