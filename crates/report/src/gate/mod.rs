//! The comparison of saved results, and what it compares: the interval of a median, figures and rows.
//!
//! - [`Interval`] is a median and its interval.
//! - [`Row`] has the [`Figure`]s of a benchmark. [`bench_json`] reads those that `rdpmc-bench` saved.
//! - [`compare`] compares two sets of rows by their [`Limits`]. The [`Comparison`] is printed, and is the exit status.
//! - [`stepped`] joins what several processes counted by single-stepping.
//! - [`functions`] tells where the instructions of a row went.
//! - [`cpu_identity`] tells whether two results are of the same CPU.
//! - [`export`] writes results as dashboards read them.
//! - [`files`] writes files beside and renames them. [`cells`] are numbers and names for tables.

pub mod bench_json;
pub mod cells;
mod change;
mod comparison;
mod cpu_identity;
pub mod export;
mod figure;
pub mod files;
pub mod functions;
mod limits;
mod median;
mod report;
pub mod stepped;

pub use change::{Change, Direction};
#[cfg(feature = "criterion")]
pub(crate) use comparison::SCOPES_DIFFER;
pub use comparison::{Compared, Comparison, Outcome, SPEC_LOCK_MAP, Status, Values, compare};
pub use cpu_identity::cpu_identity;
pub use figure::{Certainty, Figure, Row, SCOPE_PROCESS, SCOPE_THREAD, Side};
pub use functions::{ChangeKind, FunctionChange};
pub use limits::{Limits, STEPPED_INSTRUCTIONS, repeats};
pub use median::{Interval, MIN_VALUES, SLICES, median, slices};
