//! Processors with cores of several types, each with a PMU of its own: which of them counts an event
//! that says nothing of it.
#![allow(unsafe_code)]

use crate::error::{Error, NameError};
use crate::event::Event;
use crate::pmu::{CorePmu, Pmus, Processors, Unreadable};
use crate::sys::{self, kind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// One of several.
#[derive(Debug)]
pub(crate) struct CoreType {
    /// Its PMU's number.
    pub(crate) pmu: u32,
    processors: Processors,
}

/// Returns the core types: empty if there is only one, None if there is no list of PMUs.
///
/// A complete answer is kept for the rest of the process. A look that failed is an error of whoever
/// asked, and the next one looks again. Nobody waits for anybody here: a fork would leave the child
/// a lock that nobody releases.
fn found() -> Result<Option<&'static [CoreType]>, Unreadable> {
    static FOUND: AtomicPtr<Vec<CoreType>> = AtomicPtr::new(ptr::null_mut());
    // SAFETY: null, or from Box::into_raw below, and then it is never freed.
    if let Some(found) = unsafe { FOUND.load(Ordering::Acquire).as_ref() } {
        return Ok(Some(found));
    }
    let Some(types) = look(&Pmus::here())? else { return Ok(None) };
    let mine = Box::into_raw(Box::new(types));
    let first = FOUND.compare_exchange(ptr::null_mut(), mine, Ordering::AcqRel, Ordering::Acquire);
    let kept = match first {
        Ok(_) => mine,
        Err(theirs) => {
            // SAFETY: from Box::into_raw above, and nobody else knows it.
            drop(unsafe { Box::from_raw(mine) });
            theirs
        }
    };
    // SAFETY: what is published is never freed.
    Ok(Some(unsafe { &*kept }))
}

/// None if there is no list of PMUs, or if one of several core types does not say which its
/// processors are.
fn look(pmus: &Pmus) -> Result<Option<Vec<CoreType>>, Unreadable> {
    let Some(pmus) = pmus.core()? else { return Ok(None) };
    if pmus.len() < 2 {
        return Ok(Some(Vec::new()));
    }
    let core_type = |pmu: CorePmu| Some(CoreType { pmu: pmu.number, processors: pmu.processors? });
    Ok(pmus.into_iter().map(core_type).collect())
}

/// All of them, if there are several. None of them where that cannot be seen.
fn several() -> Result<&'static [CoreType], Unreadable> {
    Ok(found()?.unwrap_or(&[]))
}

/// Whether there may be several: it cannot be ruled out where it cannot be seen.
pub(crate) fn may_be_several() -> Result<bool, Unreadable> {
    Ok(found()?.is_none_or(|types| !types.is_empty()))
}

/// Whether it cannot be seen.
pub(crate) fn are_unknown() -> bool {
    !matches!(found(), Ok(Some(_)))
}

/// The number of the PMU that an event says it is of: raw events, by their number, of the one that has
/// that number, if one does (on x86-64).
fn pmu_of(types: &[CoreType], event: &Event) -> Option<u32> {
    let has_raw = || types.iter().any(|one| one.pmu == kind::RAW);
    if event.kind == kind::RAW && has_raw() { Some(kind::RAW) } else { event.pmu() }
}

/// The same, of this machine's.
pub(crate) fn of(event: &Event) -> Result<Option<u32>, Unreadable> {
    Ok(pmu_of(several()?, event))
}

/// The types on whose PMUs this event can be counted, which does not say on which: none where there is
/// one type only, the one whose processors this thread is kept on, or all.
pub(crate) fn counting(event: &Event) -> Result<&'static [CoreType], Unreadable> {
    if !event.is_of_the_core() {
        return Ok(&[]); // without a look
    }
    Ok(match several()? {
        [] => &[],
        types => counting_of(types, event, &sys::allowed_processors()),
    })
}

fn counting_of<'a>(types: &'a [CoreType], event: &Event, allowed: &[u32]) -> &'a [CoreType] {
    if !event.is_of_the_core() || pmu_of(types, event).is_some() {
        return &[];
    }
    let kept = types.iter().position(|one| {
        !allowed.is_empty() && allowed.iter().all(|processor| one.processors.contains(*processor))
    });
    kept.and_then(|kept| types.get(kept..=kept)).unwrap_or(types)
}

/// Which of these types is that of the processor this thread is on at the moment.
pub(crate) fn current(types: impl Iterator<Item = u32>) -> Option<usize> {
    let processor = sys::current_processor()?;
    let here = several().ok()?.iter().find(|one| one.processors.contains(processor))?;
    types.into_iter().position(|pmu| pmu == here.pmu)
}

/// The PMU for those events of a group that do not say which: that of another event of the group, or of
/// the type whose processors this thread is kept on, or of the one it is on. None where there is one type
/// only, or all say it.
pub(crate) fn of_group(events: &[Event]) -> Result<Option<u32>, Unreadable> {
    let mut types: &[CoreType] = &[];
    for event in events {
        types = counting(event)?;
        if !types.is_empty() {
            break;
        }
    }
    let Some(first) = types.first() else { return Ok(None) };
    let here = || {
        let current = current(types.iter().map(|one| one.pmu))?;
        Some(types.get(current)?.pmu)
    };
    Ok(said_in(several()?, events).or_else(here).or(Some(first.pmu)))
}

