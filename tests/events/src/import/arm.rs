//! Arm's data: a file for each core.

use super::json;
use crate::source::{Cpu, Source, Terms};
use serde_json::Value;
use std::fs;
use std::path::Path;

const ORIGIN: &str = "# Arm's events: https://github.com/ARM-software/data, commit 6aeb4c89a62b3b811744d3192f4831a4bb735f85 of 2025-01-17,
# Apache-2.0 (LICENSE-arm). The 64-bit cores and the architecture's own events, and the first sentences of the descriptions.
# The fields are explained in tests/events/src/source.rs.
";

/// Microsoft's Azure Cobalt 100 is a Neoverse N2 with another implementer's number.
const COBALT_100: &str = "0x6dd49";

/// Reads a copy of the repository.
pub(crate) fn read(directory: &Path) -> Result<Source, String> {
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
            let code =
                event.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
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
        if name == "neoverse_n2" {
            matches.push(COBALT_100.to_owned());
        }
        // libpfm4 calls neoverse_n1 arm_n1.
        let aliases = name.strip_prefix("neoverse_").map(|name| format!("arm_{name}"));
        source.cpus.push(Cpu { name, aliases: aliases.into_iter().collect(), matches });
    }
    Ok(source)
}

/// Returns the first sentence.
fn sentence(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    line.split_once(". ").map_or(line, |(first, _)| first).trim_end_matches('.')
}
