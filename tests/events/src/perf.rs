//! What perf knows of any CPU. It takes the PMU's files from a directory, and the CPU's model from an environment variable.

use crate::source::Cpu;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The formats of the PMUs, as the kernel shows them.
const INTEL: [(&str, &str); 13] = [
    ("event", "config:0-7"),
    ("umask", "config:8-15,40-47"),
    ("edge", "config:18"),
    ("pc", "config:19"),
    ("any", "config:21"),
    ("inv", "config:23"),
    ("cmask", "config:24-31"),
    ("in_tx", "config:32"),
    ("in_tx_cp", "config:33"),
    ("eq", "config:36"),
    ("offcore_rsp", "config1:0-63"),
    ("ldlat", "config1:0-15"),
    ("frontend", "config1:0-23"),
];
const AMD: [(&str, &str); 5] = [
    ("event", "config:0-7,32-35"),
    ("umask", "config:8-15"),
    ("edge", "config:18"),
    ("inv", "config:23"),
    ("cmask", "config:24-31"),
];

/// `perf list` for a CPU.
pub(crate) struct Listed<'a> {
    pub(crate) pmu: &'a str,
    /// The directory with the files of its PMU.
    pub(crate) devices: PathBuf,
    pub(crate) entries: Vec<Value>,
}

/// Returns what `perf list` has for a CPU. `perf` is a command, and `room` is a directory for files. `what` is empty, or `metric`.
pub(crate) fn list<'a>(
    vendor: &str,
    cpu: &'a Cpu,
    room: &Path,
    perf: &[&str],
    what: &[&str],
) -> Result<Listed<'a>, String> {
    let (id, pmu) = identity(vendor, cpu).ok_or_else(|| format!("{}: no model", cpu.name))?;
    let _ = fs::remove_dir_all(room);
    let devices = room.join("bus/event_source/devices");
    let formats: Vec<_> = match vendor {
        "intel" => INTEL.to_vec(),
        _ => AMD.to_vec(),
    };
    let mut files = vec![(devices.join(pmu).join("type"), "4")];
    files.extend(
        formats.iter().map(|(name, bits)| (devices.join(pmu).join("format").join(name), *bits)),
    );
    if pmu != "cpu" {
        files.push((devices.join(pmu).join("cpus"), "0"));
    }
    files.extend(
        ["online", "possible", "present"]
            .map(|file| (room.join("devices/system/cpu").join(file), "0")),
    );
    for (path, text) in files {
        let written = fs::create_dir_all(path.parent().unwrap_or(room))
            .and_then(|()| fs::write(&path, format!("{text}\n")));
        written.map_err(|why| format!("{}: {why}", path.display()))?;
    }
    let (program, arguments) = perf.split_first().ok_or("no command for perf")?;
    let output = Command::new(program)
        .args(arguments)
        .args(["list", "--json", "--details"])
        .args(what)
        .env("SYSFS_PATH", room)
        .env("PERF_CPUID", &id)
        .output()
        .map_err(|why| format!("{program}: {why}"))?;
    let listed: Value = serde_json::from_slice(&output.stdout)
        .map_err(|why| format!("perf list: {why}: {}", String::from_utf8_lossy(&output.stderr)))?;
    let entries = listed.as_array().cloned().unwrap_or_default();
    Ok(Listed { pmu, devices, entries })
}

/// Returns a field of an entry, empty if it has none.
pub(crate) fn field<'a>(entry: &'a Value, name: &str) -> &'a str {
    entry.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns perf's name of a table's model, and the PMU. The first one, or one that has a single type of core.
fn identity<'a>(vendor: &str, cpu: &'a Cpu) -> Option<(String, &'a str)> {
    let alone = cpu.matches.iter().find(|model| !model.contains('/'));
    let first = alone.or(cpu.matches.first())?;
    let (numbers, pmu) = first.split_once('/').unwrap_or((first, "cpu"));
    let mut numbers = numbers.split('-').map(|range| range.split("..").next().unwrap_or(range));
    let (family, model) = (numbers.next()?, numbers.next()?.to_ascii_uppercase());
    let stepping = numbers.next().unwrap_or("1").to_ascii_uppercase();
    let vendor = if vendor == "intel" { "GenuineIntel" } else { "AuthenticAMD" };
    Some((format!("{vendor}-{family}-{model}-{stepping}"), pmu))
}
