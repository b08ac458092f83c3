//! Errors of opening.

use super::{NamedEvent, ReadError, no_pmu_on_wsl};
use crate::kernel::machine::PARANOID;
use crate::kernel::{self, Errno, Message, PMU_DIRECTORY, Unreadable, has_message, say};
use std::io;

/// Why a counter, a group or a clock could not be opened, or the fault handler not be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// This target is not Linux and has no `perf_event_open`.
    Unsupported,
    /// The event needs a hardware counter, and the kernel has no driver for a PMU of this CPU.
    #[non_exhaustive]
    NoPmu {
        /// The event.
        event: NamedEvent,
        /// Whether this is known to be a virtual machine. It has the PMU that its host gives it.
        is_virtual: bool,
        /// Whether this is a KVM guest on an Intel model that usually has several core types. KVM gives no PMU to
        /// guests on these.
        is_guest_of_hybrid: bool,
        /// Whether this is the virtual machine of WSL2.
        is_wsl: bool,
    },
    /// The event needs a hardware counter, the kernel does not have it (`ENOENT` and the like), and the list of PMUs in `/sys`
    /// does not exist here. So nothing shows whether there is a PMU.
    #[non_exhaustive]
    NoPmuList {
        /// The event.
        event: NamedEvent,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The kernel or the PMU does not have this event, at least not with these settings (`ENOENT`, `EINVAL`,
    /// `EOPNOTSUPP` and the like).
    #[non_exhaustive]
    EventNotSupported {
        /// The event.
        event: NamedEvent,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The PMU cannot exclude privilege levels, and some were to be excluded. By default, all but user mode are.
    #[non_exhaustive]
    NoPrivilegeFilter {
        /// The event.
        event: NamedEvent,
    },
    /// The event includes guests, and the kernel refuses only that (`EOPNOTSUPP`). Either a virtual machine on this
    /// host owns the PMU (KVM's mediated PMU, since Linux 7.0), or the PMU cannot count guests.
    #[non_exhaustive]
    IncludesGuests {
        /// The event.
        event: NamedEvent,
    },
    /// Nothing is left to count: the settings exclude every privilege level at which the event happens, or both
    /// guests and the host. Software events happen on the host only.
    #[non_exhaustive]
    CountsNothing {
        /// The event.
        event: NamedEvent,
    },
    /// The event belongs to a fixed counter that this CPU does not have (Intel: `cpu/event=0,umask=4/`, slots). The kernel
    /// opens it, and it would stay 0.
    #[non_exhaustive]
    NoFixedCounter {
        /// The event.
        event: NamedEvent,
    },
    /// `kernel.perf_event_paranoid` forbids it to a process without `CAP_PERFMON`.
    #[non_exhaustive]
    Paranoid {
        /// The value of the setting.
        level: i32,
        /// The highest value that allows the request: 2 for user mode alone, else 1.
        allowed: i32,
    },
    /// The system call was denied, and this thread has a seccomp filter. Container runtimes deny `perf_event_open` by default.
    #[non_exhaustive]
    Seccomp {
        /// The system call.
        call: &'static str,
        /// The filter's answer.
        errno: Errno,
    },
    /// The kernel was built without `CONFIG_PERF_EVENTS`.
    NoSystemCall,
    /// The system call was denied, and neither `perf_event_paranoid` nor seccomp is known to be the cause. A security module
    /// or kernel lockdown may be.
    #[non_exhaustive]
    Denied {
        /// The kernel's answer.
        errno: Errno,
        /// The highest value of `perf_event_paranoid` that allows the request, if that setting may be the cause and cannot be
        /// read.
        allowed: Option<i32>,
        /// Whether a seccomp filter may be the cause.
        may_be_filter: bool,
    },
    /// For two seconds or more, new threads of the process started all the time, or one of its threads did not run, so that there was no
    /// moment at which all were known.
    ThreadsKeepStarting,
    /// `/proc` is of another PID namespace: the numbers in its list of threads are not valid here.
    ProcOfAnotherNamespace,
    /// A pinned event that new threads inherit: on a thread where it has no counter, it would stand still, and no read would show
    /// that.
    PinnedOnNewThreads,
    /// The thread is ending, and its counters are closed.
    ThreadEnds,
    /// No file descriptor is left for the event.
    #[non_exhaustive]
    TooManyOpenFiles {
        /// Whether the limit is the machine's (`ENFILE`) rather than the process's (`EMFILE`).
        is_system_wide: bool,
    },
    /// A group has between 1 and 8 events.
    #[non_exhaustive]
    GroupSize {
        /// The number of events requested.
        events: usize,
    },
    /// The events of a group cannot all have counters at the same time, besides those that are pinned now.
    #[non_exhaustive]
    GroupTooLarge {
        /// How many of the events, from the first, fit.
        fit: usize,
        /// The first event that does not fit.
        event: NamedEvent,
        /// Whether it does get a counter, which stands still: the host of this virtual machine has none behind it.
        stands_still: bool,
    },
    /// The event's PMU counts for CPUs, packages or the machine (`cpumask`), not for a thread.
    #[non_exhaustive]
    NotPerThread {
        /// The event.
        event: NamedEvent,
    },
    /// Two events of a group belong to different PMUs. A group stays on one.
    #[non_exhaustive]
    SeveralPmus {
        /// The group's first hardware event.
        first: NamedEvent,
        /// The event of another PMU.
        event: NamedEvent,
    },
    /// Another user holds the PMU or one of its resources exclusively (`EBUSY`).
    #[non_exhaustive]
    Busy {
        /// The event.
        event: NamedEvent,
    },
    /// The event sets a field that this kernel does not know (`E2BIG`).
    #[non_exhaustive]
    UnsupportedField {
        /// The size of `perf_event_attr` that has the field, in bytes.
        needed: u32,
        /// The size that this kernel knows, in bytes.
        known: u32,
    },
    /// This process is a fork of the one that was opening the counter.
    Forked,
    /// Other code of this process has closed the descriptor while the counter was opened.
    Closed,
    /// The kernel is out of memory (`ENOMEM`).
    #[non_exhaustive]
    OutOfMemory {
        /// The system call.
        call: &'static str,
    },
    /// The kernel's list of PMUs could not be read, and the event depends on it.
    Unreadable(Unreadable),
    /// A system call failed for a reason that is not known to occur.
    #[non_exhaustive]
    System {
        /// The system call.
        call: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
}

/// The event that an [`OpenError`] is about, as a shared or a mutable reference.
macro_rules! event_of {
    ($error:expr) => {
        match $error {
            OpenError::NoPmu { event, .. }
            | OpenError::NoPmuList { event, .. }
            | OpenError::EventNotSupported { event, .. }
            | OpenError::NoPrivilegeFilter { event }
            | OpenError::IncludesGuests { event }
            | OpenError::CountsNothing { event }
            | OpenError::NoFixedCounter { event }
            | OpenError::GroupTooLarge { event, .. }
            | OpenError::NotPerThread { event }
            | OpenError::SeveralPmus { event, .. }
            | OpenError::Busy { event } => Some(event),
            _ => None,
        }
    };
}

impl OpenError {
    /// Returns the event that the error is about. None if it is about the process or the machine.
    pub fn event(&self) -> Option<&NamedEvent> {
        event_of!(self)
    }

    /// Returns the [`cause`](OpenError::cause) with `this` in place of the event's name (`this on PMU`, if the name has a PMU):
    /// events that cannot be opened for the same cause can share a line.
    pub fn shared_cause(&self) -> String {
        let mut error = self.clone();
        if let Some(event) = event_of!(&mut error) {
            let this = match event.name().split_once('/') {
                Some((pmu, _)) => format!("this on {pmu}"),
                None => "this".into(),
            };
            *event = NamedEvent::new(event.event(), this);
        }
        error.cause()
    }

    /// Returns the kernel's answer. None if the error has no error number of its own.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            OpenError::EventNotSupported { errno, .. }
            | OpenError::NoPmuList { errno, .. }
            | OpenError::Seccomp { errno, .. }
            | OpenError::Denied { errno, .. }
            | OpenError::System { errno, .. } => Some(*errno),
            OpenError::Unreadable(unreadable) => Some(unreadable.errno),
            _ => None,
        }
    }

    /// Whether another event would fail too: a resource of the process or the machine is used up, or the call is not
    /// available.
    pub(crate) fn is_of_the_process(&self) -> bool {
        matches!(
            self,
            OpenError::Unsupported
                | OpenError::NoSystemCall
                | OpenError::TooManyOpenFiles { .. }
                | OpenError::OutOfMemory { .. }
                | OpenError::Forked
                | OpenError::System { .. }
        )
    }

    /// Makes an error of a call that ran out of something, or failed in a way that is not known to occur.
    pub(crate) fn of_call(call: &'static str) -> impl Fn(Errno) -> OpenError {
        move |errno| match errno.0 {
            kernel::EMFILE => OpenError::TooManyOpenFiles { is_system_wide: false },
            kernel::ENFILE => OpenError::TooManyOpenFiles { is_system_wide: true },
            kernel::ENOMEM => OpenError::OutOfMemory { call },
            kernel::EBADF => OpenError::Closed,
            _ => OpenError::System { call, errno },
        }
    }

    /// Makes the error of a `perf_event_open` that a filter has answered.
    pub(crate) fn seccomp(errno: Errno) -> OpenError {
        OpenError::Seccomp { call: "perf_event_open", errno }
    }

    /// Makes an error of a counter that could not be started while it was opened.
    pub(crate) fn of_start(error: ReadError) -> OpenError {
        match error {
            ReadError::Forked => OpenError::Forked,
            ReadError::System { call, errno } => OpenError::of_call(call)(errno),
            ReadError::Closed => OpenError::Closed,
            // Not reached: only a read finds it, and nothing has been read.
            ReadError::ErrorState => OpenError::System { call: "ioctl", errno: Errno(0) },
        }
    }

    pub(super) fn io_kind(&self) -> io::ErrorKind {
        match self {
            OpenError::Unsupported
            | OpenError::NoSystemCall
            | OpenError::NoPmu { .. }
            | OpenError::NoPmuList { .. }
            | OpenError::EventNotSupported { .. }
            | OpenError::NoPrivilegeFilter { .. }
            | OpenError::NotPerThread { .. }
            | OpenError::UnsupportedField { .. } => io::ErrorKind::Unsupported,
            OpenError::Busy { .. } => io::ErrorKind::ResourceBusy,
            OpenError::Paranoid { .. } | OpenError::Seccomp { .. } | OpenError::Denied { .. } => {
                io::ErrorKind::PermissionDenied
            }
            OpenError::OutOfMemory { .. } => io::ErrorKind::OutOfMemory,
            OpenError::GroupSize { .. } => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::EventNotSupported { errno, .. }
            | OpenError::NoPmuList { errno, .. }
            | OpenError::Seccomp { errno, .. }
            | OpenError::Denied { errno, .. }
            | OpenError::System { errno, .. } => Some(errno),
            OpenError::Unreadable(unreadable) => Some(&unreadable.errno),
            _ => None,
        }
    }
}

impl From<Unreadable> for OpenError {
    fn from(unreadable: Unreadable) -> OpenError {
        match unreadable.errno.0 {
            kernel::EMFILE => OpenError::TooManyOpenFiles { is_system_wide: false },
            kernel::ENFILE => OpenError::TooManyOpenFiles { is_system_wide: true },
            _ => OpenError::Unreadable(unreadable),
        }
    }
}

has_message!(OpenError);

fn events(number: usize) -> String {
    format!("{number} {}", if number == 1 { "event" } else { "events" })
}

impl OpenError {
    pub(crate) fn message(&self) -> Message {
        match self {
            OpenError::Unsupported => {
                let target = match std::env::consts::OS {
                    "" => "a target without a system",
                    system => system,
                };
                say!(
                    "this library counts on Linux, and this program was built for {target}",
                    "Build it for Linux, and run it there"
                )
            }
            OpenError::NoPmu { event, is_guest_of_hybrid: true, .. } => say!(
                "{event} needs a hardware counter, and this virtual machine has none: KVM gives \
                 no PMU to guests on hybrid Intel CPUs, as this model usually is",
                "Run on the host, or use software events"
            ),
            OpenError::NoPmu { event, is_wsl: true, .. } => no_pmu_on_wsl(&event.to_string()),
            OpenError::NoPmu { event, is_virtual: true, .. } => say!(
                "{event} needs a hardware counter, and this virtual machine has none (no core PMU \
                 in {PMU_DIRECTORY})",
                "Enable the virtual PMU in the hypervisor, run on the host, or use software \
                 events"
            ),
            OpenError::NoPmu { event, is_virtual: false, .. } => say!(
                "{event} needs a hardware counter, and the kernel offers none (no core PMU in \
                 {PMU_DIRECTORY}): the driver may be missing, or the firmware may have disabled \
                 the PMU",
                "Use software events, or another machine"
            ),
            OpenError::NoPmuList { event, errno } => say!(
                "{event} cannot be opened ({errno}), and nothing shows whether this machine has a \
                 PMU, because there is no {PMU_DIRECTORY}",
                "Mount /sys in this container or chroot to learn the cause. Without a PMU, use \
                 software events"
            ),
            OpenError::EventNotSupported { event, errno } => say!(
                "{event} is not supported by this machine's PMU or kernel, at least not with \
                 these settings ({errno})",
                "Choose an event that `perf list` shows, or other privilege levels"
            ),
            OpenError::NoPrivilegeFilter { event } => say!(
                "{event} cannot be counted for user mode alone, because this PMU cannot exclude \
                 privilege levels",
                "Call allow_all_privilege_levels(true) to count all of them"
            ),
            OpenError::IncludesGuests { event } => say!(
                "{event} includes guests, and they cannot be counted: a virtual machine on this \
                 host owns the PMU (mediated PMU), or the PMU cannot count guests",
                "Exclude guests with exclude_guest(true), or drop `G` from the name"
            ),
            OpenError::CountsNothing { event } => say!(
                "{event} would count nothing, because the settings exclude every privilege level \
                 at which it happens, or both guests and the host",
                "Include one with exclude_kernel(false) or exclude_guest(false), or change \
                 modifiers such as `u` or `G` in the name, which take precedence"
            ),
            OpenError::NoFixedCounter { event } => say!(
                "{event} belongs to a fixed counter that this CPU does not have: known work \
                 leaves it at 0",
                "Choose an event that `perf list` shows"
            ),
            OpenError::Paranoid { level, allowed } => {
                let or = match *allowed {
                    ..2 => ", or count user mode alone if the PMU can",
                    _ => "",
                };
                say!(
                    "kernel.perf_event_paranoid is {level}, and this process does not have \
                     CAP_PERFMON",
                    "Run `sysctl kernel.perf_event_paranoid={allowed}` as root, or give the \
                     program the capability{or}"
                )
            }
            OpenError::Seccomp { errno: Errno(0), .. } => say!(
                "perf_event_open returned 0 and opened no event, because a seccomp filter answers \
                 for the kernel",
                "Run with a profile that allows the call (`--security-opt seccomp=...`), or \
                 outside of the sandbox"
            ),
            OpenError::Seccomp { call: "perf_event_open", errno } => say!(
                "perf_event_open was denied ({errno}) by a seccomp filter, as container runtimes \
                 do by default",
                "Run the container with `--cap-add PERFMON` or with a profile that allows the \
                 call (`--security-opt seccomp=...`), or run outside of the sandbox"
            ),
            OpenError::Seccomp { call, errno } => say!(
                "{call} was denied ({errno}) by a seccomp filter",
                "Allow the requests PERF_EVENT_IOC_* in the filter, or run outside of the sandbox"
            ),
            OpenError::ThreadsKeepStarting => say!(
                "for seconds, new threads of this process started all the time, or one of its \
                 threads did not run, and nothing shows which threads have inherited the counters",
                "Open the counters before these threads start"
            ),
            OpenError::ProcOfAnotherNamespace => say!(
                "/proc is of another PID namespace, and the threads that it lists cannot be opened",
                "Mount this namespace's own: `mount -t proc proc /proc`"
            ),
            OpenError::PinnedOnNewThreads => say!(
                "a pinned event stands still on a new thread where it has no counter, and no read would \
                 show that",
                "Open it without `pinned` (`:D`): `SyscallGroup::reading` shows whether it had a counter \
                 all the time"
            ),
            OpenError::ThreadEnds => say!(
                "this thread is ending, and its counters are closed",
                "Read them before the destructors of thread-local values run"
            ),
            OpenError::NoSystemCall => {
                say!("this kernel has no perf_event_open", "Use one built with CONFIG_PERF_EVENTS")
            }
            OpenError::Denied { errno, allowed: Some(allowed), may_be_filter } => {
                let or = if *may_be_filter { ", or a seccomp filter" } else { "" };
                say!(
                    "perf_event_open was denied ({errno}). The cause may be {PARANOID}, which cannot be \
                     read{or}",
                    "Make it readable in this container or sandbox (mount all of /proc) to learn the cause, or run `sysctl \
                     kernel.perf_event_paranoid={allowed}` as root"
                )
            }
            OpenError::Denied { errno, may_be_filter: true, .. } => say!(
                "perf_event_open was denied ({errno}), and nothing shows whether a seccomp filter \
                 is the cause",
                "Make /proc readable in this container or sandbox to learn it, or run outside of it"
            ),
            OpenError::Denied { errno, .. } => say!(
                "perf_event_open was denied ({errno}), and neither kernel.perf_event_paranoid nor \
                 seccomp is the cause",
                "Check the security module's log (SELinux, AppArmor) and \
                 /sys/kernel/security/lockdown"
            ),
            OpenError::TooManyOpenFiles { is_system_wide: false } => say!(
                "this process has no file descriptor left, and each counter holds one",
                "Raise `ulimit -n` or close counters"
            ),
            OpenError::TooManyOpenFiles { is_system_wide: true } => say!(
                "this machine has no file descriptor left, and each counter holds one",
                "Raise `sysctl fs.file-max` or close files"
            ),
            OpenError::GroupSize { events: 0 } => {
                say!("a group needs at least one event", "Pass between 1 and 8 events")
            }
            OpenError::GroupSize { events } => say!(
                "a group has between 1 and 8 events, not {events}",
                "Split them into several groups"
            ),
            OpenError::GroupTooLarge { fit: 0, event, stands_still: true } => say!(
                "{event} cannot be counted now, because its counter stands still: the host of \
                 this virtual machine has no counter for it",
                "Try again later, or count on the host"
            ),
            OpenError::GroupTooLarge { fit, event, stands_still: true } => say!(
                "{event} cannot be counted together with the {} before it, because its counter \
                 stands still: the host of this virtual machine has too few counters",
                "Open it in a group of its own, and fewer events at a time",
                events(*fit)
            ),
            OpenError::GroupTooLarge { fit: 0, event, .. } => say!(
                "{event} cannot be counted now, because pinned events occupy every counter it \
                 could use",
                "Close some of them, or open the group disabled and enable it when they are \
                 closed"
            ),
            OpenError::GroupTooLarge { fit, event, stands_still: false } => say!(
                "{event} cannot be counted together with the {} before it: the PMU has no counter \
                 left for it (pinned events and, on x86-64, the kernel's watchdog hold some), or \
                 it belongs to another PMU",
                "Put it into a group of its own, or run `sysctl kernel.nmi_watchdog=0` as root",
                events(*fit)
            ),
            OpenError::NotPerThread { event } => say!(
                "{event} is counted for CPUs or the whole machine, not for a thread, and this \
                 library counts for a thread",
                "Use `perf stat -a -e {event}`"
            ),
            OpenError::SeveralPmus { first, event } => say!(
                "{event} and {first} belong to different PMUs, and a group stays on one",
                "Put {event} into a group of its own, or open a counter for each"
            ),
            OpenError::Busy { event } => say!(
                "another profiler or the firmware has exclusive use of what {event} needs",
                "Stop it and try again"
            ),
            OpenError::UnsupportedField { needed, known } => say!(
                "the event needs {needed} bytes of perf_event_attr, and this kernel knows {known}",
                "Leave the newest config words at 0, or use a newer kernel"
            ),
            OpenError::Forked => say!(
                "this process is a fork of the one that was opening the counter",
                "Open a new counter in this process"
            ),
            OpenError::Closed => ReadError::Closed.message(),
            OpenError::OutOfMemory { call } => say!(
                "{call} failed for lack of memory (ENOMEM)",
                "Free memory, or raise the limit of this process's memory cgroup"
            ),
            OpenError::Unreadable(unreadable) => unreadable.message(),
            OpenError::System { call, errno } => say!(
                "{call} failed with {errno}, which is not known to occur",
                "Please report it with the kernel's version"
            ),
        }
    }
}
