//! From an event to its name on this machine.

use super::term::Term;
use crate::event::{Event, Words, generic};
use crate::pmu::field::Field;
use crate::pmu::{Pmu, PmuEvent, Pmus};

/// The terms that are written first.
const FIRST: [&str; 2] = ["event", "umask"];

impl Pmus {
    /// Returns a name from which [`event`](Pmus::event) makes an equal event.
    ///
    /// The name is the kernel's, the PMU's own, or made of the PMU's terms. If there is no such PMU, or its files
    /// cannot be read now, it is the event's [encoding](Event::encoding). Reads the files of the PMU for events of PMUs. A name
    /// that the event was [given](Event::named) has no effect here.
    pub fn name_of(&self, event: Event) -> String {
        let generic = generic::name_of(&event);
        if generic.is_some() && event.pmu().is_none() {
            return event.encoding();
        }
        let number = event.pmu().unwrap_or(event.kind);
        let pmu = self.with_type(number).ok().flatten();
        let terms = match (&pmu, generic) {
            (Some(pmu), Some(name))
                if self.on_pmu(pmu, &name, event.bare()) == Ok(Some(event.plain())) =>
            {
                name
            }
            (Some(pmu), _) if pmu.type_id() == event.kind => terms_of(pmu, &event),
            _ => return event.encoding(),
        };
        let name = pmu.map_or_else(|| number.to_string(), |pmu| pmu.name().to_owned());
        format!("{name}/{terms}/{}", event.modifiers.letters())
    }
}

/// Returns terms of this PMU that encode the event's words: the name of an equal event of the PMU, else the PMU's
/// terms, else the words themselves.
pub(crate) fn terms_of(pmu: &Pmu, event: &Event) -> String {
    let words = event.words();
    let is_it = |known: &&PmuEvent| {
        if pmu.field(&known.name).is_some() {
            return false; // a term of that name takes precedence
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
    // In the usual order: the event and unit mask, then flags, then wider fields.
    let key = |(name, field): &(&str, &Field)| {
        (FIRST.iter().position(|known| known == name).unwrap_or(FIRST.len()), field.width())
    };
    let mut fields: Vec<(&str, &Field)> = Vec::new();
    for field in pmu.fields().filter(|(_, field)| has(field.bits())) {
        // The fields of a PMU are in the order of their names already.
        fields.insert(fields.partition_point(|known| key(known) <= key(&field)), field);
    }
    let mut left = words;
    let mut terms = Vec::new();
    for (name, field) in &fields {
        // Fields may overlap: print the first one that covers every set bit of the fields that it overlaps.
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
