//! Work of exactly known size: `asm/kernels` of the library.

#[cfg_attr(target_arch = "x86_64", path = "../../../../asm/kernels/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "../../../../asm/kernels/aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "../../../../asm/kernels/riscv64.rs")]
mod architecture;

pub use architecture::{COUNTDOWN_ENTRY, countdown};
