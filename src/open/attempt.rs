//! Opens one event: the requests to the kernel, and the meaning of its refusals on this machine.

use super::options::{FILTER, NO_GUESTS, Options};
use crate::asm;
use crate::error::OpenError;
use crate::event::Event;
use crate::kernel::{
    self, ATTR_SIZES, Attr, Descriptor, Errno, arm64_config1, flag, format, machine,
};
use crate::names::named;
use crate::pmu::Pmus;

impl Options {
    /// Opens one event, and says whether all privilege levels are counted in spite of what was asked.
    pub(super) fn open_event(&self, attempt: Attempt<'_>) -> Result<(Descriptor, bool), OpenError> {
        let refusal = match attempt.open() {
            Ok(descriptor) => return Ok((descriptor, false)),
            Err(refusal) => refusal,
        };
        let may_be_a_flag = matches!(refusal.errno.0, kernel::EINVAL | kernel::EOPNOTSUPP);
        if attempt.event.is_software() || !may_be_a_flag {
            return Err(attempt.diagnose(refusal));
        }
        if refusal.errno.0 == kernel::EOPNOTSUPP && attempt.is_refused_for_guests()? {
            return Err(OpenError::IncludesGuests { event: named(attempt.event) });
        }
        // What nobody asked for, and a PMU may refuse that has no guests.
        let guests = attempt.flags & NO_GUESTS & !attempt.event.modifiers.flags(self.set);
        if attempt.flags & FILTER | guests == 0 {
            return Err(attempt.diagnose(refusal));
        }
        self.open_with_fewer_flags(attempt, refusal, guests)
    }

    /// Opens an event that was refused: without the flags `guests`, or without a privilege filter if that is
    /// allowed. Otherwise finds the reason.
    fn open_with_fewer_flags(
        &self,
        attempt: Attempt<'_>,
        refusal: Refusal,
        guests: u64,
    ) -> Result<(Descriptor, bool), OpenError> {
        let no_filter = || OpenError::NoPrivilegeFilter { event: named(attempt.event) };
        let unfiltered = attempt.without(FILTER | guests);
        let mut answer = unfiltered.open();
        if guests != 0 && answer.as_ref().map_or_else(Refusal::is_permission_denied, |_| true) {
            // It is not to take a descriptor, nor a place in the group, from what is asked next.
            let was_granted = answer.is_ok();
            drop(answer);
            if let Some(descriptor) = attempt.without(guests).open_if_possible()? {
                return Ok((descriptor, false));
            }
            if was_granted && !self.allow_all_levels {
                return Err(no_filter());
            }
            answer = unfiltered.open();
        }
        match answer {
            Ok(descriptor) if self.allow_all_levels => Ok((descriptor, true)),
            Ok(_) => Err(no_filter()),
            Err(forbidden) if forbidden.is_permission_denied() => {
                if !attempt.core_refuses_flags(FILTER | guests, refusal) {
                    Err(attempt.diagnose(refusal))
                } else if self.allow_all_levels {
                    Err(unfiltered.diagnose(forbidden))
                } else {
                    Err(no_filter())
                }
            }
            // What keeps it from being found out.
            Err(other) if !other.is_of_the_event() => Err(unfiltered.diagnose(other)),
            Err(_) => Err(attempt.diagnose(refusal)),
        }
    }
}

/// The values of `config1` to try in turn. On arm64 user access has to be asked for there, and a
/// 64-bit counter, which not every event on every processor can have. A group has one form for all,
/// so that all its counters have the same width.
pub(super) const FORMS: &[u64] = if cfg!(target_arch = "aarch64") {
    &[arm64_config1::USER_ACCESS | arm64_config1::LONG, arm64_config1::USER_ACCESS, 0]
} else {
    &[0]
};

/// One event to be asked of the kernel.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub(super) event: Event,
    pub(super) flags: u64,
    /// The event's, or one of [`FORMS`].
    pub(super) config1: u64,
    pub(super) leader: Option<&'a Descriptor>,
    /// `PERF_FORMAT_GROUP`, or 0.
    pub(super) group: u64,
}

