//! The kinds of errors and reasons.

use super::Disturbed;

/// The kind of an [`Error`](super::Error). The error's message has the details.
///
/// | from | kinds |
/// |---|---|
/// | any open: the machine lacks it | [`Unsupported`](Self::Unsupported) to [`NoFixedCounter`](Self::NoFixedCounter), [`NotPerThread`](Self::NotPerThread), [`UnsupportedField`](Self::UnsupportedField) |
/// | any open: permission | [`Paranoid`](Self::Paranoid), [`Seccomp`](Self::Seccomp), [`Denied`](Self::Denied) |
/// | any open: used up | [`TooManyOpenFiles`](Self::TooManyOpenFiles), [`OutOfMemory`](Self::OutOfMemory), [`Busy`](Self::Busy) |
/// | groups, and all threads of a process | [`GroupSize`](Self::GroupSize), [`GroupTooLarge`](Self::GroupTooLarge), [`SeveralPmus`](Self::SeveralPmus); [`ThreadsKeepStarting`](Self::ThreadsKeepStarting), [`ProcOfAnotherNamespace`](Self::ProcOfAnotherNamespace), [`PinnedOnNewThreads`](Self::PinnedOnNewThreads), [`ThreadEnds`](Self::ThreadEnds) |
/// | names | [`UnknownName`](Self::UnknownName), [`InvalidName`](Self::InvalidName), [`NoPmu`](Self::NoPmu), [`NoPmuList`](Self::NoPmuList), [`Unreadable`](Self::Unreadable) |
/// | regions, and errors of reads converted by `?` | [`UserReadUnavailable`](Self::UserReadUnavailable), [`FaultsNotContained`](Self::FaultsNotContained), [`Disturbed`](Self::Disturbed), [`ErrorState`](Self::ErrorState), [`Forked`](Self::Forked), [`Closed`](Self::Closed), [`System`](Self::System) |
/// | no error, but the reason in [`Access::SystemCall`](crate::Access::SystemCall) | [`SoftwareEvent`](Self::SoftwareEvent) to [`NotMapped`](Self::NotMapped), [`Closed`](Self::Closed) |
/// | no error, but the reason in [`ClockKind`](crate::clock::ClockKind) | [`NoTickCounter`](Self::NoTickCounter) to [`TicksNotTrusted`](Self::TicksNotTrusted), [`NoConversion`](Self::NoConversion), and any of the kinds of opens |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// This target is not Linux and has no `perf_event_open`.
    Unsupported,
    /// The kernel was built without `CONFIG_PERF_EVENTS`.
    NoSystemCall,
    /// The event needs a hardware counter, and the kernel has no driver for a PMU of this CPU.
    #[non_exhaustive]
    NoPmu {
        /// Whether this is known to be a virtual machine. It has the PMU that its host gives it.
        is_virtual: bool,
        /// Whether this is a KVM guest on an Intel model that usually has several core types. KVM gives no PMU to
        /// guests on these.
        is_guest_of_hybrid: bool,
        /// Whether this is the virtual machine of WSL2.
        is_wsl: bool,
    },
    /// The event needs a hardware counter, and the list of PMUs in `/sys` does not exist here. So nothing shows whether there
    /// is a PMU.
    NoPmuList,
    /// The kernel or the PMU does not have this event, at least not with these settings (`ENOENT`, `EINVAL`,
    /// `EOPNOTSUPP` and the like).
    EventNotSupported,
    /// The PMU cannot exclude privilege levels, and some were to be excluded. By default, all but user mode are.
    NoPrivilegeFilter,
    /// The event includes guests, and the kernel refuses only that (`EOPNOTSUPP`). Either a virtual machine on this
    /// host owns the PMU (KVM's mediated PMU, since Linux 7.0), or the PMU cannot count guests.
    IncludesGuests,
    /// Nothing is left to count: the settings exclude every privilege level at which the event happens, or both
    /// guests and the host. Software events happen on the host only.
    CountsNothing,
    /// The event belongs to a fixed counter that this CPU does not have (Intel: `cpu/event=0,umask=4/`, slots). The kernel
    /// opens it, and it would stay 0.
    NoFixedCounter,
    /// `kernel.perf_event_paranoid` forbids it to a process without `CAP_PERFMON`.
    Paranoid,
    /// The system call was denied, and this thread has a seccomp filter. Container runtimes deny `perf_event_open` by default.
    Seccomp,
    /// The system call was denied, and neither `perf_event_paranoid` nor seccomp is known to be the cause. A security module
    /// or kernel lockdown may be.
    Denied,
    /// For two seconds or more, new threads of the process started all the time, or one of its threads did not run, so that
    /// there was no moment at which all were known.
    ThreadsKeepStarting,
    /// `/proc` is of another PID namespace: the numbers in its list of threads are not valid here.
    ProcOfAnotherNamespace,
    /// A pinned event that new threads inherit: on a thread where it has no counter, it would stand still, and no read would
    /// show that.
    PinnedOnNewThreads,
    /// The thread is ending, and its counters are closed.
    ThreadEnds,
    /// No file descriptor is left for the event (`EMFILE`, `ENFILE`).
    TooManyOpenFiles,
    /// The kernel is out of memory (`ENOMEM`).
    OutOfMemory,
    /// A group has between 1 and 8 events.
    GroupSize,
    /// The events of a group cannot all have counters at the same time, besides those that are pinned now.
    #[non_exhaustive]
    GroupTooLarge {
        /// How many of the events, from the first, fit.
        fit: usize,
        /// Whether the next one does get a counter, which stands still: the host of this virtual machine has none behind it.
        stands_still: bool,
    },
    /// The event's PMU counts for CPUs, packages or the machine (`cpumask`), not for a thread.
    NotPerThread,
    /// Two events of a group belong to different PMUs. A group stays on one.
    SeveralPmus,
    /// Another user holds the PMU or one of its resources exclusively (`EBUSY`).
    Busy,
    /// The event sets a field that this kernel does not know (`E2BIG`).
    UnsupportedField,
    /// This process is a fork of the one that opened the counter or clock, or was opening it.
    Forked,
    /// Other code of this process has closed the descriptor: see [closed descriptors](crate::Counter#closed-descriptors).
    Closed,
    /// A file of `/proc` or `/sys` that the answer depends on exists and cannot be read.
    Unreadable,
    /// A system call failed for a reason that is not known to occur. Of a read: or a sandbox denied it.
    System,

    /// The name is that of no event, PMU or term of this machine.
    UnknownName,
    /// The name is not valid for a counter: its syntax, its modifiers, the value of a term, or an event of several PMUs.
    InvalidName,

    /// A region reads its counters in user space, and this is not possible. The message has the reason, and
    /// [`Counter::access`](crate::Counter::access) its kind.
    UserReadUnavailable,
    /// Reading a counter at the end of a region may fault on this machine.
    /// Call [`contain_faults`](crate::contain_faults) first.
    FaultsNotContained,
    /// A region's sample is not a measurement.
    Disturbed(Disturbed),

    /// The kernel counts this event in software.
    SoftwareEvent,
    /// The event is not on a hardware counter now (`index` is 0): it is disabled, or more events are open than the PMU
    /// has counters, and others have their turn.
    NotScheduled,
    /// The event is pinned and in error state: it could not get a counter, or lost it.
    ErrorState,
    /// User space is slower than the system call here, for example because a hypervisor traps the instruction.
    /// `read_user` and regions still read in user space.
    Slower,
    /// The builder [chose](crate::ReadBy::SystemCall) the system call. `read_user` and regions still read in user space.
    Requested,
    /// The administrator has disabled user access.
    SwitchedOff,
    /// The kernel does not offer user access for this event (`cap_user_rdpmc` is 0), and no setting explains that.
    NotOffered,
    /// The page offers user access and the CPU refuses it (a contained fault), and no setting explains that.
    Refused,
    /// The control page has the layout of a kernel before 3.12, whose capability bits are ambiguous.
    PageTooOld,
    /// This library does not support counters of this width (`pmc_width`), or counters of different widths in a group.
    Width,
    /// The register that the kernel publishes does not hold this event's count. Intel's topdown metrics are
    /// packed fractions, and riscv64's firmware events have no register.
    NotInItsRegister,
    /// The event is pinned and open on several core types. The control pages do not show whether one type has lost its
    /// counter.
    PinnedOnSeveralTypes,
    /// The control page could not be mapped: the user's allowance of locked memory is used up (`EPERM`).
    MlockLimit,
    /// The control page could not be mapped for another reason.
    NotMapped,

    /// The control page has no conversion of ticks (`cap_user_time_zero` is 0), because the kernel's scheduler uses another
    /// clock.
    NoConversion,
    /// This library knows no tick counter of this CPU.
    NoTickCounter,
    /// This thread has forbidden itself to read the tick counter (`PR_SET_TSC`).
    TicksForbidden,
    /// The CPU does not advertise a constant-rate tick counter (invariant TSC), or the counter did not advance when
    /// sampled.
    TicksNotInvariant,
    /// The kernel does not list the tick counter as a clock source: the kernel found it to be wrong, or was told so
    /// (`tsc=unstable`).
    TicksNotTrusted,
}
