//! Intel's perfmon: a file of events for each CPU model, and `mapfile.csv`.

use super::{json, text};
use crate::libpfm::Line;
use crate::source::{Cpu, Source, Terms, number};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

const ORIGIN: &str = "# Intel's events: https://github.com/intel/perfmon, commit 6dadedf3aa483393943e044ba5ec88a4507cd040 of 2026-08-13,
# BSD-3-Clause (LICENSE-intel). The core events, the terms as perf writes them, and the brief descriptions.
# Names that only libpfm4 has for these CPUs: libpfm4 4.13+git99 (Debian), MIT (LICENSE-libpfm4).
# The fields are explained in tests/events/src/source.rs.
";

/// Reads a copy of the repository, and libpfm4's names.
pub(crate) fn read(directory: &Path, lines: &[Line]) -> Result<Source, String> {
    let mut source = Source { origin: ORIGIN.to_owned(), ..Source::default() };
    let mut files: Vec<String> = Vec::new();
    for line in text(&directory.join("mapfile.csv"))?.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [cpu, _, file, kind, _, _, role] = fields[..] else {
            return Err(format!("mapfile.csv: {line}"));
        };
        if kind != "core" && kind != "hybridcore" {
            continue;
        }
        let cpu = model(cpu.strip_prefix("GenuineIntel-").ok_or(line)?);
        let suffix = match role {
            "Core" => "/cpu_core",
            "Atom" => "/cpu_atom",
            "LowPower_Atom" => "/cpu_lowpower",
            "" => "",
            _ => return Err(format!("mapfile.csv: {line}")),
        };
        let place = files.iter().position(|known| known == file).unwrap_or(files.len());
        if place == files.len() {
            files.push(file.to_owned());
            source.cpus.push(of_file(file)?);
        }
        if let Some(known) = source.cpus.get_mut(place) {
            known.matches.push(format!("{cpu}{suffix}"));
        }
    }
    for (file, cpu) in files.iter().zip(source.cpus.clone()) {
        let all = json(&directory.join(file.trim_start_matches('/')))?;
        let events = all.get("Events").unwrap_or(&all).as_array().ok_or("no events")?;
        for event in events {
            let field = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
            let name = field("EventName");
            if !is_encoded(field("MSRIndex")) {
                continue;
            }
            let terms = terms(name, &field).map_err(|why| format!("{file}: {name}: {why}"))?;
            if !counts_something(&terms) {
                return Err(format!("{file}: {name}: {terms} counts nothing"));
            }
            for name in names(name) {
                source.add(&cpu.name, &name, terms, field("BriefDescription"));
            }
        }
    }
    add_names_of_libpfm4(&mut source, lines)?;
    source.cpus.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(source)
}

/// Intel's name, as perf writes it, and perf's own for the first of two registers.
fn names(name: &str) -> Vec<String> {
    let name = name.to_ascii_lowercase().replace(":request=", ".").replace(":response=", ".");
    let of_perf =
        name.strip_prefix("offcore_response_0.").map(|rest| format!("offcore_response.{rest}"));
    of_perf.into_iter().chain([name]).collect()
}

/// `6-55-[01234]`: with a range of steppings.
fn model(cpu: &str) -> String {
    match cpu.split_once('[') {
        Some((model, steppings)) => {
            let steppings = steppings.trim_end_matches(']').to_ascii_lowercase();
            let (first, last) = (steppings.chars().next(), steppings.chars().last());
            format!("{model}{}..{}", first.unwrap_or('0'), last.unwrap_or('f'))
        }
        None => cpu.to_owned(),
    }
}

/// The core types of hybrids, and their short names.
const CORES: [(&str, &str); 10] = [
    ("goldencove", "glc"),
    ("gracemont", "grt"),
    ("redwoodcove", "rwc"),
    ("crestmont", "cmt"),
    ("lioncove", "lnc"),
    ("skymont", "skt"),
    ("cougarcove", "cgc"),
    ("darkmont", "dkt"),
    ("coyotecove", "cyc"),
    ("arcticwolf", "arw"),
];
const FAST: [&str; 5] = ["goldencove", "redwoodcove", "lioncove", "cougarcove", "coyotecove"];

/// `/SKL/events/skylake_core.json`: skylake, which libpfm4 calls skl.
fn of_file(file: &str) -> Result<Cpu, String> {
    let (directory, name) = file.trim_start_matches('/').split_once("/events/").ok_or(file)?;
    let name = name.trim_end_matches(".json").trim_end_matches("_core").to_ascii_lowercase();
    let short = directory.to_ascii_lowercase().replace('-', "_");
    let mut aliases: Vec<String> = match name.as_str() {
        // CPUs that share a table with an older one.
        "alderlake_goldencove" => vec!["rpl"],
        "skylake" => vec!["kbl", "cfl", "cml", "whl"],
        "nehalemep" => vec!["nhm"],
        "nehalemex" => vec!["nhm_ex"],
        "westmereep-sp" => vec!["wsm"],
        "westmereep-dp" => vec!["wsm_dp"],
        "jaketown" => vec!["snb_ep"],
        "ivytown" => vec!["ivb_ep"],
        "haswellx" => vec!["hsw_ep"],
        "broadwellx" => vec!["bdw_ep"],
        "bonnell" => vec!["atom"],
        "snowridgex" => vec!["tmt"],
        _ => Vec::new(),
    }
    .into_iter()
    .map(str::to_owned)
    .collect();
    if !name.contains('_') && name != short {
        aliases.push(short.clone());
    }
    if let Some((_, core)) = name.split_once('_') {
        // As libpfm4 writes it: adl_glc. The CPU's own name is that of its fast cores.
        let (_, code) = CORES.iter().find(|(known, _)| *known == core).ok_or(file)?;
        aliases.push(format!("{short}_{code}"));
        aliases.extend(FAST.contains(&core).then_some(short));
    }
    aliases.dedup();
    Ok(Cpu { name: name.replace('-', "_"), aliases, matches: Vec::new() })
}

