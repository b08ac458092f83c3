//! Whether open events really count: a kernel may promise counters that others hold, that stand still or that do not exist.

use super::events::{group_too_large, open_group};
use super::options::Options;
use crate::asm;
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::kernel::{flag, kind};
use crate::names::named;
use crate::page::MAX_EVENTS;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

/// The rounds of known work that show whether a counter counts: some microseconds.
const ROUNDS: u64 = 5_000;

/// Checks whether all events can be counted simultaneously, besides those that are pinned now. The kernel does
/// not report that when it opens a group.
///
/// A pinned group has its counters at once, or it is in error state. If the check itself fails, that is not an
/// error.
pub(super) fn check_that_they_fit(
    options: &Options,
    events: &[Event],
    config1_request: u64,
) -> Result<(), Error> {
    let fits = |events: &[Event]| match open_group(options, events, config1_request, flag::PINNED) {
        Ok(pinned) => !matches!(pinned.read(), Ok(None)),
        Err(_) => true,
    };
    if fits(events) {
        return Ok(());
    }
    for (fit, &event) in events.iter().enumerate() {
        if !events.get(..=fit).is_none_or(fits) {
            return Err(group_too_large(fit, false).for_event(named(event)));
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
/// [`ErrorKind::GroupTooLarge`].
pub(super) fn check_that_they_count(events: &[Event]) -> Result<(), Error> {
    // Whether as many counters have counted before in this process: by the number of events, and by how many of
    // them are not the first of cycles or instructions, which may have counters of their own.
    static COUNTING: [AtomicU16; MAX_EVENTS + 1] = [const { AtomicU16::new(0) }; MAX_EVENTS + 1];
    let places: Vec<usize> = (0..events.len())
        .filter(|place| events.get(*place).is_some_and(|event| !event.is_software()))
        .collect();
    let hardware = || places.iter().filter_map(|place| events.get(*place));
    let is_comparable = |event: &Event| event.is_of_the_core() && event.bare() != Event::REF_CYCLES;
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
    let Ok(pinned) = open_group(&Options::default(), &stand_ins, 0, flag::PINNED) else {
        return Ok(());
    };
    let counts = || pinned.read().ok().flatten(); // None if it does not fit
    let Some(before) = counts() else { return Ok(()) };
    if !asm::known_work(ROUNDS) {
        return Ok(());
    }
    let Some(after) = counts() else { return Ok(()) };
    if after.time_running == before.time_running {
        return Ok(()); // on a CPU of another core type than theirs, they do not count
    }
    // A core that takes two loop branches in a cycle needs half as many cycles as rounds.
    let moved = |(before, after): (&u64, &u64)| after.wrapping_sub(*before) >= ROUNDS / 4;
    let counts = before.values.iter().zip(&after.values).take(stand_ins.len());
    let counting = counts.filter(|pair| moved(*pair)).count();
    match places.get(counting).and_then(|place| Some((*place, events.get(*place)?))) {
        None => {
            known.fetch_or(bit, Ordering::Relaxed);
            Ok(())
        }
        Some((fit, event)) => Err(group_too_large(fit, true).for_event(named(*event))),
    }
}

/// Checks that an event of a fixed counter counts. If the CPU lacks that counter, Intel's driver gives the event a general
/// one, on which it never happens.
///
/// # Errors
/// [`ErrorKind::NoFixedCounter`] if known work leaves the event at 0.
pub(super) fn check_fixed(options: &Options, event: Event) -> Result<(), Error> {
    /// Event 0 with these unit masks on Intel's CPUs: reference cycles and slots, both of which advance in any work.
    const FIXED: [u64; 2] = [0x0300, 0x0400];
    let is_fixed = event.kind == kind::RAW && FIXED.contains(&(event.config & 0xffff));
    let is_intel = || asm::processor().is_some_and(|(vendor, ..)| vendor == *b"GenuineIntel");
    if !is_fixed || !options.counts_user(event) || !is_intel() {
        return Ok(());
    }
    let Ok(pinned) = open_group(options, &[event], 0, flag::PINNED) else { return Ok(()) };
    let count = || Some(pinned.read().ok()??.values[0]); // None if it has no counter
    let before = count();
    asm::known_work(ROUNDS);
    match before.zip(count()) {
        Some((before, after)) if before == after => Err(Error::new(
            ErrorKind::NoFixedCounter,
            "{event} belongs to a fixed counter that this CPU does not have: known work leaves it at 0",
            "Choose an event that `perf list` shows",
        )
        .for_event(named(event))),
        _ => Ok(()),
    }
}

/// Whether this is known to be a virtual machine. Makes no system call on x86-64. Elsewhere, the first call looks at
/// files.
pub(crate) fn is_virtual() -> bool {
    const UNKNOWN: u8 = 2;
    static IS_VIRTUAL: AtomicU8 = AtomicU8::new(UNKNOWN);
    match IS_VIRTUAL.load(Ordering::Relaxed) {
        UNKNOWN => {
            let is_virtual = crate::pmu::is_virtual();
            IS_VIRTUAL.store(is_virtual.into(), Ordering::Relaxed); // every thread stores an equal value
            is_virtual
        }
        known => known == 1,
    }
}
