//! Counts the instructions of a piece of code exactly, without hardware counters: the CPU steps through it.
//!
//! ```
//! use rdpmc_step::{StepError, count};
//! use std::hint::black_box;
//!
//! fn instructions_of_parsing() -> Result<u64, StepError> {
//!     let parse = |times: usize| {
//!         count(1_000_000, || {
//!             for _ in 0..times {
//!                 let _ = black_box(black_box("4294967295").parse::<u32>());
//!             }
//!         })
//!     };
//!     parse(1)?; // what happens only once, such as the linking of a function, comes first
//!     Ok(parse(2)? - parse(1)?) // what surrounds the code cancels
//! }
//!
//! match instructions_of_parsing() {
//!     Ok(instructions) => println!("{instructions} instructions"),
//!     Err(why) => println!("{why}"), // for example, a debugger is attached
//! }
//! ```
//!
//! # How it counts
//!
//! The CPU's trap flag is set while the code runs. After each instruction, the kernel sends SIGTRAP to this thread, and a handler
//! counts it: some 3 microseconds an instruction, or some 12 in a virtual machine. The code runs in this process and thread, with
//! the CPU's own instructions. So it takes the paths that it takes otherwise, unless it looks at the time.
//!
//! - The instructions of this thread in user mode are counted, those of the C library and of the vDSO as well.
//! - A system call counts as one instruction. What the kernel executes does not count.
//! - An instruction with a `rep` prefix counts once, however often it repeats.
//! - Signal handlers that run meanwhile do not count, nor do other threads, nor children.
//!
//! These are the instructions that a hardware counter should count in user mode, without the additional ones of interrupts, which
//! some CPUs count. Emulated counters agree; a real PMU was not compared yet. Code that a library chooses by the CPU's model (`memcpy`, for example) has other counts on other models,
//! however they are counted.
#![deny(unsafe_code)]

// `method` counts: `linux`, or `none` elsewhere. `environment` has the time that benchmarks may take for it. `error` has the
// reasons why not.

mod environment;
mod error;
#[cfg_attr(
    all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ),
    path = "linux/mod.rs"
)]
#[cfg_attr(
    not(all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )),
    path = "none.rs"
)]
mod method;

pub use environment::{VARIABLE, time};
pub use error::StepError;

/// Returns the number of instructions that `code` executes on this thread, and a constant number for its call.
///
/// The constant depends on `code`'s type and on the build. The difference of two counts with one closure's code does not have
/// it: see the [example](crate). A panic of `code` goes on, after everything is restored.
///
/// # Errors
/// Those of [`Steps::start`], where `code` has not run, and of [`Steps::stop`], where it has run to its end.
pub fn count<T>(limit: u64, code: impl FnOnce() -> T) -> Result<u64, StepError> {
    let steps = Steps::start(limit)?;
    // The result is there before the count ends. It is dropped afterwards.
    let result = std::hint::black_box(code());
    let count = steps.stop();
    drop(result);
    count
}

/// The counting of this thread's instructions, between two calls. Dropping it ends the counting.
///
/// SIGTRAP has this library's handler meanwhile, on a stack of its own, and is not blocked. A handler that was there before gets
/// the signals that are no steps. The code in between must not wait for its own handler of SIGTRAP.
#[derive(Debug)]
pub struct Steps(method::Counting);

impl Steps {
    /// Starts to count.
    ///
    /// # Errors
    /// - [`StepError::Unsupported`], [`StepError::Traced`], [`StepError::Inexact`]: not on this machine, or not now.
    /// - [`StepError::Busy`]: two at a time.
    /// - [`StepError::System`]: no such error is known.
    #[inline(never)]
    pub fn start(limit: u64) -> Result<Steps, StepError> {
        method::check()?;
        let counting = method::Counting::begin(limit)?;
        // The last call, so that the same instructions follow each time.
        method::start();
        Ok(Steps(counting))
    }

    /// Returns the number of instructions since `start`, and a constant number for the two calls.
    ///
    /// # Errors
    /// - [`StepError::TooLong`] after `limit` instructions. The code has gone on at full speed.
    /// - [`StepError::Disturbed`] if not all instructions were counted: the code has cleared the trap flag, has a breakpoint,
    ///   has started a thread or a process, or has blocked or handled signals.
    #[inline(never)]
    pub fn stop(self) -> Result<u64, StepError> {
        self.0.end()
    }
}
