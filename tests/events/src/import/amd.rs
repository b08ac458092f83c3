//! libpfm4's AMD events, as `libpfm4.c` prints them, and the mnemonics of AMD's manuals, as perf lists them.

use crate::libpfm::Line;
use crate::perf::{Listed, field, list};
use crate::source::{Cpu, Source, Terms};
use std::path::Path;

const ORIGIN: &str = "# AMD's events: libpfm4 4.13+git99 (Debian), MIT (LICENSE-libpfm4). Its unit masks follow a dot. The mnemonics of AMD's
# manuals (ex_ret_instr), for libpfm4's unit masks too, are in tests/events/src/import/amd.rs.
# Of the Zen CPUs also the names and encodings that `perf list` of Linux 7.3.4 (Debian) prints, without its descriptions. An event
# that libpfm4 has as well has libpfm4's description.
# The fields are explained in tests/events/src/source.rs.
";

/// libpfm4's PMU, the table's name, another name, and its families and models (hexadecimal).
/// One without libpfm4's PMU has perf's events alone.
const CPUS: [(&str, &str, &str, &str); 14] = [
    ("amd64_fam10h_barcelona", "barcelona", "", "16-0..3"),
    ("amd64_fam10h_shanghai", "shanghai", "", "16-4..7"),
    ("amd64_fam10h_istanbul", "istanbul", "", "16-8..ff"),
    ("amd64_fam11h_turion", "turion", "", "17-0..ff"),
    ("amd64_fam12h_llano", "llano", "", "18-0..ff"),
    ("amd64_fam14h_bobcat", "bobcat", "", "20-0..ff"),
    ("amd64_fam15h_interlagos", "interlagos", "bulldozer", "21-0..ff"),
    ("amd64_fam16h", "jaguar", "", "22-0..ff"),
    ("amd64_fam17h_zen1", "zen1", "amdzen1 naples", "23-0..2f 24-0..ff"),
    ("amd64_fam17h_zen2", "zen2", "amdzen2 rome", "23-30..ff"),
    ("amd64_fam19h_zen3", "zen3", "amdzen3 milan", "25-0..f 25-20..5f"),
    ("amd64_fam19h_zen4", "zen4", "amdzen4 genoa", "25-10..1f 25-60..ff"),
    ("amd64_fam1ah_zen5", "zen5", "amdzen5 turin", "26-0..2f 26-40..4f 26-60..7f"),
    ("", "zen6", "amdzen6 venice", "26-50..5f 26-80..af 26-c0..cf"),
];

