//! The results, and how they are shown.

pub(crate) mod bins;
pub(crate) mod page;
pub(crate) mod plot;
pub(crate) mod results;
pub(crate) mod table;
