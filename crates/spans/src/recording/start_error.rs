//! Why a recording could not be started.

use crate::record::MAX_EVENTS;
use rdpmc::Error;
use std::fmt;

/// The most records of a ring.
pub(super) const MAX_RECORDS: usize = 1 << 28;

/// Why spans could not be started.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StartError {
    /// They are on already: another [`Spans`](crate::Spans) is alive.
    Running,
    /// There are more events than a group can have.
    #[non_exhaustive]
    TooManyEvents {
        /// The number of events.
        events: usize,
    },
    /// The ring has more than 2^28 records.
    #[non_exhaustive]
    RingTooLarge {
        /// The number of records.
        records: usize,
    },
    /// There is no clock.
    Clock(Error),
    /// A requested name is not that of an event.
    Name(Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Running => {
                f.write_str("spans are recorded already. Drop the other `Spans` first")
            }
            StartError::TooManyEvents { events } => {
                write!(f, "spans count at most {MAX_EVENTS} events, not {events}. Leave some out")
            }
            StartError::RingTooLarge { records } => {
                write!(f, "a ring of {records} records is too large. Use at most {MAX_RECORDS}")
            }
            StartError::Clock(why) => write!(f, "spans have no clock: {why}"),
            StartError::Name(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}
