//! The names of the kernel's events, as `perf list` prints and perf accepts them, and the notation of other events
//! without reading files.

use crate::event::Event;
use crate::event::WORDS;
use crate::kernel::{HW_EVENT_MASK, cache, hardware, kind, software};
use std::fmt;

/// The names of one event: the printed name first, then perf's aliases.
type Names = &'static [&'static str];

const HARDWARE: [(u64, Names); 10] = [
    (hardware::CPU_CYCLES, &["cycles", "cpu-cycles"]),
    (hardware::INSTRUCTIONS, &["instructions"]),
    (hardware::CACHE_REFERENCES, &["cache-references"]),
    (hardware::CACHE_MISSES, &["cache-misses"]),
    (hardware::BRANCH_INSTRUCTIONS, &["branches", "branch-instructions"]),
    (hardware::BRANCH_MISSES, &["branch-misses"]),
    (hardware::BUS_CYCLES, &["bus-cycles"]),
    (hardware::STALLED_CYCLES_FRONTEND, &["stalled-cycles-frontend", "idle-cycles-frontend"]),
    (hardware::STALLED_CYCLES_BACKEND, &["stalled-cycles-backend", "idle-cycles-backend"]),
    (hardware::REF_CPU_CYCLES, &["ref-cycles"]),
];

const SOFTWARE: [(u64, Names); 12] = [
    (software::CPU_CLOCK, &["cpu-clock"]),
    (software::TASK_CLOCK, &["task-clock"]),
    (software::PAGE_FAULTS, &["page-faults", "faults"]),
    (software::CONTEXT_SWITCHES, &["context-switches", "cs"]),
    (software::CPU_MIGRATIONS, &["cpu-migrations", "migrations"]),
    (software::PAGE_FAULTS_MIN, &["minor-faults"]),
    (software::PAGE_FAULTS_MAJ, &["major-faults"]),
    (software::ALIGNMENT_FAULTS, &["alignment-faults"]),
    (software::EMULATION_FAULTS, &["emulation-faults"]),
    (software::DUMMY, &["dummy"]),
    (software::BPF_OUTPUT, &["bpf-output"]),
    (software::CGROUP_SWITCHES, &["cgroup-switches"]),
];

const CACHES: [(u64, Names); 7] = [
    (cache::L1D, &["L1-dcache", "l1-d", "l1d", "L1-data"]),
    (cache::L1I, &["L1-icache", "l1-i", "l1i", "L1-instruction"]),
    (cache::LL, &["LLC", "L2"]),
    (cache::DTLB, &["dTLB", "d-tlb", "Data-TLB"]),
    (cache::ITLB, &["iTLB", "i-tlb", "Instruction-TLB"]),
    // Without perf's alias `branches`, whose misses would be mistaken for those of the hardware event.
    (cache::BPU, &["branch", "bpu", "btb", "bpc"]),
    (cache::NODE, &["node"]),
];

/// The first name is printed before `misses`, the second for all accesses.
const ACCESSES: [(u64, Names); 3] = [
    (cache::OP_READ, &["load", "loads", "read"]),
    (cache::OP_WRITE, &["store", "stores", "write"]),
    (cache::OP_PREFETCH, &["prefetch", "prefetches", "speculative-read", "speculative-load"]),
];

const OUTCOMES: [(u64, Names); 2] = [
    (cache::RESULT_ACCESS, &["refs", "Reference", "ops", "access"]),
    (cache::RESULT_MISS, &["misses", "miss"]),
];

/// Returns the config of the event of this name. Ignores case, which perf may not.
#[inline(never)] // once, not for each table
fn find(table: &[(u64, Names)], name: &str) -> Option<u64> {
    let has = |names: Names| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    table.iter().find(|(_, names)| has(names)).map(|(config, _)| *config)
}

/// Returns the event of this name. None if the kernel defines none.
pub(crate) fn generic(name: &str) -> Option<Event> {
    let of = |kind| move |config| Event::of_pmu(kind, config);
    find(&HARDWARE, name)
        .map(of(kind::HARDWARE))
        .or_else(|| find(&SOFTWARE, name).map(of(kind::SOFTWARE)))
        .or_else(|| cache_config(name).map(of(kind::HW_CACHE)))
}

/// Parses `CACHE[-ACCESS][-OUTCOME]` to a config. The last two parts may come in either order. The default access is
/// a read, and the default outcome is all accesses.
fn cache_config(name: &str) -> Option<u64> {
    let (cache, mut rest) = prefix(&CACHES, name)?;
    let (mut access, mut outcome) = (None, None);
    while !rest.is_empty() {
        if let (None, Some((found, after))) = (access, prefix(&ACCESSES, rest)) {
            (access, rest) = (Some(found), after);
        } else if let (None, Some((found, after))) = (outcome, prefix(&OUTCOMES, rest)) {
            (outcome, rest) = (Some(found), after);
        } else {
            return None;
        }
    }
    let (access, outcome) =
        (access.unwrap_or(cache::OP_READ), outcome.unwrap_or(cache::RESULT_ACCESS));
    Some(cache::config(cache, access, outcome))
}

/// Returns the config whose name `text` begins with, up to a hyphen or the end, and the rest of `text`.
#[inline(never)] // as above
fn prefix<'a>(table: &[(u64, Names)], text: &'a str) -> Option<(u64, &'a str)> {
    table.iter().find_map(|(config, names)| {
        names.iter().find_map(|name| {
            let (start, rest) = text.split_at_checked(name.len())?;
            let rest = match rest.strip_prefix('-') {
                Some("") => return None,
                Some(after) => after,
                None if rest.is_empty() => rest,
                None => return None,
            };
            start.eq_ignore_ascii_case(name).then_some((*config, rest))
        })
    })
}

