//! How the slots of each family of CPUs are counted: the events, and the formulas.

use super::level1::{Level1, Part};
use super::level2::Level2;

/// The maximum number of events in a group.
pub(crate) const MAX_EVENTS: usize = 8;

/// The counts of a family's events, in its order. Unused places are 0.
pub(crate) type Counts = [f64; MAX_EVENTS];

/// CPUs whose slots are counted by the same events.
#[derive(Debug)]
pub(crate) struct Family {
    /// Its name for users.
    pub(crate) name: &'static str,
    /// The CPUs, by their tables.
    pub(crate) tables: &'static [&'static str],
    /// The events, by names of those tables. The first one is that of the slots, or of the cycles.
    pub(crate) events: &'static [&'static str],
    /// The first event for a general-purpose counter, if the other one needs a fixed counter, which virtual machines lack.
    pub(crate) without_fixed: Option<&'static str>,
    /// How many of the last events are for the memory's part alone.
    pub(crate) for_memory: usize,
    pub(crate) slots: fn(&Counts) -> Slots,
    /// What each part rests on: retiring, bad speculation, front end, back end, memory.
    pub(crate) rests_on: [&'static str; 5],
    /// What the rest is, if it is none of the four.
    pub(crate) rest_is: Option<&'static str>,
    pub(crate) second: Option<&'static Second>,
}

/// The second level of a family.
#[derive(Debug)]
pub(crate) struct Second {
    /// The events, after all of the first level.
    pub(crate) events: &'static [&'static str],
    /// Returns the slots of heavy operations, branch mispredicts and fetch latency: from the slots and the counts of the first level, and
    /// the counts of these events.
    halves: fn(&Slots, &Counts, &Counts) -> [f64; 3],
    rests_on: [&'static str; 3],
}

/// Slots, by where they went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    all: f64,
    retiring: f64,
    bad_speculation: f64,
    frontend_bound: f64,
    backend_bound: f64,
    memory: f64,
}

impl Family {
    /// Returns the parts. None if there were no slots.
    ///
    /// `has_rest` says whether slots may be the rest's.
    pub(crate) fn level1(
        &self,
        counts: &Counts,
        has_memory: bool,
        has_rest: bool,
    ) -> Option<Level1> {
        let slots = (self.slots)(counts);
        let of = |slots_of: f64, rests_on: &'static str| Part {
            fraction: slots_of / slots.all,
            slots: slots_of,
            rests_on,
        };
        let [retiring, bad_speculation, frontend_bound, backend_bound, memory] = self.rests_on;
        let sum =
            slots.retiring + slots.bad_speculation + slots.frontend_bound + slots.backend_bound;
        // A caller's means may be infinite or no numbers, and sums of large ones overflow.
        let parts = [sum, slots.all, slots.retiring, slots.backend_bound, slots.memory];
        let fractions = parts.map(|part| part / slots.all);
        let numbers = counts.iter().chain(&parts).chain(&fractions);
        let is_counted = slots.all > 0.0 && numbers.into_iter().all(|number| number.is_finite());
        is_counted.then_some(Level1 {
            slots: slots.all,
            retiring: of(slots.retiring, retiring),
            bad_speculation: of(slots.bad_speculation, bad_speculation),
            frontend_bound: of(slots.frontend_bound, frontend_bound),
            backend_bound: of(slots.backend_bound, backend_bound),
            memory_bound: has_memory.then(|| of(slots.memory, memory)),
            rest: (slots.all - sum) / slots.all,
            rest_is: self.rest_is.filter(|_| has_rest),
            few: 0.0,
        })
    }

    /// Returns the second level of these counts of both levels' events. None if there were no slots, or if it is not known.
    pub(crate) fn level2(&self, first: &Counts, second: &Counts, has_rest: bool) -> Option<Level2> {
        let level1 = self.level1(first, true, has_rest)?;
        let of = self.second?;
        let slots = (self.slots)(first);
        let halves = (of.halves)(&slots, first, second);
        let is_finite =
            halves.iter().all(|half| half.is_finite() && (half / slots.all).is_finite());
        let part = |slots_of: f64, rests_on| Part {
            fraction: slots_of / slots.all,
            slots: slots_of,
            rests_on,
        };
        let ([heavy, mispredicts, latency], [by_heavy, by_mispredicts, by_latency]) =
            (halves, of.rests_on);
        is_finite.then_some(Level2 {
            level1,
            heavy_operations: part(heavy, by_heavy),
            branch_mispredicts: part(mispredicts, by_mispredicts),
            fetch_latency: part(latency, by_latency),
            memory_bound: level1.memory_bound?,
        })
    }
}

