//! What can be counted: [`Event`](crate::Event), its names and its unit.

// Floor 2: events as the kernel's numbers, their modifiers and generic names. Uses `kernel`.

pub(crate) mod generic;
pub(crate) mod modifiers;
mod unit;

pub use unit::Unit;

use crate::kernel::{HW_EVENT_MASK, PMU_TYPE_SHIFT, cache, hardware, kind, software};
use modifiers::Modifiers;

/// `config`, `config1` and so on.
pub(crate) type Words = [u64; 5];

/// The names of the words.
pub(crate) const WORDS: [&str; 5] = ["config", "config1", "config2", "config3", "config4"];

/// Something the kernel can count for a thread: a constant of this type, a
/// [cache event](Event::cache), a [raw](Event::raw) event of the processor, one of
/// [any PMU](Event::of_pmu), or one by its name, as perf has it.
///
/// ```
/// use rdpmc::{Error, Event};
///
/// let event: Event = "branch-misses".parse()?;
/// assert_eq!(event, Event::BRANCH_MISSES);
/// let misses: Event = "L1-dcache-load-misses:u".parse()?;
/// assert_eq!(misses.to_string(), "L1-dcache-load-misses:u");
/// let why = "cylces".parse::<Event>().unwrap_err();
/// assert!(why.to_string().contains("cycles"), "{why}");
/// # Ok::<(), Error>(())
/// ```
///
/// # Names
///
/// | name | event |
/// |---|---|
/// | `cycles`, `page-faults`, `L1-dcache-load-misses` | what the kernel defines for all processors: `perf list`'s hardware, software and cache events |
/// | `r01c2` | a [raw](Event::raw) event, in hexadecimal |
/// | `cpu/event=0xc0,umask=0x01,inv,cmask=2/` | an event of a PMU, by the terms in its `format` folder, and `config` to `config4` |
/// | `cpu/mem-loads/`, `msr/tsc/` | the same, by a name in its `events` folder; further terms replace its own (perf merges them) |
/// | `mem-loads` | the same, if one PMU only has an event of that name |
/// | `cpu_core/cycles/`, `armv8_cortex_a72/r11/` | the kernel's or a raw event, on this PMU |
///
/// PMUs, their terms and their events are those of this machine (`/sys/bus/event_source/devices`):
/// [`Pmus`](crate::Pmus) lists them. Names that perf takes from its own tables, such as
/// `inst_retired.any`, are unknown to the kernel: `perf stat -vv -e NAME true` prints what they stand
/// for; the terms of sampling in it, such as `period`, have no effect. Modifiers may follow, after a colon or
/// the last slash, as in `cycles:uk`:
///
/// | modifier | |
/// |---|---|
/// | `u`, `k`, `h` | count user mode, the kernel, the hypervisor, and nothing else (`cpu-clock` and `task-clock` count all the same); without any, what [`Builder`](crate::Builder) says, user mode alone unless it says otherwise |
/// | `G`, `H` | count guests alone, the host alone, with `GH` both; without any, the host alone |
/// | `D`, `e` | pinned, exclusive; in a group, the whole group |
/// | `I` | not while idle |
/// | `p`, `pp`, `ppp`, `P`, `S`, `W` | about samples, and perf's groups: taken, and without effect here |
///
/// What a name says takes precedence over what the [`Builder`](crate::Builder) says. `Display` writes such a
/// name without a system call; parsed on the same machine, it gives an equal event. For an event of a PMU it
/// is numbers, and [`Pmus::name_of`](crate::Pmus::name_of) finds the PMU's own name.
///
/// # Several core types
///
/// Where the processor has cores of several types (Intel's hybrids, arm's big.LITTLE), each has a PMU
/// of its own, and the kernel's events belong to none: [`Counter`](crate::Counter) then counts
/// them on all, [`Group`](crate::Group) on one. So too raw events on arm64; on Intel's hybrids these are
/// `cpu_core`'s, which has their number, where perf opens them on both. `cpu_atom/cycles/` is of one PMU from
/// the start, and `mem-loads` by itself, which both have, is an error.
///
/// # Constants
///
/// The constants up to [`REF_CYCLES`](Event::REF_CYCLES) are the kernel's generic hardware events
/// (`PERF_TYPE_HARDWARE`), which it translates for the processor at hand, and of which every
/// processor lacks some. Those from [`CPU_CLOCK`](Event::CPU_CLOCK) on are software events
/// (`PERF_TYPE_SOFTWARE`): the kernel counts them itself, on every machine, and reading one is
/// always a system call.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Event {
    pub(crate) kind: u32,
    pub(crate) config: u64,
    pub(crate) config1: u64,
    pub(crate) config2: u64,
    pub(crate) config3: u64,
    pub(crate) config4: u64,
    pub(crate) modifiers: Modifiers,
}

