//! From the name of an event to the event, and back: perf's syntax.

mod suggest;

use crate::error::{NameError, NamedEvent};
use crate::event::modifiers::Modifiers;
use crate::event::{Event, WORDS, Words, generic};
use crate::kernel::Unreadable;
use crate::pmu::field::Field;
use crate::pmu::{Pmu, PmuEvent, Pmus};
use std::str::FromStr;

/// The longest name, in bytes.
const LONGEST: usize = 1024;

impl FromStr for Event {
    type Err = NameError;

    /// The event of this name on this machine: see [`Event`], and [`Pmus::event`].
    fn from_str(name: &str) -> Result<Event, NameError> {
        Pmus::local().event(name)
    }
}

/// The event by the name that it has on this machine, for an error. Reads files where [`Pmus::name_of`] does.
pub(crate) fn named(event: Event) -> NamedEvent {
    NamedEvent::new(event, Pmus::local().name_of(event))
}

impl Pmus {
    /// The event of this name: see [`Event`] for how they are written. No system call for what the
    /// kernel defines for all processors; for others, reads the files of the PMU, or of all PMUs if
    /// none is named.
    ///
    /// # Errors
    /// What is wrong with the name, and which names are near.
    pub fn event(&self, name: &str) -> Result<Event, NameError> {
        if name.len() > LONGEST {
            return Err(NameError::TooLong { limit: LONGEST });
        }
        let name = name.trim();
        let Some((pmu, rest)) = name.split_once('/') else {
            let (name, modifiers) = match name.split_once(':') {
                Some((name, letters)) => (name, of_letters(letters)?),
                None => (name, Modifiers::NONE),
            };
            return Ok(self.event_of_no_pmu(name)?.modified(modifiers));
        };
        let Some((terms, letters)) = rest.split_once('/') else {
            return Err(NameError::NotClosed { name: name.to_owned() });
        };
        let modifiers = of_letters(letters.strip_prefix(':').unwrap_or(letters))?;
        let is_number = pmu.bytes().all(|byte| byte.is_ascii_digit());
        let pmu = match pmu.parse() {
            Ok(number) if is_number => {
                self.with_type(number)?.unwrap_or_else(|| Pmu::of_type(number))
            }
            _ => match self.get(pmu)? {
                Some(pmu) => pmu,
                None => {
                    return Err(NameError::UnknownPmu {
                        name: pmu.to_owned(),
                        // perf takes settings of its own between the slashes of `cycles//`.
                        nearest: match generic::generic(pmu) {
                            Some(_) => vec![pmu.to_owned()],
                            None => suggest::nearest(pmu, self.names()?.into_iter()),
                        },
                    });
                }
            },
        };
        Ok(self.event_of(&pmu, terms)?.modified(modifiers))
    }

