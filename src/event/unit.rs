//! The unit of an event's count.

use super::{Event, cache, kind};
use std::fmt;

/// The unit of an event's count, from [`Event::unit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Cycles of a clock.
    Cycles,
    /// Retired instructions.
    Instructions,
    /// Branches.
    Branches,
    /// Accesses to a cache.
    Accesses,
    /// Misses of a cache, or mispredictions.
    Misses,
    /// Faults that the kernel handled.
    Faults,
    /// Switches to another thread.
    Switches,
    /// Migrations to another CPU.
    Migrations,
    /// Events of another kind, such as a PMU's own.
    Events,
}

impl Unit {
    /// Returns the unit's name in the plural, such as `cycles`; `ns` for nanoseconds.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::Cycles => "cycles",
            Unit::Instructions => "instructions",
            Unit::Branches => "branches",
            Unit::Accesses => "accesses",
            Unit::Misses => "misses",
            Unit::Faults => "faults",
            Unit::Switches => "switches",
            Unit::Migrations => "migrations",
            Unit::Events => "events",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Event {
    /// Returns the unit of the event's count.
    pub fn unit(&self) -> Unit {
        match self.bare() {
            Event::CPU_CLOCK | Event::TASK_CLOCK => Unit::Nanoseconds,
            Event::CYCLES
            | Event::BUS_CYCLES
            | Event::REF_CYCLES
            | Event::STALLED_CYCLES_FRONTEND
            | Event::STALLED_CYCLES_BACKEND => Unit::Cycles,
            Event::INSTRUCTIONS => Unit::Instructions,
            Event::BRANCHES => Unit::Branches,
            Event::CACHE_REFERENCES => Unit::Accesses,
            Event::CACHE_MISSES | Event::BRANCH_MISSES => Unit::Misses,
            Event::PAGE_FAULTS
            | Event::MINOR_FAULTS
            | Event::MAJOR_FAULTS
            | Event::ALIGNMENT_FAULTS
            | Event::EMULATION_FAULTS => Unit::Faults,
            Event::CONTEXT_SWITCHES | Event::CGROUP_SWITCHES => Unit::Switches,
            Event::CPU_MIGRATIONS => Unit::Migrations,
            Event { kind: kind::HW_CACHE, config, .. } => match config >> 16 & 0xff {
                cache::RESULT_MISS => Unit::Misses,
                _ => Unit::Accesses,
            },
            _ => Unit::Events,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_counts_it_the_unit_is_that_of_the_event() {
        let misses = Event::L1D_LOAD_MISSES;
        let loads = Event::L1D_LOADS;
        for (event, unit) in [
            (Event::CYCLES.on_core_pmu(10), Unit::Cycles),
            (Event::INSTRUCTIONS.kernel(), Unit::Instructions),
            (Event::TASK_CLOCK, Unit::Nanoseconds),
            (misses, Unit::Misses),
            (loads, Unit::Accesses),
            (Event::raw(0xc0), Unit::Events),
        ] {
            assert_eq!(event.unit(), unit, "{event}");
        }
    }
}
