//! The tests of the public interface, but for those that need a process of their own.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[cfg(target_os = "linux")]
#[path = "../attacks/mod.rs"]
mod attacks;
#[cfg(target_os = "linux")]
#[path = "../process/mod.rs"]
mod process;
#[path = "../skips/mod.rs"]
mod skips;
#[cfg(target_os = "linux")]
#[path = "../turn/mod.rs"]
mod turn;

#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod closed;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
mod hardware;
mod mock;
mod one_thread;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
mod passed_on;
#[cfg(target_os = "linux")]
mod refused;
#[cfg(target_os = "linux")]
mod stepped;
#[cfg(target_os = "linux")]
mod threads;
