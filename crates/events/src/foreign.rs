//! Names that no table can have: those of other tools, and of PMUs that count for no thread.

use crate::encoding::Layout;
use crate::error::EventError;
use crate::table::Table;

/// The beginnings of uncore events' names as the vendors and perf write them, and the PMUs in `/sys/bus/event_source/devices`. Of two
/// beginnings that fit, the first counts. AMD's apply to its CPUs alone.
const UNCORE: [(&str, &str); 41] = [
    ("unc_m2m_", "uncore_m2m_*"),
    ("unc_m3upi_", "uncore_m3upi_*"),
    ("unc_m2p_", "uncore_m2pcie_*"),
    ("unc_mc", "uncore_imc_*"),
    ("unc_m_", "uncore_imc_*"),
    ("unc_cha_", "uncore_cha_*"),
    ("unc_cbo_", "uncore_cbox_*"),
    ("unc_c_", "uncore_cbox_*"),
    ("unc_h_", "uncore_ha_*"),
    ("unc_hac_", "uncore_hac_*"),
    ("unc_arb_", "uncore_arb_*"),
    ("unc_p_", "uncore_pcu"),
    ("unc_iio_", "uncore_iio_*"),
    ("unc_i_", "uncore_irp_*"),
    ("unc_upi_", "uncore_upi_*"),
    ("unc_q_", "uncore_qpi_*"),
    ("unc_cxl", "uncore_cxl*"),
    ("unc_clock.", "uncore_clock"),
    ("unc_u_", "uncore_ubox"),
    ("unc_", "uncore_*"),
    ("umc_", "amd_umc_*"),
    ("l3_lookup_", "amd_l3"),
    ("l3_xi_sampled_", "amd_l3"),
    ("l3_cache_accesses", "amd_l3"),
    ("l3_comb_", "amd_l3"),
    ("l3_request_", "amd_l3"),
    ("l3_misses", "amd_l3"),
    ("l3_read_miss_latency", "amd_l3"),
    ("local_processor_", "amd_df"),
    ("remote_processor_", "amd_df"),
    ("local_socket_", "amd_df"),
    ("remote_socket_", "amd_df"),
    ("local_or_remote_socket_", "amd_df"),
    ("xi_", "amd_l3"),
    ("llc_misses.", "uncore_*"),
    ("llc_references.", "uncore_*"),
    ("uncore_", "uncore_*"),
    ("hnf_", "arm_cmn_*"),
    ("dram_channel_data_controller", "amd_df"),
    ("remote_outbound_data_controller", "amd_df"),
    ("arm_cmn", "arm_cmn_*"),
];

/// LIKWID's counters of a core, and of what lies beside the cores. Most have a number.
const LIKWID_CORE: [&str; 3] = ["PMC", "FIXC", "TMA"];
const LIKWID_UNCORE: [&str; 19] = [
    "MBOX", "CBOX", "UBOX", "UBOXFIX", "WBOX", "SBOX", "BBOX", "PBOX", "RBOX", "QBOX", "HBOX",
    "IBOX", "M2M", "MDEV", "DFC", "CPMC", "PWR", "UMC", "UPMC",
];

/// Returns the error of such a name. None for others.
pub(crate) fn why_none(name: &str, tables: &[Table]) -> Option<EventError> {
    of_another_tool(name, tables).or_else(|| {
        let lower = name.to_ascii_lowercase();
        let may_be_amds =
            tables.is_empty() || tables.iter().any(|table| table.layout() == Layout::Amd);
        let is_it = |(start, pmu): &&(&str, &str)| {
            lower.starts_with(start) && (may_be_amds || !pmu.starts_with("amd_"))
        };
        let (_, pmu) = UNCORE.iter().find(is_it)?;
        Some(EventError::Uncore { name: name.to_owned(), pmu })
    })
}