impl Event {
    const fn new(kind: u32, config: u64) -> Event {
        Event {
            kind,
            config,
            config1: 0,
            config2: 0,
            config3: 0,
            config4: 0,
            modifiers: Modifiers::NONE,
        }
    }
    const fn hardware(config: u64) -> Event {
        Event::new(kind::HARDWARE, config)
    }
    const fn software(config: u64) -> Event {
        Event::new(kind::SOFTWARE, config)
    }

    /// Core clock cycles, which slow down and speed up with the processor's frequency.
    pub const CYCLES: Event = Event::hardware(hardware::CPU_CYCLES);
    /// Retired instructions.
    pub const INSTRUCTIONS: Event = Event::hardware(hardware::INSTRUCTIONS);
    /// Cache accesses, usually of the last level.
    pub const CACHE_REFERENCES: Event = Event::hardware(hardware::CACHE_REFERENCES);
    /// Cache misses, usually of the last level.
    pub const CACHE_MISSES: Event = Event::hardware(hardware::CACHE_MISSES);
    /// Retired branch instructions.
    pub const BRANCHES: Event = Event::hardware(hardware::BRANCH_INSTRUCTIONS);
    /// Retired branches that were predicted wrongly.
    pub const BRANCH_MISSES: Event = Event::hardware(hardware::BRANCH_MISSES);
    /// Bus cycles.
    pub const BUS_CYCLES: Event = Event::hardware(hardware::BUS_CYCLES);
    /// Cycles in which the front end delivered nothing.
    pub const STALLED_CYCLES_FRONTEND: Event = Event::hardware(hardware::STALLED_CYCLES_FRONTEND);
    /// Cycles in which the back end accepted nothing.
    pub const STALLED_CYCLES_BACKEND: Event = Event::hardware(hardware::STALLED_CYCLES_BACKEND);
    /// Cycles of a clock of constant frequency.
    pub const REF_CYCLES: Event = Event::hardware(hardware::REF_CPU_CYCLES);

    /// Nanoseconds by the clock of the processor while this thread runs: nearly
    /// [`TASK_CLOCK`](Event::TASK_CLOCK).
    pub const CPU_CLOCK: Event = Event::software(software::CPU_CLOCK);
    /// Nanoseconds this thread has run.
    pub const TASK_CLOCK: Event = Event::software(software::TASK_CLOCK);
    /// Page faults.
    pub const PAGE_FAULTS: Event = Event::software(software::PAGE_FAULTS);
    /// Page faults that needed no input or output.
    pub const MINOR_FAULTS: Event = Event::software(software::PAGE_FAULTS_MIN);
    /// Page faults that needed input or output.
    pub const MAJOR_FAULTS: Event = Event::software(software::PAGE_FAULTS_MAJ);
    /// Switches of this thread off its processor. The kernel does them, so unlike the others here
    /// this event, like [`CPU_MIGRATIONS`](Event::CPU_MIGRATIONS) and
    /// [`CGROUP_SWITCHES`](Event::CGROUP_SWITCHES), is opened with the kernel included.
    pub const CONTEXT_SWITCHES: Event = Event::software(software::CONTEXT_SWITCHES);
    /// Moves of this thread to another processor; the kernel is included.
    pub const CPU_MIGRATIONS: Event = Event::software(software::CPU_MIGRATIONS);
    /// Unaligned accesses that the kernel carried out.
    pub const ALIGNMENT_FAULTS: Event = Event::software(software::ALIGNMENT_FAULTS);
    /// Instructions that the kernel emulated.
    pub const EMULATION_FAULTS: Event = Event::software(software::EMULATION_FAULTS);
    /// Nothing: a placeholder (`PERF_COUNT_SW_DUMMY`).
    pub const DUMMY: Event = Event::software(software::DUMMY);
    /// Switches to a thread of another control group; the kernel is included.
    pub const CGROUP_SWITCHES: Event = Event::software(software::CGROUP_SWITCHES);

    /// A generic cache event (`PERF_TYPE_HW_CACHE`). Every processor has some of the
    /// combinations only.
    pub const fn cache(cache: Cache, access: CacheAccess, outcome: CacheResult) -> Event {
        Event::new(kind::HW_CACHE, cache::config(cache as u64, access as u64, outcome as u64))
    }

