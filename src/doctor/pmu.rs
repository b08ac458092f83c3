//! What a PMU can do, found by trying.

use crate::counter::Counter;
use crate::error::OpenError;
use crate::error::access::{Access, SyscallReason};
use crate::event::{Cache, CacheAccess, CacheResult, Event};
use crate::kernel::{self, kind};
use crate::names::named;
use crate::open::Options;
use crate::pmu::{CpuSet, Pmu, core_types};
use crate::trust::{self, Trust};
use std::fmt;

/// What a PMU can do for this thread, from [`Pmu::describe`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The PMU's name.
    pub name: String,
    /// Its type.
    pub type_id: u32,
    /// Its CPUs. None if it lists none.
    pub cpus: Option<CpuSet>,
    /// General-purpose counters available to this thread now. Excludes those held by the NMI watchdog or by pinned
    /// events, if this thread is on the PMU's CPUs. None if unknown.
    pub general: Option<usize>,
    /// Fixed-function counters, which count one event each: cycles, instructions, reference cycles. None if unknown.
    pub fixed: Option<usize>,
    /// How many of the general-purpose counters count, by known work. The host of a virtual machine may hold the others.
    /// None if unknown.
    pub counting: Option<usize>,
    /// What known work shows of the counters. None if they were not tested: the PMU is not a core PMU, or this thread is
    /// not on its CPUs.
    pub trust: Option<Trust>,
    /// The width of a general-purpose counter in bits (`pmc_width`). None if no control page has it. On arm64, the
    /// counter of cycles may be wider.
    pub width: Option<u16>,
    /// How the cycles of a core PMU are read, or the first event of another PMU; or why it cannot be opened.
    pub access: Result<Access, OpenError>,
    /// Whether it counts all privilege levels together, because it cannot exclude any.
    pub counts_all_privilege_levels: bool,
}

impl Pmu {
    /// Finds out what this PMU can do for this thread, by opening and closing events, and by counting known work.
    ///
    /// Takes some hundred system calls and some milliseconds. Some of the events are pinned, so others, of this thread too, may lose their
    /// turn until the PMU's next rotation. Counters are counted on x86-64 and arm64, for core PMUs.
    ///
    /// For a PMU of another machine ([`Pmus::from_dir`](crate::pmu::Pmus::from_dir)), nothing is opened, and `access`
    /// is [`OpenError::NotThisMachine`].
    pub fn describe(&self) -> Description {
        let unopened = |error| Description {
            name: self.name().to_owned(),
            type_id: self.type_id(),
            cpus: self.cpus().cloned(),
            general: None,
            fixed: None,
            counting: None,
            trust: None,
            width: None,
            counts_all_privilege_levels: false,
            access: Err(error),
        };
        if !self.is_local() {
            return unopened(OpenError::NotThisMachine);
        }
        let event = match self.events().first() {
            _ if self.is_core() => self.own(Event::CYCLES),
            _ if self.type_id() == kind::SOFTWARE => Event::TASK_CLOCK,
            Some(first) => format!("{}/{}/", self.name(), first.name)
                .parse()
                .unwrap_or(Event::of_pmu(self.type_id(), 0)),
            None => Event::of_pmu(self.type_id(), 0),
        };
        if self.counts_for_cpus() {
            return unopened(OpenError::NotPerThread { event: named(event) });
        }
        let counter = match Counter::builder(event).allow_all_privilege_levels(true).open() {
            Ok(counter) => counter,
            Err(error) => return unopened(error),
        };
        // Before others displace it.
        let access = counter.access();
        let counters = if self.is_core() { self.counters() } else { None };
        let trust = if self.is_core() && self.is_here() {
            trust::test(|event| self.own(event)).ok().filter(|trust| !trust.tests.is_empty())
        } else {
            None
        };
        let dead = trust.as_ref().map(|trust| {
            let (counting, tested) = trust.counting();
            tested - counting
        });
        let general = counters.map(|counters| counters.general);
        // The counter of cycles may be wider than the general ones, so it is the second choice.
        let any = counters.and_then(|counters| Counter::open(counters.any).ok());
        Description {
            general,
            counting: general.zip(dead).map(|(general, dead)| general.saturating_sub(dead)),
            trust,
            fixed: counters.map(|counters| counters.fixed),
            width: any.as_ref().unwrap_or(&counter).width(),
            counts_all_privilege_levels: counter.counts_all_privilege_levels(),
            access: Ok(access),
            ..unopened(OpenError::Unsupported)
        }
    }

    /// Whether this thread is on one of the PMU's CPUs, as far as they are known.
    fn is_here(&self) -> bool {
        let cpu = kernel::current_cpu();
        self.cpus().zip(cpu).is_none_or(|(cpus, cpu)| cpus.contains(cpu))
    }

    /// Returns the generic event on this PMU.
    fn own(&self, event: Event) -> Event {
        // With the type in its config it is this PMU's in any case, if the kernel is new enough.
        match core_types::may_be_several() {
            Ok(false) => event,
            Ok(true) | Err(_) => event.on_core(self.type_id()),
        }
    }

    /// Counts the counters. None if that is not possible.
    fn counters(&self) -> Option<Counters> {
        // Events without a fixed counter. Every PMU should have one of them.
        let misses = Event::cache(Cache::L1Data, CacheAccess::Read, CacheResult::Miss);
        let mut any = vec![Event::BRANCH_MISSES, Event::CACHE_MISSES, Event::BRANCHES, misses];
        if cfg!(target_arch = "aarch64") {
            any.push(Event::INSTRUCTIONS); // only cycles have a fixed counter there
        } else if !cfg!(target_arch = "x86_64") {
            return None; // riscv64's firmware may have a register for each event
        }
        // In this kernel's encoding.
        let known = |event| Some(Counter::open(self.own(event)).ok()?.event());
        let any = any.into_iter().find_map(known)?;
        let options = Options::default();
        let general = options.how_many(any, &[])?;
        let mut events = vec![any; general];
        let fixed = [Event::CYCLES, Event::INSTRUCTIONS, Event::REF_CYCLES];
        for fixed in fixed.into_iter().filter_map(known) {
            // At most one of each.
            if options.how_many(fixed, &events)? > 0 {
                events.push(fixed);
            }
        }
        Some(Counters { any, general, fixed: events.len() - general })
    }
}

/// The counters of a PMU.
#[derive(Clone, Copy, Debug)]
struct Counters {
    /// An event that every general-purpose counter can count, and no fixed one.
    any: Event,
    general: usize,
    fixed: usize,
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
            Ok(Access::SystemCall(SyscallReason::NotScheduled)) => ", not on a counter now",
            Ok(_) => ", read by system call",
            Err(OpenError::NotPerThread { .. }) => ", counts for CPUs, not for threads",
            Err(_) => ", not available to this process",
        })
    }
}
