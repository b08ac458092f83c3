//! Opens one event: makes the requests to the kernel, and diagnoses refusals.

use super::options::{FILTER, NO_GUESTS, Options};
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::kernel::{
    self, ATTR_SIZES, Attr, Descriptor, Errno, arm64_config1, flag, format, machine,
};
use crate::names::named;
use crate::pmu::{Pmus, core_types, no_pmu};

/// The values of `config1` to try in turn.
///
/// On arm64, `config1` requests user access and a 64-bit counter. Not every event on every CPU can have these. A
/// group has one value for all its events, so that all its counters have one width.
pub(super) const CONFIG1_REQUESTS: &[u64] = if cfg!(target_arch = "aarch64") {
    &[arm64_config1::USER_ACCESS | arm64_config1::LONG, arm64_config1::USER_ACCESS, 0]
} else {
    &[0]
};

/// A request to the kernel for one event.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub(super) event: Event,
    pub(super) flags: u64,
    /// The event's own value, or one of [`CONFIG1_REQUESTS`].
    pub(super) config1: u64,
    pub(super) leader: Option<&'a Descriptor>,
    /// `PERF_FORMAT_GROUP`, or 0.
    pub(super) group: u64,
    /// As [`Options::thread`].
    pub(super) thread: u32,
}

