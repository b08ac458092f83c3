//! CPUs with several core types, each with a PMU of its own: which of them counts an event that names none.

use super::{CorePmu, CpuSet, Pmus};
use crate::error::Error;
use crate::event::Event;
use crate::kernel::{self, List, kind};

/// One of several core types.
#[derive(Debug)]
pub(crate) struct CoreType {
    /// The type of its PMU.
    pub(crate) pmu: u32,
    cpus: CpuSet,
}

/// The core PMUs of this machine.
#[derive(Debug)]
enum Core {
    /// No PMU at all, or one.
    None,
    One,
    Several(Vec<CoreType>),
}

/// The core PMUs, once they are known: one value, or none yet.
static FOUND: List<Core> = List::new();

/// Returns the core PMUs. None if there is no list of PMUs.
///
/// A complete answer is kept for the rest of the process. A failed attempt is an error of this call, and the next
/// call tries again.
fn found() -> Result<Option<&'static Core>, Error> {
    if let Some(found) = FOUND.newest() {
        return Ok(Some(found));
    }
    let Some(core) = read(&Pmus::local())? else { return Ok(None) };
    let _ = FOUND.push_after(None, core); // or another thread was faster
    Ok(FOUND.newest())
}

/// Reads the core PMUs. None if there is no list of PMUs, or if one of several core types does not list its CPUs.
fn read(pmus: &Pmus) -> Result<Option<Core>, Error> {
    let Some(pmus) = pmus.core()? else { return Ok(None) };
    let core_type = |pmu: CorePmu| Some(CoreType { pmu: pmu.type_id, cpus: pmu.cpus? });
    Ok(match pmus.len() {
        0 => Some(Core::None),
        1 => Some(Core::One),
        _ => pmus.into_iter().map(core_type).collect::<Option<_>>().map(Core::Several),
    })
}

/// Returns the core types, if there are several. Empty if that is unknown.
fn several() -> Result<&'static [CoreType], Error> {
    Ok(match found()? {
        Some(Core::Several(types)) => types,
        _ => &[],
    })
}

/// Whether there may be several core types. True if that is unknown.
pub(crate) fn may_be_several() -> Result<bool, Error> {
    Ok(found()?.is_none_or(|core| matches!(core, Core::Several(_))))
}

/// Whether this machine has a core PMU. None if there is no list of PMUs.
pub(crate) fn is_there_one() -> Result<Option<bool>, Error> {
    Ok(found()?.map(|core| !matches!(core, Core::None)))
}

/// Whether this process has found out that there is one core type. Reads no file, and is async-signal-safe.
pub(crate) fn is_known_to_be_one() -> bool {
    matches!(FOUND.newest(), Some(Core::None | Core::One))
}

/// Forgets what was found, as if the process had just begun.
#[cfg(test)]
pub(crate) fn forget() {
    FOUND.clear();
}

/// Returns the type of the PMU that the event names. On hybrid x86-64, a raw event belongs to the PMU of type `RAW`.
fn pmu_of(types: &[CoreType], event: &Event) -> Option<u32> {
    let has_raw = || types.iter().any(|one| one.pmu == kind::RAW);
    if event.kind == kind::RAW && has_raw() { Some(kind::RAW) } else { event.pmu() }
}

/// Returns [`pmu_of`] for the core types of this machine.
pub(crate) fn pmu_type_of(event: &Event) -> Result<Option<u32>, Error> {
    Ok(pmu_of(several()?, event))
}

/// Returns the core types to open this event on if it names no PMU. Empty on a machine with one type. One if the
/// thread's affinity mask is within one type, otherwise all.
pub(crate) fn counting(event: &Event) -> Result<&'static [CoreType], Error> {
    if !event.is_of_the_core() {
        return Ok(&[]); // without reading any file
    }
    Ok(match several()? {
        [] => &[],
        types => counting_of(types, event, &kernel::allowed_cpus()),
    })
}

fn counting_of<'a>(types: &'a [CoreType], event: &Event, allowed: &[u32]) -> &'a [CoreType] {
    if !event.is_of_the_core() || pmu_of(types, event).is_some() {
        return &[];
    }
    let kept = types
        .iter()
        .position(|one| !allowed.is_empty() && allowed.iter().all(|cpu| one.cpus.contains(*cpu)));
    kept.and_then(|kept| types.get(kept..=kept)).unwrap_or(types)
}

/// Returns the position among `types` of the core type that this thread is on now.
pub(crate) fn current(types: impl Iterator<Item = u32>) -> Option<usize> {
    let cpu = kernel::current_cpu()?;
    let here = several().ok()?.iter().find(|one| one.cpus.contains(cpu))?;
    types.into_iter().position(|pmu| pmu == here.pmu)
}

/// Returns the PMU for the events of a group that name none, the first of:
/// - the PMU of another event of the group;
/// - that of the core type that the thread's affinity mask is within;
/// - that of the core type that the thread is on.
///
/// None on a machine with one core type, or if all events name a PMU.
pub(crate) fn of_group(events: &[Event]) -> Result<Option<u32>, Error> {
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
    Ok(named_in(several()?, events).or_else(here).or(Some(first.pmu)))
}

/// Returns the PMUs of all core types to open these events on for any thread. Empty on a machine with one type, and if one of
/// the events names a PMU or none is of the core.
pub(crate) fn of_threads(events: &[Event]) -> Result<Vec<u32>, Error> {
    if !events.iter().any(Event::is_of_the_core) {
        return Ok(Vec::new()); // without reading any file
    }
    let types = several()?;
    Ok(match named_in(types, events) {
        Some(one) => vec![one],
        None => types.iter().map(|one| one.pmu).collect(),
    })
}

