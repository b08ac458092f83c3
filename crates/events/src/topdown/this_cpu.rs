//! The core type that this thread runs on.

use super::error::TopdownError;
use super::family::{EARLY_N2, Family};
use crate::{EventError, Table, event};
use rdpmc::Event;
use rdpmc::pmu::{Pmu, Pmus};
use std::fs::{self, File};
use std::io::Read as _;

/// A type of core.
pub(crate) struct Core {
    pub(crate) table: Table,
    /// Its PMU, if there are several types.
    pub(crate) pmu: Option<String>,
}

impl Core {
    /// Returns the event of this name, on this type of core.
    pub(crate) fn event(&self, name: &str) -> Result<Event, TopdownError> {
        Ok(match &self.pmu {
            Some(pmu) => event(&format!("{pmu}/{name}/"))?,
            None => self.table.event(name)?.named(name),
        })
    }
}

/// Returns the core type that this thread is restricted to, or the only one.
pub(crate) fn core() -> Result<Core, TopdownError> {
    let pmus = Pmus::local().all().map_err(EventError::Name)?;
    // The CPUs of a type may all be offline.
    let is_there = |pmu: &&Pmu| pmu.cpus().is_none_or(|cpus| cpus.iter().next().is_some());
    let types: Vec<&Pmu> = pmus.iter().filter(|pmu| pmu.is_core()).filter(is_there).collect();
    if types.len() > 1 {
        let allowed = allowed(&text("/proc/thread-self/status").unwrap_or_default());
        let pmu = only(&types, allowed.as_deref())?;
        return Ok(Core { table: Table::of_pmu(pmu.name())?, pmu: Some(pmu.name().to_owned()) });
    }
    match Table::local()?.first() {
        Some(table) => Ok(Core { table: *table, pmu: None }),
        None => Err(TopdownError::NoEvents { cpu: "this CPU" }),
    }
}

/// Returns the type whose CPUs have all of those that the thread may run on.
fn only<'a>(types: &[&'a Pmu], allowed: Option<&[u32]>) -> Result<&'a Pmu, TopdownError> {
    let has_all = |pmu: &&&Pmu| {
        let (Some(cpus), Some(allowed)) = (pmu.cpus(), allowed) else { return false };
        !allowed.is_empty() && allowed.iter().all(|cpu| cpus.contains(*cpu))
    };
    types.iter().find(has_all).copied().ok_or_else(|| TopdownError::SeveralCoreTypes {
        types: types
            .iter()
            .map(|pmu| match pmu.cpus() {
                Some(cpus) => format!("{} (CPUs {cpus})", pmu.name()),
                None => pmu.name().to_owned(),
            })
            .collect(),
    })
}

/// Returns the CPUs that a thread may run on, from its `status`. None if they are not there.
fn allowed(status: &str) -> Option<Vec<u32>> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut cpus = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        // No kernel has more CPUs.
        cpus.extend(first..=last.min(1 << 16));
    }
    Some(cpus)
}

/// Whether a core has two hardware threads that are in use. True if that is unknown.
pub(crate) fn has_smt() -> bool {
    text("/sys/devices/system/cpu/smt/active").is_none_or(|active| active.trim() != "0")
}

/// Returns the family of this revision of the CPU.
pub(crate) fn revised(family: &'static Family) -> &'static Family {
    let is_n2 = family.tables == EARLY_N2.tables;
    let midr = || text("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1");
    if is_n2 && midr().is_some_and(|midr| is_early(&midr)) { &EARLY_N2 } else { family }
}

/// Whether an identification register is of a revision before r0p3.
fn is_early(midr: &str) -> bool {
    let digits = midr.trim().trim_start_matches("0x");
    let Ok(midr) = u64::from_str_radix(digits, 16) else { return false };
    let (variant, revision) = (midr >> 20 & 0xf, midr & 0xf);
    variant == 0 && revision < 3
}

/// Returns the beginning of a file's text. None if it cannot be read.
fn text(path: &str) -> Option<String> {
    const LIMIT: u64 = 1 << 16;
    // Opening a pipe waits.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(LIMIT).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_cpus_of_a_thread() {
        let of = |list: &str| allowed(&format!("Name:\tx\nCpus_allowed_list:\t{list}\nMems:\t0\n"));
        assert_eq!(of("0-3,8").unwrap(), [0, 1, 2, 3, 8]);
        assert_eq!(of("5").unwrap(), [5]);
        assert_eq!(of("3-1").unwrap(), [0; 0]);
        for list in ["", "x", "0-", "-1", "1,,2", "4294967296"] {
            assert_eq!(of(list), None, "{list:?}");
        }
        assert!(of("0-4294967295").unwrap().len() < 1 << 17);
        assert_eq!(allowed(""), None);
        // This thread's own.
        assert!(!allowed(&text("/proc/thread-self/status").unwrap()).unwrap().is_empty());
    }

    fn pmus(types: &[(&str, Option<&str>)]) -> Vec<Pmu> {
        let directory = std::env::temp_dir().join(format!("rdpmc-topdown-{}", std::process::id()));
        for (number, (name, cpus)) in types.iter().enumerate() {
            let of_pmu = directory.join(name);
            fs::create_dir_all(&of_pmu).unwrap();
            fs::write(of_pmu.join("type"), format!("{}\n", number + 4)).unwrap();
            if let Some(cpus) = cpus {
                fs::write(of_pmu.join("cpus"), cpus).unwrap();
            }
        }
        let read = Pmus::from_dir(&directory).all().unwrap();
        fs::remove_dir_all(&directory).unwrap();
        read
    }

    #[test]
    #[cfg_attr(miri, ignore = "system calls that Miri does not have")]
    fn a_thread_on_one_core_type() {
        let both = pmus(&[("cpu_atom", Some("4-7")), ("cpu_core", Some("0-3"))]);
        let types: Vec<&Pmu> = both.iter().collect();
        let found = |allowed: Option<&[u32]>| only(&types, allowed).map(Pmu::name);
        assert_eq!(found(Some(&[5, 6])), Ok("cpu_atom"));
        assert_eq!(found(Some(&[0])), Ok("cpu_core"));
        for allowed in [None, Some(&[][..]), Some(&[3, 4]), Some(&[8])] {
            let why = found(allowed).unwrap_err().to_string();
            assert_eq!(
                why,
                "this thread may run on several core types: cpu_atom (CPUs 4-7), cpu_core (CPUs 0-3). \
                 Restrict it to the CPUs of one type, for example with `taskset --cpu-list`"
            );
        }
    }

    #[test]
    fn revisions_of_neoverse_n2() {
        assert!(is_early("0x00000000410fd490\n") && is_early("0x00000000410fd492"));
        assert!(!is_early("0x00000000410fd493") && !is_early("0x00000000411fd490"));
        assert!(!is_early("") && !is_early("what"));
    }
}
