//! Sets of events that fit the counters, so that no event shares a counter with another.

use rdpmc::error::SyscallReason;
use rdpmc::error::{NameError, OpenError};
use rdpmc::{Access, DynGroup, Event};

/// The maximum number of events in a group.
const MOST: usize = 8;

/// Events that are counted at the same time.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    pub(crate) events: Vec<Event>,
}

impl Missing {
    fn new(event: Event, why: &OpenError) -> Missing {
        Missing { name: event.to_string(), event: Some(event), why: why.to_string() }
    }

    pub(crate) fn by_name(name: String, why: &NameError) -> Missing {
        Missing { name, event: None, why: why.to_string() }
    }
}

impl Set {
    pub(crate) fn open(&self) -> Result<DynGroup, OpenError> {
        open(&self.events)
    }

    pub(crate) fn place(&self, event: Event) -> Option<usize> {
        self.events.iter().position(|known| *known == event)
    }
}

fn open(events: &[Event]) -> Result<DynGroup, OpenError> {
    // If the PMU cannot exclude the kernel (riscv64), it is counted, too.
    DynGroup::builder(events).allow_all_privilege_levels(true).open()
}

/// An event that cannot be counted here.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Missing {
    /// The event's name, as the table has it.
    pub name: String,
    /// The event. None if it was requested by a name that says nothing here.
    pub event: Option<Event>,
    /// The cause on this machine, and the remedy.
    pub why: String,
}

/// Splits the events into sets that fit, each with the instructions first if they can be counted. Events of the kernel
/// (software events) are in sets of their own. Opens and closes each set.
pub(crate) fn fit(events: &[Event]) -> (Vec<Set>, Vec<Missing>) {
    let (mut sets, mut missing) = (Vec::new(), Vec::new());
    let (mut hardware, mut software) = (Vec::new(), Vec::new());
    let counts_instructions = match open(&[Event::INSTRUCTIONS]) {
        Ok(_) => true,
        Err(why) => {
            if events.contains(&Event::INSTRUCTIONS) {
                missing.push(Missing::new(Event::INSTRUCTIONS, &why));
            }
            false
        }
    };
    for event in events.iter().copied().filter(|event| *event != Event::INSTRUCTIONS) {
        match open(&[event]).map(|group| group.access()) {
            Ok(Access::SystemCall(SyscallReason::SoftwareEvent)) => software.push(event),
            Ok(_) => hardware.push(event),
            Err(why) => missing.push(Missing::new(event, &why)),
        }
    }
    let witness = counts_instructions.then_some(Event::INSTRUCTIONS);
    // The kernel's instructions show interrupts, where the kernel allows to count them.
    let kernel = Event::INSTRUCTIONS.kernel();
    let mut left: &[Event] = &hardware;
    while !left.is_empty() || (sets.is_empty() && witness.is_some()) {
        let with = |more: &[Event], kernel: Option<Event>| -> Vec<Event> {
            witness.iter().chain(more).copied().chain(kernel).collect()
        };
        let room = MOST - usize::from(witness.is_some());
        let fits = (0..=room.min(left.len())).rev().find_map(|count| {
            let (these, rest) = left.split_at_checked(count)?;
            let events = with(these, None);
            (!events.is_empty() && open(&events).is_ok()).then_some((events, rest))
        });
        match fits {
            Some((events, rest)) if rest.len() < left.len() || left.is_empty() => {
                let with_kernel: Vec<Event> = events.iter().copied().chain([kernel]).collect();
                let adds_kernel = witness.is_some()
                    && with_kernel.len() <= MOST
                    && !open(&events).is_ok_and(|group| group.counts_all_privilege_levels())
                    && open(&with_kernel).is_ok_and(|group| group.access() == Access::UserSpace);
                sets.push(Set { events: if adds_kernel { with_kernel } else { events } });
                left = rest;
            }
            // The first one does not fit beside the instructions.
            _ => {
                let Some((first, rest)) = left.split_first() else { break };
                sets.push(Set { events: vec![*first] });
                left = rest;
            }
        }
    }
    // Context switches tell which loops were disturbed, where the kernel allows to count them.
    let switches = Event::CONTEXT_SWITCHES;
    let counts_switches = open(&[switches]).is_ok();
    for events in software.chunks(MOST - 1) {
        let is_added = counts_switches && !events.contains(&switches);
        let events = events.iter().copied().chain(is_added.then_some(switches)).collect();
        sets.push(Set { events });
    }
    if sets.is_empty() && counts_switches {
        sets.push(Set { events: vec![switches] });
    }
    (sets, missing)
}
