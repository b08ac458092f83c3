//! Opens the events of a group as descriptors.

use super::attempt::{Attempt, FORMS, takes_forms};
use super::options::{OF_THE_LEADER, Options};
use crate::error::OpenError;
use crate::event::Event;
use crate::kernel::{self, Control, Descriptor, Errno, flag, format};
use crate::names::named;
use crate::page::MOST;
use crate::pmu::core_types;

impl Options {
    /// Opens the events as one group, which the first of them leads: one system call each where the
    /// first thing asked is granted, a few otherwise.
    pub(crate) fn open_events(&self, events: &[Event]) -> Result<Opened, OpenError> {
        if !kernel::SUPPORTED {
            return Err(OpenError::Unsupported);
        }
        let nothing = |event: &&Event| Options::leave_nothing(event, self.flags(**event));
        if let Some(&event) = events.iter().find(nothing) {
            return Err(OpenError::CountsNothing { event: named(event) });
        }
        let mut refusal = OpenError::Unsupported; // there is always a form, so there is another answer
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
                OpenError::GroupTooLarge { .. }
                    | OpenError::EventNotSupported {
                        errno: Errno(kernel::EINVAL | kernel::EOPNOTSUPP),
                        ..
                    }
            );
            if !of_the_form {
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

    fn open_group(&self, events: &[Event], form: u64, asked: u64) -> Result<Opened, OpenError> {
        let Some((&first, others)) = events.split_first() else {
            return Err(OpenError::Unsupported);
        };
        // Its siblings come to an idle leader, so that all start at the same moment. When arm64's
        // driver looks whether they fit, it leaves out what is disabled, unless exec is to enable
        // it: which never comes, as the descriptors close before.
        let idle = if others.is_empty() { 0 } else { flag::DISABLED | flag::ENABLE_ON_EXEC };
        let own = self.flags(first) & !OF_THE_LEADER;
        // By itself it is read without the group's layout, for which the kernel allocates at each read.
        let group = if others.is_empty() { 0 } else { format::GROUP };
        let config1 = |event| {
            Ok(if takes_forms(event)? { form } else { event.config1 }) as Result<_, OpenError>
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
                        // By itself it can be had, so it is the company.
                        Ok(_) => {}
                        Err(OpenError::EventNotSupported { .. }) => return Err(refusal),
                        // What keeps it from being found out.
                        Err(other) => return Err(other),
                    }
                    let counted = |event: &&Event| !event.is_software();
                    let first = events.iter().find(counted).copied().unwrap_or(first);
                    return Err(match core_types::are_of_one_pmu(&first, &event)? {
                        true => OpenError::GroupTooLarge {
                            fit: 1 + siblings.len(),
                            event: named(event),
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
        Ok(Opened { leader, siblings, counts_all_levels, form })
    }

    /// Finds out what the kernel does not say when it opens a group: whether all of it can be
    /// counted at the same time, beside what pinned events hold. A pinned group has its counters at
    /// once, or it is in error state. What cannot be found out is no error.
    pub(crate) fn check_that_they_fit(&self, events: &[Event], form: u64) -> Result<(), OpenError> {
        let fits = |events: &[Event]| match self.open_group(events, form, flag::PINNED) {
            Ok(pinned) => kernel::read(&pinned.leader, &mut [0; READ_WORDS]) != Ok(0),
            Err(_) => true,
        };
        if fits(events) {
            return Ok(());
        }
        for (fit, &event) in events.iter().enumerate() {
            if !events.get(..=fit).is_none_or(fits) {
                return Err(OpenError::GroupTooLarge { fit, event: named(event) });
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
                Ok(pinned) if kernel::read(&pinned.leader, &mut [0; 3 + MOST_COPIES]) != Ok(0) => {
                    fit += 1;
                }
                Ok(_)
                | Err(OpenError::GroupTooLarge { .. } | OpenError::EventNotSupported { .. }) => {
                    break;
                }
                Err(_) => return None,
            }
        }
        Some(fit)
    }
}

/// The open events of a group.
#[derive(Debug)]
pub(crate) struct Opened {
    /// They close before their leader does, which would have the kernel make them leaders of their
    /// own.
    pub(crate) siblings: Vec<Descriptor>,
    pub(crate) leader: Descriptor,
    /// The filter asked for was dropped: all privilege levels count, for one event at least.
    pub(crate) counts_all_levels: bool,
    /// The one of [`FORMS`] they have.
    pub(crate) form: u64,
}

/// More counters than any PMU has.
const MOST_COPIES: usize = 64;

/// What `read(2)` gives of a group at the most, in this order: how many events, enabled time, running
/// time, their counts. Of an event by itself: its count, enabled time, running time.
pub(crate) const READ_WORDS: usize = 3 + MOST;
