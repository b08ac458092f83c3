#![doc = include_str!("README.md")]

// Data flows up: `level1` and `level2` are the results, `family` has the CPUs' formulas, `this_cpu` finds this one, `formula` joins them, and
// `counters` counts.

mod counters;
mod error;
mod family;
mod formula;
mod level1;
mod level2;
mod this_cpu;

pub use counters::Topdown;
pub use error::TopdownError;
pub use formula::Formula;
pub use level1::{Category, Level1, Part};
pub use level2::Level2;