/// The families. The sources of a family's formulas are in the comment above it.
pub(crate) static FAMILIES: [Family; 15] = [
    // perf's metrics `tma_*` of these CPUs, without their terms for the other hardware thread (`any`), which only a privileged process
    // may count. So the slots that the other thread uses are in the back end's part.
    Family {
        name: "Intel Skylake to Cascade Lake",
        tables: &["skylake", "skylakex", "cascadelakex"],
        events: &[
            "cpu_clk_unhalted.thread",
            "uops_retired.retire_slots",
            "uops_issued.any",
            "int_misc.recovery_cycles",
            "idq_uops_not_delivered.core",
        ],
        without_fixed: None,
        for_memory: 0,
        slots: |&[cycles, retired, issued, recovery, not_delivered, ..]| {
            let (all, taken) = (4.0 * cycles, issued + 4.0 * recovery);
            Slots {
                all,
                retiring: retired,
                bad_speculation: taken - retired,
                frontend_bound: not_delivered,
                backend_bound: all - not_delivered - taken,
                memory: 0.0,
            }
        },
        rests_on: [
            "uops_retired.retire_slots",
            "uops_issued.any - uops_retired.retire_slots + 4 x int_misc.recovery_cycles",
            "idq_uops_not_delivered.core",
            "the remainder",
            "",
        ],
        rest_is: None,
        second: None,
    },
    // Intel's descriptions of the events, here and for the one below. perf's `tma_*` compute the same parts from PERF_METRICS, and bad
    // speculation as the remainder, too.
    p_cores(
        "Intel Ice Lake, Tiger Lake, Rocket Lake",
        &["icelake", "icelakex", "tigerlake", "rocketlake"],
        &[
            "topdown.slots",
            "uops_retired.slots",
            "idq_uops_not_delivered.core",
            "topdown.backend_bound_slots",
        ],
        "idq_uops_not_delivered.core",
        0,
        None,
    ),
    p_cores(
        "Intel's P-cores from Golden Cove to Redwood Cove (Alder Lake, Sapphire Rapids)",
        &[
            "sapphirerapids",
            "emeraldrapids",
            "graniterapids",
            "alderlake_goldencove",
            "meteorlake_redwoodcove",
        ],
        &[
            "topdown.slots",
            "uops_retired.slots",
            "idq_bubbles.core",
            "topdown.backend_bound_slots",
            "topdown.memory_bound_slots",
        ],
        "idq_bubbles.core",
        1,
        Some(&GOLDEN_COVE),
    ),
    // `topdown.memory_bound_slots` counts on one counter only. By Intel's data it is counter 3, and by Linux counter 0.
    p_cores(
        "Intel's P-cores since Lion Cove (Lunar Lake, Arrow Lake)",
        &[
            "lunarlake_lioncove",
            "arrowlake_lioncove",
            "pantherlake_cougarcove",
            "novalake_coyotecove",
        ],
        &["topdown.slots", "uops_retired.slots", "idq_bubbles.core", "topdown.backend_bound_slots"],
        "idq_bubbles.core",
        0,
        None,
    ),
    // perf's metrics `tma_*` of these CPUs, here and for the two below. It does not take this one's
    // `topdown_bad_speculation.all`.
    Family {
        name: "Intel Gracemont (Alder Lake's E-cores)",
        tables: &["alderlake_gracemont"],
        events: &[
            "cpu_clk_unhalted.core",
            "topdown_retiring.all",
            "topdown_fe_bound.all",
            "topdown_be_bound.all",
        ],
        without_fixed: None,
        for_memory: 0,
        slots: |&[cycles, retiring, frontend_bound, backend_bound, ..]| {
            let all = 5.0 * cycles;
            let bad_speculation = all - retiring - frontend_bound - backend_bound;
            Slots { all, retiring, bad_speculation, frontend_bound, backend_bound, memory: 0.0 }
        },
        rests_on: [
            "topdown_retiring.all",
            "the remainder",
            "topdown_fe_bound.all",
            "topdown_be_bound.all",
            "",
        ],
        rest_is: None,
        second: None,
    },
    e_cores(
        "Intel Crestmont (Sierra Forest, Grand Ridge)",
        &["meteorlake_crestmont", "arrowlake_crestmont", "sierraforest", "grandridge"],
        |counts| of_e_cores(6.0, counts),
    ),
    e_cores(
        "Intel Skymont and Darkmont (Lunar Lake's E-cores, Clearwater Forest)",
        &["lunarlake_skymont", "arrowlake_skymont", "pantherlake_darkmont", "clearwaterforest"],
        |counts| of_e_cores(8.0, counts),
    ),
    // perf's group of metrics `PipelineL1`, and `backend_bound_memory`, here and for the two below.
    zen("AMD Zen 4", &["zen4"], |counts| of_zen(6.0, counts), &ZEN_4),
    zen("AMD Zen 5", &["zen5"], |counts| of_zen(8.0, counts), &ZEN_5),
    zen("AMD Zen 6", &["zen6"], |counts| of_zen(8.0, counts), &ZEN_6),
    // Arm's telemetry specifications of the cores, here and for those below. perf has the same formulas.
    neoverse("Arm Neoverse N2", &["neoverse_n2"], MISPREDICTIONS, |counts| {
        of_neoverse(5.0, Recovery { bad: 4.0, frontend_bound: 1.0, backend_bound: 3.0 }, counts)
    }),
    neoverse("Arm Neoverse V1", &["neoverse_v1"], MISPREDICTIONS, |counts| {
        of_neoverse(8.0, Recovery { bad: 4.0, frontend_bound: 4.0, backend_bound: 0.0 }, counts)
    }),
    neoverse("Arm Neoverse V2", &["neoverse_v2"], MISPREDICTIONS, |counts| {
        of_neoverse(8.0, Recovery { bad: 4.0, frontend_bound: 1.0, backend_bound: 3.0 }, counts)
    }),
    neoverse("Arm Neoverse N3", &["neoverse_n3"], FLUSHES, |counts| {
        of_neoverse(5.0, Recovery { bad: 1.0, frontend_bound: 1.0, backend_bound: 0.0 }, counts)
    }),
    neoverse("Arm Neoverse V3", &["neoverse_v3", "neoverse_v3ae"], FLUSHES, |counts| {
        of_neoverse(10.0, Recovery { bad: 1.0, frontend_bound: 1.0, backend_bound: 0.0 }, counts)
    }),
];