/// The core type's PMU that one of the events says it is of.
fn said_in(types: &[CoreType], events: &[Event]) -> Option<u32> {
    let is_one = |pmu: &u32| types.iter().any(|one| one.pmu == *pmu);
    events.iter().filter_map(|event| pmu_of(types, event)).find(is_one)
}

/// Whether these are of the same PMU, as far as can be seen.
pub(crate) fn are_of_one_pmu(first: &Event, second: &Event) -> Result<bool, Unreadable> {
    Ok(match (of(first)?, of(second)?) {
        (Some(first), Some(second)) => first == second,
        (None, None) => true,
        (Some(one), None) | (None, Some(one)) => {
            Pmus::here().numbered(one)?.is_none_or(|pmu| pmu.is_core())
        }
    })
}

/// The same events on this PMU, as Linux has it since 5.13 (x86-64) or 6.6 (arm64).
pub(crate) fn on_pmu<const N: usize>(
    mut events: [Event; N],
    pmu: u32,
) -> Result<[Event; N], Unreadable> {
    for event in &mut events {
        if !counting(event)?.is_empty() {
            *event = event.on_core(pmu);
        }
    }
    Ok(events)
}

/// The architecture's common events, which arm64's driver has the kernel's generic events stand for.
const ARM64: [(Event, &str); 9] = [
    (Event::CYCLES, "cpu_cycles"),
    (Event::INSTRUCTIONS, "inst_retired"),
    (Event::CACHE_REFERENCES, "l1d_cache"),
    (Event::CACHE_MISSES, "l1d_cache_refill"),
    (Event::BRANCHES, "pc_write_retired"),
    (Event::BRANCH_MISSES, "br_mis_pred"),
    (Event::BUS_CYCLES, "bus_cycles"),
    (Event::STALLED_CYCLES_FRONTEND, "stall_frontend"),
    (Event::STALLED_CYCLES_BACKEND, "stall_backend"),
];

/// The same before that: those of the kernel's events that say which PMU counts them, by what arm's
/// architecture calls them. None if there are none, or one of them has no such name.
pub(crate) fn by_architecture<const N: usize>(
    events: [Event; N],
) -> Result<Option<[Event; N]>, Error> {
    if !cfg!(target_arch = "aarch64") {
        return Ok(None);
    }
    let mut result = events;
    for event in result.iter_mut().filter(|event| event.is_generic()) {
        let Some(pmu) = event.pmu() else { continue };
        let own = ARM64.iter().find(|(constant, _)| event.bare() == *constant);
        let Some((_, own)) = own else { return Ok(None) };
        match Pmus::here().event(&format!("{pmu}/{own}/")) {
            Ok(named) => *event = named.modified(event.modifiers),
            Err(NameError::Unreadable(unreadable)) => return Err(unreadable.into()),
            Err(_) => return Ok(None),
        }
    }
    Ok((result != events).then_some(result))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// As on Intel's hybrids, where the first has the number of raw events; and as on arm64.
    fn types(first: u32) -> [CoreType; 2] {
        let processors = |text| Processors::parse(text).unwrap();
        [
            CoreType { pmu: first, processors: processors("0-3") },
            CoreType { pmu: 10, processors: processors("4-7") },
        ]
    }

    const NONE: [u32; 0] = [];

    #[test]
    fn which_types_count_an_event() {
        let (intel, arm) = (types(kind::RAW), types(8));
        let count = |types: &[CoreType], event: Event, allowed: &[u32]| {
            counting_of(types, &event, allowed).iter().map(|one| one.pmu).collect::<Vec<_>>()
        };
        assert_eq!(count(&intel, Event::CYCLES, &[0, 4]), [4, 10]);
        assert_eq!(
            count(&intel, Event::CYCLES, &[]),
            [4, 10],
            "it cannot be seen where it is kept"
        );
        assert_eq!(count(&intel, Event::CYCLES, &[0, 3]), [4]);
        assert_eq!(count(&intel, Event::CYCLES, &[5]), [10]);
        assert_eq!(count(&intel, Event::CYCLES.on_core(10), &[0, 4]), NONE);
        assert_eq!(count(&intel, Event::raw(0xc0), &[0, 4]), NONE, "it is cpu_core's");
        assert_eq!(count(&arm, Event::raw(0x11), &[0, 4]), [8, 10]);
        assert_eq!(count(&arm, Event::TASK_CLOCK, &[0, 4]), NONE);
        assert_eq!(count(&arm, Event::of_pmu(10, 0x11), &[0, 4]), NONE);
    }

    #[test]
    fn what_the_others_of_a_group_follow() {
        let (intel, arm) = (types(kind::RAW), types(8));
        let atom = Event::CYCLES.on_core(10);
        assert_eq!(said_in(&intel, &[Event::CYCLES, Event::INSTRUCTIONS]), None);
        assert_eq!(said_in(&intel, &[Event::CYCLES, atom]), Some(10));
        assert_eq!(said_in(&intel, &[Event::CYCLES, Event::raw(0xc0)]), Some(kind::RAW));
        assert_eq!(said_in(&arm, &[Event::raw(0x11), Event::of_pmu(8, 0x11)]), Some(8));
        assert_eq!(said_in(&arm, &[Event::of_pmu(77, 0), Event::TASK_CLOCK]), None);
    }
}
