//! The report: what was found on this machine.

use crate::errata::Erratum;
use crate::facts;
use crate::pmu::Description;
use crate::scopes::ScopeReport;
use crate::topdown::Topdown;
use rdpmc::Error;
use rdpmc::clock::ClockKind;
use rdpmc::error::ErrorKind;
use rdpmc::pmu::Pmu;
use rdpmc::{Access, Counter, Event, ReadBy, ReadCost, machine};
use rdpmc_events::topdown::TopdownError;
use rdpmc_step::StepError;
use std::time::Duration;

/// The findings of [`diagnose`](crate::diagnose). Unknown values are None. `Display` prints all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The version of this crate.
    pub version: &'static str,
    /// The architecture that this program was built for.
    pub architecture: &'static str,
    /// The CPU's name, and on x86-64 its family, model and stepping (`/proc/cpuinfo`).
    pub cpu: Option<String>,
    /// The kernel and its release (`/proc/sys/kernel/osrelease`).
    pub kernel: Option<String>,
    /// Whether this is known to be a virtual machine.
    pub is_virtual: bool,
    /// The hypervisor's name.
    pub hypervisor: Option<String>,
    /// The cost of a read: of one counter, and of a group of two. Empty if hardware events cannot be counted, or if faults
    /// are not [contained](rdpmc::contain_faults).
    pub costs: Vec<EventCost>,
    /// Counts of new threads, and of all threads of this process.
    pub scopes: Vec<ScopeReport>,
    /// The core PMUs: none, one, or one for each core type.
    pub core_pmus: Vec<Description>,
    /// The names of the other PMUs.
    pub other_pmus: Vec<String>,
    /// Why no PMUs are listed, if the kernel's list could not be read.
    pub unreadable: Option<Error>,
    /// `kernel.perf_event_paranoid`.
    pub paranoid_level: Option<i32>,
    /// The capability that exempts this process from `perf_event_paranoid`.
    pub capability: Option<&'static str>,
    /// The settings of this machine that change counts and times.
    pub settings: Settings,
    /// The known errors of this machine's counters.
    pub errata: Vec<Erratum>,
    /// The thread's seccomp mode.
    pub seccomp: Option<Seccomp>,
    /// The setting for user access. On x86-64, only root sees it.
    pub user_access: Option<UserAccess>,
    /// `kernel.perf_event_mlock_kb`: how much memory a user's control pages may take, in KiB per CPU.
    pub mlock_kilobytes: Option<u64>,
    /// How much memory this process may lock beyond that (`ulimit -l`).
    pub locked_memory: Option<LockedMemory>,
    /// The file descriptors of this process. Each counter takes one.
    pub descriptors: Option<Descriptors>,
    /// `kernel.nmi_watchdog`: 1 if it may hold a counter of each CPU.
    pub nmi_watchdog: Option<i32>,
    /// The generic hardware events, and some software events.
    pub events: Vec<Availability>,
    /// The time of a single step by `rdpmc-step`, which counts the instructions of code exactly without a hardware counter. Or why it
    /// cannot step here.
    pub step: Result<Duration, StepError>,
    /// The source of a [`Clock`](rdpmc::Clock).
    pub clock: Result<ClockKind, Error>,
    /// Whether this CPU has events that show where its pipeline slots go, or why not.
    pub topdown: Result<Topdown, TopdownError>,
    /// What to do: a line for each problem.
    pub advice: Vec<String>,
}

/// How counters work on a machine, in short: the exit status of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// 0: hardware counters are read in user space.
    UserSpace,
    /// 1: they are read by system call.
    SystemCall,
    /// 2: there are none for this process.
    NoCounters,
    /// 3: known work shows that one counts wrong.
    CountsWrong,
}

impl From<Status> for u8 {
    /// Returns the exit status of the program.
    fn from(status: Status) -> u8 {
        match status {
            Status::UserSpace => 0,
            Status::SystemCall => 1,
            Status::NoCounters => 2,
            Status::CountsWrong => 3,
        }
    }
}

impl Report {
    /// Returns in short how counters work here.
    pub fn status(&self) -> Status {
        let mut hardware =
            self.hardware().filter_map(|found| found.access.as_ref().ok()).peekable();
        let is_wrong = |pmu: &Description| pmu.trust.as_ref().is_some_and(|trust| trust.is_wrong());
        if self.core_pmus.iter().any(is_wrong) {
            Status::CountsWrong
        } else if hardware.peek().is_none() {
            Status::NoCounters
        } else if hardware.any(|access| *access == Access::UserSpace) {
            Status::UserSpace
        } else {
            Status::SystemCall
        }
    }

    /// Returns what was found of hardware events.
    pub(crate) fn hardware(&self) -> impl Iterator<Item = &Availability> {
        self.events.iter().filter(|found| found.is_hardware())
    }

    /// Whether one of the hardware events can be counted.
    pub(crate) fn counts_hardware(&self) -> bool {
        self.hardware().any(|found| found.access.is_ok())
    }
}

