//! What is recorded, and where.

use crate::counting::Request;
use crate::sink::Limits;
use rdpmc::clock::Conversion;
use std::time::Duration;

/// Where a thread records its spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Storage {
    /// In a ring of this many records, which [`Spans::collect`](crate::Spans::collect) empties. A span that finds the ring
    /// full is dropped, and counted as such. A record takes 40 bytes and 8 for each event.
    ///
    /// A span takes a record. A [number](crate::span) takes another one, and so do [page faults](crate::Settings::faults). If
    /// there is no room for all of them, the span is dropped. With [`Settings::causes`](crate::Settings::causes), the time that
    /// a span lost takes one more, and is not known if there is no room for it.
    Ring {
        /// The number of records. 0 counts as 1.
        records: usize,
    },
    /// In histograms of each site. They need not be emptied, and keep no single records: traces are empty.
    ///
    /// A site takes 116 KiB, and 116 KiB for each event. Disturbed spans take 116 KiB more if they are known, and so do
    /// interrupted ones.
    Histograms,
}

impl Default for Storage {
    /// Returns a ring of 16,384 records, as [`Settings::new`](crate::Settings::new) has.
    fn default() -> Storage {
        Storage::Ring { records: 1 << 14 }
    }
}

/// The settings of a session.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) request: Request,
    pub(crate) storage: Storage,
    /// The number of records that are kept for traces.
    pub(crate) kept: usize,
    pub(crate) slow: Slow,
    /// The names of the spans whose page faults are counted.
    pub(crate) faults: Vec<String>,
}

/// Which spans are kept as slow ones, with what ran during them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slow {
    /// The number of slowest outermost spans of each interval.
    pub(crate) slowest: usize,
    /// Spans of these names that take longer.
    pub(crate) limits: Vec<(String, Duration)>,
}

impl Slow {
    pub(crate) fn is_empty(&self) -> bool {
        self.slowest == 0 && self.limits.is_empty()
    }

    /// Whether a span of this name and length is over its limit.
    pub(crate) fn is_over(&self, name: &str, length: Duration) -> bool {
        self.limits.iter().any(|(of, limit)| of == name && length > *limit)
    }

    /// Returns the limits in ticks. None if no span is slow.
    pub(super) fn limits(&self, conversion: &Conversion) -> Option<Limits> {
        const MANY: u64 = 1 << 32;
        let of_many = u128::from(conversion.delta_ns(MANY)).max(1);
        let ticks = |limit: &Duration| {
            let ticks = limit.as_nanos().saturating_mul(u128::from(MANY)) / of_many;
            u64::try_from(ticks).unwrap_or(u64::MAX)
        };
        (!self.is_empty()).then(|| Limits {
            slowest: self.slowest,
            over: self.limits.iter().map(|(name, limit)| (name.clone(), ticks(limit))).collect(),
        })
    }
}