/// Neoverse N2 before r0p3: its `stall_slot_frontend` counts each cycle once too often. The formulas of perf.
pub(crate) static EARLY_N2: Family =
    neoverse("Arm Neoverse N2 before r0p3", &["neoverse_n2"], MISPREDICTIONS, |counts| {
        let mut counts = *counts;
        let [cycles, _, _, frontend_bound, ..] = &mut counts;
        *frontend_bound -= *cycles;
        of_neoverse(5.0, Recovery { bad: 4.0, frontend_bound: 1.0, backend_bound: 3.0 }, &counts)
    });

const fn p_cores(
    name: &'static str,
    tables: &'static [&'static str],
    events: &'static [&'static str],
    frontend_bound: &'static str,
    for_memory: usize,
    second: Option<&'static Second>,
) -> Family {
    Family {
        name,
        tables,
        events,
        without_fixed: Some("topdown.slots_p"),
        for_memory,
        slots: |&[all, retiring, frontend_bound, backend_bound, memory, ..]| Slots {
            all,
            retiring,
            bad_speculation: all - retiring - frontend_bound - backend_bound,
            frontend_bound,
            backend_bound,
            memory,
        },
        rests_on: [
            "uops_retired.slots",
            "the remainder",
            frontend_bound,
            "topdown.backend_bound_slots",
            if for_memory > 0 { "topdown.memory_bound_slots" } else { "" },
        ],
        rest_is: None,
        second,
    }
}