/// Mnemonics of the Processor Programming References, and libpfm4's names of the same events. Unit masks have the same names.
const MNEMONICS: [(&str, &str); 75] = [
    ("ex_ret_instr", "retired_instructions"),
    ("ex_ret_ops", "retired_ops"),
    ("ex_ret_cops", "retired_uops"),
    ("ex_ret_brn", "retired_branch_instructions"),
    ("ex_ret_brn_misp", "retired_branch_instructions_mispredicted"),
    ("ex_ret_brn_tkn", "retired_taken_branch_instructions"),
    ("ex_ret_brn_tkn_misp", "retired_taken_branch_instructions_mispredicted"),
    ("ex_ret_brn_far", "retired_far_control_transfers"),
    ("ex_ret_near_ret", "retired_near_returns"),
    ("ex_ret_near_ret_mispred", "retired_near_returns_mispredicted"),
    ("ex_ret_brn_ind_misp", "retired_indirect_branch_instructions_mispredicted"),
    ("ex_ret_ind_brch_instr", "retired_indirect_branch_instructions"),
    ("ex_ret_cond", "retired_conditional_branch_instructions"),
    ("ex_ret_msprd_brnch_instr_dir_msmtch", "retired_branch_mispredicted_direction_mismatch"),
    ("ex_ret_mmx_fp_instr", "retired_mmx_fp_instructions"),
    ("ex_ret_fused_instr", "retired_fused_instructions"),
    ("ex_ret_ucode_instr", "retired_ucode_instructions"),
    ("ex_ret_ucode_ops", "retired_ucode_ops"),
    ("ex_div_busy", "div_cycles_busy_count"),
    ("ex_div_count", "div_op_count"),
    ("ex_no_retire", "cycles_no_retire"),
    ("ex_tagged_ibs_ops", "tagged_ibs_ops"),
    ("ls_not_halted_cyc", "cycles_not_in_halt"),
    ("ls_not_halted_p0_cyc", "p0_freq_cycles_not_in_halt"),
    ("ls_stlf", "store_to_load_forward"),
    ("ls_st_commit_cancel2", "store_commit_cancels_2"),
    ("ls_bad_status2", "bad_status_2"),
    ("ls_mab_alloc", "mab_allocation_by_type"),
    ("ls_alloc_mab_count", "alloc_mab_count"),
    ("ls_dmnd_fills_from_sys", "demand_data_cache_fills_from_system"),
    ("ls_any_fills_from_sys", "any_data_cache_fills_from_system"),
    ("ls_sw_pf_dc_fills", "software_prefetch_data_cache_fills"),
    ("ls_hw_pf_dc_fills", "hardware_prefetch_data_cache_fills"),
    ("ls_pref_instr_disp", "prefetch_instructions_dispatched"),
    ("ls_inef_sw_pref", "ineffective_software_prefetch"),
    ("ls_l1_d_tlb_miss", "l1_dtlb_miss"),
    ("ls_misal_loads", "misaligned_loads"),
    ("ls_tlb_flush", "tlb_flushes"),
    ("ls_locks", "retired_lock_instructions"),
    ("ls_ret_cl_flush", "retired_clflush_instructions"),
    ("ls_ret_cpuid", "retired_cpuid_instructions"),
    ("ls_smi_rx", "smi_received"),
    ("ls_int_taken", "interrupt_taken"),
    ("bp_l1_tlb_miss_l2_tlb_hit", "l1_itlb_miss_l2_itlb_hit"),
    ("bp_l1_tlb_miss_l2_tlb_miss", "l1_itlb_miss_l2_itlb_miss"),
    ("bp_l1_tlb_fetch_hit", "l1_itlb_fetch_hit"),
    ("bp_l1_btb_correct", "l1_btb_correction"),
    ("bp_l2_btb_correct", "l2_btb_correction"),
    ("bp_dyn_ind_pred", "dynamic_indirect_predictions"),
    ("bp_de_redirect", "decoder_override_branch_pred"),
    ("ic_cache_fill_l2", "instruction_cache_refills_from_l2"),
    ("ic_cache_fill_sys", "instruction_cache_refills_from_system"),
    ("ic_fw32", "32_byte_instruction_cache_fetch"),
    ("ic_fw32_miss", "32_byte_instruction_cache_misses"),
    ("l2_request_g1", "requests_to_l2_group1"),
    ("l2_request_g2", "requests_to_l2_group2"),
    ("l2_cache_req_stat", "core_to_l2_cacheable_request_access_status"),
    ("l2_pf_hit_l2", "l2_prefetch_hit_l2"),
    ("l2_pf_miss_l2_hit_l3", "l2_prefetch_hit_l3"),
    ("l2_pf_miss_l2_l3", "l2_prefetch_miss_l3"),
    ("l2_fill_rsp_src", "l2_fill_response_src"),
    ("de_src_op_disp", "ops_source_dispatched_from_decoder"),
    ("de_dis_ops_from_decoder", "ops_type_dispatched_from_decoder"),
    ("de_op_queue_empty", "ops_queue_empty"),
    ("de_dis_dispatch_token_stalls1", "dispatch_resource_stall_cycles_1"),
    ("de_dis_dispatch_token_stalls2", "dispatch_resource_stall_cycles_2"),
    ("fp_ret_x87_fp_ops", "retired_x87_fp_ops"),
    ("fp_ret_sse_avx_ops", "retired_sse_avx_flops"),
    ("fp_retired_ser_ops", "retired_serializing_ops"),
    ("fp_disp_faults", "fp_dispatch_faults"),
    ("fp_ops_retired_by_width", "retired_fp_ops_by_width"),
    ("fp_ops_retired_by_type", "retired_fp_ops_by_type"),
    ("sse_avx_ops_retired", "retired_int_ops"),
    ("fp_pack_ops_retired", "packed_fp_ops_retired"),
    ("packed_int_op_type", "packed_int_ops_retired"),
];