/// Adds the names that Intel's files lack: `INST_RETIRED`, with libpfm4's default of the unit mask, and names of unit masks.
fn add_names_of_libpfm4(source: &mut Source, lines: &[Line]) -> Result<(), String> {
    let known: BTreeSet<(String, String)> = source
        .events
        .iter()
        .flat_map(|((name, _), entry)| {
            entry.tables.iter().map(|table| (table.clone(), name.clone()))
        })
        .collect();
    for line in lines {
        let is_it = |cpu: &&Cpu| cpu.name == line.pmu || cpu.aliases.contains(&line.pmu);
        let Some(cpu) = source.cpus.iter().find(is_it).map(|cpu| cpu.name.clone()) else {
            continue;
        };
        let name = line.name('.').to_ascii_lowercase();
        let mut terms = terms_of(line)?;
        if name == "cpu_clk_unhalted" && terms.event == 0 {
            terms.event = 0x3c; // a fixed counter's, as above
        }
        // An event that the CPU does not have.
        if !known.contains(&(cpu.clone(), name.clone())) && counts_something(&terms) {
            source.add(&cpu, &name, terms, &line.description);
        }
    }
    Ok(())
}

/// Whether the kernel counts something for these terms. It knows some unit masks of event 0: 1, 3 and 4 are those of fixed counters, and those
/// from 0x80 of the metrics. Others count nothing.
fn counts_something(terms: &Terms) -> bool {
    terms.event != 0 || matches!(terms.umask, 1 | 3 | 4 | 0x80..)
}

/// Returns the terms of libpfm4's numbers.
fn terms_of(line: &Line) -> Result<Terms, String> {
    let byte = |shift: u32| (line.config >> shift & 0xff) as u8;
    let is_set = |bit: u32| line.config >> bit & 1 == 1;
    if line.config & !0xff10_ffa4_ffff != 0 {
        return Err(format!("{} has unknown bits: {:#x}", line.name('.'), line.config));
    }
    Ok(Terms {
        event: byte(0).into(),
        umask: u16::from(byte(8)) | u16::from(byte(40)) << 8,
        cmask: byte(24),
        edge: is_set(18),
        any: is_set(21),
        inv: is_set(23),
        eq: is_set(36),
        config1: line.config1,
    })
}

/// Whether the kernel can set this register for an event: that of off-core or off-module requests, of the load latency, or of the front
/// end.
fn is_encoded(register: &str) -> bool {
    const THESE: [u64; 6] = [0, 0x1a6, 0x1a7, 0x3e0, 0x3f6, 0x3f7];
    let first = register.split(',').next().unwrap_or_default();
    first.is_empty() || number(first).is_ok_and(|register| THESE.contains(&register))
}

fn terms<'a>(name: &str, field: &impl Fn(&str) -> &'a str) -> Result<Terms, String> {
    // Two numbers are for two counters or registers: the first one.
    let first = |name: &str| match field(name).split(',').next().unwrap_or_default().trim() {
        "" | "na" | "null" => Ok(0),
        text => number(text),
    };
    let byte = |name: &str| u8::try_from(first(name)?).map_err(|_| format!("{name} is too large"));
    let is_set = |name: &str| Ok::<_, String>(first(name)? != 0);
    let mut terms = Terms {
        event: byte("EventCode")?.into(),
        umask: u16::from(byte("UMask")?) | u16::from(byte("UMaskExt")?) << 8,
        cmask: byte("CounterMask")?,
        edge: is_set("EdgeDetect")?,
        any: is_set("AnyThread")?,
        inv: is_set("Invert")?,
        eq: is_set("Equal")?,
        config1: if is_set("MSRIndex")? { first("MSRValue")? } else { 0 },
    };
    // The kernel has other numbers for what a fixed counter counts: those of the same event on other counters.
    if terms.event == 0 || field("Counter").to_ascii_lowercase().contains("fixed") {
        match name.to_ascii_lowercase().as_str() {
            "inst_retired.any" => (terms.event, terms.umask) = (0xc0, 0),
            "cpu_clk_unhalted.thread" | "cpu_clk_unhalted.thread_any" | "cpu_clk_unhalted.core" => {
                (terms.event, terms.umask) = (0x3c, 0);
            }
            "cpu_clk_unhalted.ref" | "cpu_clk_unhalted.ref_tsc" => {
                (terms.event, terms.umask) = (0, 3);
            }
            "topdown_retiring.all" => (terms.event, terms.umask) = (0xc2, 2),
            "topdown_fe_bound.all" => (terms.event, terms.umask) = (0x9c, 1),
            "topdown_bad_speculation.all" => (terms.event, terms.umask) = (0x73, 0),
            _ => {}
        }
    }
    Ok(terms)
}
