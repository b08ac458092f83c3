//! The unit of an event's count.

use super::{Event, cache, kind};

impl Event {
    /// Returns the unit of the event's count in the plural, such as `cycles`; `ns` for nanoseconds, and `events` for events of
    /// other kinds, such as a PMU's own.
    pub fn unit(&self) -> &'static str {
        match self.bare() {
            Event::CPU_CLOCK | Event::TASK_CLOCK => "ns",
            Event::CYCLES
            | Event::BUS_CYCLES
            | Event::REF_CYCLES
            | Event::STALLED_CYCLES_FRONTEND
            | Event::STALLED_CYCLES_BACKEND => "cycles",
            Event::INSTRUCTIONS => "instructions",
            Event::BRANCHES => "branches",
            Event::CACHE_REFERENCES => "accesses",
            Event::CACHE_MISSES | Event::BRANCH_MISSES => "misses",
            Event::PAGE_FAULTS
            | Event::MINOR_FAULTS
            | Event::MAJOR_FAULTS
            | Event::ALIGNMENT_FAULTS
            | Event::EMULATION_FAULTS => "faults",
            Event::CONTEXT_SWITCHES | Event::CGROUP_SWITCHES => "switches",
            Event::CPU_MIGRATIONS => "migrations",
            Event { kind: kind::HW_CACHE, config, .. } => match config >> 16 & 0xff {
                cache::RESULT_MISS => "misses",
                _ => "accesses",
            },
            _ => "events",
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
            (Event::CYCLES.on_core_pmu(10), "cycles"),
            (Event::INSTRUCTIONS.kernel(), "instructions"),
            (Event::TASK_CLOCK, "ns"),
            (misses, "misses"),
            (loads, "accesses"),
            (Event::raw(0xc0), "events"),
        ] {
            assert_eq!(event.unit(), unit, "{event}");
        }
    }
}
