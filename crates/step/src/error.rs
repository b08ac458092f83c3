//! Why code could not be stepped.

use std::fmt;

/// Why the instructions of a piece of code could not be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepError {
    /// Not on this target: only x86-64 Linux has code for it here.
    Unsupported,
    /// A debugger or tracer is attached, which takes the signals of the steps.
    #[non_exhaustive]
    Traced {
        /// Its process number.
        tracer: u32,
    },
    /// Another thread of this process is counting, or this one is within code that is being counted.
    Busy,
    /// The code has more instructions than the limit. It has run to its end.
    #[non_exhaustive]
    TooLong {
        /// The limit.
        limit: u64,
    },
    /// Not all instructions were counted: the code has cleared the trap flag, has a breakpoint, has started a thread or a
    /// process, or has blocked or handled signals.
    Disturbed,
    /// Known code was counted wrong, for example because the CPU is emulated.
    Inexact,
    /// A system call failed.
    #[non_exhaustive]
    System {
        /// Its name.
        call: &'static str,
        /// The error number.
        errno: i32,
    },
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StepError::Unsupported => {
                f.write_str("instructions are counted by stepping on x86-64 Linux only")
            }
            StepError::Traced { tracer } => write!(
                f,
                "process {tracer} traces this one and takes the signals of single steps. Run without a debugger or strace"
            ),
            StepError::Busy => f.write_str(
                "instructions are being counted by stepping already. Count one piece of code at a time",
            ),
            StepError::TooLong { limit } => write!(
                f,
                "the code has more than {limit} instructions, which is the limit for stepping. Raise the limit, or give the code less to do"
            ),
            StepError::Disturbed => f.write_str(
                "the code starts a thread or a process, changes how signals are handled, or has a breakpoint, and is not stepped from there on. Do that outside of the code",
            ),
            StepError::Inexact => f.write_str(
                "single steps do not count known code right here, for example because the CPU is emulated. Use a machine with an x86-64 CPU",
            ),
            StepError::System { call, errno } => write!(
                f,
                "{call} failed with error {errno}, which is not known to occur. Please report it with the kernel's version"
            ),
        }
    }
}

impl std::error::Error for StepError {}
