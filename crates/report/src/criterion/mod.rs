//! Results that `rdpmc-criterion` saved, beside those of criterion.

mod baselines;
mod counters_json;
pub mod home;
pub mod samples;

pub use baselines::Gate;
pub use counters_json::{Counted, Results};
