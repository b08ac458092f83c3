//! What a PMU can do, found by trying.

use crate::facts;
use crate::trust::{self, Trust};
use rdpmc::Error;
use rdpmc::error::ErrorKind;
use rdpmc::pmu::{CpuSet, Pmu, Pmus};
use rdpmc::{Access, Counter, Event};
use std::fmt;

/// What a PMU can do for this thread, from [`describe`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The PMU's name.
    pub name: String,
    /// Its type.
    pub type_id: u32,
    /// Its CPUs. None if it lists none.
    pub cpus: Option<CpuSet>,
    /// General-purpose counters available to this thread now. Excludes those held by the NMI watchdog or by pinned events. A
    /// pair that an older kernel chains for 64 bits (arm64) is one. None if this thread is not on the PMU's CPUs, or if the
    /// number is unknown.
    pub general: Option<usize>,
    /// Fixed-function counters, which count one event each: cycles, instructions, reference cycles. None as for
    /// `general`.
    pub fixed: Option<usize>,
    /// How many of the general-purpose counters count, by known work. The host of a virtual machine may hold the others.
    /// None as for `general`.
    pub counting: Option<usize>,
    /// What known work shows of the counters. None if they were not tested: the PMU is not a core PMU, or this thread is
    /// not on its CPUs.
    pub trust: Option<Trust>,
    /// The width of a general-purpose counter in bits (`pmc_width`). None if no control page has it. On arm64, the
    /// counter of cycles may be wider.
    pub width: Option<u16>,
    /// How the cycles of a core PMU are read, or the first event of another PMU; or why it cannot be opened.
    pub access: Result<Access, Error>,
    /// Whether it counts all privilege levels together, because it cannot exclude any.
    pub counts_all_privilege_levels: bool,
}

/// The type of the kernel's software events.
const SOFTWARE: u32 = 1;

/// Finds out what a PMU can do for this thread, by opening and closing events, and by counting known work.
///
/// Takes some hundred system calls and some milliseconds, and reads the files of all PMUs. Some of the events are pinned, so others, of this thread too, may
/// lose their turn until the PMU's next rotation. Counters are counted on x86-64 and arm64, for the core PMU of the CPU that
/// this thread is on.
///
/// None for a PMU of another machine ([`Pmus::from_dir`]).
pub fn describe(pmu: &Pmu) -> Option<Description> {
    if !pmu.is_local() {
        return None;
    }
    let all = Pmus::local().all().unwrap_or_default();
    let core: Vec<Pmu> = all.into_iter().filter(Pmu::is_core).collect();
    Some(describe_beside(pmu, &core))
}

/// As [`describe`], with all core PMUs of this machine.
pub(crate) fn describe_beside(pmu: &Pmu, core: &[Pmu]) -> Description {
    // With the type in its config a generic event is this PMU's in any case, if the kernel is new enough.
    let own = |event: Event| match core.len() {
        1 => event,
        _ => event.on_core_pmu(pmu.type_id()),
    };
    let event = match pmu.events().first() {
        _ if pmu.is_core() => own(Event::CYCLES),
        _ if pmu.type_id() == SOFTWARE => Event::TASK_CLOCK,
        Some(first) => format!("{}/{}/", pmu.name(), first.name)
            .parse()
            .unwrap_or(Event::of_pmu(pmu.type_id(), 0)),
        None => Event::of_pmu(pmu.type_id(), 0),
    };
    let described = |access| Description {
        name: pmu.name().to_owned(),
        type_id: pmu.type_id(),
        cpus: pmu.cpus().cloned(),
        general: None,
        fixed: None,
        counting: None,
        trust: None,
        width: None,
        counts_all_privilege_levels: false,
        access,
    };
    let counter = match Counter::builder(event).allow_all_privilege_levels(true).open() {
        Ok(counter) => counter,
        Err(error) => return described(Err(error)),
    };
    // Before others displace it.
    let access = counter.access();
    let cpu = facts::current_cpu();
    let is_here = pmu.cpus().zip(cpu).is_none_or(|(cpus, cpu)| cpus.contains(cpu));
    let is_tested = pmu.is_core() && is_here;
    let counters = if is_tested { counters(own) } else { None };
    let trust = match is_tested {
        true => trust::test(own).ok().filter(|trust| !trust.tests.is_empty()),
        false => None,
    };
    let dead = trust.as_ref().map(|trust| {
        let (counting, tested) = trust.counting();
        tested - counting
    });
    let general = counters.map(|counters| counters.general);
    // The counter of cycles may be wider than the general ones, so it is the second choice.
    let width = counters.and_then(|counters| counters.width).or_else(|| counter.width());
    Description {
        general,
        counting: general.zip(dead).map(|(general, dead)| general.saturating_sub(dead)),
        trust,
        fixed: counters.map(|counters| counters.fixed),
        width,
        counts_all_privilege_levels: counter.counts_all_privilege_levels(),
        ..described(Ok(access))
    }
}