const fn e_cores(
    name: &'static str,
    tables: &'static [&'static str],
    slots: fn(&Counts) -> Slots,
) -> Family {
    Family {
        name,
        tables,
        // Linux counts those of Skymont and Darkmont in fixed counters, if they are there. It does not know the numbers of these
        // counters' own events (`topdown_retiring.all`), which count nothing.
        events: &[
            "cpu_clk_unhalted.core",
            "topdown_retiring.all_p",
            "topdown_bad_speculation.all_p",
            "topdown_fe_bound.all_p",
            "topdown_be_bound.all_p",
        ],
        without_fixed: None,
        for_memory: 0,
        slots,
        rests_on: [
            "topdown_retiring.all_p",
            "topdown_bad_speculation.all_p",
            "topdown_fe_bound.all_p",
            "topdown_be_bound.all_p",
            "",
        ],
        rest_is: None,
        second: None,
    }
}

fn of_e_cores(width: f64, counts: &Counts) -> Slots {
    let &[cycles, retiring, bad_speculation, frontend_bound, backend_bound, ..] = counts;
    Slots {
        all: width * cycles,
        retiring,
        bad_speculation,
        frontend_bound,
        backend_bound,
        memory: 0.0,
    }
}

const fn zen(
    name: &'static str,
    tables: &'static [&'static str],
    slots: fn(&Counts) -> Slots,
    second: &'static Second,
) -> Family {
    Family {
        name,
        tables,
        events: &[
            "ls_not_halted_cyc",
            "ex_ret_ops",
            "de_src_op_disp.all",
            "de_no_dispatch_per_slot.no_ops_from_frontend",
            "de_no_dispatch_per_slot.backend_stalls",
            "ex_no_retire.load_not_complete",
            "ex_no_retire.not_complete",
        ],
        without_fixed: None,
        for_memory: 2,
        slots,
        rests_on: [
            "ex_ret_ops",
            "de_src_op_disp.all - ex_ret_ops",
            "de_no_dispatch_per_slot.no_ops_from_frontend",
            "de_no_dispatch_per_slot.backend_stalls",
            "the back end's part x ex_no_retire.load_not_complete / ex_no_retire.not_complete",
        ],
        rest_is: Some("the core's other thread"),
        second: Some(second),
    }
}

fn of_zen(width: f64, counts: &Counts) -> Slots {
    let &[cycles, retired, dispatched, frontend_bound, backend_bound, loads, incomplete, ..] =
        counts;
    Slots {
        all: width * cycles,
        retiring: retired,
        bad_speculation: dispatched - retired,
        frontend_bound,
        backend_bound,
        memory: if incomplete > 0.0 { backend_bound * loads / incomplete } else { 0.0 },
    }
}

/// The events of a Neoverse, and what its bad speculation rests on.
struct Stalls {
    events: &'static [&'static str],
    bad_speculation: &'static str,
}

/// Golden Cove to Redwood Cove. The events are those of which PERF_METRICS has parts, and for the heavy operations the nearest one.
static GOLDEN_COVE: Second = Second {
    events: &[
        "uops_retired.heavy",
        "topdown.br_mispredict_slots",
        "idq_bubbles.cycles_0_uops_deliv.core",
    ],
    halves: |_, _, &[heavy, mispredicts, cycles, ..]| [heavy, mispredicts, 6.0 * cycles],
    rests_on: [
        "uops_retired.heavy",
        "topdown.br_mispredict_slots",
        "6 x idq_bubbles.cycles_0_uops_deliv.core",
    ],
};

