//! What a PMU can do, as far as it can be found by trying.

use crate::counter::Counter;
use crate::error::OpenError;
use crate::error::access::{Access, SyscallReason};
use crate::event::{Cache, CacheAccess, CacheResult, Event};
use crate::kernel::kind;
use crate::names::named;
use crate::open::Options;
use crate::pmu::{CpuSet, Pmu, core_types};
use std::fmt;

/// What a PMU can do for this thread, from [`Pmu::describe`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The PMU's name.
    pub name: String,
    /// Its number (`type`).
    pub number: u32,
    /// Which processors it is of, if it says so.
    pub processors: Option<CpuSet>,
    /// How many counters it has that count any event, as far as this can be found: those that the kernel
    /// lets a thread have at the same time, at this moment. So one that the kernel's watchdog or another
    /// pinned event holds is missing, if this thread is where the PMU is.
    pub general: Option<usize>,
    /// How many more it has that count one event each: cycles, instructions, reference cycles.
    pub fixed: Option<usize>,
    /// How wide the general ones are, in bits (`pmc_width`), where the kernel says so on a counter's page;
    /// on arm64, that of cycles may be wider.
    pub width: Option<u16>,
    /// How its counters are read: of the processor's own PMU that of cycles, of another that of its first
    /// event; or why there is none.
    pub access: Result<Access, OpenError>,
    /// Whether it counts all privilege levels together, as it cannot tell them apart.
    pub is_unfiltered: bool,
}

impl Pmu {
    /// Finds out what this PMU can do for this thread. It opens and closes events, by some hundred system
    /// calls. Pinned ones are among them, which others, this thread's too, have to make room for until the
    /// PMU's next turn. Of a PMU that is not this machine's ([`Pmus::in_folder`](crate::Pmus::in_folder))
    /// nothing is opened, and `access` is [`OpenError::NotThisMachine`].
    ///
    /// How many counters there are it finds on x86-64 and arm64, for PMUs of the processor's cores.
    pub fn describe(&self) -> Description {
        if !self.is_local() {
            return Description {
                name: self.name().to_owned(),
                number: self.type_id(),
                processors: self.cpus().cloned(),
                general: None,
                fixed: None,
                width: None,
                is_unfiltered: false,
                access: Err(OpenError::NotThisMachine),
            };
        }
        let event = match self.events().first() {
            _ if self.is_core() => self.own(Event::CYCLES),
            _ if self.type_id() == kind::SOFTWARE => Event::TASK_CLOCK,
            Some(first) => format!("{}/{}/", self.name(), first.name)
                .parse()
                .unwrap_or(Event::of_pmu(self.type_id(), 0)),
            None => Event::of_pmu(self.type_id(), 0),
        };
        let counter = match self.counts_for_cpus() {
            true => Err(OpenError::NotPerThread { event: named(event) }),
            false => Counter::builder(event).allow_all_privilege_levels(true).open(),
        };
        let counters = if self.is_core() && counter.is_ok() { self.counters() } else { None };
        // That of cycles, which may have a wider one of their own, if there is no other.
        let any = counters.map(|counters| Counter::builder(counters.any).open());
        let width = match &any {
            Some(Ok(any)) => any.width(),
            _ => counter.as_ref().ok().and_then(Counter::width),
        };
        Description {
            name: self.name().to_owned(),
            number: self.type_id(),
            processors: self.cpus().cloned(),
            general: counters.map(|counters| counters.general),
            fixed: counters.map(|counters| counters.fixed),
            width,
            is_unfiltered: counter.as_ref().is_ok_and(Counter::counts_all_privilege_levels),
            access: counter.map(|counter| counter.access()),
        }
    }

    /// The generic event as counted by this PMU.
    fn own(&self, event: Event) -> Event {
        // By its number it is this PMU's in any case, if the kernel is not too old to know that.
        match core_types::may_be_several() {
            Ok(false) => event,
            Ok(true) | Err(_) => event.on_core(self.type_id()),
        }
    }

    /// How many counters are for any event, and how many for one.
    fn counters(&self) -> Option<Counters> {
        // Events that no fixed counter has, at least one of which any PMU should have.
        let misses = Event::cache(Cache::L1Data, CacheAccess::Read, CacheResult::Miss);
        let mut any = vec![Event::BRANCH_MISSES, Event::CACHE_MISSES, Event::BRANCHES, misses];
        if cfg!(target_arch = "aarch64") {
            any.push(Event::INSTRUCTIONS); // cycles only have a counter of their own there
        } else if !cfg!(target_arch = "x86_64") {
            return None; // riscv64's firmware may have one register for each event
        }
        // As this kernel has them.
        let known = |event| Some(Counter::open(self.own(event)).ok()?.event());
        let any = any.into_iter().find_map(known)?;
        let options = Options::default();
        let general = options.how_many(any, &[])?;
        let mut events = vec![any; general];
        let fixed = [Event::CYCLES, Event::INSTRUCTIONS, Event::REF_CYCLES];
        for fixed in fixed.into_iter().filter_map(known) {
            // One of each at the most.
            if options.how_many(fixed, &events)? > 0 {
                events.push(fixed);
            }
        }
        Some(Counters { any, general, fixed: events.len() - general })
    }
}

/// What was found of a PMU's counters.
#[derive(Clone, Copy, Debug)]
struct Counters {
    /// An event that any of the general ones can have, and none of the fixed.
    any: Event,
    general: usize,
    fixed: usize,
}

impl fmt::Display for Description {
    /// In a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (type {})", self.name, self.number)?;
        if let Some(processors) = &self.processors {
            write!(f, ", processors {processors}")?;
        }
        if let (Some(general), Some(fixed)) = (self.general, self.fixed) {
            write!(f, ", {general} general and {fixed} fixed counters")?;
        }
        if let Some(width) = self.width {
            write!(f, ", {width} bits")?;
        }
        if self.is_unfiltered {
            write!(f, ", no privilege filter")?;
        }
        f.write_str(match &self.access {
            Ok(Access::UserSpace) => ", read from user space",
            Ok(Access::SystemCall(SyscallReason::NotScheduled)) => ", no counter at this moment",
            Ok(_) => ", read by system call",
            Err(OpenError::NotPerThread { .. }) => ", counts for processors, not for threads",
            Err(_) => ", not available to this process",
        })
    }
}
