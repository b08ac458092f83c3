//! Names and encodings in Linux's JSON files: `tools/perf/pmu-events/arch` of its source. Its descriptions are not taken.

use super::json;
use crate::source::number;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The events that several CPUs share, by name.
pub(crate) type Shared = BTreeMap<String, u64>;

/// Returns the events that the files of CPUs name without an encoding.
pub(crate) fn shared(files: &[&Path]) -> Result<Shared, String> {
    let mut shared = Shared::new();
    for file in files {
        for event in json(file)?.as_array().ok_or("no events")? {
            if let (Some(name), Some(code)) = (text(event, "EventName"), code(event)?) {
                shared.insert(name.to_owned(), code);
            }
        }
    }
    Ok(shared)
}

/// Returns the names and numbers of a CPU's events, of all files in its directory. Those of other PMUs are left out.
pub(crate) fn events(directory: &Path, shared: &Shared) -> Result<Vec<(String, u64)>, String> {
    let of_directory = |why| format!("{}: {why}", directory.display());
    let files = fs::read_dir(directory).map_err(of_directory)?;
    let mut files: Vec<_> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    files.sort();
    let mut events = Vec::new();
    let has_events = |file: &&PathBuf| {
        file.extension().is_some_and(|kind| kind == "json")
            && file.file_stem().is_some_and(|stem| stem != "metrics")
    };
    for file in files.iter().filter(has_events) {
        for event in json(file)?.as_array().ok_or("no events")? {
            if event.get("Unit").is_some() {
                continue;
            }
            if let Some(name) = text(event, "ArchStdEvent") {
                let code = shared.get(name).ok_or_else(|| format!("{name} is unknown"))?;
                events.push((name.to_owned(), *code));
            } else if let (Some(name), Some(code)) = (text(event, "EventName"), code(event)?) {
                events.push((name.to_owned(), code));
            }
        }
    }
    Ok(events)
}

fn text<'v>(event: &'v Value, field: &str) -> Option<&'v str> {
    event.get(field).and_then(Value::as_str)
}

fn code(event: &Value) -> Result<Option<u64>, String> {
    let code = text(event, "EventCode").or_else(|| text(event, "ConfigCode"));
    code.map(number).transpose()
}