    /// An event of this processor by its own encoding (`PERF_TYPE_RAW`), e.g. event select and
    /// unit mask on x86-64: see the processor's manual.
    pub const fn raw(config: u64) -> Event {
        Event::new(kind::RAW, config)
    }

    /// An event of the PMU whose number (`/sys/bus/event_source/devices/NAME/type`) is given.
    pub const fn of_pmu(pmu: u32, config: u64) -> Event {
        Event::new(pmu, config)
    }

    /// The same event counted in kernel mode alone, as `NAME:k` is. It takes the place of the
    /// event's privilege modifiers. It needs `kernel.perf_event_paranoid` 1 or less, or `CAP_PERFMON`.
    ///
    /// It has no effect on [`CPU_CLOCK`](Event::CPU_CLOCK) and [`TASK_CLOCK`](Event::TASK_CLOCK): time has no
    /// privilege level.
    ///
    /// [`INSTRUCTIONS`](Event::INSTRUCTIONS) of the kernel, in a group with what is measured, show whether an
    /// interrupt came in between: see [`Region`](crate::Region#interrupts).
    #[must_use]
    pub const fn kernel(self) -> Event {
        Event { modifiers: self.modifiers.kernel(), ..self }
    }

    /// The same event with the second configuration word set. On arm64 a value other than 0 takes
    /// the place of what this library would ask there to be let read the counter in user space.
    #[must_use]
    pub const fn with_config1(self, config1: u64) -> Event {
        Event { config1, ..self }
    }

    /// The same event with the third configuration word set.
    #[must_use]
    pub const fn with_config2(self, config2: u64) -> Event {
        Event { config2, ..self }
    }

    /// The same event with the fourth configuration word set, which needs Linux 6.3.
    #[must_use]
    pub const fn with_config3(self, config3: u64) -> Event {
        Event { config3, ..self }
    }

    /// The same event with the fifth configuration word set, which needs Linux 6.19.
    #[must_use]
    pub const fn with_config4(self, config4: u64) -> Event {
        Event { config4, ..self }
    }

    /// `config` to `config4`.
    pub(crate) fn words(&self) -> Words {
        [self.config, self.config1, self.config2, self.config3, self.config4]
    }

    /// The event of the PMU of this number whose words are these.
    pub(crate) fn of_words(kind: u32, words: Words) -> Event {
        let [config, config1, config2, config3, config4] = words;
        Event { kind, config, config1, config2, config3, config4, modifiers: Modifiers::NONE }
    }

    /// The same event with other modifiers.
    pub(crate) fn modified(self, modifiers: Modifiers) -> Event {
        Event { modifiers, ..self }
    }

    /// The same event without modifiers.
    pub(crate) fn plain(self) -> Event {
        self.modified(Modifiers::NONE)
    }

    /// The number of the PMU that the event says it is of, if it is of hardware and says so.
    pub(crate) fn pmu(&self) -> Option<u32> {
        match self.kind {
            kind::HARDWARE | kind::HW_CACHE => {
                u32::try_from(self.config >> PMU_TYPE_SHIFT).ok().filter(|pmu| *pmu != 0)
            }
            kind::RAW => None,
            _ if self.is_software() => None,
            pmu => Some(pmu),
        }
    }

    /// An event of the processor that does not say which PMU counts it, on the one of this number: a generic
    /// one by the upper half of `config`, since Linux 5.13 on x86-64 and 6.6 on arm64.
    pub(crate) fn on_core(self, pmu: u32) -> Event {
        if !self.is_of_the_core() || self.pmu().is_some() {
            return self;
        }
        match self.kind {
            kind::RAW => Event { kind: pmu, ..self },
            _ => {
                let config = self.config & HW_EVENT_MASK | u64::from(pmu) << PMU_TYPE_SHIFT;
                Event { config, ..self }
            }
        }
    }

    /// What it is, without modifiers, and if it is generic, without the PMU.
    pub(crate) fn bare(self) -> Event {
        let config = if self.is_generic() { self.config & HW_EVENT_MASK } else { self.config };
        Event { config, ..self }.plain()
    }

    /// Whether the kernel counts this event in software: no PMU, no counter to read.
    pub(crate) fn is_software(&self) -> bool {
        matches!(self.kind, kind::SOFTWARE | kind::TRACEPOINT | kind::BREAKPOINT)
    }

    /// Whether this is an event whose meaning the kernel defines, for every processor.
    pub(crate) fn is_generic(&self) -> bool {
        matches!(self.kind, kind::HARDWARE | kind::HW_CACHE)
    }

