//! Events by the vendors' names count known work exactly.

use super::{Entry, exact, known_events, open, work};
use crate::harness::{Facts, Outcome, require};
use rdpmc::Event;
use rdpmc_events::{EventError, event};

pub const ALL: &[Entry] = &[("events_by_vendors_names", events_by_vendors_names)];

/// The kernel's event, and the names of the same by Intel, AMD and Arm. The emulated AMD CPU is one that has a table, and the
/// emulated Intel CPU is not.
const NAMES: [(Event, [&str; 3]); 3] = [
    (
        Event::INSTRUCTIONS,
        ["skylake::inst_retired.any", "ex_ret_instr", "neoverse_n1::INST_RETIRED"],
    ),
    (
        Event::CYCLES,
        ["skl::CPU_CLK_UNHALTED:THREAD", "ls_not_halted_cyc", "neoverse_n1::cpu_cycles"],
    ),
    (
        Event::BRANCHES,
        [
            "skylake::BR_INST_RETIRED.ALL_BRANCHES",
            "RETIRED_BRANCH_INSTRUCTIONS",
            "neoverse_n1::br_retired",
        ],
    ),
];

fn events_by_vendors_names(facts: &Facts) -> Outcome {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let vendor = ["GenuineIntel", "AuthenticAMD"]
        .iter()
        .position(|vendor| cpuinfo.contains(vendor))
        .unwrap_or(2);
    let known = known_events(facts);
    let mut counted = 0;
    for (generic, names) in NAMES {
        let Some((_, per_round)) = known.iter().find(|(event, _)| *event == generic) else {
            continue;
        };
        let name = names[vendor];
        let found = event(name).map_err(|why| format!("{name}: {why}"))?;
        let counter = open(found)?;
        let unfiltered = counter.counts_all_privilege_levels();
        let nothing = exact(name, *per_round, unfiltered, |rounds| work(&counter, rounds))?;
        println!("{name} is {found}: {per_round} in a round, {nothing} without work");
        counted += 1;
    }
    require(counted >= 2, || format!("{counted} events were counted"))?;
    let wrong = event("zen4::mem_load_retired.l3_miss");
    let is_elsewhere =
        matches!(&wrong, Err(EventError::UnknownEvent { elsewhere, .. }) if elsewhere.len() > 10);
    require(is_elsewhere, || format!("{wrong:?}"))
}
