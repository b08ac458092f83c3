//! Why a region's sample is not a measurement.

use super::{Error, ErrorKind};
use std::fmt;

/// Why a sample of a [`Region`](crate::Region) does not measure its code. Usually the remedy is to take another
/// sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Disturbed {
    /// An event had no counter at the start (`index` 0): it is disabled, or other events had the counters
    /// (multiplexing). Or an earlier read of the handle faulted, and it does not try again.
    /// [`Counter::access`](crate::Counter::access) has the reason.
    NoCounter,
    /// The kernel updated the control page during the region: it switched the thread out or to another CPU, took
    /// the counter away or moved it, or the counter overflowed.
    #[non_exhaustive]
    Interrupted {
        /// The sum over the pages of how far `lock` moved: 2 for each update of a page. A context switch away and
        /// back was seen to take 2 or 3 updates.
        lock_moved: u64,
    },
    /// A counter could not be read, and the fault was contained: user access was revoked, or the thread moved to
    /// another core type. Also when the register read 0, which some CPUs return for a forbidden counter.
    Faulted,
    /// The region was started with other counters than those of the region that stops it.
    OtherCounters,
}

impl std::error::Error for Disturbed {}

impl fmt::Display for Disturbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Error::from(*self).fmt(f)
    }
}

impl From<Disturbed> for Error {
    fn from(disturbed: Disturbed) -> Error {
        let (cause, remedy) = match disturbed {
            Disturbed::NoCounter => (
                "disturbed: the event had no counter when the region started",
                "Take another sample, or open fewer events than the PMU has counters",
            ),
            Disturbed::Interrupted { .. } => (
                "disturbed: the kernel switched the thread out or moved the counter during the region",
                "Take another sample",
            ),
            Disturbed::Faulted => (
                "disturbed: the counter could not be read when the region started or ended",
                "Take another sample, and if this persists, see access()",
            ),
            Disturbed::OtherCounters => (
                "disturbed: the region was started with other counters than those that stop it",
                "Stop it with a region of the same counters",
            ),
        };
        Error::new(ErrorKind::Disturbed(disturbed), cause, remedy)
    }
}
