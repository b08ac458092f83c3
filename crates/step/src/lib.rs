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
//! On x86-64, the CPU's trap flag is set while the code runs. After each instruction, the kernel sends SIGTRAP to this thread, and
//! a handler counts it. On arm64, which has no such flag for programs, a child of this process steps this thread with `ptrace`.
//! The code runs in this process and thread in both cases, with the CPU's own instructions.
//!
//! - The instructions of this thread in user mode are counted, those of the C library and of the vDSO as well.
//! - A system call counts as one instruction. What the kernel executes does not count.
//! - x86-64: an instruction with a `rep` prefix counts once, however often it repeats.
//! - Signal handlers that run meanwhile do not count, nor do other threads, nor children. [`OtherThreads`] tells whether other threads
//!   worked.
//!
//! A step takes some 3 to 30 microseconds by the trap flag, more in a virtual machine than outside of one, and up to several times as
//! much by `ptrace`. So code that looks at the time takes other paths. A section of `rseq`, which some allocators have, is
//! restarted by each step, so it reaches the limit.
//!
//! These are the instructions that a hardware counter should count in user mode, without the additional ones of interrupts, which
//! some CPUs count. Emulated counters agree. No comparison with a real PMU has been made. Code that a library chooses by the CPU's
//! model (`memcpy`, for example) has other counts on other models, however they are counted.
#![deny(unsafe_code)]

// `method` counts: `linux`, or `none` elsewhere. `error` has the reasons why not. The others are for benchmarks: `time` has the time that
// they may take for it, and the time of a step. `spent` is what they have taken, by the clocks of `usage`. `processes` count once more.

mod addresses;
mod error;
#[cfg(feature = "functions")]
pub mod functions;
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
mod other_threads;
pub mod processes;
mod spent;
mod time;
mod usage;

pub use addresses::{Addresses, Tally};
pub use error::StepError;
pub use other_threads::{OtherThreads, settle};
pub use spent::Spent;
pub use time::{VARIABLE, seconds_per_step, time};
pub use usage::waits;

/// Returns the number of instructions that `code` executes on this thread, and a constant number for its call.
///
/// The constant depends on `code`'s type and on the build. The difference of two counts with one closure's code does not have
/// it: see the [example](crate). What `code` returns is dropped after the count. A panic of `code` goes on, after everything is
/// restored.
///
/// `limit` is a number of instructions, each of which takes some 3 to 30 microseconds or more. On x86-64, repetitions of `rep`
/// instructions count for the limit as well. A call takes some 200 steps besides those of `code`.
///
/// # Errors
/// Those of [`Steps::start`], where `code` has not run, and of [`Steps::stop`], where it has run to its end.
pub fn count<T>(limit: u64, code: impl FnOnce() -> T) -> Result<u64, StepError> {
    count_into(limit, &mut Addresses::new(), code)
}

/// Does as [`count`], and adds the address of each counted instruction to `addresses`, in the order of their execution, as far as there is
/// room. The first and last ones belong to the calls of this function. One of them may be 0.
///
/// Where it went, by functions: see `functions`. A step takes no longer.
///
/// # Errors
/// Those of [`count`]. What was added then is of no use.
///
/// If `code` panics, `addresses` has no room any more.
#[inline(never)] // one copy for each type of code: two could differ at their ends
pub fn count_into<T>(
    limit: u64,
    addresses: &mut Addresses,
    code: impl FnOnce() -> T,
) -> Result<u64, StepError> {
    let given = std::mem::take(addresses);
    let steps = match Steps::start_into(limit, given) {
        Ok(steps) => steps,
        Err((why, given)) => {
            *addresses = given;
            return Err(why);
        }
    };
    // The result is there before the count ends. It is dropped afterwards.
    let result = std::hint::black_box(code());
    let (count, written) = steps.stop_with_addresses();
    *addresses = written;
    drop(result);
    count
}

