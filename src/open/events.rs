//! Opens the events of a group as descriptors.

use super::attempt::{Attempt, CONFIG1_REQUESTS, takes_config1_requests};
use super::options::{OF_THE_LEADER, Options};
use crate::asm;
use crate::error::OpenError;
use crate::event::Event;
use crate::kernel::{self, Control, Descriptor, Errno, flag, format, kind};
use crate::names::named;
use crate::page::MOST;
use crate::pmu::core_types;
use std::sync::atomic::{AtomicU16, Ordering};

impl Options {
    /// Opens the events as one group, with the first as its leader. Takes one system call for each event if the first
    /// request is granted, and a few otherwise.
    pub(crate) fn open_events(&self, events: &[Event]) -> Result<Opened, OpenError> {
        if !kernel::SUPPORTED {
            return Err(OpenError::Unsupported);
        }
        let nothing = |event: &&Event| Options::leave_nothing(event, self.flags(**event));
        if let Some(&event) = events.iter().find(nothing) {
            return Err(OpenError::CountsNothing { event: named(event) });
        }
        let mut refusal = OpenError::Unsupported; // overwritten: CONFIG1_REQUESTS is never empty
        // If the name of one event sets such a flag, it applies to the whole group, which is scheduled as a unit.
        let asked = events.iter().fold(self.set, |flags, event| event.modifiers.flags(flags));
        for &config1_request in CONFIG1_REQUESTS {
            let error = match self.open_group(events, config1_request, asked & OF_THE_LEADER) {
                Ok(opened) => return Ok(opened),
                Err(error) => error,
            };
            // One of the events, or all of them together, may need another `config1`.
            let of_the_request = matches!(
                error,
                OpenError::GroupTooLarge { .. }
                    | OpenError::EventNotSupported {
                        errno: Errno(kernel::EINVAL | kernel::EOPNOTSUPP),
                        ..
                    }
            );
            if !of_the_request {
                return Err(error);
            }
            let fit = |error: &OpenError| match error {
                OpenError::GroupTooLarge { fit, .. } => *fit,
                _ => 0,
            };
            if fit(&error) >= fit(&refusal) {
                refusal = error;
            }
        }
        Err(refusal)
    }

