//! Takes the spellings of a name apart: perf's, Intel's and libpfm4's.

use crate::encoding::{Encoding, Layout, MODIFIERS, Words};
use crate::error::{EventError, TermFault};
use crate::foreign::why_none;
use crate::table::Table;
use rdpmc::Event;

/// The parts of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    pub(crate) table: Option<&'a str>,
    pub(crate) pmu: Option<&'a str>,
    /// The event and the terms.
    inner: &'a str,
    /// The event, possibly with a unit mask and modifiers after colons.
    pub(crate) event: &'a str,
    terms: Vec<&'a str>,
    /// perf's modifiers, after the last slash or term.
    modifiers: &'a str,
}

impl<'a> Parts<'a> {
    /// Returns the parts. None if a slash is not closed, if there is a control character, if it ends with a colon, or if no event is
    /// named.
    pub(crate) fn parse(name: &'a str) -> Option<Parts<'a>> {
        let name = name.trim();
        if name.contains(char::is_control) || name.ends_with(':') {
            return None;
        }
        let (table, name) = match name.split_once("::") {
            Some((table, rest)) => (Some(table.trim()), rest),
            None => (None, name),
        };
        let (pmu, inner, modifiers) = match name.split_once('/') {
            Some((pmu, rest)) => {
                let (inner, modifiers) = rest.rsplit_once('/')?;
                (Some(pmu.trim()), inner, modifiers.strip_prefix(':').unwrap_or(modifiers))
            }
            None => {
                let (inner, modifiers) = without_modifiers(name);
                (None, inner, modifiers)
            }
        };
        let mut terms: Vec<&str> = inner.split(',').map(str::trim).collect();
        // The event may follow terms.
        let place = terms.iter().position(|term| !is_term(term)).unwrap_or(0);
        let event = terms.remove(place);
        (!event.is_empty()).then_some(Parts { table, pmu, inner, event, terms, modifiers })
    }

    /// Returns the same name with this PMU.
    pub(crate) fn with_pmu(&self, pmu: &str) -> String {
        format!("{pmu}/{}/{}", self.inner, self.modifiers)
    }

    /// Returns the event in a table. None if it has no event of that name.
    ///
    /// # Errors
    /// [`EventError::WrongTerm`].
    pub(crate) fn find(&self, table: &Table) -> Result<Option<Event>, EventError> {
        let Some((encoding, rest)) = self.longest(table) else { return Ok(None) };
        let mut terms = Terms { table, words: encoding.words(table.layout()), seen: Vec::new() };
        let mut modifiers = self.modifiers.replace(':', "");
        // A colon in the name separates a unit mask, as libpfm4 writes it.
        let name_length = self.event.len() - rest.len();
        let is_of_libpfm4 =
            self.table.is_some() || self.event.find(':').is_some_and(|colon| colon < name_length);
        for part in rest.split(':').skip(1) {
            match (part.split_once('='), part) {
                (None, "") => return Err(terms.wrong(self.event, TermFault::Empty)),
                (Some(("u" | "k" | "h", "0")), _) if is_of_libpfm4 => {}
                (Some((level @ ("u" | "k" | "h"), "1")), _) if is_of_libpfm4 => {
                    modifiers.push_str(level);
                }
                (Some((name, value)), _) => terms.set(perf_term(name), Some(value))?,
                (None, "i" | "e" | "t") if is_of_libpfm4 => terms.set(perf_term(part), None)?,
                (None, letters) if letters.chars().all(|letter| MODIFIERS.contains(letter)) => {
                    modifiers.push_str(letters);
                }
                (None, other) if self.has_unit_mask(table, other) => {
                    return Err(terms.wrong(other, TermFault::SecondUnitMask));
                }
                (None, other) if table.layout().bits(perf_term(other)).is_some() => {
                    terms.set(perf_term(other), None)?;
                }
                (None, other) => {
                    let of_others = why_none(self.event, std::slice::from_ref(table));
                    return Err(of_others.unwrap_or_else(|| terms.wrong(other, TermFault::Unknown)));
                }
            }
        }
        for term in &self.terms {
            match term.split_once('=') {
                None if term.is_empty() => return Err(terms.wrong(self.inner, TermFault::Empty)),
                Some((name, value)) => terms.set(name, Some(value))?,
                None if !is_term(term) && table.find(term).is_some() => {
                    return Err(terms.wrong(term, TermFault::Event));
                }
                None => terms.set(term, None)?,
            }
        }
        event(terms.words, &modifiers).map(Some)
    }

    /// Whether the event, up to its first colon or dot, has this unit mask.
    fn has_unit_mask(&self, table: &Table, mask: &str) -> bool {
        let event = self.event.split([':', '.']).next().unwrap_or_default();
        table.find(&format!("{event}.{mask}")).is_some()
    }

    /// Whether a table has the event, whatever its terms and modifiers.
    pub(crate) fn is_in(&self, table: &Table) -> bool {
        let is_term = |part: &str| {
            part.contains('=') || part.chars().all(|letter| MODIFIERS.contains(letter))
        };
        self.longest(table).is_some_and(|(_, rest)| rest.split(':').all(is_term))
    }

    /// Whether the name is a list of events: no part of it is a term, or looks like one.
    pub(crate) fn is_list(&self) -> bool {
        let is_event = |term: &&str| !term.is_empty() && !term.contains('=') && !is_term(term);
        !self.terms.is_empty() && self.terms.iter().all(is_event)
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

/// Splits the modifiers from a name without slashes. Those of a name without terms are part of the event.
fn without_modifiers(name: &str) -> (&str, &str) {
    let last = name.rfind(',').map_or(name.len(), |comma| comma + 1);
    let colon = name.get(last..).and_then(|last| last.find(':')).map(|colon| last + colon);
    let parts = colon.and_then(|colon| Some((name.get(..colon)?, name.get(colon + 1..)?)));
    match (parts, colon.and_then(|colon| name.get(last..colon))) {
        (Some(parts), Some(term)) if is_term(term.trim()) => parts,
        _ => (name, ""),
    }
}

/// Whether this is a term of some vendor's PMU, or of perf, rather than the name of an event.
fn is_term(text: &str) -> bool {
    let name = text.split('=').next().unwrap_or(text).trim();
    let is_it = |known: &str| known.eq_ignore_ascii_case(name);
    let layouts = [Layout::Intel, Layout::Amd, Layout::Arm, Layout::RiscV];
    let mut all = layouts.into_iter().flat_map(Layout::terms);
    all.any(is_it) || ["period", "freq", "name", "config", "config1"].into_iter().any(is_it)
}

/// Returns perf's name of libpfm4's modifier.
fn perf_term(name: &str) -> &str {
    match name {
        "c" => "cmask",
        "i" => "inv",
        "e" => "edge",
        "t" => "any",
        "intx" => "in_tx",
        "intxcp" => "in_tx_cp",
        other => other,
    }
}

/// The words of an event, and the terms that were set.
struct Terms<'t> {
    table: &'t Table,
    words: Words,
    seen: Vec<String>,
}

impl Terms<'_> {
    /// Sets a term, once.
    fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), EventError> {
        let text = value.map_or_else(|| name.to_owned(), |value| format!("{name}={value}"));
        let name = name.trim().to_ascii_lowercase();
        let layout = self.table.layout();
        let bits = layout.bits(&name);
        let number = match value {
            Some(text) => number(text.trim()),
            // Only a flag needs no value.
            None => (bits == Some(1)).then_some(1),
        };
        // Those of sampling, and perf's label, have no effect on a counter.
        let has_no_effect = match name.as_str() {
            "name" => value.is_some(),
            "period" | "freq" => number.is_some(),
            _ => false,
        };
        let is_set =
            |words: &mut Words| number.is_some_and(|number| layout.set(words, &name, number));
        if self.seen.contains(&name) {
            return Err(self.wrong(&text, TermFault::Twice));
        }
        if !has_no_effect && !is_set(&mut self.words) {
            let fault = match (bits, value) {
                (None, None) if name.chars().all(|letter| MODIFIERS.contains(letter)) => {
                    TermFault::Modifier
                }
                (None, _) => TermFault::Unknown,
                (_, value) if value.is_none_or(|value| value.trim().is_empty()) => {
                    TermFault::NoValue
                }
                (Some(bits), Some(_)) if number.is_some() => TermFault::TooLarge { bits },
                _ => TermFault::NotANumber,
            };
            return Err(self.wrong(&text, fault));
        }
        self.seen.push(name);
        Ok(())
    }

    fn wrong(&self, term: &str, fault: TermFault) -> EventError {
        EventError::WrongTerm {
            term: term.to_owned(),
            fault,
            terms: self.table.layout().terms().collect(),
        }
    }
}

/// Parses a decimal number, or a hexadecimal one that begins with 0x. No sign.
fn number(text: &str) -> Option<u64> {
    let (digits, base) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(base));
    // No term has more bits.
    is_number.then(|| u64::from_str_radix(digits, base).unwrap_or(u64::MAX))
}

/// Returns the core's event with these words and modifiers. `rdpmc` has no other public way to modifiers than their letters.
fn event([config, config1]: Words, modifiers: &str) -> Result<Event, EventError> {
    if modifiers.is_empty() {
        return Ok(Event::raw(config).with_config1(config1));
    }
    let event: Event = format!("r{config:x}:{modifiers}").parse()?;
    Ok(event.with_config1(config1))
}
