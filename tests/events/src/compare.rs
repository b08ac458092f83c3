//! Compares the tables with other programs' lists.

use crate::libpfm::Line;
use crate::perf::{Listed, field, list};
use crate::source::Source;
use rdpmc::Event;
use rdpmc::pmu::Pmus;
use rdpmc_events::{EventError, Table};
use std::collections::BTreeMap;
use std::path::Path;

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

/// Looks every name up that `perf list` has for the CPUs of a vendor. `perf` and `room` are as for [`list`].
pub(crate) fn with_perf(
    vendor: &str,
    source: &Source,
    room: &Path,
    perf: &[&str],
) -> Result<Comparison, String> {
    let mut comparison = Comparison::default();
    for cpu in &source.cpus {
        let table = Table::named(&cpu.name).ok_or_else(|| format!("no table {}", cpu.name))?;
        let Listed { pmu, devices, entries } = list(vendor, cpu, room, perf, &[])?;
        let pmus = Pmus::from_dir(&devices);
        for event in &entries {
            let (name, encoding) = (field(event, "EventName"), field(event, "Encoding"));
            let is_its = encoding.starts_with(&format!("{pmu}/"))
                && field(event, "Topic") != "legacy hardware";
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
