//! Names that other tools know and that are not events: metrics, clocks, and the names of PAPI and LIKWID.

use super::suggest::nearest;
use crate::error::NameError;
use crate::error::name::foreign::{BREAKPOINT, CLOCK, LIKWID, METRIC, PAPI, TRACEPOINT};
use crate::event::generic;

/// What a name is that is no event's.
#[derive(Debug, PartialEq)]
pub(super) struct Foreign {
    what: &'static str,
    /// What counts the same here, if that is known.
    instead: Option<&'static str>,
}

impl Foreign {
    pub(super) fn named(self, name: &str) -> NameError {
        NameError::NotAnEvent { name: name.to_owned(), what: self.what, instead: self.instead }
    }
}

/// Returns what a name is that no PMU has, if other tools know it.
pub(super) fn of(name: &str) -> Option<Foreign> {
    let lower = name.to_ascii_lowercase();
    let known = KNOWN.iter().find(|(_, known, _)| *known == lower);
    let what = match known {
        Some((what, ..)) => what,
        None if lower.starts_with("tma_") || lower.starts_with("topdownl") => METRIC,
        None if lower.starts_with("papi_") => PAPI,
        None => return None,
    };
    Some(Foreign { what, instead: known.map(|(.., instead)| *instead) })
}

/// Returns what a name with a colon is, if there is no event of the first part, and the second is not modifiers. None if
/// the first is a misspelt event.
pub(super) fn with_colon(first: &str, second: &str) -> Option<Foreign> {
    if let Some(known) = of(first) {
        return Some(known);
    }
    // PAPI's native names are libpfm4's: `skl::INST_RETIRED:ANY`.
    let is_native = second.starts_with(':') || first.bytes().any(|byte| byte.is_ascii_uppercase());
    let what = match first {
        _ if is_native => PAPI,
        "mem" => BREAKPOINT,
        _ if nearest(first, generic::all()).is_empty() => TRACEPOINT,
        _ => return None,
    };
    Some(Foreign { what, instead: None })
}

/// What it is, its name in lower case, and what counts the same here.
const KNOWN: [(&str, &str, &str); 34] = [
    (CLOCK, "duration_time", "rdpmc::Clock"),
    (CLOCK, "user_time", "getrusage, or task-clock for both modes"),
    (CLOCK, "system_time", "getrusage, or task-clock for both modes"),
    (METRIC, "ipc", "instructions and cycles"),
    (METRIC, "cpi", "cycles and instructions"),
    (METRIC, "insn_per_cycle", "instructions and cycles"),
    (METRIC, "branch_miss_rate", "branch-misses and branches"),
    (METRIC, "cache_miss_rate", "cache-misses and cache-references"),
    (METRIC, "cpu_utilization", "task-clock and rdpmc::Clock"),
    (METRIC, "cpus_utilized", "task-clock and rdpmc::Clock"),
    (PAPI, "papi_tot_ins", "instructions"),
    (PAPI, "papi_tot_cyc", "cycles"),
    (PAPI, "papi_ref_cyc", "ref-cycles"),
    (PAPI, "papi_br_ins", "branches"),
    (PAPI, "papi_br_msp", "branch-misses"),
    (PAPI, "papi_l1_dca", "L1-dcache-loads"),
    (PAPI, "papi_l1_dcm", "L1-dcache-load-misses"),
    (PAPI, "papi_l1_ldm", "L1-dcache-load-misses"),
    (PAPI, "papi_l1_icm", "L1-icache-load-misses"),
    (PAPI, "papi_l3_tca", "cache-references"),
    (PAPI, "papi_l3_tcm", "cache-misses"),
    (PAPI, "papi_l3_ldm", "LLC-load-misses"),
    (PAPI, "papi_tlb_dm", "dTLB-load-misses"),
    (PAPI, "papi_tlb_im", "iTLB-load-misses"),
    (PAPI, "papi_stl_icy", "stalled-cycles-frontend"),
    (PAPI, "papi_res_stl", "stalled-cycles-backend"),
    (LIKWID, "instr_retired_any", "instructions"),
    (LIKWID, "cpu_clk_unhalted_core", "cycles"),
    (LIKWID, "cpu_clk_unhalted_ref", "ref-cycles"),
    (LIKWID, "retired_instructions", "instructions"),
    (LIKWID, "cpu_clocks_unhalted", "cycles"),
    (LIKWID, "br_inst_retired_all_branches", "branches"),
    (LIKWID, "br_misp_retired_all_branches", "branch-misses"),
    (LIKWID, "actual_cpu_clock", "cycles"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_substitute_is_an_event() {
        for (what, name, instead) in KNOWN {
            assert!(
                [METRIC, CLOCK].contains(&what) || generic::generic(instead).is_some(),
                "{name}"
            );
            assert!(of(&name.to_ascii_uppercase()).is_some());
        }
        // No event of perf's own is taken for something else.
        for name in generic::all() {
            assert_eq!(of(&name), None, "{name}");
        }
        assert_eq!(of("PAPI_FP_OPS"), Some(Foreign { what: PAPI, instead: None }));
        assert_eq!(of("inst_retired.any"), None);
    }
}