/// perf's group of metrics `PipelineL2`, here and for the two below.
macro_rules! second_of_zen {
    ($width:literal, $restarts:literal) => {
        Second {
            events: &[
                "ex_ret_ucode_ops",
                "ex_ret_brn_misp",
                $restarts,
                concat!("de_no_dispatch_per_slot.no_ops_from_frontend,cmask=", $width),
            ],
            halves: |slots, first, second| halves_of_zen(f64::from($width), slots, first, second),
            rests_on: [
                "retiring x ex_ret_ucode_ops / ex_ret_ops",
                concat!("bad speculation x ex_ret_brn_misp / (ex_ret_brn_misp + ", $restarts, ")"),
                concat!($width, " x de_no_dispatch_per_slot.no_ops_from_frontend,cmask=", $width),
            ],
        }
    };
}
static ZEN_4: Second = second_of_zen!(6, "resyncs_or_nc_redirects");
static ZEN_5: Second = second_of_zen!(8, "bp_redirects.resync");
static ZEN_6: Second = second_of_zen!(8, "bp_fe_redir.resync");

fn halves_of_zen(width: f64, slots: &Slots, first: &Counts, second: &Counts) -> [f64; 3] {
    let (&[_, retired, ..], &[microcode, mispredicts, restarts, cycles, ..]) = (first, second);
    let of = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    [
        slots.retiring * of(microcode, retired),
        slots.bad_speculation * of(mispredicts, mispredicts + restarts),
        width * cycles,
    ]
}

const MISPREDICTIONS: Stalls = Stalls {
    events: &[
        "cpu_cycles",
        "op_retired",
        "op_spec",
        "stall_slot_frontend",
        "stall_slot_backend",
        "br_mis_pred",
    ],
    bad_speculation: "(1 - op_retired / op_spec) x the slots without a stall, and recovery (br_mis_pred)",
};
const FLUSHES: Stalls = Stalls {
    events: &[
        "cpu_cycles",
        "op_retired",
        "op_spec",
        "stall_slot_frontend",
        "stall_slot_backend",
        "stall_frontend_flush",
    ],
    bad_speculation: "(1 - op_retired / op_spec) x the slots without a stall, and recovery (stall_frontend_flush)",
};

const fn neoverse(
    name: &'static str,
    tables: &'static [&'static str],
    stalls: Stalls,
    slots: fn(&Counts) -> Slots,
) -> Family {
    Family {
        name,
        tables,
        events: stalls.events,
        without_fixed: None,
        for_memory: 0,
        slots,
        rests_on: [
            "op_retired / op_spec x the slots without a stall",
            stalls.bad_speculation,
            "stall_slot_frontend, less recovery",
            "stall_slot_backend, less recovery",
            "",
        ],
        rest_is: None,
        second: None,
    }
}

/// The cycles of recovery for each event of it (a misprediction, or a cycle of a flush). They are bad speculation, and the counters of
/// stalls count them at the front and back end.
struct Recovery {
    bad: f64,
    frontend_bound: f64,
    backend_bound: f64,
}

