//! Names that other tools know and that are not events: metrics, clocks, and the names of PAPI and LIKWID.

use super::suggest::nearest;
use crate::error::NotAnEvent;
use crate::event::generic;

/// Returns what a name is that no PMU has, if other tools know it, and what counts the same here.
pub(super) fn kind_of(name: &str) -> Option<(NotAnEvent, Option<&'static str>)> {
    let lower = name.to_ascii_lowercase();
    let instead_of = |table: &[(&str, &'static str)]| {
        table.iter().find(|(known, _)| *known == lower).map(|(_, instead)| *instead)
    };
    if let Some(instead) = instead_of(&CLOCKS) {
        return Some((NotAnEvent::Clock, Some(instead)));
    }
    if let Some(instead) = instead_of(&METRICS) {
        return Some((NotAnEvent::Metric, Some(instead)));
    }
    if lower.starts_with("tma_") || lower.starts_with("topdownl") {
        return Some((NotAnEvent::Metric, None));
    }
    if lower.starts_with("papi_") {
        return Some((NotAnEvent::Papi, instead_of(&PAPI)));
    }
    instead_of(&LIKWID).map(|instead| (NotAnEvent::Likwid, Some(instead)))
}

/// Returns what a name with a colon is, if there is no event of the first part, and the second is not modifiers. None if
/// the first is a misspelt event.
pub(super) fn kind_with_colon(
    first: &str,
    second: &str,
) -> Option<(NotAnEvent, Option<&'static str>)> {
    if let Some(known) = kind_of(first) {
        return Some(known);
    }
    // PAPI's native names are libpfm4's: `skl::INST_RETIRED:ANY`.
    if second.starts_with(':') || first.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Some((NotAnEvent::Papi, None));
    }
    match first {
        "mem" => Some((NotAnEvent::Breakpoint, None)),
        _ if nearest(first, generic::all()).is_empty() => Some((NotAnEvent::Tracepoint, None)),
        _ => None,
    }
}

/// `perf stat`'s own clocks.
const CLOCKS: [(&str, &str); 3] = [
    ("duration_time", "rdpmc::Clock"),
    ("user_time", "getrusage, or task-clock for both modes"),
    ("system_time", "getrusage, or task-clock for both modes"),
];

const METRICS: [(&str, &str); 7] = [
    ("ipc", "instructions and cycles"),
    ("cpi", "cycles and instructions"),
    ("insn_per_cycle", "instructions and cycles"),
    ("branch_miss_rate", "branch-misses and branches"),
    ("cache_miss_rate", "cache-misses and cache-references"),
    ("cpu_utilization", "task-clock and rdpmc::Clock"),
    ("cpus_utilized", "task-clock and rdpmc::Clock"),
];

const PAPI: [(&str, &str); 16] = [
    ("papi_tot_ins", "instructions"),
    ("papi_tot_cyc", "cycles"),
    ("papi_ref_cyc", "ref-cycles"),
    ("papi_br_ins", "branches"),
    ("papi_br_msp", "branch-misses"),
    ("papi_l1_dca", "L1-dcache-loads"),
    ("papi_l1_dcm", "L1-dcache-load-misses"),
    ("papi_l1_ldm", "L1-dcache-load-misses"),
    ("papi_l1_icm", "L1-icache-load-misses"),
    ("papi_l3_tca", "cache-references"),
    ("papi_l3_tcm", "cache-misses"),
    ("papi_l3_ldm", "LLC-load-misses"),
    ("papi_tlb_dm", "dTLB-load-misses"),
    ("papi_tlb_im", "iTLB-load-misses"),
    ("papi_stl_icy", "stalled-cycles-frontend"),
    ("papi_res_stl", "stalled-cycles-backend"),
];

const LIKWID: [(&str, &str); 8] = [
    ("instr_retired_any", "instructions"),
    ("cpu_clk_unhalted_core", "cycles"),
    ("cpu_clk_unhalted_ref", "ref-cycles"),
    ("retired_instructions", "instructions"),
    ("cpu_clocks_unhalted", "cycles"),
    ("br_inst_retired_all_branches", "branches"),
    ("br_misp_retired_all_branches", "branch-misses"),
    ("actual_cpu_clock", "cycles"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_substitute_is_an_event() {
        for (name, instead) in PAPI.into_iter().chain(LIKWID) {
            assert!(generic::generic(instead).is_some(), "{name}: {instead}");
            assert!(kind_of(&name.to_ascii_uppercase()).is_some());
        }
        // No event of perf's own is taken for something else.
        for name in generic::all() {
            assert_eq!(kind_of(&name), None, "{name}");
        }
        assert_eq!(kind_of("PAPI_FP_OPS"), Some((NotAnEvent::Papi, None)));
        assert_eq!(kind_of("inst_retired.any"), None);
    }
}