/// Returns the name of a generic or software event, whichever PMU counts it. None for other events.
pub(crate) fn name_of(event: &Event) -> Option<String> {
    let first = |table: &[(u64, Names)], config| {
        let (_, names) = table.iter().find(|(known, _)| *known == config)?;
        names.first().map(|name| (*name).to_owned())
    };
    let [_, others @ ..] = event.words();
    if others != [0; 4] {
        return None; // no named event sets these
    }
    match event.kind {
        kind::HARDWARE => first(&HARDWARE, event.config & HW_EVENT_MASK),
        kind::SOFTWARE => first(&SOFTWARE, event.config),
        kind::HW_CACHE => {
            let config = event.config & HW_EVENT_MASK;
            let cache = first(&CACHES, config & 0xff)?;
            let outcome = config >> 16;
            let (_, accesses) = ACCESSES.iter().find(|(known, _)| *known == config >> 8 & 0xff)?;
            match (outcome, accesses) {
                (cache::RESULT_ACCESS, [_, all, ..]) => Some(format!("{cache}-{all}")),
                (cache::RESULT_MISS, [one, ..]) => Some(format!("{cache}-{one}-misses")),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns the event's words as terms, e.g. `config=0xc0,config1=0x1`.
pub(crate) fn words_of(event: &Event) -> String {
    let words = WORDS.iter().zip(event.words()).enumerate();
    let set = words.filter(|(place, (_, word))| *place == 0 || *word != 0);
    set.map(|(_, (name, word))| format!("{name}={word:#x}")).collect::<Vec<_>>().join(",")
}

/// Returns the event by its PMU and its words, e.g. `cpu/config=0xc0,config1=0x1/u`. Without a system call, only the CPU's own
/// PMU has a name. For others it is the type.
pub(crate) fn by_numbers(event: &Event) -> String {
    let letters = event.modifiers.letters();
    match event.kind {
        kind::RAW => format!("cpu/{}/{letters}", words_of(event)),
        pmu => format!("{pmu}/{}/{letters}", words_of(event)),
    }
}

impl Event {
    /// Whether the kernel has a name for this event on every CPU.
    pub(super) fn has_kernel_name(&self) -> bool {
        self.pmu().is_none() && name_of(self).is_some()
    }

    /// Returns the event in perf's syntax, whatever name it was [given](Event::named): the kernel's name (`cycles:u`), `r` and a
    /// number (`r1c2`), or its PMU and the words of `perf_event_attr` (`cpu/config=0x1c6,config1=0x13/`).
    ///
    /// Parsed on this machine, it gives an equal event. Makes no system call, so a PMU other than the CPU's is its type, as in
    /// `10/config=0xc0/`, which perf does not take: [`Pmus::name_of`](crate::pmu::Pmus::name_of) finds its name.
    pub fn encoding(&self) -> String {
        match name_of(self) {
            Some(name) if self.pmu().is_none() => format!("{name}{}", self.modifiers),
            _ if self.plain() == Event::raw(self.config) => {
                format!("r{:x}{}", self.config, self.modifiers)
            }
            _ => by_numbers(self),
        }
    }
}

impl fmt::Display for Event {
    /// Writes the name that the event was [given](Event::named), else its [encoding](Event::encoding). Makes no system call.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.given_name() {
            Some(name) => f.write_str(&name),
            None => f.write_str(&self.encoding()),
        }
    }
}

impl fmt::Debug for Event {
    /// Writes the `Display` form, e.g. `Event(cycles:u)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({self})")
    }
}

/// Returns every name that is printed, and the aliases of hardware and software events.
pub fn all() -> Vec<String> {
    let mut all = Vec::new();
    for (_, names) in HARDWARE.iter().chain(&SOFTWARE) {
        all.extend(names.iter().map(|name| (*name).to_owned()));
    }
    for (cache, _) in &CACHES {
        for (access, _) in &ACCESSES {
            for (outcome, _) in &OUTCOMES {
                let config = cache::config(*cache, *access, *outcome);
                all.extend(name_of(&Event::of_pmu(kind::HW_CACHE, config)));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_name_is_that_of_its_event() {
        let names = all();
        assert_eq!(names.len(), 10 + 4 + 12 + 3 + 7 * 3 * 2);
        for name in names {
            let event = generic(&name).unwrap();
            let written = name_of(&event).unwrap();
            assert_eq!(generic(&written), Some(event), "{name}");
        }
    }

    #[test]
    fn caches_as_perf_takes_them() {
        for (name, config) in [
            ("L1-dcache-load-misses", 0x1_00_00),
            ("l1d-read-miss", 0x1_00_00),
            ("L1-dcache-misses-loads", 0x1_00_00),
            ("LLC", 0x0_00_02),
            ("LLC-misses", 0x1_00_02),
            ("dTLB-stores", 0x0_01_03),
            ("i-tlb-Reference", 0x0_00_04),
            ("branch-speculative-read-misses", 0x1_02_05),
            ("node-prefetches", 0x0_02_06),
        ] {
            assert_eq!(generic(name), Some(Event::of_pmu(kind::HW_CACHE, config)), "{name}");
        }
        for wrong in
            ["L1", "L1-dcachex", "L1-dcache-", "LLC-load-load", "LLC-misses-refs", "node-é"]
        {
            assert_eq!(generic(wrong), None, "{wrong}");
        }
        assert_eq!(generic("branch-misses"), Some(Event::BRANCH_MISSES), "hardware goes first");
    }
}