impl Attempt<'_> {
    fn open(&self) -> Result<Descriptor, Refusal> {
        let Attempt { event, flags, config1, leader, group } = *self;
        perf_event_open(event, config1, flags, leader, group)
    }

    /// The same without these flags.
    fn without(&self, flags: u64) -> Self {
        Attempt { flags: self.flags & !flags, ..*self }
    }

    /// None if the kernel refuses. An error if resources ran out.
    fn open_if_possible(&self) -> Result<Option<Descriptor>, OpenError> {
        match self.open() {
            Ok(descriptor) => Ok(Some(descriptor)),
            Err(refusal) if refusal.is_out_of_resources() => Err(self.diagnose(refusal)),
            Err(_) => Ok(None),
        }
    }

    /// Whether this was refused because it includes guests: the kernel grants the same without them.
    fn is_refused_for_guests(&self) -> Result<bool, OpenError> {
        if self.flags & flag::EXCLUDE_GUEST != 0 {
            return Ok(false);
        }
        let flags = self.flags & !flag::EXCLUDE_HOST | flag::EXCLUDE_GUEST;
        Ok(Attempt { flags, ..*self }.open_if_possible()?.is_some())
    }

    /// Whether the processor's PMU refuses these flags for an event that every one has, as it did for this one.
    /// It tells a process that may not ask without them.
    fn core_refuses_flags(&self, flags: u64, refusal: Refusal) -> bool {
        let cycles = Attempt {
            event: Event::CYCLES,
            flags: self.flags & flags,
            config1: 0,
            leader: None,
            group: 0,
        };
        self.event.is_of_the_core()
            && cycles.open().is_err_and(|answer| answer.errno == refusal.errno)
    }

    /// What a refusal comes to on this machine.
    fn diagnose(&self, refusal: Refusal) -> OpenError {
        let event = self.event;
        let Errno(errno) = refusal.errno;
        if event.is_of_the_core()
            && matches!(errno, kernel::ENOENT | kernel::ENODEV | kernel::EOPNOTSUPP)
        {
            match Pmus::local().core() {
                Ok(Some(core)) if core.is_empty() => {
                    return OpenError::NoPmu {
                        event: named(event),
                        is_virtual: machine::is_virtual(),
                        is_guest_of_hybrid: is_guest_of_hybrid(),
                    };
                }
                Ok(_) => {}
                Err(unreadable) => return unreadable.into(),
            }
        }
        match errno {
            kernel::EACCES | kernel::EPERM | kernel::ENOSYS => self.diagnose_permission(errno),
            kernel::EBUSY => OpenError::Busy { event: named(event) },
            kernel::E2BIG => {
                OpenError::UnsupportedField { needed: refusal.needed, known: refusal.known }
            }
            kernel::ENOENT
            | kernel::ENODEV
            | kernel::EINVAL
            | kernel::EOPNOTSUPP
            | kernel::ENOSPC => match event.pmu().map(|pmu| Pmus::local().with_type(pmu)) {
                Some(Ok(Some(pmu))) if pmu.counts_for_cpus() => {
                    OpenError::NotPerThread { event: named(event) }
                }
                Some(Err(unreadable)) => unreadable.into(),
                _ => OpenError::EventNotSupported { event: named(event), errno: refusal.errno },
            },
            // No kernel answers these.
            0 | kernel::EINTR if machine::has_seccomp_filter() => {
                OpenError::Seccomp { errno: refusal.errno }
            }
            _ => OpenError::of_call("perf_event_open")(refusal.errno),
        }
    }

    /// Who refused: the paranoid level (always by `EACCES`), a seccomp filter, or another.
    fn diagnose_permission(&self, errno: i32) -> OpenError {
        let allowed = if self.flags & flag::EXCLUDE_KERNEL != 0 { 2 } else { 1 };
        match machine::paranoid_level() {
            Some(level)
                if errno == kernel::EACCES && level > allowed && !machine::is_privileged() =>
            {
                OpenError::Paranoid { level, allowed }
            }
            _ if machine::has_seccomp_filter() => OpenError::Seccomp { errno: Errno(errno) },
            _ if errno == kernel::ENOSYS => OpenError::NoSystemCall,
            _ => OpenError::Denied { errno: Errno(errno) },
        }
    }
}

/// Whether this is a KVM guest on an Intel CPU with several core types. KVM gives no PMU to these.
fn is_guest_of_hybrid() -> bool {
    asm::hypervisor().is_some_and(|name| name.starts_with(b"KVMKVMKVM")) && machine::is_hybrid()
}

/// Whether one of [`FORMS`] goes into this event's `config1`.
pub(super) fn takes_forms(event: Event) -> Result<bool, OpenError> {
    if !cfg!(target_arch = "aarch64") || event.config1 != 0 || event.is_software() {
        return Ok(false);
    }
    if event.is_of_the_core() {
        return Ok(true);
    }
    // To another PMU these bits may mean anything, unless it says that they are what they are to the
    // processor's own.
    Ok(Pmus::local().with_type(event.kind)?.is_some_and(|pmu| pmu.field("rdpmc").is_some()))
}

/// The kernel's no.
#[derive(Clone, Copy)]
pub(super) struct Refusal {
    errno: Errno,
    /// The size of the attr that was passed.
    needed: u32,
    /// The size that the kernel wrote back.
    known: u32,
}

impl Refusal {
    /// Whether this process may not open that.
    fn is_permission_denied(&self) -> bool {
        matches!(self.errno.0, kernel::EACCES | kernel::EPERM)
    }

    /// Whether the kernel or the PMU does not have that.
    fn is_of_the_event(&self) -> bool {
        matches!(
            self.errno.0,
            kernel::EINVAL | kernel::EOPNOTSUPP | kernel::ENOENT | kernel::ENODEV
        )
    }

    /// Whether resources ran out, which says nothing of the event.
    fn is_out_of_resources(&self) -> bool {
        matches!(self.errno.0, kernel::EMFILE | kernel::ENFILE | kernel::ENOMEM)
    }
}

fn perf_event_open(
    event: Event,
    config1: u64,
    flags: u64,
    leader: Option<&Descriptor>,
    group: u64,
) -> Result<Descriptor, Refusal> {
    let mut attr = Attr {
        type_: event.kind,
        config: event.config,
        config1,
        config2: event.config2,
        config3: event.config3,
        config4: event.config4,
        read_format: format::TOTAL_TIME_ENABLED | format::TOTAL_TIME_RUNNING | group,
        flags,
        ..Attr::default()
    };
    let needed = smallest_size(&attr);
    attr.size = needed;
    kernel::open(&mut attr, leader).map_err(|errno| Refusal { errno, needed, known: attr.size })
}

/// The first size of the ladder that carries what is set, so that older kernels accept it.
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
