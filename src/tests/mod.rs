//! Tests of private code against naive models. Tests of a single file are in that file.
#![allow(unsafe_code)]

#[macro_use]
mod random;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod reader;

mod arithmetic;
#[cfg(target_os = "linux")]
mod calibration;
mod errors;
#[cfg(target_os = "linux")]
mod fit;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod given_up;
mod kernel_header;
#[cfg(target_os = "linux")]
mod page;
#[cfg(target_os = "linux")]
#[path = "../../tests/process/mod.rs"]
mod process;
#[cfg(target_os = "linux")]
mod provoked;
#[cfg(target_os = "linux")]
mod sandboxes;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod simulated_kernel;
#[path = "../../tests/skips/mod.rs"]
mod skips;
