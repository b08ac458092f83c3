//! The tests of the public interface, and of the program.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod bench;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod chains;
#[cfg(feature = "functions")]
mod functions;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(unix)]
mod programs;
mod skips;
#[cfg(target_os = "linux")]
mod threads;
