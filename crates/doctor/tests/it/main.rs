//! The tests of the report and the program, but for those that need a process of their own.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[cfg(target_os = "linux")]
mod diagnosis;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
mod hardware;
#[cfg(target_os = "linux")]
mod json;
#[cfg(target_os = "linux")]
mod program;
