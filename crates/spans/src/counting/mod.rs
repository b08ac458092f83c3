//! What spans count with.

mod context_switches;
mod faults;
mod lost_time;
mod open;
mod patience;
mod request;
mod rseq;
mod sleep;
mod snapshot;
mod time_only;
mod topdown;

pub(crate) use context_switches::Switches;
pub(crate) use faults::faults_of_this_thread;
pub(crate) use open::{WithCounters, open};
pub(crate) use patience::Patience;
pub use request::Counters;
pub(crate) use request::{Counted, Request};
use sleep::sleep;
pub(crate) use snapshot::{Counting, Nothing, Start, Watched};
pub use time_only::TimeOnlyReason;
pub(crate) use topdown::{Formula, Level1};
