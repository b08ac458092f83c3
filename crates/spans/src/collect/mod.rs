//! The side that reads what threads record.

mod ended;
mod kept;
mod measured_cost;
mod meta;
mod nested;
mod thread;
mod unloaded_sites;

pub(crate) use ended::{Ended, Estate};
pub(crate) use kept::{Kept, inside};
pub(crate) use measured_cost::{Amounts, Cost, MAX_SAMPLES, MeanTicks};
pub(crate) use meta::Meta;
pub(crate) use nested::Nested;
pub(crate) use thread::{OfThread, Taken};
