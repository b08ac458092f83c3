//! The tests of what a recording does to its process: forks, allocations, memory.
#![cfg(all(target_os = "linux", feature = "enabled"))]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
#![allow(unsafe_code)]
#![allow(clippy::disallowed_types, reason = "no child of a fork comes here")]

#[path = "../recording/mod.rs"]
mod recording;

mod forks;
mod hot_path;
mod memory;

use rdpmc_testing::turn;
