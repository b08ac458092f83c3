//! A term of an event, such as `umask=0x1`, and the bits that it stands for on a PMU.

use super::suggest;
use super::unknown::{invalid, unknown};
use crate::error::Error;
use crate::event::{WORDS, Words, generic};
use crate::pmu::{Pmu, PmuEvent};

pub(super) fn hexadecimal(digits: &str) -> Option<u64> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| plain)
}

/// Parses `r` and up to 16 hexadecimal digits. The digits may begin with `0x`, as in newer perf.
pub(super) fn raw(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('r')?;
    hexadecimal(digits.strip_prefix("0x").unwrap_or(digits))
}

/// A term between the slashes.
pub(super) struct Term<'a> {
    pub(super) name: &'a str,
    pub(super) value: Option<&'a str>,
}

impl<'a> Term<'a> {
    pub(super) fn parse(text: &'a str) -> Term<'a> {
        match text.split_once('=') {
            Some((name, value)) => Term { name: name.trim(), value: Some(value.trim()) },
            None => Term { name: text.trim(), value: None },
        }
    }

    /// Returns the PMU's event of that name. A term of that name takes precedence, as in perf.
    pub(super) fn event_of<'p>(&self, pmu: &'p Pmu) -> Option<&'p PmuEvent> {
        let is_event = self.value.is_none() && pmu.field(self.name).is_none();
        pmu.event_named(self.name).filter(|_| is_event)
    }

    /// Whether the term is for sampling, or perf's label of the event. A counter ignores both.
    pub(super) fn is_of_sampling(&self, pmu: &Pmu) -> bool {
        const OTHERS: [&str; 4] = ["name", "period", "freq", "metric-id"];
        OTHERS.contains(&self.name) && !self.is_own(pmu)
    }

    /// Whether the PMU has a term or an event of that name.
    pub(super) fn is_own(&self, pmu: &Pmu) -> bool {
        pmu.field(self.name).is_some() || self.event_of(pmu).is_some()
    }

    /// Returns the index of the word that the term sets as a whole. `r` and digits set the first.
    pub(super) fn word(&self, pmu: &Pmu) -> Option<usize> {
        if pmu.field(self.name).is_some() {
            return None;
        }
        let word = WORDS.iter().position(|word| *word == self.name);
        word.or_else(|| raw(self.name).filter(|_| self.value.is_none()).map(|_| 0))
    }

    /// Returns the bits that the term sets or clears.
    pub(super) fn bits(&self, pmu: &Pmu) -> Words {
        let mut bits = pmu.field(self.name).map_or(Words::default(), |field| *field.bits());
        if let Some(word) = self.word(pmu).and_then(|word| bits.get_mut(word)) {
            *word = u64::MAX;
        }
        bits
    }

    /// Returns the words with the term's value set.
    pub(super) fn put(&self, pmu: &Pmu, words: Words) -> Result<Words, Wrong> {
        if let Some(field) = pmu.field(self.name) {
            let value = match self.value {
                Some(text) => number(text)?,
                None if field.width() == 1 => 1,
                None => return Err(Wrong::NeedsValue),
            };
            return field.put(value, words).ok_or(Wrong::TooLarge { bits: field.width() });
        }
        let mut result = words;
        let word = self.word(pmu).and_then(|word| result.get_mut(word)).ok_or(Wrong::Unknown)?;
        *word = match self.value {
            Some(text) => number(text)?,
            None => raw(self.name).ok_or(Wrong::NeedsValue)?,
        };
        Ok(result)
    }

    /// Returns the error for a term that cannot be put. Apart from [`put`](Term::put), so that programs that print names and parse
    /// none do not carry the search for similar ones.
    pub(super) fn error(&self, pmu: &Pmu, wrong: Wrong) -> Error {
        let (cause, remedy) = match wrong {
            Wrong::NeedsValue => ("`{0}` (PMU {1}) needs a value", "Write `{0}=VALUE`"),
            Wrong::Twice => {
                ("`{0}` (PMU {1}) sets bits that another term sets", "Remove one of them")
            }
            Wrong::TooLarge { bits: 1 } => {
                ("the value of `{0}` (PMU {1}) does not fit into {2} bit", "Give a smaller one")
            }
            Wrong::TooLarge { .. } => {
                ("the value of `{0}` (PMU {1}) does not fit into {2} bits", "Give a smaller one")
            }
            Wrong::NotANumber => (
                "`{2}` is not a valid value for `{0}` (PMU {1})",
                "Give a decimal or 0x-prefixed number of at most 64 bits",
            ),
            Wrong::Unknown => return self.unknown(pmu),
        };
        let error = invalid(cause, remedy).with(&self.name).with(&pmu.name());
        match wrong {
            Wrong::TooLarge { bits } => error.with(&bits),
            _ => error.with(&self.value.unwrap_or_default()),
        }
    }

    pub(super) fn unknown(&self, pmu: &Pmu) -> Error {
        let mut known = if pmu.is_core() { generic::all() } else { Vec::new() };
        known.extend(pmu.terms().map(|(name, _)| name.to_owned()));
        known.extend(pmu.events().iter().map(|event| event.name.clone()));
        // The wrong term itself is not a suggestion.
        known.retain(|known| known != self.name);
        let nearest = suggest::nearest(self.name, known);
        let cause = "the PMU {2} has no term and no event `{0}`";
        let all = format!("See /sys/bus/event_source/devices/{}/format and events", pmu.name());
        unknown(cause, self.name, &nearest, all).with(&pmu.name())
    }
}

/// Why a term cannot be put into the words.
pub(super) enum Wrong {
    Unknown,
    NeedsValue,
    NotANumber,
    Twice,
    TooLarge { bits: u32 },
}

pub(super) fn number(text: &str) -> Result<u64, Wrong> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => hexadecimal(digits),
        None => text.parse().ok().filter(|_| digits),
    };
    number.ok_or(Wrong::NotANumber)
}