    fn event_of_no_pmu(&self, name: &str) -> Result<Event, NameError> {
        if let Some(event) = generic::generic(name) {
            return Ok(event);
        }
        if let Some(config) = raw(name) {
            return Ok(Event::raw(config));
        }
        let pmus = self.all()?;
        let having: Vec<&Pmu> = pmus.iter().filter(|pmu| pmu.event_named(name).is_some()).collect();
        let whole = |pmu: &Pmu, event: &str| format!("{}/{event}/", pmu.name());
        match having.as_slice() {
            [pmu] => self.event_of(pmu, name),
            [] => {
                let events = |pmu: &'_ Pmu| {
                    pmu.events().iter().map(|event| event.name.clone()).collect::<Vec<_>>()
                };
                let known = generic::all().chain(pmus.iter().flat_map(events));
                let mut nearest = suggest::nearest(name, known);
                for near in &mut nearest {
                    // With the PMU, so that it can be taken as it is.
                    let pmu = pmus.iter().find(|pmu| pmu.event_named(near).is_some());
                    if let (Some(pmu), None) = (pmu, generic::generic(near)) {
                        *near = whole(pmu, near);
                    }
                }
                Err(NameError::UnknownEvent { name: name.to_owned(), nearest })
            }
            several => Err(NameError::Ambiguous {
                name: name.to_owned(),
                choices: several.iter().map(|pmu| whole(pmu, name)).collect(),
            }),
        }
    }

    /// The event of a PMU that these terms make.
    pub(crate) fn event_of(&self, pmu: &Pmu, terms: &str) -> Result<Event, NameError> {
        if let Some(event) = self.generic_event_of(pmu, terms)? {
            return Ok(event);
        }
        let terms: Vec<Term<'_>> = match terms.trim() {
            "" => Vec::new(),
            terms => {
                terms.split(',').map(Term::parse).filter(|term| !term.is_of_sampling(pmu)).collect()
            }
        };
        let twice = |term: &Term<'_>| NameError::Twice {
            pmu: pmu.name().to_owned(),
            term: term.name.to_owned(),
        };
        // An event's own terms first, so that others go before them wherever they stand.
        let (mut words, mut wanting) = (Words::default(), Vec::new());
        let mut events = terms.iter().filter_map(|term| Some((term, term.event_of(pmu)?)));
        if let Some((_, event)) = events.next() {
            for own in event.terms.split(',').map(Term::parse) {
                match own.value {
                    Some("?") => wanting.push(own.name),
                    _ => words = own.put(pmu, words)?,
                }
            }
        }
        if let Some((second, _)) = events.next() {
            return Err(twice(second));
        }
        // Then whole words, as perf does, whatever the order.
        let is_word = |term: &&Term<'_>| term.word(pmu).is_some();
        let others = || terms.iter().filter(|term| term.event_of(pmu).is_none());
        let mut said = Words::default();
        for term in others().filter(is_word).chain(others().filter(|term| !is_word(term))) {
            let bits = term.bits(pmu);
            if said.iter().zip(bits).any(|(said, bits)| said & bits != 0) {
                return Err(twice(term));
            }
            words = term.put(pmu, words)?;
            for ((said, bits), word) in said.iter_mut().zip(bits).zip(words) {
                // Of a whole word what is set in it, so that terms may add to the rest.
                *said |= if is_word(&term) { bits & word } else { bits };
            }
            wanting.retain(|name| *name != term.name);
        }
        match wanting.first() {
            None => Ok(Event::of_words(pmu.type_id(), words)),
            Some(term) => {
                Err(NameError::NeedsValue { pmu: pmu.name().to_owned(), term: (*term).to_owned() })
            }
        }
    }

    /// One of the kernel's own events, counted by this PMU, unless it has one of that name itself.
    fn generic_event_of(&self, pmu: &Pmu, name: &str) -> Result<Option<Event>, Unreadable> {
        let generic = generic::generic(name).filter(|event| pmu.is_core() && event.is_generic());
        let Some(event) = generic else { return Ok(None) };
        if pmu.event_named(name).is_some() || pmu.field(name).is_some() {
            return Ok(None);
        }
        // Where there is one such PMU, older kernels need not be told which.
        let is_one_of_several = self.core()?.is_some_and(|core| core.len() > 1);
        Ok(Some(if is_one_of_several { event.on_core(pmu.type_id()) } else { event }))
    }

    /// The name of an event, by which [`event`](Pmus::event) finds one that is equal to it: the kernel's
    /// name for it, or the PMU's own name, or the PMU's terms; where there is no such PMU, its number
    /// and the words, which only this library understands. For events of PMUs, reads their files; where
    /// these cannot be read at the moment, it is the number, too.
    pub fn name_of(&self, event: Event) -> String {
        let generic = generic::name_of(&event);
        if generic.is_some() && event.pmu().is_none() {
            return event.to_string();
        }
        let number = event.pmu().unwrap_or(event.kind);
        let pmu = self.with_type(number).ok().flatten();
        let terms = match (&pmu, generic) {
            (Some(pmu), Some(name))
                if self
                    .generic_event_of(pmu, &name)
                    .is_ok_and(|own| own.map(Event::plain) == Some(event.plain())) =>
            {
                name
            }
            (Some(pmu), _) if pmu.type_id() == event.kind => terms_of(pmu, &event),
            _ => return event.to_string(),
        };
        let name = pmu.map_or_else(|| number.to_string(), |pmu| pmu.name().to_owned());
        format!("{name}/{terms}/{}", event.modifiers.letters())
    }
}

fn of_letters(letters: &str) -> Result<Modifiers, NameError> {
    Modifiers::parse(letters).ok_or_else(|| NameError::Modifier { letters: letters.to_owned() })
}

/// `r` and up to 16 hexadecimal digits, before which newer perf lets `0x` be put.
fn raw(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('r')?;
    hexadecimal(digits.strip_prefix("0x").unwrap_or(digits))
}

fn hexadecimal(digits: &str) -> Option<u64> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| plain)
}

/// One of the terms between the slashes.
struct Term<'a> {
    name: &'a str,
    value: Option<&'a str>,
}

