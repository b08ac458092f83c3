//! Names to events, on this machine or by a table.

use crate::cores::{Core, cores};
use crate::error::EventError;
use crate::foreign::why_none;
use crate::name::Parts;
use crate::nearest::{nearest, nearest_tables};
use crate::table::{Table, VendorEvent};
use rdpmc::Error;
use rdpmc::error::ErrorKind;
use rdpmc::{Event, IntoEvent};
use std::fmt;

/// The maximum length of a name, as in `rdpmc`.
const MAX_NAME: usize = 1024;

/// Returns the event of this name: see [the names](crate#names). The event prints by this name from then on, in this process.
///
/// Names that `rdpmc` parses take precedence. Others are looked up in the table that they name, or in the table of this
/// machine's CPU, for which it reads `/proc/cpuinfo` and the PMUs' files: a millisecond. An encoding from another CPU's table
/// may count something else on this CPU.
///
/// # Errors
/// [`EventError`], with the nearest names, or the CPUs that have this name.
pub fn event(name: &str) -> Result<Event, EventError> {
    find(name).map(|event| event.named(name))
}

fn find(name: &str) -> Result<Event, EventError> {
    let why = match name.parse::<Event>() {
        Ok(event) => return Ok(event),
        Err(why) if name.len() > MAX_NAME => return Err(why.into()),
        Err(why) => why,
    };
    // perf's braces are around a group.
    let is_group = name.trim_start().starts_with('{');
    let Some(parts) = Parts::parse(name).filter(|_| !is_group) else { return Err(why.into()) };
    let one_colon = parts.event.split_once(':').filter(|(table, _)| Table::named(table).is_some());
    if let (None, Some((table, event))) = (parts.table, one_colon) {
        let right = format!("{table}::{event}");
        return Err(EventError::OneColon { name: parts.event.to_owned(), right });
    }
    match parts.table {
        // `rdpmc` says so.
        None if parts.is_list() => Err(why.into()),
        Some(table) => named(table)?.event_of(&parts),
        None => on(&cores(), &parts, why),
    }
}

/// A name for [`event`], where a function of `rdpmc-bench`, `rdpmc-spans` or `rdpmc-criterion` takes events or names.
///
/// ```
/// use rdpmc::IntoEvent;
/// use rdpmc_events::Name;
///
/// // Bench::with_events(&[Name("instructions"), Name("mem_load_retired.l3_miss")])
/// assert_eq!(Name("instructions").into_event(), Ok(rdpmc::Event::INSTRUCTIONS));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name<'a>(pub &'a str);

