//! Takes the spellings of a name apart: perf's, Intel's and libpfm4's.

use crate::encoding::{Encoding, Layout, Words};
use crate::error::EventError;
use crate::table::Table;

/// The parts of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    pub(crate) table: Option<&'a str>,
    pub(crate) pmu: Option<&'a str>,
    /// The event, possibly with unit masks and modifiers after colons.
    pub(crate) event: &'a str,
    /// Terms with and without a value.
    terms: Vec<&'a str>,
    /// perf's modifiers, after the last slash or term.
    modifiers: &'a str,
}

impl<'a> Parts<'a> {
    pub(crate) fn of(name: &'a str) -> Parts<'a> {
        let name = name.trim();
        let (table, name) = match name.split_once("::") {
            Some((table, rest)) => (Some(table.trim()), rest),
            None => (None, name),
        };
        let (pmu, inner, modifiers) = match name.split_once('/') {
            Some((pmu, rest)) => {
                let (inner, modifiers) = rest.rsplit_once('/').unwrap_or((rest, ""));
                (Some(pmu.trim()), inner, modifiers.strip_prefix(':').unwrap_or(modifiers))
            }
            None => match name.split_once(',') {
                // The modifiers of `NAME,cmask=1:u` follow the last term.
                Some(_) => {
                    let (inner, modifiers) = match name.rsplit_once(':') {
                        Some((inner, letters)) if inner.contains(',') => (inner, letters),
                        _ => (name, ""),
                    };
                    (None, inner, modifiers)
                }
                None => (None, name, ""),
            },
        };
        let mut terms: Vec<&str> = inner.split(',').map(str::trim).collect();
        // The event is the first term that no PMU has: it may follow others.
        let all = [Layout::Intel, Layout::Amd, Layout::Arm];
        let is_event = |term: &&str| {
            !term.contains('=')
                && !all.iter().any(|layout| layout.terms().any(|known| known == *term))
        };
        let place = terms.iter().position(is_event).unwrap_or(0);
        let event = if place < terms.len() { terms.remove(place) } else { "" };
        Parts { table, pmu, event, terms, modifiers }
    }

    /// Finds the event in a table. Returns the words of the event with the terms, and perf's modifiers. None if there is no
    /// event of that name.
    ///
    /// # Errors
    /// [`EventError::WrongTerm`].
    pub(crate) fn find(&self, table: &Table) -> Result<Option<(Words, String)>, EventError> {
        let Some((encoding, rest)) = self.longest(table) else { return Ok(None) };
        let mut words = encoding.words(table.layout());
        let mut modifiers = self.modifiers.to_owned();
        let is_of_libpfm4 = self.table.is_some()
            || self.event.len() - rest.len() > self.event.find(':').unwrap_or(usize::MAX);
        for part in rest.split(':').filter(|part| !part.is_empty()) {
            match (part.split_once('='), part) {
                (Some((name, value)), _) => set(table, &mut words, long(name), Some(value))?,
                (None, "i" | "e" | "t") if is_of_libpfm4 => {
                    set(table, &mut words, long(part), None)?
                }
                (None, letters) => modifiers.push_str(letters),
            }
        }
        for term in &self.terms {
            match term.split_once('=') {
                // Those of sampling, and perf's label, have no effect on a counter.
                Some(("period" | "freq" | "name", _)) => {}
                Some((name, value)) => set(table, &mut words, name, Some(value))?,
                None => set(table, &mut words, term, None)?,
            }
        }
        Ok(Some((words, modifiers)))
    }

    /// Returns the event of the longest beginning that is a name, and the rest after its colon.
    fn longest(&self, table: &Table) -> Option<(Encoding, &'a str)> {
        let colons = self.event.match_indices(':').map(|(place, _)| place);
        let ends = std::iter::once(self.event.len()).chain(colons.rev());
        ends.filter_map(|end| {
            let (name, rest) = self.event.split_at_checked(end)?;
            Some((table.find(name)?, rest))
        })
        .next()
    }
}

/// Returns perf's name of libpfm4's modifier.
fn long(name: &str) -> &str {
    match name {
        "c" => "cmask",
        "i" => "inv",
        "e" => "edge",
        "t" => "any",
        "fe_thres" | "thres" => "frontend",
        other => other,
    }
}

fn set(
    table: &Table,
    words: &mut Words,
    name: &str,
    value: Option<&str>,
) -> Result<(), EventError> {
    let (name, text) = (name.trim(), value.map(str::trim));
    let number = match text {
        None => Some(1),
        Some(text) => match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        },
    };
    // Only a flag needs no value.
    let is_complete = text.is_some()
        || !["event", "umask", "cmask", "offcore_rsp", "ldlat", "frontend"].contains(&name);
    match (name, number) {
        ("config", Some(number)) => words[0] = number,
        ("config1", Some(number)) => words[1] = number,
        (_, Some(number)) if is_complete && table.layout().set(words, name, number) => {}
        _ => {
            let term = text.map_or_else(|| name.to_owned(), |text| format!("{name}={text}"));
            return Err(EventError::WrongTerm { term, terms: table.layout().terms().collect() });
        }
    }
    Ok(())
}
