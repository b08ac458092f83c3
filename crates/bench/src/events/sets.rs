//! Sets of events that fit the counters, so that no event shares a counter with another.

use rdpmc::Error;
use rdpmc::error::ErrorKind;
use rdpmc::{Access, Builder, DynGroup, Event};

/// The maximum number of events in a group.
const MAX_EVENTS: usize = 8;

/// Events that are counted at the same time.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    pub(crate) events: Vec<Event>,
}

impl Missing {
    fn new(event: Event, why: &Error) -> Missing {
        Missing { name: event.to_string(), event: Some(event), why: why.clone() }
    }

    /// Returns the cause and the remedy.
    pub(crate) fn reason(&self) -> String {
        self.why.to_string()
    }

    pub(crate) fn by_name(name: String, why: Error) -> Missing {
        Missing { name, event: None, why }
    }
}

impl Set {
    pub(crate) fn place(&self, event: Event) -> Option<usize> {
        self.events.iter().position(|known| *known == event)
    }
}

fn builder(events: &[Event]) -> Builder<&[Event]> {
    // If the PMU cannot exclude the kernel (riscv64), it is counted, too.
    DynGroup::builder(events).allow_all_privilege_levels(true)
}

fn open(events: &[Event]) -> Result<DynGroup, Error> {
    builder(events).open()
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
    pub why: Error,
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
        match open(&[event]).map(|group| group.access().why_system_call()) {
            Ok(Some(ErrorKind::SoftwareEvent)) => software.push(event),
            Ok(_) => hardware.push(event),
            Err(why) => missing.push(Missing::new(event, &why)),
        }
    }
    let witness = counts_instructions.then_some(Event::INSTRUCTIONS);
    // The kernel's instructions show interrupts, where the kernel allows to count them.
    let kernel = Event::INSTRUCTIONS.kernel();
    let mut left = hardware;
    while !left.is_empty() || (sets.is_empty() && witness.is_some()) {
        let wanted: Vec<Event> = witness.iter().chain(&left).copied().take(MAX_EVENTS).collect();
        let events = builder(&wanted).fit().map_or(Vec::new(), |fit| fit.events);
        let before = left.len();
        left.retain(|event| !events.contains(event));
        if left.len() == before && before > 0 {
            // None of them fits beside the instructions.
            sets.push(Set { events: vec![left.remove(0)] });
            continue;
        }
        if events.is_empty() {
            break; // nor do the instructions, now
        }
        let with_kernel: Vec<Event> = events.iter().copied().chain([kernel]).collect();
        let adds_kernel = events.first() == witness.as_ref()
            && witness.is_some()
            && with_kernel.len() <= MAX_EVENTS
            && !open(&events).is_ok_and(|group| group.counts_all_privilege_levels())
            && open(&with_kernel).is_ok_and(|group| group.access() == Access::UserSpace);
        sets.push(Set { events: if adds_kernel { with_kernel } else { events } });
    }
    // Context switches tell which loops were disturbed, where the kernel allows to count them.
    let switches = Event::CONTEXT_SWITCHES;
    let counts_switches = open(&[switches]).is_ok();
    for events in software.chunks(MAX_EVENTS - 1) {
        let is_added = counts_switches && !events.contains(&switches);
        let events = events.iter().copied().chain(is_added.then_some(switches)).collect();
        sets.push(Set { events });
    }
    if sets.is_empty() && counts_switches {
        sets.push(Set { events: vec![switches] });
    }
    (sets, missing)
}
