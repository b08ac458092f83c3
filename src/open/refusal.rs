//! Why the kernel refused an event: a paranoid level, a seccomp filter, no PMU, another user of the PMU, or the event itself.

use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::kernel::{self, Errno, flag, machine};
use crate::names::named;
use crate::pmu::{Pmus, core_types, no_pmu};

/// A request that the kernel refused.
#[derive(Clone, Copy)]
pub(super) struct Refusal {
    pub(super) errno: Errno,
    /// The size of the attr that was passed, in bytes.
    pub(super) needed: u32,
    /// The size that the kernel wrote back, in bytes.
    pub(super) known: u32,
}

impl Refusal {
    /// Whether this process lacks the permission.
    pub(super) fn is_permission_denied(&self) -> bool {
        matches!(self.errno.0, kernel::EACCES | kernel::EPERM)
    }

    /// Whether the kernel or the PMU does not support the request.
    pub(super) fn is_of_the_event(&self) -> bool {
        matches!(
            self.errno.0,
            kernel::EINVAL | kernel::EOPNOTSUPP | kernel::ENOENT | kernel::ENODEV
        )
    }

    /// Whether resources ran out, which does not depend on the event.
    pub(super) fn is_out_of_resources(&self) -> bool {
        matches!(self.errno.0, kernel::EMFILE | kernel::ENFILE | kernel::ENOMEM)
    }
}

/// Finds the reason for a refusal on this machine.
pub(super) fn diagnose(event: Event, flags: u64, refusal: Refusal) -> Error {
    let Errno(errno) = refusal.errno;
    if event.is_of_the_core()
        && matches!(errno, kernel::ENOENT | kernel::ENODEV | kernel::EOPNOTSUPP)
    {
        match core_types::is_there_one() {
            Ok(Some(false)) => return no_pmu().for_event(named(event)),
            Ok(None) if matches!(Pmus::local().core(), Ok(None)) => {
                return Error::new(
                    ErrorKind::NoPmuList,
                    "{event} cannot be opened ({errno}), and nothing shows whether this machine has a PMU, because \
                     there is no /sys/bus/event_source/devices",
                    "Mount /sys in this container or chroot to learn the cause. Without a PMU, use software events",
                )
                .for_event(named(event))
                .errno_is(refusal.errno);
            }
            Ok(_) => {}
            Err(unreadable) => return unreadable,
        }
    }
    match errno {
        kernel::EACCES | kernel::EPERM | kernel::ENOSYS => diagnose_permission(flags, errno),
        kernel::EBUSY => Error::new(
            ErrorKind::Busy,
            "another profiler or the firmware has exclusive use of what {event} needs",
            "Stop it and try again",
        )
        .for_event(named(event)),
        kernel::E2BIG => Error::new(
            ErrorKind::UnsupportedField,
            "the event needs {0} bytes of perf_event_attr, and this kernel knows {1}",
            "Leave the newest config words at 0, or use a newer kernel",
        )
        .with(&refusal.needed)
        .with(&refusal.known),
        kernel::ENOENT
        | kernel::ENODEV
        | kernel::EINVAL
        | kernel::EOPNOTSUPP
        | kernel::ENOSPC => match event.pmu().map(|pmu| Pmus::local().with_type(pmu)) {
            Some(Ok(Some(pmu))) if pmu.counts_for_cpus() => Error::new(
                ErrorKind::NotPerThread,
                "{event} is counted for CPUs or the whole machine, not for a thread, and this library counts for a \
                 thread",
                "Use `perf stat -a -e {event}`",
            )
            .for_event(named(event)),
            Some(Err(unreadable)) => unreadable,
            _ => Error::new(
                ErrorKind::EventNotSupported,
                "{event} is not supported by this machine's PMU or kernel, at least not with these settings ({errno})",
                "Choose an event that `perf list` shows, or other privilege levels",
            )
            .for_event(named(event))
            .errno_is(refusal.errno),
        },
        // The kernel never returns these.
        0 | kernel::EINTR if machine::has_seccomp_filter() == Some(true) => {
            denied_by_filter(refusal.errno)
        }
        _ => Error::of_call("perf_event_open")(refusal.errno),
    }
}

