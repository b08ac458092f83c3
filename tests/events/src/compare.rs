//! Compares the tables with other programs' lists.

use crate::libpfm::Line;
use crate::source::{Cpu, Source};
use rdpmc::Event;
use rdpmc::pmu::Pmus;
use rdpmc_events::{EventError, Table};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What was compared, by table.
#[derive(Default)]
pub(crate) struct Comparison {
    /// Equal, different, missing here.
    counts: BTreeMap<String, [usize; 3]>,
    /// A difference, and the tables that have it.
    differences: BTreeMap<String, Vec<String>>,
}

impl Comparison {
    /// Looks up a name, and compares the event with the other program's.
    fn compare(&mut self, table: Table, name: &str, other: Event) -> Result<(), String> {
        let place = match table.event(name) {
            Ok(event) if event == other => 0,
            Ok(event) => {
                self.differ(table, format!("{name}: {event}, not {other}"));
                return Ok(());
            }
            Err(EventError::UnknownEvent { .. }) => {
                let difference = format!("{name}: unknown, {other}");
                self.differences.entry(difference).or_default().push(table.name().to_owned());
                2
            }
            Err(why) => return Err(format!("{table}: {name}: {why}")),
        };
        self.count(table, place);
        Ok(())
    }

    fn differ(&mut self, table: Table, difference: String) {
        self.differences.entry(difference).or_default().push(table.name().to_owned());
        self.count(table, 1);
    }

    fn count(&mut self, table: Table, place: usize) {
        let counts = self.counts.entry(table.name().to_owned()).or_default();
        if let Some(count) = counts.get_mut(place) {
            *count += 1;
        }
    }

    /// Prints the differences, one in a line, and the counts.
    pub(crate) fn print(&self, program: &str) {
        for (difference, tables) in &self.differences {
            println!("{difference} in {program}: {}", tables.join(" "));
        }
        let mut all = [0; 3];
        for (table, counts) in &self.counts {
            let [equal, different, missing] = counts;
            println!(
                "# {table}: {equal} equal, {different} different, {missing} in {program} alone"
            );
            for (sum, count) in all.iter_mut().zip(counts) {
                *sum += count;
            }
        }
        let [equal, different, missing] = all;
        println!("# all: {equal} equal, {different} different, {missing} in {program} alone");
    }
}

/// Looks every name of libpfm4 up, as libpfm4 writes it.
pub(crate) fn with_libpfm4(lines: &[Line]) -> Result<Comparison, String> {
    let mut comparison = Comparison::default();
    for line in lines {
        if let Some(table) = Table::named(&line.pmu) {
            let other = Event::raw(line.config).with_config1(line.config1);
            comparison.compare(table, &line.name(':'), other)?;
        }
    }
    Ok(comparison)
}

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

/// Looks every name up that `perf list` has for the CPUs of a vendor. `perf` is a command. `room` is a directory for files: perf takes
/// the PMU's files from there, and the CPU's model from an environment variable.
pub(crate) fn with_perf(
    vendor: &str,
    source: &Source,
    room: &Path,
    perf: &[&str],
) -> Result<Comparison, String> {
    let mut comparison = Comparison::default();
    for cpu in &source.cpus {
        let table = Table::named(&cpu.name).ok_or_else(|| format!("no table {}", cpu.name))?;
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
            .env("SYSFS_PATH", room)
            .env("PERF_CPUID", &id)
            .output()
            .map_err(|why| format!("{program}: {why}"))?;
        let listed: Value = serde_json::from_slice(&output.stdout).map_err(|why| {
            format!("perf list: {why}: {}", String::from_utf8_lossy(&output.stderr))
        })?;
        let pmus = Pmus::from_dir(&devices);
        for event in listed.as_array().into_iter().flatten() {
            let field = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
            let (name, encoding) = (field("EventName"), field("Encoding"));
            let is_its =
                encoding.starts_with(&format!("{pmu}/")) && field("Topic") != "legacy hardware";
            if !is_its || name.contains('/') {
                continue;
            }
            match pmus.event(encoding) {
                Ok(other) => comparison.compare(table, name, other)?,
                // `ldlat=None`
                Err(_) => {
                    comparison.differ(table, format!("{name}: {encoding} is not an encoding"))
                }
            }
        }
        if !comparison.counts.contains_key(&cpu.name) {
            comparison.counts.insert(cpu.name.clone(), [0; 3]);
        }
    }
    Ok(comparison)
}

/// Returns perf's name of a table's first model, and the PMU.
fn identity<'a>(vendor: &str, cpu: &'a Cpu) -> Option<(String, &'a str)> {
    let first = cpu.matches.first()?;
    let (numbers, pmu) = first.split_once('/').unwrap_or((first, "cpu"));
    let mut numbers = numbers.split('-').map(|range| range.split("..").next().unwrap_or(range));
    let (family, model) = (numbers.next()?, numbers.next()?.to_ascii_uppercase());
    let stepping = numbers.next().unwrap_or("1").to_ascii_uppercase();
    let vendor = if vendor == "intel" { "GenuineIntel" } else { "AuthenticAMD" };
    Some((format!("{vendor}-{family}-{model}-{stepping}"), pmu))
}
