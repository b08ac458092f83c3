//! The tests of the public interface, and of the program.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod bench;
#[cfg(unix)]
mod programs;