fn of_another_tool(name: &str, tables: &[Table]) -> Option<EventError> {
    let tool = |tool, remedy| EventError::OtherTool { name: name.to_owned(), tool, remedy };
    let upper = name.to_ascii_uppercase();
    if upper.starts_with("PAPI_") {
        let remedy = format!(
            "`papi_avail -e {name}` shows the events that it stands for on this CPU. Give one of these"
        );
        return Some(tool("PAPI", remedy));
    }
    let (event, counter) = name.split_once(':')?;
    let counter = counter.split(':').next().unwrap_or(counter).to_ascii_uppercase();
    let is_of = |kinds: &[&str]| {
        // The box's number, and its counter's: MBOX0C1.
        let is_number = |rest: &str| {
            rest.starts_with(|digit: char| digit.is_ascii_digit())
                && rest.chars().all(|of: char| of.is_ascii_digit() || of == 'C')
        };
        let fits = |kind: &str| {
            counter.strip_prefix(kind).is_some_and(|rest| is_number(rest) || counter == "UBOXFIX")
        };
        kinds.iter().any(|kind| fits(kind))
    };
    if is_of(&LIKWID_UNCORE) {
        let remedy =
            "No thread has this counter. Use `likwid-perfctr`, or perf's name with `perf stat -a`";
        return Some(tool("LIKWID", remedy.to_owned()));
    }
    if !is_of(&LIKWID_CORE) {
        return None;
    }
    let known = tables.iter().any(|table| table.find(event).is_some());
    let remedy = match known {
        true => format!("Write {event}: the kernel chooses the counter"),
        false => {
            "Give the vendor's name, without a counter. `search` finds names by words".to_owned()
        }
    };
    Some(tool("LIKWID", remedy))
}

#[cfg(all(test, feature = "intel", feature = "amd"))]
mod tests {
    use super::*;

    #[test]
    fn whose_name_it_is() {
        let of = |name: &str, table: &str| {
            let tables: Vec<Table> = Table::named(table).into_iter().collect();
            why_none(name, &tables).map(|why| why.to_string()).unwrap_or_default()
        };
        for (name, table, begins) in [
            (
                "CAS_COUNT_RD:MBOX0C0",
                "skylakex",
                "CAS_COUNT_RD:MBOX0C0 is a name of LIKWID's. No thread has",
            ),
            (
                "RETIRED_INSTRUCTIONS:PMC0",
                "zen4",
                "RETIRED_INSTRUCTIONS:PMC0 is a name of LIKWID's. Write RETIRED_INSTRUCTIONS:",
            ),
            (
                "INSTR_RETIRED_ANY:FIXC0",
                "skylake",
                "INSTR_RETIRED_ANY:FIXC0 is a name of LIKWID's. Give the vendor's",
            ),
            (
                "L1D_REPLACEMENT:PMC1:EDGEDETECT",
                "skylake",
                "L1D_REPLACEMENT:PMC1:EDGEDETECT is a name of LIKWID's",
            ),
            (
                "PAPI_TOT_INS",
                "zen4",
                "PAPI_TOT_INS is a name of PAPI's. `papi_avail -e PAPI_TOT_INS`",
            ),
            (
                "UNC_M_CAS_COUNT.RD",
                "skylakex",
                "UNC_M_CAS_COUNT.RD is an event of the PMU uncore_imc_*, which",
            ),
            (
                "l3_lookup_state.l3_miss",
                "zen4",
                "l3_lookup_state.l3_miss is an event of the PMU amd_l3, which",
            ),
            ("umc_mem_clk", "zen5", "umc_mem_clk is an event of the PMU amd_umc_*, which"),
            (
                "UNCORE_CLOCK:UBOXFIX",
                "skylakex",
                "UNCORE_CLOCK:UBOXFIX is a name of LIKWID's. No thread has",
            ),
            ("TXR:M2M0C0", "skylakex", "TXR:M2M0C0 is a name of LIKWID's. No thread has"),
            (
                "UNC_LINK_TRANSMIT:UPMC0",
                "interlagos",
                "UNC_LINK_TRANSMIT:UPMC0 is a name of LIKWID's. No thread",
            ),
            // Of AMD's CPUs alone.
            ("l3_misses", "skylake", ""),
            ("ex_ret_instr:u", "zen4", ""),
            ("SWPF:PM", "zen4", ""),
            ("a:PMC", "zen4", ""),
            (":", "zen4", ""),
        ] {
            let why = of(name, table);
            assert!(why.starts_with(begins) && why.is_empty() == begins.is_empty(), "{why}");
        }
        // No core event begins so.
        for table in Table::all() {
            for known in table.events() {
                assert_eq!(why_none(&known.name, &[]), None, "{table}");
            }
        }
    }
}
