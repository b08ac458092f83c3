//! From an event to its descriptor: what is asked of the kernel, and what its refusals mean here.

use crate::core_types;
use crate::error::{Error, NoUserAccess};
use crate::event::Event;
use crate::machine;
use crate::page::MOST;
use crate::pmu::Pmus;
use crate::syntax::named;
use crate::sys::{self, ATTR_SIZES, Attr, Control, Descriptor, Errno, arm64_config1, flag, format};

/// The privilege levels left out when nothing is said: all but user mode. Not idle: this thread
/// is not the idle one, and arm64 refuses the bit.
const USER_ONLY: u64 = flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV;
/// Guests are left out of hardware events when nothing is said: since Linux 7.0 an event that includes
/// them keeps virtual machines with a mediated PMU from starting, and is refused while one runs. riscv64
/// has no use for the flag, and refuses it where it refuses every filter.
const NO_GUESTS: u64 = if cfg!(target_arch = "riscv64") { 0 } else { flag::EXCLUDE_GUEST };
/// Everything that filters by privilege.
const FILTER: u64 = flag::EXCLUDE_USER | flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV;
/// What is said of a whole group, and the kernel takes of its leader only.
const OF_THE_LEADER: u64 = flag::PINNED | flag::EXCLUSIVE | flag::DISABLED;

/// What was asked for beside the events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Flags that were asked for, and such as were asked not to be.
    set: u64,
    cleared: u64,
    pub(crate) allow_unfiltered: bool,
}

impl Options {
    pub(crate) fn with(self, flag: u64, on: bool) -> Options {
        let (set, cleared) = (self.set & !flag, self.cleared & !flag);
        match on {
            true => Options { set: set | flag, cleared, ..self },
            false => Options { set, cleared: cleared | flag, ..self },
        }
    }

    /// The flags to open an event with.
    pub(crate) fn flags(&self, event: Event) -> u64 {
        let is_the_kernels = event.happens_in_the_kernel() || event.is_tracepoint();
        let levels = if is_the_kernels { 0 } else { USER_ONLY };
        let guests = if event.is_software() { 0 } else { NO_GUESTS };
        event.modifiers.flags((levels | guests) & !self.cleared | self.set)
    }

    /// Whether these flags leave nothing to count.
    fn leave_nothing(event: &Event, flags: u64) -> bool {
        let left_out = |which: u64| flags & which == which;
        // x86-64 has no privilege level for a hypervisor, nor have events of software.
        let levels = match event.is_software() || cfg!(target_arch = "x86_64") {
            true => flag::EXCLUDE_USER | flag::EXCLUDE_KERNEL,
            false => FILTER,
        };
        if event.is_software() {
            if left_out(flag::EXCLUDE_HOST) {
                return true; // they know no guests
            }
            let is_filtered =
                left_out(levels) || event.happens_in_the_kernel() && left_out(flag::EXCLUDE_KERNEL);
            return is_filtered && !event.has_no_privilege_level();
        }
        left_out(levels) || left_out(flag::EXCLUDE_HOST | flag::EXCLUDE_GUEST)
    }

    /// Opens the events as one group, which the first of them leads: one system call each where the
    /// first thing asked is granted, a few otherwise.
    pub(crate) fn open_events(&self, events: &[Event]) -> Result<Opened, Error> {
        if !sys::SUPPORTED {
            return Err(Error::Unsupported);
        }
        let nothing = |event: &&Event| Options::leave_nothing(event, self.flags(**event));
        if let Some(&event) = events.iter().find(nothing) {
            return Err(Error::CountsNothing { event: named(event) });
        }
        let mut refusal = Error::Unsupported; // there is always a form, so there is another answer
        // What one of them says of itself is so of all, as they come and go together.
        let asked = events.iter().fold(self.set, |flags, event| event.modifiers.flags(flags));
        for &form in FORMS {
            let error = match self.open_group(events, form, asked & OF_THE_LEADER) {
                Ok(opened) => return Ok(opened),
                Err(error) => error,
            };
            // Perhaps one of them is not to be had in this form, or not all of them.
            let of_the_form = matches!(
                error,
                Error::GroupTooLarge { .. }
                    | Error::EventNotSupported { errno: sys::EINVAL | sys::EOPNOTSUPP, .. }
            );
            if !of_the_form {
                return Err(error);
            }
            let fit = |error: &Error| match error {
                Error::GroupTooLarge { fit, .. } => *fit,
                _ => 0,
            };
            if fit(&error) >= fit(&refusal) {
                refusal = error;
            }
        }
        Err(refusal)
    }