/// Takes the AMD events from libpfm4's and perf's. `perf` and `room` are as for [`list`].
pub(crate) fn read(lines: &[Line], room: &Path, perf: &[&str]) -> Result<Source, String> {
    let mut source = Source { origin: ORIGIN.to_owned(), ..Source::default() };
    for (pmu, name, alias, matches) in CPUS {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mut aliases = words(alias);
        aliases.extend(words(pmu));
        source.cpus.push(Cpu { name: name.to_owned(), aliases, matches: words(matches) });
        let own: Vec<&Line> = lines.iter().filter(|line| line.pmu == pmu).collect();
        if own.is_empty() && !pmu.is_empty() {
            return Err(format!("libpfm4 has no {pmu}: a newer one is needed"));
        }
        for line in own {
            let terms = terms(line.config)?;
            let description = line.description.trim_start_matches("TBD").trim_start_matches(": ");
            let own_name = line.name('.').to_ascii_lowercase();
            source.add(name, &own_name, terms, description);
            let (event, umask) = own_name.split_once('.').unwrap_or((&own_name, ""));
            let other = MNEMONICS.iter().find(|(_, known)| *known == event);
            if let Some((mnemonic, _)) = other.filter(|_| name.starts_with("zen")) {
                let dot = if umask.is_empty() { "" } else { "." };
                source.add(name, &format!("{mnemonic}{dot}{umask}"), terms, description);
            }
        }
        if name.starts_with("zen") {
            add_names_of_perf(&mut source, name, room, perf)?;
        }
    }
    Ok(source)
}

/// Adds perf's names of a table's CPUs. Where libpfm4 has another encoding of a name, libpfm4's stays.
fn add_names_of_perf(
    source: &mut Source,
    table: &str,
    room: &Path,
    perf: &[&str],
) -> Result<(), String> {
    let cpu = source.cpus.iter().find(|cpu| cpu.name == table).cloned().ok_or("no such table")?;
    let Listed { pmu, entries, .. } = list("amd", &cpu, room, perf, &[])?;
    let described = source.events.iter().filter(|(_, entry)| entry.is_of(table));
    let described: Vec<(Terms, String)> =
        described.map(|((_, terms), entry)| (*terms, entry.description.clone())).collect();
    for event in &entries {
        let (name, encoding) = (field(event, "EventName"), field(event, "Encoding"));
        let terms = encoding.strip_prefix(pmu).and_then(|terms| terms.strip_prefix('/'));
        let Some(terms) = terms.and_then(|terms| terms.strip_suffix('/')) else { continue };
        if field(event, "Topic") == "legacy hardware" || name.contains('/') {
            continue;
        }
        let terms = Terms::parse(terms)?;
        if source.terms_in(table, name).is_none() {
            let same = described.iter().find(|(other, _)| *other == terms);
            let description = same.map_or("", |(_, description)| description);
            source.add(table, name, terms, description);
        }
    }
    Ok(())
}

fn terms(config: u64) -> Result<Terms, String> {
    let byte = |shift: u32| (config >> shift & 0xff) as u16;
    let is_set = |bit: u32| config >> bit & 1 == 1;
    let terms = Terms {
        event: u64::from(byte(0)) | config >> 24 & 0xf00,
        umask: byte(8),
        cmask: byte(24) as u8,
        edge: is_set(18),
        inv: is_set(23),
        ..Terms::default()
    };
    match config & !0xf_ff84_ffff {
        0 => Ok(terms),
        _ => Err(format!("config {config:#x} has unknown bits")),
    }
}