impl Attempt<'_> {
    /// Opens one event. The flag is true if it counts all privilege levels although a filter was requested.
    pub(super) fn open_with(self, options: &Options) -> Result<(Descriptor, bool), Error> {
        let refusal = match self.open() {
            Ok(descriptor) => return Ok((descriptor, false)),
            Err(refusal) => refusal,
        };
        let may_be_a_flag = matches!(refusal.errno.0, kernel::EINVAL | kernel::EOPNOTSUPP);
        if self.event.is_software() || !may_be_a_flag {
            return Err(self.diagnose(refusal));
        }
        if refusal.errno.0 == kernel::EOPNOTSUPP && self.is_refused_for_guests()? {
            let error = Error::new(
                ErrorKind::IncludesGuests,
                "{event} includes guests, and they cannot be counted: a virtual machine on this host owns the PMU \
                 (mediated PMU), or the PMU cannot count guests",
                "Exclude guests with exclude_guest(true), or drop `G` from the name",
            );
            return Err(error.for_event(named(self.event)));
        }
        // Excluding guests is only the default, and a PMU that has no guests may refuse it.
        let guests = self.flags & NO_GUESTS & !self.event.modifiers.flags(options.set);
        if self.flags & FILTER | guests == 0 {
            return Err(self.diagnose(refusal));
        }
        self.open_with_fewer_flags(options, refusal, guests)
    }

    /// Retries a refused event without the flags `guests`, or without a privilege filter if that is allowed.
    /// Otherwise returns the reason for the refusal.
    fn open_with_fewer_flags(
        self,
        options: &Options,
        refusal: Refusal,
        guests: u64,
    ) -> Result<(Descriptor, bool), Error> {
        let no_filter = || {
            Error::new(
                ErrorKind::NoPrivilegeFilter,
                "{event} cannot be counted for user mode alone, because this PMU cannot exclude privilege levels",
                "Call allow_all_privilege_levels(true) to count all of them",
            )
            .for_event(named(self.event))
        };
        let unfiltered = self.without(FILTER | guests);
        let mut answer = unfiltered.open();
        if guests != 0 && answer.as_ref().map_or_else(Refusal::is_permission_denied, |_| true) {
            // Closed first, so that the next attempt can have its descriptor and its place in the group.
            let was_granted = answer.is_ok();
            drop(answer);
            if let Some(descriptor) = self.without(guests).open_if_possible()? {
                return Ok((descriptor, false));
            }
            if was_granted && !options.allow_all_levels {
                return Err(no_filter());
            }
            answer = unfiltered.open();
        }
        match answer {
            Ok(descriptor) if options.allow_all_levels => Ok((descriptor, true)),
            Ok(_) => Err(no_filter()),
            Err(forbidden) if forbidden.is_permission_denied() => {
                if !self.core_refuses_flags(FILTER | guests, refusal) {
                    Err(self.diagnose(refusal))
                } else if options.allow_all_levels {
                    Err(unfiltered.diagnose(forbidden))
                } else {
                    Err(no_filter())
                }
            }
            // Any other error hides whether the flags are the reason.
            Err(other) if !other.is_of_the_event() => Err(unfiltered.diagnose(other)),
            Err(_) => Err(self.diagnose(refusal)),
        }
    }

    fn open(&self) -> Result<Descriptor, Refusal> {
        let Attempt { event, flags, config1, leader, group, thread } = *self;
        let mut attr = Attr {
            type_: event.kind,
            config: event.config,
            config1,
            config2: event.config2,
            config3: event.config3,
            config4: event.config4,
            read_format: format::TOTAL_TIME_ENABLED
                | format::TOTAL_TIME_RUNNING
                | format::ID
                | group,
            flags,
            ..Attr::default()
        };
        let needed = smallest_size(&attr);
        attr.size = needed;
        kernel::open(&mut attr, thread, leader).map_err(|errno| Refusal {
            errno,
            needed,
            known: attr.size,
        })
    }

    /// Returns this request without `flags`.
    fn without(&self, flags: u64) -> Self {
        Attempt { flags: self.flags & !flags, ..*self }
    }

    /// Opens the event. None if the kernel refuses it, an error if resources ran out.
    fn open_if_possible(&self) -> Result<Option<Descriptor>, Error> {
        match self.open() {
            Ok(descriptor) => Ok(Some(descriptor)),
            Err(refusal) if refusal.is_out_of_resources() => Err(self.diagnose(refusal)),
            Err(_) => Ok(None),
        }
    }

    /// Whether the request was refused because it includes guests: the kernel grants it without them.
    fn is_refused_for_guests(&self) -> Result<bool, Error> {
        if self.flags & flag::EXCLUDE_GUEST != 0 {
            return Ok(false);
        }
        let flags = self.flags & !flag::EXCLUDE_HOST | flag::EXCLUDE_GUEST;
        Ok(Attempt { flags, ..*self }.open_if_possible()?.is_some())
    }

    /// Whether the core PMU refuses `flags` for cycles, too, with the error of `refusal`. Every core PMU has that
    /// event.
    ///
    /// This works for a process that may not open events without these flags.
    fn core_refuses_flags(&self, flags: u64, refusal: Refusal) -> bool {
        let cycles = Attempt {
            event: Event::CYCLES,
            flags: self.flags & flags,
            config1: 0,
            leader: None,
            group: 0,
            thread: self.thread,
        };
        self.event.is_of_the_core()
            && cycles.open().is_err_and(|answer| answer.errno == refusal.errno)
    }

    /// Finds the reason for a refusal on this machine.
    fn diagnose(&self, refusal: Refusal) -> Error {
        let event = self.event;
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
            kernel::EACCES | kernel::EPERM | kernel::ENOSYS => self.diagnose_permission(errno),
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
    fn diagnose_permission(&self, errno: i32) -> Error {
        let allowed = if self.flags & flag::EXCLUDE_KERNEL != 0 { 2 } else { 1 };
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

/// Whether this event takes one of [`CONFIG1_REQUESTS`] as its `config1`.
pub(super) fn takes_config1_requests(event: Event) -> Result<bool, Error> {
    if !cfg!(target_arch = "aarch64") || event.config1 != 0 || event.is_software() {
        return Ok(false);
    }
    if event.is_of_the_core() {
        return Ok(true);
    }
    // On another PMU, these bits may have any meaning, unless its format `rdpmc` says that they have the core PMU's.
    Ok(Pmus::local().with_type(event.kind)?.is_some_and(|pmu| pmu.field("rdpmc").is_some()))
}

/// A request that the kernel refused.
#[derive(Clone, Copy)]
pub(super) struct Refusal {
    errno: Errno,
    /// The size of the attr that was passed, in bytes.
    needed: u32,
    /// The size that the kernel wrote back, in bytes.
    known: u32,
}

impl Refusal {
    /// Whether this process lacks the permission.
    fn is_permission_denied(&self) -> bool {
        matches!(self.errno.0, kernel::EACCES | kernel::EPERM)
    }

    /// Whether the kernel or the PMU does not support the request.
    fn is_of_the_event(&self) -> bool {
        matches!(
            self.errno.0,
            kernel::EINVAL | kernel::EOPNOTSUPP | kernel::ENOENT | kernel::ENODEV
        )
    }

    /// Whether resources ran out, which does not depend on the event.
    fn is_out_of_resources(&self) -> bool {
        matches!(self.errno.0, kernel::EMFILE | kernel::ENFILE | kernel::ENOMEM)
    }
}

/// Returns the smallest size of the attr that holds all fields that are set, so that older kernels accept it.
fn smallest_size(attr: &Attr) -> u32 {
    let [first, with_config2, .., with_config3, with_config4] = ATTR_SIZES;
    match attr {
        Attr { config4: 1.., .. } => with_config4,
        Attr { config3: 1.., .. } => with_config3,
        Attr { config2: 1.., .. } => with_config2,
        _ => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_the_smallest_that_carries_what_is_set() {
        let none = Attr::default();
        assert_eq!(smallest_size(&Attr { config: 1, config1: 1, ..none }), 64);
        assert_eq!(smallest_size(&Attr { config2: 1, ..none }), 72);
        assert_eq!(smallest_size(&Attr { config2: 1, config3: 1, ..none }), 136);
        assert_eq!(smallest_size(&Attr { config4: u64::MAX, ..none }), 144);
    }
}
