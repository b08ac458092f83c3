//! Opens the events of a group as descriptors.

use super::attempt::{Attempt, CONFIG1_REQUESTS, takes_config1_requests};
use super::options::{OF_THE_LEADER, Options};
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::kernel::{self, Control, Descriptor, Errno, flag, format, machine};
use crate::names::named;
use crate::page::MAX_EVENTS;
use crate::pmu::core_types;

/// Opens the events as one group, with the first as its leader. Takes four system calls for each event if the first
/// request is granted, and more otherwise.
pub(crate) fn open_events(options: &Options, events: &[Event]) -> Result<Opened, Error> {
    if !kernel::SUPPORTED {
        return Err(Error::unsupported());
    }
    let nothing = |event: &&Event| Options::leave_nothing(event, options.flags(**event));
    if let Some(&event) = events.iter().find(nothing) {
        let error = Error::new(
            ErrorKind::CountsNothing,
            "{event} would count nothing, because the settings exclude every privilege level at which it happens, or \
             both guests and the host",
            "Include one with exclude_kernel(false) or exclude_guest(false), or change modifiers such as `u` or `G` in \
             the name, which take precedence",
        );
        return Err(error.for_event(named(event)));
    }
    let mut refusal = Error::unsupported(); // overwritten: there is a request
    // If the name of one event sets such a flag, it applies to the whole group, which is scheduled as a unit.
    let asked = events.iter().fold(options.set, |flags, event| event.modifiers.flags(flags));
    // User space reads no event that threads inherit.
    let is_inherited = options.set & flag::INHERIT != 0;
    let requests = if is_inherited { &[0] } else { CONFIG1_REQUESTS };
    for &config1_request in requests {
        let error = match open_group(options, events, config1_request, asked & OF_THE_LEADER) {
            Ok(opened) => return Ok(opened),
            Err(error) => error,
        };
        // One of the events, or all of them together, may need another `config1`.
        let may_be_config1 = match error.kind() {
            ErrorKind::GroupTooLarge { .. } => true,
            ErrorKind::EventNotSupported => {
                matches!(error.errno(), Some(Errno(kernel::EINVAL | kernel::EOPNOTSUPP)))
            }
            _ => false,
        };
        if !may_be_config1 {
            return Err(error);
        }
        let fit = |error: &Error| match error.kind() {
            ErrorKind::GroupTooLarge { fit, .. } => fit,
            _ => 0,
        };
        if fit(&error) >= fit(&refusal) {
            refusal = error;
        }
    }
    Err(refusal)
}

