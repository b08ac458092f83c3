//! What this machine lets this process count and read, and how to fix what does not work.

// Floor 8. `pmu` tries what a PMU can do, `errata` knows processors, `advice` has the remedies, `summary` the first
// lines, `print` and `json` write the report. Uses everything below.

mod advice;
mod errata;
mod json;
mod pmu;
mod print;
mod summary;

pub use errata::{ERRATA, Erratum};
pub use pmu::Description;

use crate::clock::{Clock, ClockKind};
use crate::counter::Counter;
use crate::error::OpenError;
use crate::error::access::Access;
use crate::event::{Event, generic};
use crate::kernel::{self, Unreadable, machine};
use crate::open::cost::{ReadBy, ReadCost};
use crate::page::faults;
use crate::pmu::{Pmu, Pmus};

/// Reports what this machine lets this process count and read, and how to fix what does not work.
///
/// Opens and closes some dozens of counters, measures reads, tests the counters with known work, and reads `/proc` and
/// `/sys`. Takes some hundred system calls and some 10 milliseconds, and leaves no counter open. Counters that are already open may lose a turn on the PMU (see
/// [`Pmu::describe`](crate::pmu::Pmu::describe)).
///
/// Call [`contain_faults`](crate::contain_faults) first. Only then does `diagnose` try to read each counter. This
/// detects reads that fault although the setting allows them, and measures what a read costs.
///
/// ```
/// let report = rdpmc::diagnose();
/// println!("{report}"); // or report.to_json()
/// for line in &report.advice {
///     println!("to do: {line}");
/// }
/// ```
pub fn diagnose() -> Report {
    let (pmus, unreadable) = match Pmus::local().all() {
        Ok(pmus) => (pmus, None),
        Err(unreadable) => (Vec::new(), Some(unreadable)),
    };
    let (core, others): (Vec<Pmu>, Vec<Pmu>) = pmus.into_iter().partition(Pmu::is_core);
    let user_access = machine::user_access();
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION"),
        architecture: std::env::consts::ARCH,
        cpu: machine::processor(),
        kernel: machine::kernel(),
        is_virtual: machine::is_virtual(),
        hypervisor: summary::hypervisor(),
        costs: summary::costs(),
        core_pmus: core.iter().map(Pmu::describe).collect(),
        other_pmus: others.iter().map(|pmu| pmu.name().to_owned()).collect(),
        unreadable,
        paranoid_level: machine::paranoid_level(),
        capability: machine::capability(),
        settings: Settings::of_this_machine(),
        errata: errata::of_this_machine(),
        seccomp: machine::seccomp_mode().map(Seccomp::of_mode),
        user_access: user_access.map(|(setting, value)| UserAccess { setting, value }),
        mlock_kilobytes: machine::mlock_kilobytes(),
        locked_memory: machine::locked_kilobytes().map(LockedMemory::of_kilobytes),
        descriptors: machine::descriptors().map(|(open, limit)| Descriptors { open, limit }),
        nmi_watchdog: machine::nmi_watchdog(),
        events: generic::hardware_events()
            .chain([Event::TASK_CLOCK])
            .map(Availability::of)
            .collect(),
        clock: Clock::open().map(|clock| clock.kind()),
        advice: Vec::new(),
    };
    report.advice = report.remedies();
    report
}

/// Returns the architecture, and the name and the numbers of each CPU model in this machine (`/proc/cpuinfo`). Counts of two
/// runs are comparable only if this is equal.
///
/// None if the kernel does not show it. Reads one file.
pub fn cpu_identity() -> Option<String> {
    machine::processor_identity()
}

/// The findings of [`diagnose`]. Unknown values are None. `Display` prints all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The version of this library.
    pub version: &'static str,
    /// The architecture that this program was built for.
    pub architecture: &'static str,
    /// The CPU's name (`/proc/cpuinfo`).
    pub cpu: Option<String>,
    /// The kernel and its release (`/proc/sys/kernel/osrelease`).
    pub kernel: Option<String>,
    /// Whether this is known to be a virtual machine.
    pub is_virtual: bool,
    /// The hypervisor's name.
    pub hypervisor: Option<String>,
    /// The cost of a read: of one counter, and of a group of two. Empty if hardware events cannot be counted, or if faults
    /// are not [contained](crate::contain_faults).
    pub costs: Vec<EventCost>,
    /// The core PMUs: none, one, or one for each core type.
    pub core_pmus: Vec<Description>,
    /// The names of the other PMUs.
    pub other_pmus: Vec<String>,
    /// Why no PMUs are listed, if the kernel's list could not be read.
    pub unreadable: Option<Unreadable>,
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
    /// The generic hardware events, and one software event.
    pub events: Vec<Availability>,
    /// The source of a [`Clock`].
    pub clock: Result<ClockKind, OpenError>,
    /// What to do: a line for each problem.
    pub advice: Vec<String>,
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
    /// Whether two or more CPUs share a core (SMT). What runs on one slows down the others.
    pub smt: Option<bool>,
    /// The CPUs that share this thread's core, its own included.
    pub siblings: Option<String>,
    /// Whether this process may count the kernel (`:k`).
    pub counts_kernel: Option<bool>,
    /// Whether the counters stop during system management interrupts. Intel's CPUs only.
    pub freezes_on_smi: Option<bool>,
}

impl Settings {
    fn of_this_machine() -> Settings {
        let is_allowed = |level: i32| level <= 1 || machine::is_privileged();
        Settings {
            governor: machine::governor(),
            turbo: machine::turbo(),
            smt: machine::smt(),
            siblings: kernel::current_cpu().and_then(machine::siblings),
            counts_kernel: machine::paranoid_level().map(is_allowed),
            freezes_on_smi: machine::freezes_on_smi(),
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
    fn of_mode(mode: u32) -> Seccomp {
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
    fn of_kilobytes(kilobytes: u64) -> LockedMemory {
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
    pub access: Result<Access, OpenError>,
    /// Whether all privilege levels are counted, because the PMU cannot exclude any.
    pub counts_all_privilege_levels: bool,
}

impl Availability {
    fn of(event: Event) -> Availability {
        // To choose the cheaper way, `open` reads the counter.
        let way = if faults::are_contained() { ReadBy::Cheaper } else { ReadBy::UserSpace };
        let counter = Counter::builder(event).allow_all_privilege_levels(true).read_by(way).open();
        Availability {
            event,
            counts_all_privilege_levels: counter
                .as_ref()
                .is_ok_and(Counter::counts_all_privilege_levels),
            access: counter.map(|counter| counter.access()),
        }
    }
}