/// The counters of a PMU.
#[derive(Clone, Copy, Debug)]
struct Counters {
    general: usize,
    fixed: usize,
    /// The width of a general-purpose counter.
    width: Option<u16>,
}

/// Counts the counters of the PMU that `own` chooses. None if that is not possible.
fn counters(own: impl Fn(Event) -> Event) -> Option<Counters> {
    // Events without a fixed counter. Every PMU should have one of them.
    let misses = Event::L1D_LOAD_MISSES;
    let mut any = vec![Event::BRANCH_MISSES, Event::CACHE_MISSES, Event::BRANCHES, misses];
    if cfg!(target_arch = "aarch64") {
        any.push(Event::INSTRUCTIONS); // only cycles have a fixed counter there
    } else if !cfg!(target_arch = "x86_64") {
        return None; // riscv64's firmware may have a register for each event
    }
    // In this kernel's encoding.
    let known = |event| Some(Counter::open(own(event)).ok()?.event());
    let event = any.into_iter().find_map(known)?;
    // All are held, so that the next one finds what is left. An error, such as of too few descriptors, leaves the number open.
    let mut held = Vec::new();
    while let Some(counter) =
        trust::pinned(event).ok()?.filter(|_| held.len() < trust::MAX_COUNTERS)
    {
        held.push(counter);
    }
    let general = held.len();
    // With those in use, another event has a counter only if that is a fixed one.
    for event in [Event::CYCLES, Event::INSTRUCTIONS, Event::REF_CYCLES] {
        match trust::pinned(own(event)) {
            Ok(counter) => held.extend(counter),
            Err(why) if why.kind() == ErrorKind::EventNotSupported => {}
            Err(_) => return None,
        }
    }
    let width = held.first().and_then(Counter::width);
    Some(Counters { general, fixed: held.len() - general, width })
}

impl fmt::Display for Description {
    /// Writes one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (type {})", self.name, self.type_id)?;
        if let Some(cpus) = &self.cpus {
            write!(f, ", CPUs {cpus}")?;
        }
        if let (Some(general), Some(fixed)) = (self.general, self.fixed) {
            match self.counting {
                Some(counting) if counting < general => write!(
                    f,
                    ", {general} general-purpose counters, {counting} of which count, and {fixed} fixed-function"
                )?,
                _ => write!(f, ", {general} general-purpose and {fixed} fixed-function counters")?,
            }
        }
        if let Some(width) = self.width {
            write!(f, ", {width} bits")?;
        }
        if self.counts_all_privilege_levels {
            write!(f, ", cannot exclude privilege levels")?;
        }
        f.write_str(match &self.access {
            Ok(Access::UserSpace) => ", read from user space",
            Ok(Access::SystemCall(why)) if why.kind() == ErrorKind::NotScheduled => {
                ", not on a counter now"
            }
            Ok(_) => ", read by system call",
            Err(why) if why.kind() == ErrorKind::NotPerThread => {
                ", counts for CPUs, not for threads"
            }
            Err(_) => ", not available to this process",
        })
    }
}