pub(super) fn open_group(
    options: &Options,
    events: &[Event],
    config1_request: u64,
    asked: u64,
) -> Result<Opened, Error> {
    let Some((&first, others)) = events.split_first() else {
        return Err(Error::of_group_size(0));
    };
    // The leader is disabled until all siblings are open, so that all start together. When arm64's driver checks
    // whether they fit, it omits disabled events, unless they have enable_on_exec. On exec, the descriptors close
    // before the events would be enabled.
    let idle = if others.is_empty() { 0 } else { flag::DISABLED | flag::ENABLE_ON_EXEC };
    let own = options.flags(first) & !OF_THE_LEADER;
    // A single event is read without the group layout, for which the kernel allocates memory at each read.
    let group = if others.is_empty() { 0 } else { format::GROUP };
    let config1 = |event| {
        Ok(if takes_config1_requests(event)? { config1_request } else { event.config1 })
            as Result<_, Error>
    };
    let (leader, mut counts_all_levels) = Attempt {
        event: first,
        flags: own | asked | idle,
        config1: config1(first)?,
        leader: None,
        group,
        thread: options.thread,
    }
    .open_with(options)?;
    let mut siblings = Vec::with_capacity(others.len());
    for &event in others {
        let flags = options.flags(event) & !OF_THE_LEADER;
        let config1 = config1(event)?;
        let attempt =
            Attempt { event, flags, config1, leader: Some(&leader), group, thread: options.thread };
        match attempt.open_with(options) {
            Ok((sibling, without_filter)) => {
                siblings.push(sibling);
                counts_all_levels |= without_filter;
            }
            Err(refusal) if refusal.kind() == ErrorKind::EventNotSupported => {
                match (Attempt { leader: None, ..attempt }).open_with(options) {
                    // The event opens alone, so the other events are the reason.
                    Ok(_) => {}
                    Err(alone) if alone.kind() == ErrorKind::EventNotSupported => {
                        return Err(refusal);
                    }
                    // Any other error hides the reason.
                    Err(other) => return Err(other),
                }
                let counted = |event: &&Event| !event.is_software();
                let first = events.iter().find(counted).copied().unwrap_or(first);
                return Err(match core_types::are_of_one_pmu(&first, &event)? {
                    true => group_too_large(1 + siblings.len(), false).for_event(named(event)),
                    false => Error::new(
                        ErrorKind::SeveralPmus,
                        "{event} and {0} belong to different PMUs, and a group stays on one",
                        "Put {event} into a group of its own, or open a counter for each",
                    )
                    .for_event(named(event))
                    .with(&named(first).1),
                });
            }
            Err(error) => return Err(error),
        }
    }
    if !others.is_empty() && asked & flag::DISABLED == 0 {
        leader.control(Control::Enable).map_err(|errno| match errno.0 {
            kernel::EPERM | kernel::EACCES | kernel::ENOSYS
                if machine::has_seccomp_filter() == Some(true) =>
            {
                Error::new(
                    ErrorKind::Seccomp,
                    "ioctl was denied ({errno}) by a seccomp filter",
                    "Allow the requests PERF_EVENT_IOC_* in the filter, or run outside of the sandbox",
                )
                .errno_is(errno)
            }
            _ => Error::of_call("ioctl")(errno),
        })?;
    }
    let is_software = events.iter().all(Event::is_software);
    Ok(Opened { leader, siblings, counts_all_levels, config1_request, is_software })
}

/// The error of a group of which the first `fit` events fit. The next one has no counter, or one that stands still.
pub(crate) fn group_too_large(fit: usize, stands_still: bool) -> Error {
    let (cause, remedy) = match (fit, stands_still) {
        (0, true) => (
            "{event} cannot be counted now, because its counter stands still: the host of this virtual machine has no \
             counter for it",
            "Try again later, or count on the host",
        ),
        (_, true) => (
            "{event} cannot be counted together with the {0} before it, because its counter stands still: the host of \
             this virtual machine has too few counters",
            "Open it in a group of its own, and fewer events at a time",
        ),
        (0, false) => (
            "{event} cannot be counted now, because pinned events occupy every counter it could use",
            "Close some of them, or open the group disabled and enable it when they are closed",
        ),
        (_, false) => (
            "{event} cannot be counted together with the {0} before it: the PMU has no counter left for it (pinned \
             events and, on x86-64, the kernel's watchdog hold some), or it belongs to another PMU",
            "Put it into a group of its own, or run `sysctl kernel.nmi_watchdog=0` as root",
        ),
    };
    let before = if fit == 1 { "1 event".to_owned() } else { format!("{fit} events") };
    Error::new(ErrorKind::GroupTooLarge { fit, stands_still }, cause, remedy).with(&before)
}

/// The open events of a group.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Dropped before the leader. If the leader closed first, the kernel would make each of them a leader of its own.
    pub(crate) siblings: Vec<Descriptor>,
    pub(crate) leader: Descriptor,
    /// Whether the requested filter was dropped, so that at least one event counts all privilege levels.
    pub(crate) counts_all_levels: bool,
    /// The one of [`CONFIG1_REQUESTS`] that the events have.
    pub(crate) config1_request: u64,
    /// Whether all of them are counted in software. Then reads compare the leader's identifier in each period of the coarse
    /// clock. A hardware event may count the instructions of that.
    pub(crate) is_software: bool,
}