impl IntoEvent for Name<'_> {
    fn into_event(self) -> Result<Event, Error> {
        event(self.0).map_err(Error::from)
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

/// Returns the event on these types of core. `why` is what `rdpmc` says of the name.
fn on(
    cores: &Result<Vec<Core>, EventError>,
    parts: &Parts<'_>,
    why: Error,
) -> Result<Event, EventError> {
    let cores = match cores {
        Ok(cores) => cores,
        // It may be a misspelt name of the kernel's.
        Err(unknown) if !elsewhere(parts, &[]).is_empty() => return Err(unknown.clone()),
        Err(_) => return Err(why_none(parts.event, &[]).unwrap_or_else(|| why.into())),
    };
    let named: Vec<&Core> =
        cores.iter().filter(|core| parts.pmu.is_none_or(|pmu| core.is_called(pmu))).collect();
    if named.is_empty() {
        // A core type that this machine does not have.
        let of_others = parts.pmu.filter(|pmu| pmu.starts_with("cpu_") || pmu.starts_with("armv"));
        let has_it = |core: &&Core| parts.is_in(&core.table);
        return Err(match (of_others, cores.iter().find(has_it)) {
            (Some(pmu), Some(core)) if core.pmu.is_some() => {
                EventError::UnknownPmu { pmu: pmu.to_owned(), table: core.table.name() }
            }
            _ => why.into(),
        });
    }
    let mut found: Vec<(&Core, Event)> = Vec::new();
    for core in &named {
        found.extend(parts.find(&core.table)?.map(|event| (*core, event)));
    }
    let pmus: Vec<&str> =
        found.iter().filter_map(|(core, _)| Some(core.pmu.as_ref()?.0.as_str())).collect();
    match found.as_slice() {
        [_, _, ..] if pmus.len() > 1 => Err(EventError::Ambiguous {
            name: parts.event.to_owned(),
            choices: pmus.into_iter().map(|pmu| parts.with_pmu(pmu)).collect(),
        }),
        [(core, event), ..] => Ok(match &core.pmu {
            Some((_, type_id)) if cores.len() > 1 => event.on_core_pmu(*type_id),
            _ => *event,
        }),
        [] => {
            let tables: Vec<Table> = named.iter().map(|core| core.table).collect();
            if let Some(why) = why_none(parts.event, &tables) {
                return Err(why);
            }
            // Perhaps one that all CPUs have is nearer than a vendor's.
            let of_all_cpus = rdpmc::messages::generic_names();
            let nearest = nearest(parts.event, &tables, &of_all_cpus);
            if nearest.first().is_some_and(|nearest| of_all_cpus.contains(nearest)) {
                return Err(why.into());
            }
            let unknown = unknown(parts, &tables);
            // Nor is it like one of a vendor's. Then `rdpmc` may know more: another form, or a near name of a PMU of this machine.
            let is_alien = matches!(&unknown, EventError::UnknownEvent { nearest, elsewhere, .. }
                if nearest.is_empty() && elsewhere.is_empty());
            let knows_more =
                why.kind() != ErrorKind::UnknownName || why.remedy().starts_with("Did you mean");
            // No vendor's name has a hyphen, and those of the kernel's PMUs have.
            let knows_more = knows_more || parts.event.contains('-');
            Err(if is_alien && knows_more { why.into() } else { unknown })
        }
    }
}

fn named(table: &str) -> Result<Table, EventError> {
    Table::named(table).ok_or_else(|| unknown_table(table))
}

fn unknown_table(name: &str) -> EventError {
    EventError::UnknownTable { name: name.to_owned(), nearest: nearest_tables(name) }
}

/// Returns the events of this machine's CPU whose name or description has all these words, in any order and case.
///
/// On a CPU with several core types, each event names its type's PMU. Takes some milliseconds.
///
/// # Errors
/// As [`Table::local`].
pub fn search(words: &str) -> Result<Vec<VendorEvent>, EventError> {
    let cores = cores()?;
    let events = cores.iter().flat_map(|core| {
        core.table.search(words).into_iter().map(|known| match &core.pmu {
            Some((pmu, type_id)) if cores.len() > 1 => VendorEvent {
                event: known.event.on_core_pmu(*type_id),
                pmu: Some(pmu.clone()),
                ..known
            },
            _ => known,
        })
    });
    Ok(events.collect())
}

impl Table {
    /// Returns the tables of this machine's CPU: one, or one for each type of core.
    ///
    /// # Errors
    /// [`EventError::UnknownCpu`] if there is none. [`EventError::Name`] if the files of the PMUs cannot be read.
    pub fn local() -> Result<Vec<Table>, EventError> {
        let mut tables = Vec::new();
        for core in cores()? {
            if !tables.contains(&core.table) {
                tables.push(core.table);
            }
        }
        Ok(tables)
    }

    /// Returns the table of the core type that this PMU of the machine counts: `cpu_core`, `armv8_cortex_a53`.
    ///
    /// # Errors
    /// As [`local`](Table::local). [`EventError::UnknownPmu`] if no core type with a table has a PMU of this name.
    pub fn of_pmu(pmu: &str) -> Result<Table, EventError> {
        let cores = cores()?;
        let its = cores.iter().find(|core| core.is_called(pmu)).or(cores.first());
        match its {
            Some(core) if core.is_called(pmu) => Ok(core.table),
            other => Err(EventError::UnknownPmu {
                pmu: pmu.to_owned(),
                table: other.map_or("", |core| core.table.name()),
            }),
        }
    }

    /// Returns this table's event of that name, which may have modifiers and terms: see [the names](crate#names). A name
    /// without them takes no allocation.
    ///
    /// The event names no PMU. It is given no name, so it prints as an encoding unless [`event`] has named it. On a CPU with several core types, take `event("cpu_atom/NAME/")`.
    ///
    /// # Errors
    /// [`EventError`], with the nearest names, or the tables that have this name.
    pub fn event(&self, name: &str) -> Result<Event, EventError> {
        if let Some(encoding) = self.find(name) {
            return Ok(encoding.event(self.layout()));
        }
        let parts = if name.len() > MAX_NAME { None } else { Parts::parse(name) };
        let Some(parts) = parts else {
            // It is too long, or not closed, or there is nothing.
            return Err(name.parse::<Event>().err().map_or_else(
                || EventError::UnknownEvent {
                    name: name.to_owned(),
                    tables: vec![self.name()],
                    nearest: Vec::new(),
                    elsewhere: Vec::new(),
                },
                EventError::from,
            ));
        };
        match parts.table {
            Some(other) if Table::named(other) != Some(*self) => Err(match Table::named(other) {
                Some(_) => EventError::OtherTable { name: other.to_owned(), table: self.name() },
                None => unknown_table(other),
            }),
            _ => self.event_of(&parts),
        }
    }

    fn event_of(&self, parts: &Parts<'_>) -> Result<Event, EventError> {
        if let Some(pmu) = parts.pmu.filter(|pmu| !self.has_pmu(pmu)) {
            return Err(EventError::UnknownPmu { pmu: pmu.to_owned(), table: self.name() });
        }
        parts.find(self)?.ok_or_else(|| unknown(parts, &[*self]))
    }

    /// Returns the events whose name or description has all these words, in any order and case. Takes some milliseconds.
    pub fn search(&self, words: &str) -> Vec<VendorEvent> {
        let words: Vec<String> = words.split_whitespace().map(str::to_ascii_lowercase).collect();
        let fits = |known: &VendorEvent| {
            let text = known.description.as_deref().unwrap_or_default().to_ascii_lowercase();
            words
                .iter()
                .all(|word| known.name.contains(word.as_str()) || text.contains(word.as_str()))
        };
        self.events().into_iter().filter(fits).collect()
    }
}

fn unknown(parts: &Parts<'_>, tables: &[Table]) -> EventError {
    if parts.table.is_some() && parts.event.parse::<Event>().is_ok() {
        return EventError::NoTableNeeded { name: parts.event.to_owned() };
    }
    if let Some(why) = why_none(parts.event, tables) {
        return why;
    }
    let mut names: Vec<&str> = tables.iter().map(Table::name).collect();
    names.dedup();
    EventError::UnknownEvent {
        name: parts.event.to_owned(),
        tables: names,
        nearest: nearest(parts.event, tables, &[]),
        elsewhere: elsewhere(parts, tables),
    }
}

/// Returns the names of the tables that have the event: those of the same vendor and CPU family as `tables` first, and the highest model
/// numbers of each.
fn elsewhere(parts: &Parts<'_>, tables: &[Table]) -> Vec<&'static str> {
    let mut having: Vec<Table> = Table::all().filter(|table| parts.is_in(table)).collect();
    let is_any = |is_it: &dyn Fn(&Table) -> bool| tables.iter().any(is_it);
    having.sort_by_cached_key(|table| {
        let is_of_vendor = is_any(&|other| other.layout() == table.layout());
        let has_family = is_any(&|other| is_of_vendor && other.families().eq(table.families()));
        // The other type of core.
        let is_of_cpu = is_any(&|other| is_of_vendor && other.shares_a_model(table));
        let newest = table.row.models.first().map(|model| (model.family, model.last()));
        std::cmp::Reverse((is_of_vendor, is_of_cpu, has_family, newest))
    });
    having.into_iter().map(|table| table.name()).collect()
}

#[cfg(all(test, feature = "intel"))]
mod tests {
    use super::*;

    fn core(table: &str, pmu: Option<(&str, u32)>) -> Core {
        let table = named(table).unwrap_or_else(|why| panic!("{why}"));
        Core { table, pmu: pmu.map(|(name, type_id)| (name.to_owned(), type_id)) }
    }

    fn found(cores: &[Core], name: &str) -> Result<Event, String> {
        let why = || "no_such_event".parse::<Event>().err();
        match (Parts::parse(name), why()) {
            (Some(parts), Some(why)) => {
                on(&Ok(cores.to_vec()), &parts, why).map_err(|why| why.to_string())
            }
            other => Err(format!("{other:?}")),
        }
    }

    fn hybrid() -> [Core; 2] {
        [
            core("alderlake_gracemont", Some(("cpu_atom", 10))),
            core("alderlake_goldencove", Some(("cpu_core", 4))),
        ]
    }

    #[test]
    fn on_a_hybrid() {
        let both = found(&hybrid(), "inst_retired.any,cmask=1:u");
        let choices = "several core types have inst_retired.any. \
                       Write cpu_atom/inst_retired.any,cmask=1/u or cpu_core/inst_retired.any,cmask=1/u";
        assert_eq!(both, Err(choices.to_owned()));
        let atom = found(&hybrid(), "cpu_atom/inst_retired.any,cmask=1/u");
        let expected = "r10000c0:u".parse::<Event>().map(|event| event.on_core_pmu(10));
        assert_eq!(atom, expected.map_err(|why| why.to_string()));
        assert_eq!(
            found(&hybrid(), "CPU_ATOM/inst_retired.any/"),
            found(&hybrid(), "10/inst_retired.any/")
        );
        // One type has it.
        assert_eq!(
            found(&hybrid(), "frontend_retired.l1i_miss"),
            Ok(Event::raw(0x1c6).with_config1(0x12))
        );
        let of_atom = found(&hybrid(), "topdown_bad_speculation.all");
        assert_eq!(of_atom, Ok(Event::raw(0x73).on_core_pmu(10)));
    }

    #[test]
    fn with_one_pmu_and_without() {
        let one = [core("skylake", Some(("cpu", 4)))];
        let none = [core("skylake", None)];
        for cores in [&one[..], &none] {
            assert_eq!(found(cores, "cpu/inst_retired.any/"), Ok(Event::raw(0xc0)));
            assert_eq!(found(cores, "inst_retired.any"), Ok(Event::raw(0xc0)));
            for pmu in ["nosuch", "uncore_imc", "software", ""] {
                let name = format!("{pmu}/inst_retired.any/");
                assert!(
                    found(cores, &name).is_err_and(|why| why.contains("no_such_event")),
                    "{name}"
                );
            }
        }
        // A core type that this machine lacks.
        let of_a_hybrid = "cpu_atom/inst_retired.any/";
        let why = "the core PMU cpu_atom does not count the events of the table skylake. Write cpu/NAME/, the name alone, or the table of that core type";
        assert_eq!(found(&one, of_a_hybrid), Err(why.to_owned()));
        assert!(found(&none, of_a_hybrid).is_err_and(|why| why.contains("no_such_event")));
        let virtual_hybrid =
            [core("alderlake_goldencove", None), core("alderlake_gracemont", None)];
        assert_eq!(found(&virtual_hybrid, "cpu_atom/inst_retired.any/"), Ok(Event::raw(0xc0)));
        assert_eq!(found(&virtual_hybrid, "inst_retired.any"), Ok(Event::raw(0xc0)));
    }
}
