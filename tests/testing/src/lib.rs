//! What the tests, benchmarks and emulated machines of several packages have in common.
//!
//! The library's package has its tests in it, and must not need this crate, which is not published. So what its tests use stays
//! in directories of its own, and is included here by path. This is the only crate that includes files of other packages.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[cfg(target_os = "linux")]
#[path = "../../attacks/mod.rs"]
pub mod attacks;
#[path = "../../machines/mod.rs"]
pub mod machines;
#[path = "../../perf/mod.rs"]
pub mod perf;
#[cfg(target_os = "linux")]
#[path = "../../process/mod.rs"]
pub mod process;
#[cfg(all(target_os = "linux", feature = "recording"))]
#[path = "../../../crates/spans/tests/recording/mod.rs"]
pub mod recording;
#[path = "../../skips/mod.rs"]
pub mod skips;
#[cfg(target_os = "linux")]
#[path = "../../turn/mod.rs"]
pub mod turn;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
#[cfg_attr(target_arch = "x86_64", path = "../../../asm/kernels/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "../../../asm/kernels/aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "../../../asm/kernels/riscv64.rs")]
pub mod kernels;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
#[path = "../../../crates/bench/tests/it/chains.rs"]
pub mod chains;
#[cfg(target_os = "linux")]
pub mod hostile;
pub mod load;
#[cfg(target_os = "linux")]
#[path = "../../../crates/bench/tests/it/memory.rs"]
pub mod memory;
