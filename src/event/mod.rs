//! The events that can be counted: [`Event`], its names and its unit.

// Floor 2: events as the kernel's numbers, their modifiers and generic names. Uses `kernel`.

pub(crate) mod generic;
mod given_names;
pub(crate) mod modifiers;
mod unit;

use crate::kernel::{HW_EVENT_MASK, PMU_TYPE_SHIFT, cache, hardware, kind, software};
use modifiers::Modifiers;

/// The configuration words of an event: `config` to `config4`.
pub(crate) type Words = [u64; 5];

/// The names of the configuration words.
pub(crate) const WORDS: [&str; 5] = ["config", "config1", "config2", "config3", "config4"];

/// An event that the kernel can count for a thread.
///
/// It is a constant of this type, a [raw](Event::raw) event of the CPU, or an event of
/// [any PMU](Event::of_pmu). It can also be parsed from a name in perf's syntax.
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
/// | `cycles`, `page-faults`, `L1-dcache-load-misses` | an event that the kernel defines for all CPUs: `perf list`'s hardware, software and cache events |
/// | `r01c2` | a [raw](Event::raw) event, in hexadecimal |
/// | `cpu/event=0xc0,umask=0x01,inv,cmask=2/` | an event of a PMU, given by terms: those in the PMU's `format` directory, or `config` to `config4` |
/// | `cpu/mem-loads/`, `msr/tsc/` | an event of a PMU, by a name in its `events` directory; a further term replaces the value in that event's definition (perf combines the bits of both values) |
/// | `mem-loads` | an event of a PMU, if only one PMU has an event of that name |
/// | `cpu_core/cycles/`, `armv8_cortex_a72/r11/` | an event of the first two rows, on this PMU |
///
/// PMUs, their terms and their events are those of this machine (`/sys/bus/event_source/devices`).
/// [`Pmus`](crate::pmu::Pmus) lists them. The kernel does not know names from perf's own tables, such as
/// `inst_retired.any`. The crate `rdpmc-events` does, and `perf stat -vv -e NAME true` prints the terms of such a name. Sampling
/// terms in that output, such as `period`, have no effect here.
///
/// Modifiers may follow a colon or the last slash, as in `cycles:uk`:
///
/// | modifier | meaning |
/// |---|---|
/// | `u`, `k`, `h` | count user mode, the kernel, the hypervisor, and no other level (`cpu-clock` and `task-clock` ignore this); if none is given, [`Builder`](crate::Builder)'s setting applies, by default user mode alone |
/// | `G`, `H` | count guests alone, the host alone, with `GH` both; if none is given, [`Builder`](crate::Builder)'s setting applies, by default the host alone |
/// | `D`, `e` | pinned, exclusive; in a group, this applies to the whole group |
/// | `I` | not while idle |
/// | `S`, `W` | for perf's groups: accepted, without effect here |
/// | `p`, `pp`, `ppp`, `P` | precise samples: refused, because a counter takes no samples |
///
/// A modifier takes precedence over the setting of the [`Builder`](crate::Builder). `Display` writes the name that the event was
/// [given](Event::named), else its [encoding](Event::encoding), without a system call. Parsed on this machine, the encoding gives an
/// equal event. For an event of a PMU, it consists of numbers. [`Pmus::name_of`](crate::pmu::Pmus::name_of) finds the name
/// that the PMU gives the event.
///
/// # Several core types
///
/// CPUs with several core types (Intel's hybrids, arm's big.LITTLE) have a PMU for each type. Events that
/// the kernel defines for all CPUs belong to none of these PMUs: [`Counter`](crate::Counter) counts them on all types,
/// [`Group`](crate::Group) on one.
///
/// - Raw events belong to no type on arm64. On Intel's hybrids they carry the PMU type of `cpu_core` and belong to
///   it. perf opens them on both types.
/// - `cpu_atom/cycles/` names its PMU explicitly.
/// - On Intel's hybrids, `mem-loads` alone is an error, because both PMUs have it.
///
/// # Constants
///
/// The constants up to [`REF_CYCLES`](Event::REF_CYCLES) are the kernel's generic hardware events
/// (`PERF_TYPE_HARDWARE`). The kernel translates them for the CPU, and every CPU lacks some. The constants
/// from [`L1D_LOADS`](Event::L1D_LOADS) to [`ITLB_LOAD_MISSES`](Event::ITLB_LOAD_MISSES) are common cache events
/// (`PERF_TYPE_HW_CACHE`). The other combinations of cache, access and result have names, such as `LLC-store-misses` and
/// `node-prefetches`.
///
/// The constants from [`CPU_CLOCK`](Event::CPU_CLOCK) on are software events (`PERF_TYPE_SOFTWARE`). The kernel
/// counts them itself, on every machine, and reading one is always a system call.
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
    const fn cached(which: u64, access: u64, result: u64) -> Event {
        Event::new(kind::HW_CACHE, cache::config(which, access, result))
    }
    const fn software(config: u64) -> Event {
        Event::new(kind::SOFTWARE, config)
    }

    /// Core clock cycles, whose rate follows the CPU's frequency.
    pub const CYCLES: Event = Event::hardware(hardware::CPU_CYCLES);
    /// Retired instructions.
    pub const INSTRUCTIONS: Event = Event::hardware(hardware::INSTRUCTIONS);
    /// Cache accesses, usually of the last level.
    pub const CACHE_REFERENCES: Event = Event::hardware(hardware::CACHE_REFERENCES);
    /// Cache misses, usually of the last level.
    pub const CACHE_MISSES: Event = Event::hardware(hardware::CACHE_MISSES);
    /// Retired branch instructions.
    pub const BRANCHES: Event = Event::hardware(hardware::BRANCH_INSTRUCTIONS);
    /// Retired branches that were mispredicted.
    pub const BRANCH_MISSES: Event = Event::hardware(hardware::BRANCH_MISSES);
    /// Bus cycles.
    pub const BUS_CYCLES: Event = Event::hardware(hardware::BUS_CYCLES);
    /// Cycles in which the front end delivered nothing.
    pub const STALLED_CYCLES_FRONTEND: Event = Event::hardware(hardware::STALLED_CYCLES_FRONTEND);
    /// Cycles in which the back end accepted nothing.
    pub const STALLED_CYCLES_BACKEND: Event = Event::hardware(hardware::STALLED_CYCLES_BACKEND);
    /// Cycles of a clock of constant frequency.
    pub const REF_CYCLES: Event = Event::hardware(hardware::REF_CPU_CYCLES);

    /// Loads that access the first-level data cache.
    pub const L1D_LOADS: Event = Event::cached(cache::L1D, cache::OP_READ, cache::RESULT_ACCESS);
    /// Loads that missed the first-level data cache.
    pub const L1D_LOAD_MISSES: Event =
        Event::cached(cache::L1D, cache::OP_READ, cache::RESULT_MISS);
    /// Loads that missed the last-level cache.
    pub const LLC_LOAD_MISSES: Event = Event::cached(cache::LL, cache::OP_READ, cache::RESULT_MISS);
    /// Loads whose address missed the TLB.
    pub const DTLB_LOAD_MISSES: Event =
        Event::cached(cache::DTLB, cache::OP_READ, cache::RESULT_MISS);
    /// Stores whose address missed the TLB.
    pub const DTLB_STORE_MISSES: Event =
        Event::cached(cache::DTLB, cache::OP_WRITE, cache::RESULT_MISS);
    /// Instruction fetches whose address missed the TLB.
    pub const ITLB_LOAD_MISSES: Event =
        Event::cached(cache::ITLB, cache::OP_READ, cache::RESULT_MISS);

    /// Nanoseconds of the CPU's clock while this thread runs: nearly equal to [`TASK_CLOCK`](Event::TASK_CLOCK).
    pub const CPU_CLOCK: Event = Event::software(software::CPU_CLOCK);
    /// Nanoseconds for which this thread has run.
    pub const TASK_CLOCK: Event = Event::software(software::TASK_CLOCK);
    /// Page faults.
    pub const PAGE_FAULTS: Event = Event::software(software::PAGE_FAULTS);
    /// Page faults that needed no I/O.
    pub const MINOR_FAULTS: Event = Event::software(software::PAGE_FAULTS_MIN);
    /// Page faults that needed I/O.
    pub const MAJOR_FAULTS: Event = Event::software(software::PAGE_FAULTS_MAJ);
    /// Context switches of this thread, away from its CPU. They happen in the kernel, so this event is opened with the
    /// kernel included. [`CPU_MIGRATIONS`](Event::CPU_MIGRATIONS) and [`CGROUP_SWITCHES`](Event::CGROUP_SWITCHES) are
    /// the only other constants opened this way.
    pub const CONTEXT_SWITCHES: Event = Event::software(software::CONTEXT_SWITCHES);
    /// Migrations of this thread to another CPU. The kernel is included.
    pub const CPU_MIGRATIONS: Event = Event::software(software::CPU_MIGRATIONS);
    /// Unaligned accesses that the kernel performed.
    pub const ALIGNMENT_FAULTS: Event = Event::software(software::ALIGNMENT_FAULTS);
    /// Instructions that the kernel emulated.
    pub const EMULATION_FAULTS: Event = Event::software(software::EMULATION_FAULTS);
    /// Nothing: a placeholder (`PERF_COUNT_SW_DUMMY`).
    pub const DUMMY: Event = Event::software(software::DUMMY);
    /// Switches to a thread of another control group. The kernel is included.
    pub const CGROUP_SWITCHES: Event = Event::software(software::CGROUP_SWITCHES);

    /// Returns an event by the CPU's own encoding (`PERF_TYPE_RAW`), e.g. event select and unit mask on x86-64. See
    /// the CPU's manual.
    pub const fn raw(config: u64) -> Event {
        Event::new(kind::RAW, config)
    }

    /// Returns an event of the PMU of this type (`/sys/bus/event_source/devices/NAME/type`).
    pub const fn of_pmu(pmu: u32, config: u64) -> Event {
        Event::new(pmu, config)
    }

    /// Returns this event, counted in kernel mode alone, as `NAME:k` is. Replaces the event's privilege modifiers.
    /// Needs `kernel.perf_event_paranoid` 1 or less, or `CAP_PERFMON`.
    ///
    /// Has no effect on [`CPU_CLOCK`](Event::CPU_CLOCK) and [`TASK_CLOCK`](Event::TASK_CLOCK): time has no privilege
    /// level.
    ///
    /// To see whether an interrupt occurred during a measurement, add [`INSTRUCTIONS`](Event::INSTRUCTIONS) in kernel
    /// mode to its group: see [`Region`](crate::Region#interrupts).
    #[must_use]
    pub const fn kernel(self) -> Event {
        Event { modifiers: self.modifiers.kernel(), ..self }
    }

    /// Returns this event with the second configuration word set. On arm64, a value other than 0 overrides the bits
    /// that this library sets to request user access.
    #[must_use]
    pub const fn with_config1(self, config1: u64) -> Event {
        Event { config1, ..self }
    }

    /// Returns this event with the third configuration word set.
    #[must_use]
    pub const fn with_config2(self, config2: u64) -> Event {
        Event { config2, ..self }
    }

    /// Returns this event with the fourth configuration word set. Needs Linux 6.3.
    #[must_use]
    pub const fn with_config3(self, config3: u64) -> Event {
        Event { config3, ..self }
    }

    /// Returns this event with the fifth configuration word set. Needs Linux 6.19.
    #[must_use]
    pub const fn with_config4(self, config4: u64) -> Event {
        Event { config4, ..self }
    }

    /// Returns `config` to `config4`.
    pub(crate) fn words(&self) -> Words {
        [self.config, self.config1, self.config2, self.config3, self.config4]
    }

    /// Returns the event of the PMU of type `kind` with these words.
    pub(crate) fn of_words(kind: u32, words: Words) -> Event {
        let [config, config1, config2, config3, config4] = words;
        Event { kind, config, config1, config2, config3, config4, modifiers: Modifiers::NONE }
    }

    /// Returns this event with other modifiers.
    pub(crate) fn modified(self, modifiers: Modifiers) -> Event {
        Event { modifiers, ..self }
    }

    /// Returns this event without modifiers.
    pub(crate) fn plain(self) -> Event {
        self.modified(Modifiers::NONE)
    }

    /// Returns the type of the PMU that the event names. None for a software event, and if it names none.
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

    /// Returns the event on the core PMU of this [type](crate::pmu::Pmu::type_id), for CPUs with several core types. A
    /// generic event names its PMU in the upper half of `config`, since Linux 5.13 on x86-64 and 6.6 on arm64.
    ///
    /// Events that are not of the CPU or name a PMU already are unchanged. So are all if the type is one of the kernel's own
    /// that no core PMU has: 0 to 3, and 5.
    #[must_use]
    pub fn on_core_pmu(self, type_id: u32) -> Event {
        let is_none = type_id < kind::RAW || type_id == kind::BREAKPOINT;
        if is_none || !self.is_of_the_core() || self.pmu().is_some() {
            return self;
        }
        match self.kind {
            kind::RAW => Event { kind: type_id, ..self },
            _ => {
                let config = self.config & HW_EVENT_MASK | u64::from(type_id) << PMU_TYPE_SHIFT;
                Event { config, ..self }
            }
        }
    }

    /// Returns the event without modifiers, and if it is generic, without the PMU.
    pub(crate) fn bare(self) -> Event {
        let config = if self.is_generic() { self.config & HW_EVENT_MASK } else { self.config };
        Event { config, ..self }.plain()
    }

    /// Whether the kernel counts this event in software: without a PMU, and without a counter to read.
    pub(crate) fn is_software(&self) -> bool {
        matches!(self.kind, kind::SOFTWARE | kind::TRACEPOINT | kind::BREAKPOINT)
    }

    /// Whether the kernel defines the meaning of this hardware event for every CPU.
    pub(crate) fn is_generic(&self) -> bool {
        matches!(self.kind, kind::HARDWARE | kind::HW_CACHE)
    }

    /// Whether the register that the kernel publishes does not hold this event's count.
    pub(crate) fn is_not_in_its_register(&self) -> bool {
        if self.is_generic() || self.is_software() {
            return false;
        }
        if cfg!(target_arch = "x86_64") {
            // Event select 0 with a unit mask of 0x80 or more: Intel's topdown metrics, eight packed bits each. AMD
            // has a few ordinary events there, which are read more slowly and still correctly.
            self.config & 0xff == 0 && self.config & 0x8000 != 0
        } else if cfg!(target_arch = "riscv64") {
            // Firmware events, which no register counts. The kernel publishes the cycle counter's register for them.
            self.config & 1 << 63 != 0
        } else {
            false
        }
    }

    /// Whether the event happens only in the kernel, so that excluding the kernel leaves nothing to count.
    pub(crate) fn happens_in_the_kernel(&self) -> bool {
        const SWITCHES: [u64; 3] =
            [software::CONTEXT_SWITCHES, software::CPU_MIGRATIONS, software::CGROUP_SWITCHES];
        self.kind == kind::SOFTWARE && SWITCHES.contains(&self.config)
    }

    /// Whether this is a tracepoint. Most happen in the kernel. Those of system calls count as user mode.
    pub(crate) fn is_tracepoint(&self) -> bool {
        self.kind == kind::TRACEPOINT
    }

    /// Whether the kernel counts this event at all privilege levels, even those that it is asked to exclude.
    pub(crate) fn has_no_privilege_level(&self) -> bool {
        const THESE: [u64; 3] = [software::CPU_CLOCK, software::TASK_CLOCK, software::DUMMY];
        self.kind == kind::SOFTWARE && THESE.contains(&self.config)
    }

    /// Whether this is an event of the CPU's own PMU, whatever the name of that PMU.
    pub(crate) fn is_of_the_core(&self) -> bool {
        self.is_generic() || self.kind == kind::RAW
    }
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
        let cache = Event::L1D_LOAD_MISSES;
        for event in
            [Event::CYCLES, cache, Event::TASK_CLOCK, Event::raw(0x00c0), Event::raw(0x81c0)]
        {
            assert!(!event.is_not_in_its_register(), "{event:?}");
        }
    }

    #[test]
    fn on_a_core_types_pmu() {
        let cycles = Event::CYCLES.on_core_pmu(10);
        assert_eq!((cycles.config, cycles.pmu()), (10 << 32, Some(10)));
        assert_eq!(cycles.bare(), Event::CYCLES);
        assert_eq!(cycles.on_core_pmu(11), cycles);
        assert_eq!(Event::raw(0xc0).on_core_pmu(10), Event::of_pmu(10, 0xc0));
        assert_eq!(Event::TASK_CLOCK.on_core_pmu(10), Event::TASK_CLOCK);
        assert_eq!(Event::of_pmu(9, 0).on_core_pmu(10).pmu(), Some(9));
    }

    #[test]
    fn cache_events_are_three_bytes() {
        let event = Event::DTLB_STORE_MISSES;
        assert_eq!((event.kind, event.config), (3, 0x01_01_03));
    }
}