fn of_neoverse(width: f64, recovery: Recovery, counts: &Counts) -> Slots {
    let &[cycles, retired, speculated, frontend_bound, backend_bound, recoveries, ..] = counts;
    let all = width * cycles;
    // Operations started in the slots without a stall.
    let started = all - frontend_bound - backend_bound;
    let kept = if speculated > 0.0 { retired / speculated } else { 0.0 };
    let lost = |cycles: f64| width * cycles * recoveries;
    Slots {
        all,
        retiring: started * kept,
        bad_speculation: started * (1.0 - kept) + lost(recovery.bad),
        frontend_bound: frontend_bound - lost(recovery.frontend_bound),
        backend_bound: backend_bound - lost(recovery.backend_bound),
        memory: 0.0,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Returns the slots: all, and the four parts and the memory's.
    fn slots(family: &Family, counts: &[f64]) -> [f64; 6] {
        let mut padded: Counts = [0.0; MAX_EVENTS];
        padded.get_mut(..counts.len()).unwrap().copy_from_slice(counts);
        let Slots { all, retiring, bad_speculation, frontend_bound, backend_bound, memory } =
            (family.slots)(&padded);
        [all, retiring, bad_speculation, frontend_bound, backend_bound, memory]
    }

    fn named(name: &str) -> &'static Family {
        FAMILIES.iter().find(|family| family.name.contains(name)).unwrap()
    }

    /// By hand. Those of Intel and AMD are compared with perf's in `tests/events`.
    #[test]
    fn each_formula() {
        // Cycles, retired, issued, recovery, not delivered.
        let skylake = slots(named("Skylake"), &[100.0, 120.0, 150.0, 5.0, 60.0]);
        assert_eq!(skylake, [400.0, 120.0, 50.0, 60.0, 170.0, 0.0]);
        let p_core = slots(named("Golden Cove"), &[600.0, 120.0, 150.0, 300.0, 200.0]);
        assert_eq!(p_core, [600.0, 120.0, 30.0, 150.0, 300.0, 200.0]);
        let gracemont = slots(named("Gracemont"), &[100.0, 200.0, 100.0, 150.0]);
        assert_eq!(gracemont, [500.0, 200.0, 50.0, 100.0, 150.0, 0.0]);
        let skymont = slots(named("Skymont"), &[100.0, 200.0, 100.0, 150.0, 350.0]);
        assert_eq!(skymont, [800.0, 200.0, 100.0, 150.0, 350.0, 0.0]);
        let zen4 = slots(named("Zen 4"), &[100.0, 200.0, 240.0, 100.0, 160.0, 30.0, 40.0]);
        assert_eq!(zen4, [600.0, 200.0, 40.0, 100.0, 160.0, 120.0]);
    }

    /// Of 500 slots, 300 have no stall. Of 200 operations, 150 retired. Each misprediction is 4 cycles of bad speculation, of
    /// which the stalls at the front end have one, and those at the back end three.
    #[test]
    fn neoverse() {
        let counts = [100.0, 150.0, 200.0, 120.0, 80.0, 2.0];
        let n2 = slots(named("Neoverse N2"), &counts);
        assert_eq!(n2, [500.0, 225.0, 75.0 + 40.0, 120.0 - 10.0, 80.0 - 30.0, 0.0]);
        // The front end's count has 100 too many.
        let early = slots(&EARLY_N2, &[100.0, 150.0, 200.0, 220.0, 80.0, 2.0]);
        assert_eq!(early, n2);
        // Of 800 slots.
        let v1 = slots(named("Neoverse V1"), &counts);
        assert_eq!(v1, [800.0, 450.0, 150.0 + 64.0, 120.0 - 64.0, 80.0, 0.0]);
        let v2 = slots(named("Neoverse V2"), &counts);
        assert_eq!(v2, [800.0, 450.0, 150.0 + 64.0, 120.0 - 16.0, 80.0 - 48.0, 0.0]);
        // Two cycles of a flush.
        let n3 = slots(named("Neoverse N3"), &counts);
        assert_eq!(n3, [500.0, 225.0, 75.0 + 10.0, 120.0 - 10.0, 80.0, 0.0]);
        let v3 = slots(named("Neoverse V3"), &counts);
        assert_eq!(v3, [1_000.0, 600.0, 200.0 + 20.0, 120.0 - 20.0, 80.0, 0.0]);
        for [all, parts @ .., _] in [n2, early, v1, v2, n3, v3] {
            assert_eq!(parts.iter().sum::<f64>(), all);
        }
        // Nothing was started.
        let nothing = slots(named("Neoverse V1"), &[10.0, 0.0, 0.0, 80.0]);
        assert_eq!(nothing, [80.0, 0.0, 0.0, 80.0, 0.0, 0.0]);
    }

    fn level1(name: &str, counts: &[f64]) -> Level1 {
        let mut padded: Counts = [0.0; MAX_EVENTS];
        let many: Vec<f64> = counts.iter().map(|count| count * 1_000.0).collect();
        padded.get_mut(..counts.len()).unwrap().copy_from_slice(&many);
        named(name).level1(&padded, false, true).unwrap()
    }

    #[test]
    fn events_that_disagree() {
        let agreed = level1("Skymont", &[100.0, 200.0, 100.0, 150.0, 350.0]);
        assert_eq!(agreed.disagreement(), None);
        assert_eq!(
            agreed.to_string(),
            "retiring 25 %, bad speculation 13 %, frontend bound 19 %, backend bound 44 %"
        );
        let why = |name, counts: &[f64]| level1(name, counts).disagreement().unwrap();
        let less = why("Skymont", &[100.0, 200.0, 100.0, 150.0, 250.0]);
        assert_eq!(less, "the four parts are only 87.5 % of the slots");
        let more = why("Skymont", &[100.0, 200.0, 100.0, 150.0, 450.0]);
        assert_eq!(more, "the four parts are 112.5 % of the slots");
        // A remainder below 0.
        let negative = why("Golden Cove", &[600.0, 300.0, 150.0, 300.0]);
        assert_eq!(negative, "bad speculation is -25.0 % of the slots, by the remainder");
        // AMD's rest is the other thread.
        let zen = level1("Zen 4", &[100.0, 200.0, 240.0, 100.0, 160.0]);
        assert_eq!(zen.disagreement(), None);
        assert_eq!(
            zen.to_string(),
            "retiring 33 %, bad speculation 7 %, frontend bound 17 %, backend bound 27 %, the core's other thread 17 %"
        );
        // Without a second thread, nothing explains the rest.
        let mut padded: Counts = [0.0; MAX_EVENTS];
        let counts = [100_000.0, 200_000.0, 240_000.0, 100_000.0, 0.0];
        padded.get_mut(..counts.len()).unwrap().copy_from_slice(&counts);
        let alone = named("Zen 4").level1(&padded, false, false).unwrap().disagreement();
        assert_eq!(alone.as_deref(), Some("the four parts are only 56.7 % of the slots"));
        assert_eq!(zen.largest(), (super::super::level1::Category::Retiring, zen.retiring));
    }

    #[test]
    fn memory_that_is_no_part_of_the_back_end() {
        let of = |counts: [f64; 5]| {
            let mut padded: Counts = [0.0; MAX_EVENTS];
            padded.get_mut(..5).unwrap().copy_from_slice(&counts.map(|count| count * 1_000.0));
            named("Golden Cove").level1(&padded, true, false).unwrap()
        };
        let agreed = of([600.0, 120.0, 150.0, 300.0, 200.0]);
        assert_eq!(agreed.disagreement(), None);
        assert!(agreed.to_string().ends_with("backend bound 50 % (memory bound 33 %)"), "{agreed}");
        let why = of([600.0, 120.0, 150.0, 300.0, 38_400.0]).disagreement().unwrap();
        assert_eq!(
            why,
            "memory bound is 6400.0 % of the slots, by topdown.memory_bound_slots, and backend bound 50.0 %"
        );
        assert!(of([600.0, 120.0, 150.0, 300.0, 312.0]).disagreement().is_some());
    }

    #[test]
    fn halves_of_the_parts() {
        let padded = |counts: &[f64]| {
            let mut padded: Counts = [0.0; MAX_EVENTS];
            let counts: Vec<f64> = counts.iter().map(|count| count * 1_000.0).collect();
            padded.get_mut(..counts.len()).unwrap().copy_from_slice(&counts);
            padded
        };
        let golden_cove = |second: &[f64]| {
            let first = padded(&[600.0, 120.0, 150.0, 300.0, 200.0]);
            named("Golden Cove").level2(&first, &padded(second), false).unwrap()
        };
        let agreed = golden_cove(&[60.0, 15.0, 10.0]);
        assert_eq!(agreed.disagreement(), None);
        assert_eq!(
            agreed.to_string(),
            "retiring 20 % (heavy operations 10 %), bad speculation 5 % (branch mispredicts 3 %), \
             frontend bound 25 % (fetch latency 10 %), backend bound 50 % (memory bound 33 %)"
        );
        for (second, why) in [
            (
                [150.0, 15.0, 10.0],
                "heavy operations is 25.0 % of the slots, by uops_retired.heavy, and retiring 20.0 %",
            ),
            (
                [60.0, 60.0, 10.0],
                "branch mispredicts is 10.0 % of the slots, by topdown.br_mispredict_slots, and bad speculation 5.0 %",
            ),
            (
                [60.0, 15.0, 90.0],
                "fetch latency is 90.0 % of the slots, by 6 x idq_bubbles.cycles_0_uops_deliv.core, and frontend bound 25.0 %",
            ),
        ] {
            assert_eq!(golden_cove(&second).disagreement().as_deref(), Some(why));
        }
        // Of 40 bad slots, three of four are mispredictions'. Of 200 operations, 20 are microcode's.
        let first = padded(&[100.0, 200.0, 240.0, 100.0, 160.0, 30.0, 40.0]);
        let zen4 = named("Zen 4").level2(&first, &padded(&[20.0, 3.0, 1.0, 10.0]), true).unwrap();
        let slots = [zen4.heavy_operations, zen4.branch_mispredicts, zen4.fetch_latency];
        assert_eq!(slots.map(|part| part.slots), [20_000.0, 30_000.0, 60_000.0]);
        assert_eq!(zen4.memory_bound.slots, 120_000.0);
        // Nothing retired, and no branch.
        let idle = padded(&[100.0, 0.0, 0.0, 100.0]);
        let nothing = named("Zen 4").level2(&idle, &padded(&[0.0; 4]), true).unwrap();
        assert_eq!([nothing.heavy_operations.slots, nothing.branch_mispredicts.slots], [0.0; 2]);
        assert!(named("Skylake").level2(&first, &padded(&[0.0; 4]), true).is_none());
    }

    /// Means that a caller computed may be anything. No part is, then.
    #[test]
    fn counts_that_are_no_numbers() {
        for family in &FAMILIES {
            for place in 0..family.events.len() {
                for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, 1e-300] {
                    let mut counts: Counts = [1_000.0; MAX_EVENTS];
                    *counts.get_mut(place).unwrap() = wrong;
                    let level1 = family.level1(&counts, true, true);
                    let Some(level1) = level1 else { continue };
                    let text = level1.to_string();
                    assert!(
                        !text.contains("NaN") && !text.contains("inf"),
                        "{}: {text}",
                        family.name
                    );
                    assert!(wrong.is_finite(), "{}: {text}", family.name);
                }
            }
        }
    }

    /// Each event that a part is computed from is a name of the tables.
    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn parts_rest_on_names() {
        let mut names = 0;
        for family in &FAMILIES {
            let second = family.second.map_or(&[][..], |second| &second.rests_on);
            let events: Vec<&str> = family
                .events
                .iter()
                .chain(family.second.map_or(&[][..], |second| second.events))
                .copied()
                .collect();
            for text in family.rests_on.iter().chain(second) {
                let words = text.split(|of: char| !of.is_alphanumeric() && !"_.,=".contains(of));
                for name in
                    words.map(|word| word.trim_end_matches(',')).filter(|word| word.contains('_'))
                {
                    for table in family.tables {
                        let table = crate::Table::named(table).unwrap();
                        assert!(events.contains(&name), "{}: {name}", family.name);
                        assert!(table.event(name).is_ok(), "{table} has no {name}");
                        names += 1;
                    }
                }
            }
        }
        assert!(names > 150, "{names}");
    }
}
