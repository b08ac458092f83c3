//! Opens one event: makes the requests to the kernel.

use super::options::{FILTER, NO_GUESTS, Options};
use super::refusal::{Refusal, diagnose};
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::kernel::{self, ATTR_SIZES, Attr, Descriptor, arm64_config1, flag, format};
use crate::names::named;
use crate::pmu::Pmus;

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

    fn diagnose(&self, refusal: Refusal) -> Error {
        diagnose(self.event, self.flags, refusal)
    }
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