/// Finds what denied permission: the paranoid level (always with `EACCES`), a seccomp filter, or something else.
fn diagnose_permission(flags: u64, errno: i32) -> Error {
    let allowed = if flags & flag::EXCLUDE_KERNEL != 0 { 2 } else { 1 };
    let level = machine::paranoid_level();
    if let (None, Some(unreadable)) = (level, machine::no_descriptor_for_the_level()) {
        return unreadable.into();
    }
    // The level denies with EACCES alone. It is looked at first: programs open counters often and drop the error.
    let is_of_a_level = errno == kernel::EACCES && level.is_none_or(|level| level > allowed);
    let may_be_level = is_of_a_level && machine::capability().is_none();
    if let (true, Some(level)) = (may_be_level, level) {
        let remedy = match allowed {
            2 => {
                "Run `sysctl kernel.perf_event_paranoid={1}` or `setcap cap_perfmon=ep PROGRAM` as root"
            }
            _ => {
                "Run `sysctl kernel.perf_event_paranoid={1}` or `setcap cap_perfmon=ep PROGRAM` as root, or count user \
                 mode alone if the event happens there and the PMU can"
            }
        };
        return Error::new(
            ErrorKind::Paranoid,
            "kernel.perf_event_paranoid is {0}, and this process does not have CAP_PERFMON",
            remedy,
        )
        .with(&level)
        .with(&allowed);
    }
    let has_filter = machine::has_seccomp_filter();
    match has_filter {
        Some(true) if !may_be_level => denied_by_filter(Errno(errno)),
        Some(false) if errno == kernel::ENOSYS => Error::new(
            ErrorKind::NoSystemCall,
            "this kernel has no perf_event_open",
            "Use one built with CONFIG_PERF_EVENTS",
        ),
        has_filter => {
            let may_be_level = may_be_level.then_some(allowed);
            denied(Errno(errno), may_be_level, has_filter != Some(false))
        }
    }
}

/// The error of a `perf_event_open` that a filter has answered.
pub(crate) fn denied_by_filter(errno: Errno) -> Error {
    let (cause, remedy) = match errno {
        Errno(0) => (
            "perf_event_open returned 0 and opened no event, because a seccomp filter answers for the kernel",
            "Run with a profile that allows the call (`--security-opt seccomp=...`), or outside of the sandbox",
        ),
        _ => (
            "perf_event_open was denied ({errno}) by a seccomp filter, as container runtimes do by default",
            "Run the container with `--cap-add PERFMON` or with a profile that allows the call (`--security-opt \
             seccomp=...`), or run outside of the sandbox",
        ),
    };
    Error::new(ErrorKind::Seccomp, cause, remedy).errno_is(errno)
}

/// The error of a `perf_event_open` that something has denied. `allowed` is the paranoid level that allows it, if the level may be
/// the cause and cannot be read.
pub(crate) fn denied(errno: Errno, allowed: Option<i32>, may_be_filter: bool) -> Error {
    let (cause, remedy) = match (allowed, may_be_filter) {
        (Some(_), _) => (
            "perf_event_open was denied ({errno}). The cause may be {0}, which cannot be read{2}",
            "Make it readable in this container or sandbox (mount all of /proc) to learn the cause, or run `sysctl \
             kernel.perf_event_paranoid={1}` as root",
        ),
        (None, true) => (
            "perf_event_open was denied ({errno}), and nothing shows whether a seccomp filter is the cause",
            "Make /proc readable in this container or sandbox to learn it, or run outside of it",
        ),
        (None, false) => (
            "perf_event_open was denied ({errno}), and neither kernel.perf_event_paranoid nor seccomp is the cause",
            "Check the security module's log (SELinux, AppArmor) and /sys/kernel/security/lockdown",
        ),
    };
    Error::new(ErrorKind::Denied, cause, remedy)
        .errno_is(errno)
        .with(&machine::PARANOID)
        .with(&allowed.unwrap_or_default())
        .with(&if may_be_filter { ", or a seccomp filter" } else { "" })
}
