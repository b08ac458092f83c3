//! Names to events, on this machine or by a table.

use crate::cpu::{Core, cores};
use crate::encoding::Words;
use crate::error::EventError;
use crate::name::Parts;
use crate::nearest::nearest;
use crate::table::{Known, Table};
use rdpmc::Event;

/// Returns the event of this name: see [the names](crate#names).
///
/// A name that `rdpmc` knows is its event. Any other is looked up in the table of this machine's CPU, or in the table that it
/// names. Reads `/proc/cpuinfo` and the PMUs' files. The event of another CPU's table can be counted only where the encoding
/// means the same.
///
/// # Errors
/// [`EventError`], with the nearest names, or the CPUs that have this name.
pub fn event(name: &str) -> Result<Event, EventError> {
    let why = match name.parse::<Event>() {
        Ok(event) => return Ok(event),
        Err(why) => why,
    };
    let parts = Parts::of(name);
    if let Some(table) = parts.table {
        return named(table)?.event_of(&parts);
    }
    let mut cores = match cores() {
        Ok(cores) => cores,
        // Without a table, it may still be a misspelt name of the kernel's.
        Err(unknown) => {
            return Err(if elsewhere(&parts).is_empty() { why.into() } else { unknown });
        }
    };
    if let Some(pmu) = parts.pmu {
        let is_it = |core: &Core| core.pmu.as_ref().is_none_or(|(name, _)| name == pmu);
        cores.retain(is_it);
    }
    let mut found = Vec::new();
    for core in &cores {
        if let Some((words, modifiers)) = parts.find(&core.table)? {
            found.push((core, words, modifiers));
        }
    }
    match found.as_slice() {
        [(core, words, modifiers), others @ ..] => {
            let is_other = |(core, ..): &&(&Core, Words, String)| core.pmu.is_some();
            if others.iter().any(|other| is_other(&other)) {
                let pmus = found.iter().filter_map(|(core, ..)| core.pmu.as_ref());
                let choices = pmus.map(|(pmu, _)| format!("{pmu}/{}/", parts.event)).collect();
                return Err(EventError::Ambiguous { name: parts.event.to_owned(), choices });
            }
            let event = raw(*words, modifiers)?;
            let is_one_of_several = cores_differ(&cores) || parts.pmu.is_some();
            Ok(match &core.pmu {
                Some((_, type_id)) if is_one_of_several => event.on_core_pmu(*type_id),
                _ => event,
            })
        }
        [] => {
            let tables: Vec<Table> = cores.iter().map(|core| core.table).collect();
            match unknown(&parts, &tables) {
                EventError::UnknownEvent { nearest, elsewhere, .. }
                    if nearest.is_empty() && elsewhere.is_empty() =>
                {
                    Err(why.into())
                }
                unknown => Err(unknown),
            }
        }
    }
}

fn cores_differ(cores: &[Core]) -> bool {
    cores
        .windows(2)
        .any(|pair| pair.first().map(|core| core.table) != pair.last().map(|core| core.table))
}

fn named(table: &str) -> Result<Table, EventError> {
    Table::named(table).ok_or_else(|| EventError::UnknownTable { name: table.to_owned() })
}

/// Returns the events of this machine's CPU whose name or description has all these words, in any order and case. Empty if
/// there is no table for this CPU.
///
/// # Errors
/// [`EventError::Name`] if the files of the PMUs cannot be read.
pub fn search(words: &str) -> Result<Vec<Known>, EventError> {
    match cores() {
        Ok(cores) => {
            let differ = cores_differ(&cores);
            let mut all = Vec::new();
            for (place, core) in cores.iter().enumerate() {
                if cores.iter().take(place).any(|before| before.table == core.table) {
                    continue;
                }
                all.extend(core.table.search(words).into_iter().map(|known| match &core.pmu {
                    Some((_, type_id)) if differ => {
                        Known { event: known.event.on_core_pmu(*type_id), ..known }
                    }
                    _ => known,
                }));
            }
            Ok(all)
        }
        Err(EventError::UnknownCpu { .. }) => Ok(Vec::new()),
        Err(why) => Err(why),
    }
}

impl Table {
    /// Returns the tables of this machine's CPU: one, or one for each type of core.
    ///
    /// # Errors
    /// [`EventError::UnknownCpu`] if there is none. [`EventError::Name`] if the files of the PMUs cannot be read.
    pub fn local() -> Result<Vec<Table>, EventError> {
        Ok(cores()?.into_iter().map(|core| core.table).collect())
    }

    /// Returns this table's event of that name, which may have modifiers and terms: see [the names](crate#names). Without
    /// them, it does not allocate.
    ///
    /// # Errors
    /// [`EventError`], with the nearest names, or the tables that have this name.
    pub fn event(&self, name: &str) -> Result<Event, EventError> {
        if let Some(encoding) = self.find(name) {
            let [config, config1] = encoding.words(self.layout());
            return Ok(Event::raw(config).with_config1(config1));
        }
        self.event_of(&Parts::of(name))
    }

    fn event_of(&self, parts: &Parts<'_>) -> Result<Event, EventError> {
        match parts.find(self)? {
            Some((words, modifiers)) => raw(words, &modifiers),
            None => Err(unknown(parts, &[*self])),
        }
    }

    /// Returns the events whose name or description has all these words, in any order and case.
    pub fn search(&self, words: &str) -> Vec<Known> {
        let words: Vec<String> = words.split_whitespace().map(str::to_ascii_lowercase).collect();
        let fits = |known: &Known| {
            let text = known.description.as_deref().unwrap_or_default().to_ascii_lowercase();
            words
                .iter()
                .all(|word| known.name.contains(word.as_str()) || text.contains(word.as_str()))
        };
        self.events().into_iter().filter(fits).collect()
    }
}

/// Returns the core's event with these words and modifiers.
fn raw([config, config1]: Words, modifiers: &str) -> Result<Event, EventError> {
    let colon = if modifiers.is_empty() { "" } else { ":" };
    let event: Event = format!("r{config:x}{colon}{modifiers}").parse()?;
    Ok(event.with_config1(config1))
}

fn unknown(parts: &Parts<'_>, tables: &[Table]) -> EventError {
    EventError::UnknownEvent {
        name: parts.event.to_owned(),
        tables: tables.iter().map(Table::name).collect(),
        nearest: nearest(parts.event, tables),
        elsewhere: elsewhere(parts),
    }
}

/// Returns the names of the tables that have the event.
fn elsewhere(parts: &Parts<'_>) -> Vec<&'static str> {
    let has_it = |table: &Table| parts.find(table).is_ok_and(|found| found.is_some());
    Table::all().filter(has_it).map(|table| table.name()).collect()
}
