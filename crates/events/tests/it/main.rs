//! The tests of the public interface.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[cfg(all(feature = "intel", feature = "amd", feature = "arm"))]
mod allocations;
#[cfg(all(feature = "intel", feature = "amd", feature = "arm", feature = "descriptions"))]
mod names;