/// Returns the first core type's PMU that one of the events names.
fn named_in(types: &[CoreType], events: &[Event]) -> Option<u32> {
    let is_one = |pmu: &u32| types.iter().any(|one| one.pmu == *pmu);
    events.iter().filter_map(|event| pmu_of(types, event)).find(is_one)
}

/// Whether both events belong to one PMU, as far as is known.
pub(crate) fn are_of_one_pmu(first: &Event, second: &Event) -> Result<bool, Error> {
    Ok(match (pmu_type_of(first)?, pmu_type_of(second)?) {
        (Some(first), Some(second)) => first == second,
        (None, None) => true,
        (Some(one), None) | (None, Some(one)) => {
            Pmus::local().with_type(one)?.is_none_or(|pmu| pmu.is_core())
        }
    })
}

/// Puts the events on this PMU, in the encoding of Linux 5.13 (x86-64) or 6.6 (arm64) and later.
pub(crate) fn put_on_pmu(events: &mut [Event], pmu: u32) -> Result<(), Error> {
    for event in events {
        if !counting(event)?.is_empty() {
            *event = event.on_core_pmu(pmu);
        }
    }
    Ok(())
}

/// The architectural events that arm64's driver uses for the generic ones: name in `events`, and number.
const ARM64: [(Event, &str, u64); 9] = [
    (Event::CYCLES, "cpu_cycles", 0x11),
    (Event::INSTRUCTIONS, "inst_retired", 0x08),
    (Event::CACHE_REFERENCES, "l1d_cache", 0x04),
    (Event::CACHE_MISSES, "l1d_cache_refill", 0x03),
    (Event::BRANCHES, "pc_write_retired", 0x0c),
    (Event::BRANCH_MISSES, "br_mis_pred", 0x10),
    (Event::BUS_CYCLES, "bus_cycles", 0x1d),
    (Event::STALLED_CYCLES_FRONTEND, "stall_frontend", 0x23),
    (Event::STALLED_CYCLES_BACKEND, "stall_backend", 0x24),
];

/// Returns the events in the encoding of older kernels: generic events that name a PMU, by their architectural
/// numbers. None if no event is one, if one has no such number, or if the PMU does not list it. None on targets other
/// than arm64.
pub(crate) fn by_architecture(events: Vec<Event>) -> Result<Option<Vec<Event>>, Error> {
    if !cfg!(target_arch = "aarch64") {
        return Ok(None);
    }
    let mut result = events.clone();
    for event in result.iter_mut().filter(|event| event.is_generic()) {
        let Some(type_id) = event.pmu() else { continue };
        let own = ARM64.iter().find(|(generic, ..)| event.bare() == *generic);
        let Some((_, name, number)) = own else { return Ok(None) };
        let pmu = Pmus::local().with_type(type_id)?;
        if pmu.is_none_or(|pmu| pmu.event_named(name).is_none()) {
            return Ok(None);
        }
        *event = Event::of_pmu(type_id, *number).modified(event.modifiers);
    }
    Ok((result != events).then_some(result))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// As on Intel's hybrids, whose first core type has the type of raw events, or as on arm64.
    fn types(first: u32) -> [CoreType; 2] {
        let cpus = |text| CpuSet::parse(text).unwrap();
        [CoreType { pmu: first, cpus: cpus("0-3") }, CoreType { pmu: 10, cpus: cpus("4-7") }]
    }

    const NONE: [u32; 0] = [];

    #[test]
    fn which_types_count_an_event() {
        let (intel, arm) = (types(kind::RAW), types(8));
        let count = |types: &[CoreType], event: Event, allowed: &[u32]| {
            counting_of(types, &event, allowed).iter().map(|one| one.pmu).collect::<Vec<_>>()
        };
        assert_eq!(count(&intel, Event::CYCLES, &[0, 4]), [4, 10]);
        assert_eq!(count(&intel, Event::CYCLES, &[]), [4, 10], "the affinity is unknown");
        assert_eq!(count(&intel, Event::CYCLES, &[0, 3]), [4]);
        assert_eq!(count(&intel, Event::CYCLES, &[5]), [10]);
        assert_eq!(count(&intel, Event::CYCLES.on_core_pmu(10), &[0, 4]), NONE);
        assert_eq!(count(&intel, Event::raw(0xc0), &[0, 4]), NONE, "it is cpu_core's");
        assert_eq!(count(&arm, Event::raw(0x11), &[0, 4]), [8, 10]);
        assert_eq!(count(&arm, Event::TASK_CLOCK, &[0, 4]), NONE);
        assert_eq!(count(&arm, Event::of_pmu(10, 0x11), &[0, 4]), NONE);
    }

    #[test]
    fn what_the_others_of_a_group_follow() {
        let (intel, arm) = (types(kind::RAW), types(8));
        let atom = Event::CYCLES.on_core_pmu(10);
        assert_eq!(named_in(&intel, &[Event::CYCLES, Event::INSTRUCTIONS]), None);
        assert_eq!(named_in(&intel, &[Event::CYCLES, atom]), Some(10));
        assert_eq!(named_in(&intel, &[Event::CYCLES, Event::raw(0xc0)]), Some(kind::RAW));
        assert_eq!(named_in(&arm, &[Event::raw(0x11), Event::of_pmu(8, 0x11)]), Some(8));
        assert_eq!(named_in(&arm, &[Event::of_pmu(77, 0), Event::TASK_CLOCK]), None);
    }
}