    fn open_group(
        &self,
        events: &[Event],
        config1_request: u64,
        asked: u64,
    ) -> Result<Opened, OpenError> {
        let Some((&first, others)) = events.split_first() else {
            return Err(OpenError::Unsupported);
        };
        // The leader is disabled until all siblings are open, so that all start together. When arm64's driver checks
        // whether they fit, it omits disabled events, unless they have enable_on_exec. On exec, the descriptors close
        // before the events would be enabled.
        let idle = if others.is_empty() { 0 } else { flag::DISABLED | flag::ENABLE_ON_EXEC };
        let own = self.flags(first) & !OF_THE_LEADER;
        // A single event is read without the group layout, for which the kernel allocates memory at each read.
        let group = if others.is_empty() { 0 } else { format::GROUP };
        let config1 = |event| {
            Ok(if takes_config1_requests(event)? { config1_request } else { event.config1 })
                as Result<_, OpenError>
        };
        let (leader, mut counts_all_levels) = self.open_event(Attempt {
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
                    counts_all_levels |= without_filter;
                }
                Err(refusal @ OpenError::EventNotSupported { .. }) => {
                    match self.open_event(Attempt { leader: None, ..attempt }) {
                        // The event opens alone, so the other events are the reason.
                        Ok(_) => {}
                        Err(OpenError::EventNotSupported { .. }) => return Err(refusal),
                        // Any other error hides the reason.
                        Err(other) => return Err(other),
                    }
                    let counted = |event: &&Event| !event.is_software();
                    let first = events.iter().find(counted).copied().unwrap_or(first);
                    return Err(match core_types::are_of_one_pmu(&first, &event)? {
                        true => OpenError::GroupTooLarge {
                            fit: 1 + siblings.len(),
                            event: named(event),
                            stands_still: false,
                        },
                        false => {
                            OpenError::SeveralPmus { first: named(first), event: named(event) }
                        }
                    });
                }
                Err(error) => return Err(error),
            }
        }
        if !others.is_empty() && asked & flag::DISABLED == 0 {
            kernel::control(&leader, Control::Enable).map_err(OpenError::of_call("ioctl"))?;
        }
        Ok(Opened { leader, siblings, counts_all_levels, config1_request })
    }

    /// Checks whether all events can be counted simultaneously, besides those that are pinned now. The kernel does
    /// not report that when it opens a group.
    ///
    /// A pinned group has its counters at once, or it is in error state. If the check itself fails, that is not an
    /// error.
    pub(crate) fn check_that_they_fit(
        &self,
        events: &[Event],
        config1_request: u64,
    ) -> Result<(), OpenError> {
        let fits = |events: &[Event]| match self.open_group(events, config1_request, flag::PINNED) {
            Ok(pinned) => kernel::read(&pinned.leader, &mut [0; READ_WORDS]) != Ok(0),
            Err(_) => true,
        };
        if fits(events) {
            return Ok(());
        }
        for (fit, &event) in events.iter().enumerate() {
            if !events.get(..=fit).is_none_or(fits) {
                let event = named(event);
                return Err(OpenError::GroupTooLarge { fit, event, stands_still: false });
            }
        }
        Ok(()) // by now, they do
    }

    /// Checks that each event has a counter that counts, as far as known work shows: the host of a virtual machine may
    /// have no counter for one that it offers, which then stands still. A single hardware event is not checked.
    ///
    /// A pinned group of events that always count takes the counters for a moment. If it cannot be opened, or does not
    /// fit, that is not an error.
    ///
    /// # Errors
    /// [`OpenError::GroupTooLarge`].
    pub(crate) fn check_that_they_count(events: &[Event]) -> Result<(), OpenError> {
        // Whether as many counters have counted before in this process: by the number of events, and by how many of
        // them are not the first of cycles or instructions, which may have counters of their own.
        static COUNTING: [AtomicU16; MOST + 1] = [const { AtomicU16::new(0) }; MOST + 1];
        let places: Vec<usize> = (0..events.len())
            .filter(|place| events.get(*place).is_some_and(|event| !event.is_software()))
            .collect();
        let hardware = || places.iter().filter_map(|place| events.get(*place));
        let is_comparable =
            |event: &Event| event.is_of_the_core() && event.bare() != Event::REF_CYCLES;
        if places.len() < 2 || !hardware().all(is_comparable) {
            return Ok(());
        }
        let stand_in = |event: &Event| match event.bare() {
            Event::CYCLES | Event::INSTRUCTIONS => event.plain(),
            _ => event.pmu().map_or(Event::BRANCHES, |pmu| Event::BRANCHES.on_core_pmu(pmu)),
        };
        let stand_ins: Vec<Event> = hardware().map(stand_in).collect();
        let have = |event| usize::from(stand_ins.iter().any(|other| other.bare() == event));
        let general = stand_ins.len() - have(Event::CYCLES) - have(Event::INSTRUCTIONS);
        let bit = 1_u16.checked_shl(general as u32).unwrap_or(0);
        let Some(known) = COUNTING.get(stand_ins.len()) else { return Ok(()) };
        if known.load(Ordering::Relaxed) & bit != 0 {
            return Ok(());
        }
        let Ok(pinned) = Options::default().open_group(&stand_ins, 0, flag::PINNED) else {
            return Ok(());
        };
        let counts = || {
            let mut words = [0; READ_WORDS];
            // Nothing is read if it does not fit.
            kernel::read(&pinned.leader, &mut words).is_ok_and(|bytes| bytes > 0).then_some(words)
        };
        let Some(before) = counts() else { return Ok(()) };
        if !asm::known_work(ROUNDS) {
            return Ok(());
        }
        let Some(after) = counts() else { return Ok(()) };
        // A core that takes two loop branches in a cycle needs half as many cycles as rounds.
        let moved = |(before, after): (&u64, &u64)| after.wrapping_sub(*before) >= ROUNDS / 4;
        let counts = before.iter().zip(&after).skip(3).take(stand_ins.len());
        let counting = counts.filter(|pair| moved(*pair)).count();
        match places.get(counting).and_then(|place| Some((*place, events.get(*place)?))) {
            None => {
                known.fetch_or(bit, Ordering::Relaxed);
                Ok(())
            }
            Some((fit, event)) => {
                let event = named(*event);
                Err(OpenError::GroupTooLarge { fit, event, stands_still: true })
            }
        }
    }

    /// Checks that an event of a fixed counter counts. If the CPU lacks that counter, Intel's driver gives the event a general
    /// one, on which it never happens.
    ///
    /// # Errors
    /// [`OpenError::NoFixedCounter`] if known work leaves the event at 0.
    pub(super) fn check_fixed(self, event: Event) -> Result<(), OpenError> {
        /// Event 0 with these unit masks: reference cycles and slots, both of which advance in any work.
        const FIXED: [u64; 2] = [0x0300, 0x0400];
        let is_fixed = event.kind == kind::RAW && FIXED.contains(&(event.config & 0xffff));
        if !is_fixed || !self.counts_user(event) || !asm::has_fixed_events() {
            return Ok(());
        }
        let Ok(pinned) = self.open_group(&[event], 0, flag::PINNED) else { return Ok(()) };
        let count = || {
            let mut words = [0; READ_WORDS];
            // Nothing is read if it has no counter.
            let bytes = kernel::read(&pinned.leader, &mut words).ok()?;
            words.first().copied().filter(|_| bytes > 0)
        };
        let before = count();
        asm::known_work(ROUNDS);
        match before.zip(count()) {
            Some((before, after)) if before == after => {
                Err(OpenError::NoFixedCounter { event: named(event) })
            }
            _ => Ok(()),
        }
    }
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
}

/// The rounds of known work that show whether a counter counts: some microseconds.
const ROUNDS: u64 = 5_000;

/// The maximum number of words that `read(2)` returns.
///
/// For a group, these are the number of events, enabled time, running time, and the counts. For a single event, they
/// are its count, enabled time and running time.
pub(crate) const READ_WORDS: usize = 3 + MOST;