/// The maximum number of words that `read(2)` returns for a group: the number of events, enabled time, running time, and the
/// count and the identifier of each event. For a single event, they are its count, enabled time, running time and identifier.
const WORDS: usize = 3 + 2 * MAX_EVENTS;

/// The counts of a group, and its times in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// In the events' order. 0 after the last event.
    pub(crate) values: [u64; MAX_EVENTS],
    pub(crate) time_enabled: u64,
    pub(crate) time_running: u64,
}

impl Opened {
    pub(super) fn each(&self) -> impl Iterator<Item = &Descriptor> + Clone {
        std::iter::once(&self.leader).chain(&self.siblings)
    }

    /// `EBADF` if other code has closed one of the descriptors.
    pub(crate) fn are_own(&self) -> Result<(), Errno> {
        self.each().try_for_each(Descriptor::is_own)
    }

    /// Reads the events by one `read(2)`. None if they are in error state. `EBADF` if other code has closed one of the
    /// descriptors.
    pub(crate) fn read(&self) -> Result<Option<Counts>, Errno> {
        if !self.siblings.is_empty() {
            return self.read_group::<WORDS>();
        }
        Ok(self.read_one()?.map(|[value, time_enabled, time_running]| {
            let mut counts = Counts { time_enabled, time_running, ..Counts::default() };
            counts.values[0] = value;
            counts
        }))
    }

    /// Returns the same for an event without siblings, in fewer instructions: its count, enabled and running time.
    pub(crate) fn read_one(&self) -> Result<Option<[u64; 3]>, Errno> {
        let mut words = [0; 4];
        let bytes = self.leader.read(&mut words, self.is_software)?;
        let [value, time_enabled, time_running, id] = words;
        if bytes == size_of_val(&words) && self.leader.has_id(id) {
            return Ok(Some([value, time_enabled, time_running]));
        }
        self.without_counts(bytes)
    }

    /// Returns the same for a group of which the last event is not wanted: 8 events and one more.
    pub(crate) fn read_but_last(&self) -> Result<Option<Counts>, Errno> {
        self.read_group::<{ WORDS + 2 }>()
    }

    #[inline(never)]
    fn read_group<const WORDS: usize>(&self) -> Result<Option<Counts>, Errno> {
        let mut words = [0; WORDS];
        let events = 1 + self.siblings.len();
        let length = 3 + 2 * events;
        // A group has at most MAX_EVENTS, and one more in `read_but_last`.
        let bytes =
            self.leader.read(words.get_mut(..length).unwrap_or_default(), self.is_software)?;
        let (first, time_enabled, time_running, members) = match words.as_slice() {
            [first, time_enabled, time_running, members @ ..] => {
                (*first, *time_enabled, *time_running, members)
            }
            _ => (0, 0, 0, &[][..]), // never
        };
        let mut counts = Counts { time_enabled, time_running, ..Counts::default() };
        let members = members.chunks_exact(2).zip(&mut counts.values);
        let mut each = members.zip(self.each());
        // An event whose descriptor was closed is no longer in the group, and the counts after it move up.
        let is_own = first == events as u64
            && each.all(|((member, value), event)| {
                let [count, id] = member else { return false };
                *value = *count;
                event.has_id(*id)
            });
        if is_own && bytes == length * size_of::<u64>() {
            return Ok(Some(counts));
        }
        self.without_counts(bytes)
    }

    /// Returns what an answer without these events' counts means: None in error state, `EBADF` for another file.
    #[cold]
    fn without_counts<T>(&self, bytes: usize) -> Result<Option<T>, Errno> {
        if bytes == 0 {
            return self.leader.is_own().map(|()| None); // the end of another file looks the same
        }
        self.leader.put_back(bytes);
        Err(Errno(kernel::EBADF))
    }
}