/// The counting of this thread's instructions, between two calls. Dropping it ends the counting. One that is never dropped
/// (`mem::forget`) stays [`StepError::Busy`] until its thread ends.
///
/// SIGTRAP is unblocked during the count, also in processes that the code starts. Limits:
///
/// - A SIGTRAP that another thread sends to this one may be lost. The count may then be right, and is no error.
/// - Where SIGTRAP was blocked or ignored, one that comes interrupts a sleep, and what is known of its sender is lost. One for the process may
///   wait for this thread. Programs that the code starts do not ignore it.
///
/// # x86-64
///
/// This library handles SIGTRAP during the count. The handler uses a stack of 64 KiB. The program's own handlers with a signal stack run on it as well, unless their stack is larger. An earlier handler of SIGTRAP
/// receives the signals that are no steps, while all other signals are blocked. No other thread may change the action of SIGTRAP. No second copy
/// of this library may count.
///
/// Limits:
/// - A signal handler that adds SIGTRAP to the mask that it returns to (`uc_sigmask`) ends the process.
/// - A signal handler may return to a system call that the code did not reach by itself. The count is then an error. If a jump follows that
///   call, the count is too low by one.
/// - A signal handler sees the trap flag in the saved flags. An instruction that directly follows a system call sees it in `r11`.
/// - A signal handler may switch to a different stack, for example to preempt a fiber. Nothing is counted until the fiber resumes. If the fiber
///   resumes after the count, the process ends.
///
/// # arm64
///
/// Another process steps this thread. The count replaces a `PR_SET_PTRACER` of the program. If the child that steps this thread is killed, the
/// kernel ends this process with SIGTRAP. A SIGTRAP that a signal handler adds to the mask that it returns to is not blocked afterwards. If
/// SIGTRAP has a handler, the next one then ends the process.
#[derive(Debug)]
pub struct Steps(method::Counting);

impl Steps {
    /// Starts to count. After `limit` instructions, the code runs on at full speed, and `stop` returns an error.
    ///
    /// # Errors
    /// - [`StepError::Unsupported`], [`StepError::Traced`], [`StepError::Inexact`]: not on this machine, or not now.
    /// - [`StepError::Busy`]: two at a time.
    /// - [`StepError::OnASignalStack`]: in a signal handler.
    /// - [`StepError::Refused`]: arm64, without `ptrace`.
    /// - [`StepError::System`]: no such error is known.
    #[inline(never)]
    pub fn start(limit: u64) -> Result<Steps, StepError> {
        Steps::start_into(limit, Addresses::new()).map_err(|(why, _)| why)
    }

    /// Does as [`start`](Steps::start), and adds the address of each counted instruction to these.
    ///
    /// # Errors
    /// Those of `start`, with the addresses.
    #[inline(never)]
    pub fn start_into(limit: u64, addresses: Addresses) -> Result<Steps, (StepError, Addresses)> {
        if let Err(why) = method::check() {
            return Err((why, addresses));
        }
        let begun = method::Counting::begin(limit, addresses.0);
        let counting = begun.map_err(|(why, room)| (why, Addresses(room)))?;
        // The last call, so that the same instructions follow each time.
        method::start();
        Ok(Steps(counting))
    }

    /// Returns the number of instructions since `start`, and a constant number for the two calls.
    ///
    /// # Errors
    /// - [`StepError::TooLong`] if the code has `limit` instructions or more.
    /// - [`StepError::Disturbed`], [`StepError::Exclusive`] if not all instructions were counted.
    #[inline(never)]
    pub fn stop(self) -> Result<u64, StepError> {
        self.0.end().0
    }

    /// Does as [`stop`](Steps::stop), and returns the addresses of [`start_into`](Steps::start_into) with those that were added.
    #[inline(never)]
    pub fn stop_with_addresses(self) -> (Result<u64, StepError>, Addresses) {
        let (count, room) = self.0.end();
        (count, Addresses(room))
    }
}
