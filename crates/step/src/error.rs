//! Why code could not be stepped.

use std::fmt;

/// Why the instructions of a piece of code could not be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepError {
    /// Not on this target: only x86-64 and arm64 Linux have code for it here.
    Unsupported,
    /// A debugger or tracer is attached, which takes the signals of the steps.
    #[non_exhaustive]
    Traced {
        /// Its process number.
        tracer: u32,
    },
    /// Another thread of this process is counting, or this one is within code that is being counted.
    Busy,
    /// x86-64: this thread runs on a signal stack.
    OnASignalStack,
    /// The code has at least as many instructions as the limit. It has run to its end.
    #[non_exhaustive]
    TooLong {
        /// The limit.
        limit: u64,
    },
    /// Not all instructions were counted. The code has run to its end, at full speed from one of these on:
    ///
    /// - It has a breakpoint, or calls code that cannot be read.
    /// - It starts another program in place of this one, changes the action of SIGTRAP, or gets a SIGTRAP.
    /// - x86-64: it starts a thread or a process, blocks signals, changes the signal stack, or has one of these instructions: `int`, `iret`,
    ///   `icebp`, `mov ss`, `ud2`, `cli`, `sti`, `sldt`, `str`, `sgdt`, `sidt`, `smsw`, or `pushf` or `popf` of 16 bits.
    /// - arm64: it blocks SIGTRAP, which has a handler, or a signal handler did not return to the code.
    Disturbed,
    /// arm64: this machine does not let another process step this one, with `ptrace`.
    #[non_exhaustive]
    Refused {
        /// The error number of the kernel's refusal. 0 if the other process was ended.
        errno: i32,
    },
    /// arm64: the code reads and writes memory with a pair of exclusive instructions, as CPUs without atomic instructions do. The
    /// write fails whenever the thread is stepped. The code has run to its end, at full speed.
    Exclusive,
    /// Known code was counted wrong: the CPU is emulated, as under valgrind, or the program has a sanitizer. The code has not run.
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
                f.write_str("instructions are counted by stepping on x86-64 and arm64 Linux only")
            }
            StepError::Traced { tracer } => write!(
                f,
                "process {tracer} traces this one and takes the signals of single steps. Run without a debugger or strace"
            ),
            StepError::Busy => f.write_str(
                "instructions are being counted by stepping already. Count one piece of code at a time",
            ),
            StepError::OnASignalStack => f.write_str(
                "this thread is in a signal handler with a stack of its own. Count outside of signal handlers",
            ),
            StepError::TooLong { limit } => write!(
                f,
                "the code has {limit} instructions or more, which is the limit for stepping. Raise the limit, or give the code less to do"
            ),
            StepError::Disturbed => f.write_str(
                "the code starts a thread or a process, changes how signals are handled, or has a breakpoint, and is not stepped from there on. Do that outside of the code",
            ),
            StepError::Refused { errno } => write!(
                f,
                "this machine does not let a process step another (ptrace: error {errno}). The profile of a container and kernel.yama.ptrace_scope may forbid it: the latter must be 0 or 1"
            ),
            StepError::Exclusive => f.write_str(
                "the code has atomic operations for CPUs without atomic instructions, which cannot be stepped. Use a CPU with LSE (Armv8.1), or compile for it",
            ),
            StepError::Inexact => f.write_str(
                "single-stepping miscounts known code here, because the CPU is emulated (by valgrind, for example) or the program was built with a sanitizer. Run it without either, on a CPU that is not emulated",
            ),
            StepError::System { call, errno } => write!(
                f,
                "{call} failed with error {errno}, which is not known to occur. Please report it with the kernel's version"
            ),
        }
    }
}

impl std::error::Error for StepError {}