impl<'a> Term<'a> {
    fn parse(text: &'a str) -> Term<'a> {
        match text.split_once('=') {
            Some((name, value)) => Term { name: name.trim(), value: Some(value.trim()) },
            None => Term { name: text.trim(), value: None },
        }
    }

    /// The PMU's event of that name. A term of the same name goes before it, as in perf.
    fn event_of<'p>(&self, pmu: &'p Pmu) -> Option<&'p PmuEvent> {
        let is_event = self.value.is_none() && pmu.field(self.name).is_none();
        pmu.event_named(self.name).filter(|_| is_event)
    }

    /// Whether it is about sampling, or what perf calls the event: both are nothing to a counter.
    fn is_of_sampling(&self, pmu: &Pmu) -> bool {
        const OTHERS: [&str; 5] = ["name", "period", "freq", "percore", "metric-id"];
        let is_own = pmu.field(self.name).is_some() || self.event_of(pmu).is_some();
        OTHERS.contains(&self.name) && !is_own
    }

    /// Which whole word it sets, if it does: the first by `r` and digits, too.
    fn word(&self, pmu: &Pmu) -> Option<usize> {
        if pmu.field(self.name).is_some() {
            return None;
        }
        let word = WORDS.iter().position(|word| *word == self.name);
        word.or_else(|| raw(self.name).filter(|_| self.value.is_none()).map(|_| 0))
    }

    /// The bits that it sets or clears.
    fn bits(&self, pmu: &Pmu) -> Words {
        let mut bits = pmu.field(self.name).map_or(Words::default(), |field| *field.bits());
        if let Some(word) = self.word(pmu).and_then(|word| bits.get_mut(word)) {
            *word = u64::MAX;
        }
        bits
    }

    /// The words with the term's value in its place.
    fn put(&self, pmu: &Pmu, words: Words) -> Result<Words, NameError> {
        let needs_value =
            || NameError::NeedsValue { pmu: pmu.name().to_owned(), term: self.name.to_owned() };
        if let Some(field) = pmu.field(self.name) {
            let bits = field.width();
            let value = match self.value {
                Some(text) => self.number(pmu, text)?,
                None if bits == 1 => 1,
                None => return Err(needs_value()),
            };
            return field.put(value, words).ok_or_else(|| NameError::TooLarge {
                pmu: pmu.name().to_owned(),
                term: self.name.to_owned(),
                bits,
            });
        }
        let mut result = words;
        let Some(word) = self.word(pmu).and_then(|word| result.get_mut(word)) else {
            return Err(self.unknown(pmu));
        };
        *word = match self.value {
            Some(text) => self.number(pmu, text)?,
            None => raw(self.name).ok_or_else(needs_value)?,
        };
        Ok(result)
    }

    fn number(&self, pmu: &Pmu, text: &str) -> Result<u64, NameError> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => hexadecimal(digits),
            None => text.parse().ok().filter(|_| digits),
        };
        number.ok_or_else(|| NameError::NotANumber {
            pmu: pmu.name().to_owned(),
            term: self.name.to_owned(),
            value: text.to_owned(),
        })
    }

    fn unknown(&self, pmu: &Pmu) -> NameError {
        let terms = pmu.terms().map(|(name, _)| name.to_owned());
        let known = terms.chain(pmu.events().iter().map(|event| event.name.clone()));
        let core: Vec<String> = if pmu.is_core() { generic::all().collect() } else { Vec::new() };
        // What has just been said is none of them.
        let known = known.chain(core).filter(|known| known != self.name);
        NameError::UnknownTerm {
            pmu: pmu.name().to_owned(),
            term: self.name.to_owned(),
            nearest: suggest::nearest(self.name, known),
        }
    }
}

/// The terms of this PMU that make the event's words: the name of an event that it has, if one is just
/// that; else its terms; else the words themselves.
pub(crate) fn terms_of(pmu: &Pmu, event: &Event) -> String {
    let words = event.words();
    let is_it = |known: &&PmuEvent| {
        if pmu.field(&known.name).is_some() {
            return false; // that is a term
        }
        let own = known.terms.split(',').map(Term::parse);
        let made = own.into_iter().try_fold(Words::default(), |words, term| match term.value {
            Some("?") => None,
            _ => term.put(pmu, words).ok(),
        });
        made == Some(words)
    };
    if let Some(known) = pmu.events().iter().find(is_it) {
        return known.name.clone();
    }
    let has = |bits: &Words| words.iter().zip(bits).any(|(word, bits)| word & bits != 0);
    // As people write them: the event first, then flags, then what has more bits.
    let mut fields: Vec<(&str, &Field)> =
        pmu.fields().filter(|(_, field)| has(field.bits())).collect();
    let first = |name| FIRST.iter().position(|known| *known == name).unwrap_or(FIRST.len());
    fields.sort_by_key(|(name, field)| (first(*name), field.width(), *name));
    let mut left = words;
    let mut terms = Vec::new();
    for (name, field) in &fields {
        // Terms may share bits: then one that has all that are set of them is it, and the first of those.
        let is_part = |(_, other): &(&str, &Field)| {
            let mut bits = words.iter().zip(field.bits()).zip(other.bits());
            let shares = field.bits().iter().zip(other.bits()).any(|(own, other)| own & other != 0);
            shares && bits.any(|((word, own), other)| word & other & !own != 0)
        };
        let Some(value @ 1..) = field.take(&left) else { continue };
        if fields.iter().any(is_part) {
            continue;
        }
        let flag = value == 1 && field.width() == 1;
        terms.push(if flag { (*name).to_owned() } else { format!("{name}={value:#x}") });
        for (word, bits) in left.iter_mut().zip(field.bits()) {
            *word &= !bits;
        }
    }
    if left == Words::default() && !terms.is_empty() {
        terms.join(",")
    } else {
        generic::words_of(event)
    }
}

/// What is written first.
const FIRST: [&str; 2] = ["event", "umask"];
