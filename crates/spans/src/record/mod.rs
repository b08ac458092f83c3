//! What is recorded of a span or a lap.

mod atomic_u64;
mod companion;
mod details;
mod flags;
mod lost;
mod raw;
mod site;

pub(crate) use atomic_u64::AtomicU64;
pub(crate) use companion::{Companion, Pending, is_companion};
pub(crate) use details::{Details, Faults, Lost, Polls};
pub use flags::Flags;
pub(crate) use lost::{count_lost, lost};
pub use raw::MAX_EVENTS;
pub(crate) use raw::{
    FLAGS_SHIFT, HEAD, LEFT_OUT, MAX_DEPTH, MAX_WORDS, OFFSET, OUTERMOST, Raw, SLOT, address,
    depth_of, site_at, span_of, ticks_between,
};
pub use site::Site;
pub(crate) use site::is_leaked;
#[cfg(feature = "tracing")]
pub(crate) use site::leak;
