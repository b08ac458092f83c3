//! How a counter is read, and why not from user space.

use super::ReadError;
use crate::kernel::{self, Errno, Message, PMU_DIRECTORY, Thousands, has_message, say};
use std::fmt;
use std::time::Duration;

/// How a counter is read now, from [`Counter::access`](crate::Counter::access).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// From user space: [`read_user`](crate::Counter::read_user) returns the count.
    UserSpace,
    /// By `read(2)`, a system call, for this reason.
    SystemCall(SyscallReason),
    /// Not at all: this process is a fork of the one that opened the counter.
    Forked,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::UserSpace => write!(f, "read from user space"),
            Access::SystemCall(reason @ (SyscallReason::ErrorState | SyscallReason::Closed)) => {
                write!(f, "not read: {reason}")
            }
            Access::SystemCall(reason) => write!(f, "read by system call: {reason}"),
            Access::Forked => ReadError::Forked.fmt(f),
        }
    }
}

/// Why user space cannot read a counter, so that its reads are system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyscallReason {
    /// The kernel counts this event in software.
    SoftwareEvent,
    /// The event is not on a hardware counter now (`index` is 0): it is disabled, or more events are open than the PMU
    /// has counters, and others have their turn.
    NotScheduled,
    /// The event is pinned and in error state: it could not get a counter, or lost it. Reads return
    /// [`ReadError::ErrorState`].
    ErrorState,
    /// Other code of this process has closed the counter's descriptor, and user space cannot read it now. Reads return
    /// [`ReadError::Closed`].
    Closed,
    /// User space is slower than the system call here, for example because a hypervisor traps the instruction.
    /// `read_user` and regions still read in user space.
    #[non_exhaustive]
    Slower {
        /// The median time of a read in user space.
        user: Duration,
        /// The median time of a `read(2)`.
        system_call: Duration,
    },
    /// The builder [chose](crate::ReadBy::SystemCall) the system call. `read_user` and regions still read in user space.
    Requested,
    /// The administrator has disabled user access.
    #[non_exhaustive]
    SwitchedOff {
        /// The file with the setting.
        setting: &'static str,
        /// Its value.
        value: i32,
    },
    /// The kernel does not offer user access for this event (`cap_user_rdpmc` is 0), and no setting explains that.
    NotOffered,
    /// The page offers user access and the CPU refuses it (a contained fault), and no setting explains that.
    Refused,
    /// The control page has the layout of a kernel before 3.12, whose capability bits are ambiguous.
    PageTooOld,
    /// This library does not support counters of this width (`pmc_width`), or counters of different widths in a group.
    #[non_exhaustive]
    Width {
        /// The width in bits.
        bits: u16,
    },
    /// The register that the kernel publishes does not hold this event's count. Intel's topdown metrics are
    /// packed fractions, and riscv64's firmware events have no register.
    NotInItsRegister,
    /// The event is pinned and open on several core types. The control pages do not show whether one type has lost its
    /// counter.
    PinnedOnSeveralTypes,
    /// The control page could not be mapped: the user's allowance of locked memory is used up (`EPERM`).
    #[non_exhaustive]
    MlockLimit {
        /// `kernel.perf_event_mlock_kb`, in KiB per CPU. None if it cannot be read.
        kilobytes: Option<u64>,
    },
    /// The control page could not be mapped for another reason.
    #[non_exhaustive]
    NotMapped {
        /// The kernel's answer.
        errno: Errno,
    },
}

has_message!(SyscallReason);

impl SyscallReason {
    pub(super) fn message(&self) -> Message {
        match self {
            SyscallReason::SoftwareEvent => {
                say!("the kernel counts this event in software", "No action needed")
            }
            SyscallReason::NotScheduled => say!(
                "the event is not on a hardware counter now",
                "Enable it, or open fewer events than the PMU has counters (on x86-64 the \
                 kernel's watchdog holds one unless kernel.nmi_watchdog is 0), or on a hybrid CPU \
                 keep the thread on the event's core type"
            ),
            SyscallReason::ErrorState => ReadError::ErrorState.message(),
            SyscallReason::Closed => ReadError::Closed.message(),
            SyscallReason::Slower { user, system_call } => {
                let [user, system_call] =
                    [user, system_call].map(|time| Thousands(time.as_nanos()).to_string());
                say!(
                    "user space is slower than the system call here: a read takes {user} ns in \
                     user space, for example because a hypervisor traps it, and {system_call} ns \
                     by system call",
                    "No action needed"
                )
            }
            SyscallReason::Requested => {
                say!(
                    "the builder requested system calls",
                    "To use the cheaper way, pass ReadBy::Cheaper"
                )
            }
            SyscallReason::SwitchedOff { setting, value } => say!(
                "user access is disabled ({setting} is {value})",
                "Run `echo 1 > {setting}` as root, then open the counter again"
            ),
            SyscallReason::NotOffered => say!(
                "the kernel offers no user access for this event",
                "On x86-64, check {PMU_DIRECTORY}/cpu/rdpmc as root. arm64 needs Linux 5.17 and \
                 riscv64 needs 6.6. Some events never have user access"
            ),
            SyscallReason::Refused => say!(
                "the CPU refused to read a counter that the kernel offers, for example because \
                 user access was disabled for a while",
                "Call retry_user(), or open the counter again"
            ),
            SyscallReason::PageTooOld => say!(
                "the control page has the layout of a kernel before 3.12, whose capability bits \
                 are ambiguous",
                "Use a newer kernel"
            ),
            SyscallReason::Width { bits } => say!(
                "this library does not read counters of {bits} bits here, so the kernel does",
                "No action needed"
            ),
            SyscallReason::NotInItsRegister => {
                say!("no register holds this event's count", "No action needed")
            }
            SyscallReason::PinnedOnSeveralTypes => say!(
                "the event is pinned and open on several core types",
                "Keep the thread on one type while opening it, or do not pin the event"
            ),
            SyscallReason::MlockLimit { kilobytes } => {
                let limit = match kilobytes {
                    Some(kilobytes) => {
                        format!(" (kernel.perf_event_mlock_kb is {kilobytes} KiB per CPU)")
                    }
                    None => String::new(),
                };
                say!(
                    "the control page cannot be mapped, because the user's limit of locked memory \
                     is reached{limit}",
                    "Raise it or `ulimit -l`, give the program CAP_IPC_LOCK, or open fewer \
                     counters"
                )
            }
            SyscallReason::NotMapped { errno } => {
                let remedy = match errno.0 {
                    kernel::ENOMEM => "Free memory or mappings, then open the counter again",
                    kernel::EAGAIN => {
                        "This process locks all its memory and may lock no more, so raise `ulimit -l`"
                    }
                    kernel::EEXIST => {
                        "Other threads took the chosen addresses, so open the counter again"
                    }
                    _ => "Check the security module's log, or report it with the kernel's version",
                };
                say!("the control page cannot be mapped ({errno})", "{remedy}")
            }
        }
    }
}