/// The cost of a read of some events.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventCost {
    /// The events, read together.
    pub events: Vec<Event>,
    /// How they are read.
    pub access: Access,
    /// The cost of each way.
    pub cost: ReadCost,
}

/// Settings of a machine that change counts and times, from one machine to another and from one run to another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// The frequency governor of the first CPU. Unless it is `performance`, frequencies vary with the load.
    pub governor: Option<String>,
    /// Whether CPUs may exceed their base frequency. If they may, cycles per nanosecond vary.
    pub turbo: Option<bool>,
    /// Whether two or more CPUs share a core (SMT). What runs on one slows down the others. None in a virtual machine that shows none: its
    /// CPUs may share cores all the same.
    pub smt: Option<bool>,
    /// The CPUs that share this thread's core, its own included.
    pub siblings: Option<String>,
    /// Whether this process may count the kernel (`:k`).
    pub counts_kernel: Option<bool>,
    /// Whether the counters stop during system management interrupts. Intel's CPUs only.
    pub freezes_on_smi: Option<bool>,
}

impl Settings {
    pub(crate) fn of_this_machine() -> Settings {
        let is_allowed = |level: i32| level <= 1 || machine::capability().is_some();
        Settings {
            governor: facts::governor(),
            turbo: facts::turbo(),
            smt: facts::smt().filter(|on| *on || !machine::is_virtual()),
            siblings: facts::current_cpu().and_then(facts::siblings),
            counts_kernel: machine::paranoid_level().map(is_allowed),
            freezes_on_smi: facts::freezes_on_smi(),
        }
    }
}

/// How a thread's system calls are filtered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Seccomp {
    /// Not at all.
    Off,
    /// Four system calls only.
    Strict,
    /// By a filter.
    Filter,
    /// In a mode that this library does not know.
    Other(u32),
}

impl Seccomp {
    pub(crate) fn of_mode(mode: u32) -> Seccomp {
        match mode {
            0 => Seccomp::Off,
            1 => Seccomp::Strict,
            2 => Seccomp::Filter,
            mode => Seccomp::Other(mode),
        }
    }
}

/// The administrator's setting for user access: x86-64's `rdpmc`, or `perf_user_access`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UserAccess {
    /// The file with the setting.
    pub setting: &'static str,
    /// 0: disabled. 1: for processes with an open event. 2: for every process.
    pub value: i32,
}

/// A limit of locked memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockedMemory {
    /// The limit in KiB.
    Kilobytes(u64),
    /// No limit.
    Unlimited,
}

impl LockedMemory {
    pub(crate) fn of_kilobytes(kilobytes: u64) -> LockedMemory {
        match kilobytes {
            u64::MAX => LockedMemory::Unlimited,
            kilobytes => LockedMemory::Kilobytes(kilobytes),
        }
    }
}

/// The file descriptors of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Descriptors {
    /// How many are open.
    pub open: u64,
    /// How many may be open (`ulimit -n`).
    pub limit: u64,
}

/// Whether and how this thread can count an event now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Availability {
    /// The event.
    pub event: Event,
    /// How it is read, or why it cannot be opened.
    pub access: Result<Access, Error>,
    /// Whether all privilege levels are counted, because the PMU cannot exclude any.
    pub counts_all_privilege_levels: bool,
    /// The core PMUs that do not have the event, where a machine has several core types.
    pub lacking_on: Vec<String>,
}

impl Availability {
    pub(crate) fn for_event(event: Event, core: &[Pmu]) -> Availability {
        // To choose the cheaper way, `open` reads the counter.
        let way = match rdpmc::faults_are_contained() {
            true => ReadBy::Cheaper,
            false => ReadBy::UserSpace,
        };
        let counter = Counter::builder(event).allow_all_privilege_levels(true).read_by(way).open();
        Availability {
            event,
            counts_all_privilege_levels: counter
                .as_ref()
                .is_ok_and(Counter::counts_all_privilege_levels),
            access: counter.map(|counter| counter.access()),
            lacking_on: lacking(event, core),
        }
    }

    /// Whether the event needs a hardware counter.
    pub(crate) fn is_hardware(&self) -> bool {
        is_hardware(&self.event)
    }
}

pub(crate) fn is_hardware(event: &Event) -> bool {
    ![Event::TASK_CLOCK, Event::PAGE_FAULTS, Event::CONTEXT_SWITCHES].contains(event)
}

/// Returns the core types that lack a hardware event, if there are several types.
fn lacking(event: Event, core: &[Pmu]) -> Vec<String> {
    if core.len() < 2 || !is_hardware(&event) {
        return Vec::new();
    }
    let is_lacking = |pmu: &&Pmu| {
        let builder = Counter::builder(event.on_core_pmu(pmu.type_id()));
        let opened = builder.allow_all_privilege_levels(true).open();
        opened.is_err_and(|why| why.kind() == ErrorKind::EventNotSupported)
    };
    core.iter().filter(is_lacking).map(|pmu| pmu.name().to_owned()).collect()
}