    /// Whether the register that the kernel publishes does not hold this event's count.
    pub(crate) fn is_not_in_its_register(&self) -> bool {
        if self.is_generic() || self.is_software() {
            return false;
        }
        if cfg!(target_arch = "x86_64") {
            // Event select 0 with a unit mask from 0x80 on: on Intel the topdown metrics, eight
            // packed bits each. (AMD has a few ordinary events there: for them this is a loss of
            // speed, not of truth.)
            self.config & 0xff == 0 && self.config & 0x8000 != 0
        } else if cfg!(target_arch = "riscv64") {
            // Events of the firmware, which no register counts: the kernel publishes that of the
            // cycles for them.
            self.config & 1 << 63 != 0
        } else {
            false
        }
    }

    /// Whether the kernel alone brings the event about, so that leaving the kernel out would leave
    /// nothing.
    pub(crate) fn happens_in_the_kernel(&self) -> bool {
        const SWITCHES: [u64; 3] =
            [software::CONTEXT_SWITCHES, software::CPU_MIGRATIONS, software::CGROUP_SWITCHES];
        self.kind == kind::SOFTWARE && SWITCHES.contains(&self.config)
    }

    /// Whether this is a tracepoint. Most happen in the kernel. Those of system calls count as user mode's.
    pub(crate) fn is_tracepoint(&self) -> bool {
        self.kind == kind::TRACEPOINT
    }

    /// Whether the kernel counts this event at all privilege levels, whatever it is asked to leave out.
    pub(crate) fn has_no_privilege_level(&self) -> bool {
        const THESE: [u64; 3] = [software::CPU_CLOCK, software::TASK_CLOCK, software::DUMMY];
        self.kind == kind::SOFTWARE && THESE.contains(&self.config)
    }

    /// Whether this is an event of the processor's own PMU, whatever that is called.
    pub(crate) fn is_of_the_core(&self) -> bool {
        self.is_generic() || self.kind == kind::RAW
    }
}

/// Which cache a [cache event](Event::cache) is about (`enum perf_hw_cache_id`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
#[non_exhaustive]
pub enum Cache {
    /// First level, data.
    L1Data = cache::L1D,
    /// First level, instructions.
    L1Instruction = cache::L1I,
    /// Last level.
    LastLevel = cache::LL,
    /// Translations of data addresses.
    DataTlb = cache::DTLB,
    /// Translations of instruction addresses.
    InstructionTlb = cache::ITLB,
    /// Branch prediction.
    BranchPrediction = cache::BPU,
    /// Memory of the local NUMA node.
    Node = cache::NODE,
}

/// What was wanted of the cache (`enum perf_hw_cache_op_id`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
#[non_exhaustive]
pub enum CacheAccess {
    /// To load from it.
    Read = cache::OP_READ,
    /// To store to it.
    Write = cache::OP_WRITE,
    /// To fill it ahead of use.
    Prefetch = cache::OP_PREFETCH,
}

/// How it ended (`enum perf_hw_cache_op_result_id`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
#[non_exhaustive]
pub enum CacheResult {
    /// Either way: all accesses.
    Access = cache::RESULT_ACCESS,
    /// Not found.
    Miss = cache::RESULT_MISS,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_register_holds() {
        let topdown = Event::raw(0x8100);
        let firmware = Event::raw(1 << 63 | 5);
        assert_eq!(topdown.is_not_in_its_register(), cfg!(target_arch = "x86_64"));
        assert_eq!(firmware.is_not_in_its_register(), cfg!(target_arch = "riscv64"));
        let cache = Event::cache(Cache::L1Data, CacheAccess::Read, CacheResult::Miss);
        for event in
            [Event::CYCLES, cache, Event::TASK_CLOCK, Event::raw(0x00c0), Event::raw(0x81c0)]
        {
            assert!(!event.is_not_in_its_register(), "{event:?}");
        }
    }

    #[test]
    fn on_a_core_types_pmu() {
        let cycles = Event::CYCLES.on_core(10);
        assert_eq!((cycles.config, cycles.pmu()), (10 << 32, Some(10)));
        assert_eq!(cycles.bare(), Event::CYCLES);
        assert_eq!(cycles.on_core(11), cycles);
        assert_eq!(Event::raw(0xc0).on_core(10), Event::of_pmu(10, 0xc0));
        assert_eq!(Event::TASK_CLOCK.on_core(10), Event::TASK_CLOCK);
        assert_eq!(Event::of_pmu(9, 0).on_core(10).pmu(), Some(9));
    }

    #[test]
    fn cache_events_are_three_bytes() {
        let event = Event::cache(Cache::DataTlb, CacheAccess::Prefetch, CacheResult::Miss);
        assert_eq!((event.kind, event.config), (3, 0x01_02_03));
    }
}
