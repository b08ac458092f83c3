//! Arm's data: a file for each core; and CPUs of others, from libpfm4 and Linux.

use super::{json, linux};
use crate::libpfm::Line;
use crate::source::{Cpu, Source, Terms};
use serde_json::Value;
use std::fs;
use std::path::Path;

const ORIGIN: &str = "# Arm's events: https://github.com/ARM-software/data, commit 6aeb4c89a62b3b811744d3192f4831a4bb735f85 of 2025-01-17,
# Apache-2.0 (LICENSE-arm). The 64-bit cores and the architecture's own events, and the first sentences of the descriptions.
# Names that libpfm4 alone has for these cores, and CPUs of others: libpfm4 4.13+git99 (Debian), MIT (LICENSE-libpfm4), and the names and encodings of Linux 7.3.4,
# tools/perf/pmu-events/arch/arm64, without its descriptions.
# The fields are explained in tests/events/src/source.rs.
";

/// Microsoft's Azure Cobalt 100 is a Neoverse N2 with another implementer's number.
const COBALT_100: &str = "0x6dd49";
/// Broadcom's Brahma B53 has the events of a Cortex-A53.
const BRAHMA_B53: &str = "0x42100";

/// A table's name, its other names, libpfm4's PMU, Linux's directory, and the parts.
type Other =
    (&'static str, &'static [&'static str], &'static str, &'static str, &'static [&'static str]);

/// CPUs of others.
const OTHERS: [Other; 9] = [
    ("a64fx", &[], "arm_a64fx", "fujitsu/a64fx", &["0x46001"]),
    ("ampereone", &[], "", "ampere/ampereone", &["0xc0ac3"]),
    ("ampereonex", &[], "", "ampere/ampereonex", &["0xc0ac4"]),
    // One part, by two variants.
    ("emag", &[], "", "ampere/emag", &["0x50000-3..f"]),
    ("kunpeng", &["hip08", "tsv110"], "arm_kunpeng", "hisilicon/hip08", &["0x48d01"]),
    ("monaka", &[], "arm_monaka", "fujitsu/monaka", &["0x46003"]),
    ("olympus", &["t410"], "", "nvidia/t410", &["0x4e010"]),
    ("thunderx2", &[], "arm_thunderx2", "cavium/thunderx2", &["0x430af", "0x42516"]),
    ("xgene", &[], "arm_xgene", "", &["0x50000-0..2"]),
];

/// Arm's cores that Linux has a directory of, from which gaps are filled.
const OF_LINUX: [(&str, &str); 26] = [
    ("cortex_a34", "cortex-a34"),
    ("cortex_a35", "cortex-a35"),
    ("cortex_a510", "cortex-a510"),
    ("cortex_a53", "cortex-a53"),
    ("cortex_a55", "cortex-a55"),
    ("cortex_a57", "cortex-a57-a72"),
    ("cortex_a65", "cortex-a65-e1"),
    ("cortex_a710", "cortex-a710"),
    ("cortex_a72", "cortex-a57-a72"),
    ("cortex_a73", "cortex-a73"),
    ("cortex_a75", "cortex-a75"),
    ("cortex_a76", "cortex-a76"),
    ("cortex_a77", "cortex-a77"),
    ("cortex_a78", "cortex-a78"),
    ("cortex_a78c", "cortex-a78"),
    ("cortex_x1", "cortex-x1"),
    ("cortex_x1c", "cortex-x1"),
    ("cortex_x2", "cortex-x2"),
    ("neoverse_e1", "cortex-a65-e1"),
    ("neoverse_n1", "neoverse-n1"),
    ("neoverse_n2", "neoverse-n2-v2"),
    ("neoverse_n3", "neoverse-n3"),
    ("neoverse_v1", "neoverse-v1"),
    ("neoverse_v2", "neoverse-n2-v2"),
    ("neoverse_v3", "neoverse-v3"),
    ("neoverse_v3ae", "neoverse-v3"),
];

/// Reads a copy of the repository, libpfm4's events, and Linux's directory `tools/perf/pmu-events/arch`.
pub(crate) fn read(directory: &Path, lines: &[Line], of_linux: &Path) -> Result<Source, String> {
    let mut source = Source { origin: ORIGIN.to_owned(), ..Source::default() };
    let files = fs::read_dir(directory.join("pmu")).map_err(|why| why.to_string())?;
    let mut files: Vec<_> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    files.sort();
    for path in files {
        let stem = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let all = json(&path)?;
        let field = |name: &str| all.get(name).and_then(Value::as_str).unwrap_or_default();
        let architecture = field("architecture");
        if !architecture.starts_with("armv8") && !architecture.starts_with("armv9") {
            continue; // 32-bit
        }
        let name = stem.trim_start_matches("common_").replace('-', "_");
        for event in all.get("events").and_then(Value::as_array).ok_or("no events")? {
            // Some events of a core have no name.
            let code = event
                .get("code")
                .and_then(Value::as_u64)
                .and_then(|code| u16::try_from(code).ok().map(u64::from));
            let (Some(code), Some(event_name)) = (code, event.get("name").and_then(Value::as_str))
            else {
                continue;
            };
            let description = event.get("description").and_then(Value::as_str).unwrap_or_default();
            let terms = Terms { event: code, ..Terms::default() };
            source.add(&name, event_name, terms, sentence(description));
        }
        let mut matches = match field("cpuid") {
            "" => Vec::new(),
            id => vec![id.to_owned()],
        };
        match name.as_str() {
            "neoverse_n2" => matches.push(COBALT_100.to_owned()),
            "cortex_a53" => matches.push(BRAHMA_B53.to_owned()),
            _ => {}
        }
        // libpfm4 calls neoverse_n1 arm_n1.
        let neoverse = name.strip_prefix("neoverse_").map(|name| format!("arm_{name}"));
        // And cortex_a53 arm_ac53.
        let cortex = name.strip_prefix("cortex_a").filter(|name| name.len() == 2);
        let cortex = cortex.map(|name| format!("arm_ac{name}"));
        source.cpus.push(Cpu {
            name,
            aliases: neoverse.into_iter().chain(cortex).collect(),
            matches,
        });
    }
    add_names_of_libpfm4(&mut source, lines);
    add_others(&mut source, lines, of_linux)?;
    Ok(source)
}

/// Adds the names of the cores' events that Arm's files lack.
fn add_names_of_libpfm4(source: &mut Source, lines: &[Line]) {
    for cpu in source.cpus.clone() {
        for line in lines.iter().filter(|line| cpu.aliases.contains(&line.pmu)) {
            add(source, &cpu.name, line);
        }
    }
}

/// Adds an event of libpfm4's, if the table has none of this name.
fn add(source: &mut Source, table: &str, line: &Line) {
    let (name, event) = (line.name('.'), line.config & 0xffff);
    if source.terms_in(table, &name).is_none() {
        let terms = Terms { event, ..Terms::default() };
        source.add(table, &name, terms, sentence(&line.description));
    }
}

fn add_others(source: &mut Source, lines: &[Line], of_linux: &Path) -> Result<(), String> {
    let directory = of_linux.join("arm64");
    let shared = linux::shared(&[
        &directory.join("common-and-microarch.json"),
        &directory.join("recommended.json"),
    ])?;
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    for (name, files) in OF_LINUX {
        fill_gaps(source, name, &directory.join("arm").join(files), &shared)?;
    }
    for (name, aliases, pmu, files, matches) in OTHERS {
        let mut aliases = owned(aliases);
        if !pmu.is_empty() {
            aliases.push(pmu.to_owned());
        }
        source.cpus.push(Cpu { name: name.to_owned(), aliases, matches: owned(matches) });
        let own: Vec<&Line> = lines.iter().filter(|line| line.pmu == pmu).collect();
        if own.is_empty() && !pmu.is_empty() {
            return Err(format!("libpfm4 has no {pmu}: a newer one is needed"));
        }
        own.into_iter().for_each(|line| add(source, name, line));
        if !files.is_empty() {
            fill_gaps(source, name, &directory.join(files), &shared)?;
        }
    }
    Ok(())
}

/// Adds Linux's names to a table. Where it has another encoding of a name, that stays.
fn fill_gaps(
    source: &mut Source,
    table: &str,
    directory: &Path,
    shared: &linux::Shared,
) -> Result<(), String> {
    for (event, code) in linux::events(directory, shared)? {
        if source.terms_in(table, &event).is_none() {
            source.add(table, &event, Terms { event: code, ..Terms::default() }, "");
        }
    }
    Ok(())
}

/// Returns the first sentence.
fn sentence(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    line.split_once(". ").map_or(line, |(first, _)| first).trim_end_matches('.')
}
