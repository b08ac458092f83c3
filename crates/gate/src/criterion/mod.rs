//! Results that `rdpmc-criterion` saved, beside those of criterion.

mod baselines;
pub mod home;
mod results;
pub mod samples;

pub use baselines::Gate;
pub use results::{Counted, Results};
