//! From samples to figures: estimates with intervals, verdicts, and comparisons of rows.

pub(crate) mod comparison;
pub(crate) mod estimate;
pub(crate) mod fence;
pub(crate) mod judge;
pub(crate) mod row;
pub(crate) mod slow;
#[cfg_attr(not(feature = "topdown"), allow(dead_code, reason = "`Bench::topdown` alone makes one"))]
pub(crate) mod topdown;
pub(crate) mod verdict;