    fn open_group(&self, events: &[Event], form: u64, asked: u64) -> Result<Opened, Error> {
        let Some((&first, others)) = events.split_first() else { return Err(Error::Unsupported) };
        // Its siblings come to an idle leader, so that all start at the same moment. When arm64's
        // driver looks whether they fit, it leaves out what is disabled, unless exec is to enable
        // it: which never comes, as the descriptors close before.
        let idle = if others.is_empty() { 0 } else { flag::DISABLED | flag::ENABLE_ON_EXEC };
        let own = self.flags(first) & !OF_THE_LEADER;
        // By itself it is read without the group's layout, for which the kernel allocates at each read.
        let group = if others.is_empty() { 0 } else { format::GROUP };
        let config1 =
            |event| Ok(if takes_forms(event)? { form } else { event.config1 }) as Result<_, Error>;
        let (leader, mut unfiltered) = self.open_event(Attempt {
            event: first,
            flags: own | asked | idle,
            config1: config1(first)?,
            leader: None,
            group,
        })?;
        let mut siblings = Vec::with_capacity(others.len());
        for &event in others {
            let flags = self.flags(event) & !OF_THE_LEADER;
            let config1 = config1(event)?;
            let attempt = Attempt { event, flags, config1, leader: Some(&leader), group };
            match self.open_event(attempt) {
                Ok((sibling, without_filter)) => {
                    siblings.push(sibling);
                    unfiltered |= without_filter;
                }
                Err(refusal @ Error::EventNotSupported { .. }) => {
                    match self.open_event(Attempt { leader: None, ..attempt }) {
                        // By itself it can be had, so it is the company.
                        Ok(_) => {}
                        Err(Error::EventNotSupported { .. }) => return Err(refusal),
                        // What keeps it from being found out.
                        Err(other) => return Err(other),
                    }
                    let counted = |event: &&Event| !event.is_software();
                    let first = events.iter().find(counted).copied().unwrap_or(first);
                    return Err(match core_types::are_of_one_pmu(&first, &event)? {
                        true => {
                            Error::GroupTooLarge { fit: 1 + siblings.len(), event: named(event) }
                        }
                        false => Error::SeveralPmus { first: named(first), event: named(event) },
                    });
                }
                Err(error) => return Err(error),
            }
        }
        if !others.is_empty() && asked & flag::DISABLED == 0 {
            sys::control(&leader, Control::Enable).map_err(Error::of_call("ioctl"))?;
        }
        Ok(Opened { leader, siblings, unfiltered, form })
    }

    /// Whether the counter or group is to be opened without starting it.
    pub(crate) fn is_disabled(&self) -> bool {
        self.set & flag::DISABLED != 0
    }

    /// Finds out what the kernel does not say when it opens a group: whether all of it can be
    /// counted at the same time, beside what pinned events hold. A pinned group has its counters at
    /// once, or it is in error state. What cannot be found out is no error.
    pub(crate) fn check_that_they_fit(&self, events: &[Event], form: u64) -> Result<(), Error> {
        let fits = |events: &[Event]| match self.open_group(events, form, flag::PINNED) {
            Ok(pinned) => sys::read(&pinned.leader, &mut [0; READ_WORDS]) != Ok(0),
            Err(_) => true,
        };
        if fits(events) {
            return Ok(());
        }
        for (fit, &event) in events.iter().enumerate() {
            if !events.get(..=fit).is_none_or(fits) {
                return Err(Error::GroupTooLarge { fit, event: named(event) });
            }
        }
        Ok(()) // it was only for a moment
    }

    /// How many counters there are for copies of `event`, beside one for each of `others`: of which the
    /// kernel says that they can be counted together and, if this thread is where their PMU is, has them
    /// all at this moment.
    /// None if that cannot be found out, for want of descriptors, say.
    pub(crate) fn how_many(&self, event: Event, others: &[Event]) -> Option<usize> {
        let (mut events, mut fit) = (others.to_vec(), 0);
        while events.len() < MOST_COPIES {
            events.push(event);
            match self.open_group(&events, 0, flag::PINNED) {
                Ok(pinned) if sys::read(&pinned.leader, &mut [0; 3 + MOST_COPIES]) != Ok(0) => {
                    fit += 1;
                }
                Ok(_) | Err(Error::GroupTooLarge { .. } | Error::EventNotSupported { .. }) => break,
                Err(_) => return None,
            }
        }
        Some(fit)
    }

    /// Whether the events are always on the PMU or in error state.
    pub(crate) fn is_pinned(&self, event: &Event) -> bool {
        event.modifiers.flags(self.set) & flag::PINNED != 0
    }

    /// Opens one event, and says whether all privilege levels are counted in spite of what was asked.
    fn open_event(&self, attempt: Attempt<'_>) -> Result<(Descriptor, bool), Error> {
        let refusal = match attempt.open() {
            Ok(descriptor) => return Ok((descriptor, false)),
            Err(refusal) => refusal,
        };
        let may_be_a_flag = matches!(refusal.errno.0, sys::EINVAL | sys::EOPNOTSUPP);
        if attempt.event.is_software() || !may_be_a_flag {
            return Err(attempt.diagnose(refusal));
        }
        if refusal.errno.0 == sys::EOPNOTSUPP && attempt.is_refused_for_guests()? {
            return Err(Error::IncludesGuests { event: named(attempt.event) });
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
    ) -> Result<(Descriptor, bool), Error> {
        let no_filter = || Error::NoPrivilegeFilter { event: named(attempt.event) };
        let unfiltered = attempt.without(FILTER | guests);
        let mut answer = unfiltered.open();
        if guests != 0 && answer.as_ref().map_or_else(Refusal::is_permission_denied, |_| true) {
            // It is not to take a descriptor, nor a place in the group, from what is asked next.
            let was_granted = answer.is_ok();
            drop(answer);
            if let Some(descriptor) = attempt.without(guests).open_if_possible()? {
                return Ok((descriptor, false));
            }
            if was_granted && !self.allow_unfiltered {
                return Err(no_filter());
            }
            answer = unfiltered.open();
        }
        match answer {
            Ok(descriptor) if self.allow_unfiltered => Ok((descriptor, true)),
            Ok(_) => Err(no_filter()),
            Err(forbidden) if forbidden.is_permission_denied() => {
                if !attempt.core_refuses_flags(FILTER | guests, refusal) {
                    Err(attempt.diagnose(refusal))
                } else if self.allow_unfiltered {
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
const FORMS: &[u64] = if cfg!(target_arch = "aarch64") {
    &[arm64_config1::USER_ACCESS | arm64_config1::LONG, arm64_config1::USER_ACCESS, 0]
} else {
    &[0]
};

/// One event to be asked of the kernel.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    event: Event,
    flags: u64,
    /// The event's, or one of [`FORMS`].
    config1: u64,
    leader: Option<&'a Descriptor>,
    /// `PERF_FORMAT_GROUP`, or 0.
    group: u64,
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
    fn open_if_possible(&self) -> Result<Option<Descriptor>, Error> {
        match self.open() {
            Ok(descriptor) => Ok(Some(descriptor)),
            Err(refusal) if refusal.is_out_of_resources() => Err(self.diagnose(refusal)),
            Err(_) => Ok(None),
        }
    }

    /// Whether this was refused because it includes guests: the kernel grants the same without them.
    fn is_refused_for_guests(&self) -> Result<bool, Error> {
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
    fn diagnose(&self, refusal: Refusal) -> Error {
        let event = self.event;
        let Errno(errno) = refusal.errno;
        if event.is_of_the_core() && matches!(errno, sys::ENOENT | sys::ENODEV | sys::EOPNOTSUPP) {
            match Pmus::here().core() {
                Ok(Some(core)) if core.is_empty() => {
                    return Error::NoPmu {
                        event: named(event),
                        is_virtual: machine::is_virtual(),
                        is_guest_of_hybrid: machine::is_guest_of_hybrid(),
                    };
                }
                Ok(_) => {}
                Err(unreadable) => return unreadable.into(),
            }
        }
        match errno {
            sys::EACCES | sys::EPERM | sys::ENOSYS => self.diagnose_permission(errno),
            sys::EBUSY => Error::Busy { event: named(event) },
            sys::E2BIG => Error::TooNewForKernel { needed: refusal.needed, known: refusal.known },
            sys::ENOENT | sys::ENODEV | sys::EINVAL | sys::EOPNOTSUPP | sys::ENOSPC => {
                match event.pmu().map(|pmu| Pmus::here().numbered(pmu)) {
                    Some(Ok(Some(pmu))) if pmu.counts_for_processors() => {
                        Error::NotOfAThread { event: named(event) }
                    }
                    Some(Err(unreadable)) => unreadable.into(),
                    _ => Error::EventNotSupported { event: named(event), errno },
                }
            }
            // No kernel answers these.
            0 | sys::EINTR if machine::has_seccomp_filter() => Error::Seccomp { errno },
            errno => Error::of_call("perf_event_open")(Errno(errno)),
        }
    }

    /// Who refused: the paranoid level (always by `EACCES`), a seccomp filter, or another.
    fn diagnose_permission(&self, errno: i32) -> Error {
        let allowed = if self.flags & flag::EXCLUDE_KERNEL != 0 { 2 } else { 1 };
        match machine::paranoid_level() {
            Some(level) if errno == sys::EACCES && level > allowed && !machine::is_privileged() => {
                Error::Paranoid { level, allowed }
            }
            _ if machine::has_seccomp_filter() => Error::Seccomp { errno },
            _ if errno == sys::ENOSYS => Error::NoSystemCall,
            _ => Error::Denied { errno },
        }
    }
}

/// What this answer to the mapping of a control page means here.
pub(crate) fn why_not_mapped(Errno(errno): Errno) -> NoUserAccess {
    match errno {
        sys::EPERM => NoUserAccess::MlockLimit { kilobytes: machine::mlock_kilobytes() },
        errno => NoUserAccess::NotMapped { errno },
    }
}

/// Whether one of [`FORMS`] goes into this event's `config1`.
fn takes_forms(event: Event) -> Result<bool, Error> {
    if !cfg!(target_arch = "aarch64") || event.config1 != 0 || event.is_software() {
        return Ok(false);
    }
    if event.is_of_the_core() {
        return Ok(true);
    }
    // To another PMU these bits may mean anything, unless it says that they are what they are to the
    // processor's own.
    Ok(Pmus::here().numbered(event.kind)?.is_some_and(|pmu| pmu.field("rdpmc").is_some()))
}

/// The open events of a group.
#[derive(Debug)]
pub(crate) struct Opened {
    /// They close before their leader does, which would have the kernel make them leaders of their
    /// own.
    pub(crate) siblings: Vec<Descriptor>,
    pub(crate) leader: Descriptor,
    /// The filter asked for was dropped: all privilege levels count, for one event at least.
    pub(crate) unfiltered: bool,
    /// The one of [`FORMS`] they have.
    pub(crate) form: u64,
}

/// More counters than any PMU has.
const MOST_COPIES: usize = 64;

/// What `read(2)` gives of a group at the most, in this order: how many events, enabled time, running
/// time, their counts. Of an event by itself: its count, enabled time, running time.
pub(crate) const READ_WORDS: usize = 3 + MOST;

/// The kernel's no.
#[derive(Clone, Copy)]
struct Refusal {
    errno: Errno,
    /// The size of the attr that was passed.
    needed: u32,
    /// The size that the kernel wrote back.
    known: u32,
}

impl Refusal {
    /// Whether this process may not open that.
    fn is_permission_denied(&self) -> bool {
        matches!(self.errno.0, sys::EACCES | sys::EPERM)
    }

    /// Whether the kernel or the PMU does not have that.
    fn is_of_the_event(&self) -> bool {
        matches!(self.errno.0, sys::EINVAL | sys::EOPNOTSUPP | sys::ENOENT | sys::ENODEV)
    }

    /// Whether resources ran out, which says nothing of the event.
    fn is_out_of_resources(&self) -> bool {
        matches!(self.errno.0, sys::EMFILE | sys::ENFILE | sys::ENOMEM)
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
    sys::open(&mut attr, leader).map_err(|errno| Refusal { errno, needed, known: attr.size })
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
#[allow(clippy::unwrap_used)]
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

    #[test]
    fn user_mode_alone_unless_told_otherwise() {
        let (cycles, switches) = (Event::CYCLES, Event::CONTEXT_SWITCHES);
        let options = Options::default();
        assert_eq!(options.flags(cycles), USER_ONLY | NO_GUESTS);
        assert_eq!(options.flags(switches), 0);
        assert_eq!(options.flags(Event::of_pmu(2, 300)), 0, "a tracepoint");
        let everything = options.with(flag::EXCLUDE_KERNEL, false).with(flag::EXCLUDE_HV, false);
        assert_eq!(everything.flags(cycles), NO_GUESTS);
        assert_eq!(everything.with(flag::EXCLUDE_GUEST, false).flags(cycles), 0);
        let again = everything.with(flag::EXCLUDE_KERNEL, true);
        assert_eq!(again.flags(cycles), flag::EXCLUDE_KERNEL | NO_GUESTS);
        assert_eq!(again.flags(switches), flag::EXCLUDE_KERNEL);
        assert_eq!(
            options.flags(cycles.kernel()),
            flag::EXCLUDE_USER | flag::EXCLUDE_HV | NO_GUESTS
        );
    }

    #[test]
    fn settings_that_leave_nothing_to_count() {
        let nothing = |event: &str, options: Options| {
            let event: Event = event.parse().unwrap();
            Options::leave_nothing(&event, options.flags(event))
        };
        let options = Options::default();
        let no_user = options.with(flag::EXCLUDE_USER, true);
        let kernel = no_user.with(flag::EXCLUDE_KERNEL, false);
        let host = options.with(flag::EXCLUDE_HOST, true);
        for (event, options, expected) in [
            ("cycles", options, false),
            ("cycles", no_user, true),
            ("cycles:u", no_user, false),
            ("page-faults", no_user, true),
            ("page-faults", host, true),
            ("page-faults:G", options, true),
            ("page-faults:GH", options, false),
            ("task-clock", no_user, false),
            ("cycles", kernel, false),
            ("cycles:k", options, false),
            ("cycles:h", options, cfg!(target_arch = "x86_64")),
            ("cycles:G", options, false),
            ("cycles:GH", options, false),
            ("cycles", host, !cfg!(target_arch = "riscv64")),
            ("cycles", host.with(flag::EXCLUDE_GUEST, false), false),
            ("context-switches", options, false),
            ("context-switches:u", options, true),
            ("context-switches:k", options, false),
        ] {
            assert_eq!(nothing(event, options), expected, "{event}, {options:?}");
        }
    }
}
