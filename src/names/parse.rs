//! From a name to an event: the syntax, and which PMU has the name.

use super::suggest;
use super::term::{Term, Wrong, raw};
use super::unknown::{invalid, no_pmu_list, of_a_tracepoint, unknown, unknown_event};
use crate::error::{Error, ErrorKind};
use crate::event::modifiers::Modifiers;
use crate::event::{Event, WORDS, Words, generic};
use crate::kernel::kind;
use crate::pmu::{Pmu, Pmus, no_pmu};

/// Whether all terms are whole configuration words.
fn are_words(terms: &str) -> bool {
    let is_word = |term: &str| {
        let (name, value) = term.split_once('=').unwrap_or((term, ""));
        WORDS.contains(&name.trim()) && !value.is_empty()
    };
    terms.split(',').all(is_word)
}

/// The maximum length of a name, in bytes.
const MAX_NAME_LENGTH: usize = 1024;

impl Pmus {
    /// Returns the event of this name. [`Event`] has the syntax.
    ///
    /// Makes no system call for events that the kernel defines for all CPUs. For others, it reads the files of the
    /// PMU, or of all PMUs if the name has none.
    ///
    /// # Errors
    /// As [`IntoEvent::into_event`](crate::IntoEvent::into_event). The message has the fault in the name, and the nearest known names.
    pub fn event(&self, name: &str) -> Result<Event, Error> {
        if name.len() > MAX_NAME_LENGTH {
            let cause = "the name is longer than {0} bytes";
            return Err(invalid(cause, "Give the name of one event").with(&MAX_NAME_LENGTH));
        }
        let name = name.trim();
        if name.contains(char::is_control) {
            return Err(invalid("`{0}` has a control character", "Remove it").with(&name));
        }
        if name.ends_with(':') {
            let is_of_a_table = name.ends_with("::");
            let remedy = if is_of_a_table { "Write an event behind it" } else { "Remove it" };
            return Err(invalid("nothing follows the last colon of `{0}`", remedy).with(&name));
        }
        let Some((pmu, rest)) = name.split_once('/') else {
            let (name, modifiers) = match name.split_once(':') {
                Some((event, letters)) => match of_letters(letters) {
                    Ok(modifiers) => (event, modifiers),
                    Err(wrong) => {
                        let of_event = self.event_of_no_pmu(event).err();
                        return Err(of_event.map_or(wrong, |why| of_a_tracepoint(name, event, why)));
                    }
                },
                None => (name, Modifiers::NONE),
            };
            return Ok(self.event_of_no_pmu(name)?.modified(modifiers));
        };
        let Some((terms, letters)) = rest.split_once('/') else {
            let cause = "`{0}` has no second slash";
            return Err(invalid(cause, "Write PMU/TERM=VALUE,.../").with(&name));
        };
        let modifiers = of_letters(letters.strip_prefix(':').unwrap_or(letters))?;
        let is_number = pmu.bytes().all(|byte| byte.is_ascii_digit());
        let pmu = match pmu.parse() {
            Ok(number) if is_number => {
                self.with_type(number)?.unwrap_or_else(|| Pmu::of_type(number))
            }
            _ => match self.get(pmu)? {
                Some(pmu) => pmu,
                // An encoding's: the CPU's own PMU has another name on arm64 and on Intel's hybrids, and no name without one.
                None if pmu == "cpu" && are_words(terms) => Pmu::of_type(kind::RAW),
                None if self.lacks_core(pmu)? => {
                    return self
                        .event_without_pmu(name, pmu, terms)
                        .map(|event| event.modified(modifiers));
                }
                None if self.are_local() && self.core()?.is_none() => {
                    return Err(no_pmu_list(name));
                }
                None => {
                    // perf accepts settings of its own between the slashes of `cycles//`.
                    let nearest = match generic::generic(pmu) {
                        Some(_) => vec![pmu.to_owned()],
                        None => suggest::nearest(pmu, self.names()?),
                    };
                    let all = "Each PMU has a directory in /sys/bus/event_source/devices";
                    let cause = "there is no PMU `{0}` on this machine";
                    return Err(unknown(cause, pmu, &nearest, all.into()));
                }
            },
        };
        Ok(self.event_of(&pmu, terms)?.modified(modifiers))
    }

    /// Whether this is the name of a core PMU, and this machine has none.
    fn lacks_core(&self, pmu: &str) -> Result<bool, Error> {
        let is_core = pmu == "cpu" || pmu.starts_with("cpu_") || pmu.starts_with("armv");
        Ok(is_core && self.are_local() && self.core()?.is_none_or(|core| core.is_empty()))
    }

    /// Returns the event of the core PMU that this machine lacks, so that a program that names it continues as far as with a
    /// constant: until it opens the event.
    fn event_without_pmu(&self, name: &str, pmu: &str, terms: &str) -> Result<Event, Error> {
        let event = Pmu::usual(pmu).map(|pmu| self.event_of(&pmu, terms));
        match event {
            Some(Ok(event)) => Ok(event),
            Some(Err(why)) if why.kind() != ErrorKind::UnknownName => Err(why),
            _ if self.core()?.is_none() => Err(no_pmu_list(name)),
            _ => Err(no_pmu().about(name)),
        }
    }

    fn event_of_no_pmu(&self, name: &str) -> Result<Event, Error> {
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
                if self.are_local() && self.core()?.is_none() {
                    return Err(no_pmu_list(name));
                }
                let mut known = generic::all();
                for pmu in &pmus {
                    known.extend(pmu.events().iter().map(|event| event.name.clone()));
                }
                let mut nearest = suggest::nearest(name, known);
                for near in &mut nearest {
                    // With the PMU, so that the suggestion can be used as it is.
                    let pmu = pmus.iter().find(|pmu| pmu.event_named(near).is_some());
                    if let (Some(pmu), None) = (pmu, generic::generic(near)) {
                        *near = whole(pmu, near);
                    }
                }
                let has_no_core =
                    self.are_local() && self.core()?.is_some_and(|core| core.is_empty());
                Err(unknown_event(name, &nearest, has_no_core))
            }
            several => {
                let choices: Vec<_> = several.iter().map(|pmu| whole(pmu, name)).collect();
                let cause = "several PMUs have an event `{0}`";
                Err(invalid(cause, "Choose one of {1}").with(&name).with(&choices.join(", ")))
            }
        }
    }

    /// Returns the event of this PMU that the terms encode.
    pub(crate) fn event_of(&self, pmu: &Pmu, terms: &str) -> Result<Event, Error> {
        if let Some(generic) = generic::generic(terms) {
            if let Some(event) = self.on_pmu(pmu, terms, generic)? {
                return Ok(event);
            }
        }
        let terms: Vec<Term<'_>> = match terms.trim() {
            "" => Vec::new(),
            terms => {
                terms.split(',').map(Term::parse).filter(|term| !term.is_of_sampling(pmu)).collect()
            }
        };
        if terms.iter().any(|term| term.name == "percore" && !term.is_own(pmu)) {
            return Err(invalid(
                "`percore` counts all threads of a core, and a counter counts its own thread",
                "Remove it",
            ));
        }
        let twice = |term: &Term<'_>| term.error(pmu, Wrong::Twice);
        // A named event's own terms come first, so that explicit terms override them in any position.
        let (mut words, mut wanting) = (Words::default(), Vec::new());
        let mut events = terms.iter().filter_map(|term| Some((term, term.event_of(pmu)?)));
        if let Some((_, event)) = events.next() {
            for own in event.terms.split(',').map(Term::parse) {
                match own.value {
                    Some("?") => wanting.push(own.name),
                    _ => words = own.put(pmu, words).map_err(|wrong| own.error(pmu, wrong))?,
                }
            }
        }
        if let Some((second, _)) = events.next() {
            return Err(twice(second));
        }
        // Whole words come next, in any position, as in perf.
        let is_word = |term: &&Term<'_>| term.word(pmu).is_some();
        let others = || terms.iter().filter(|term| term.event_of(pmu).is_none());
        let mut said = Words::default();
        for term in others().filter(is_word).chain(others().filter(|term| !is_word(term))) {
            let bits = term.bits(pmu);
            if said.iter().zip(bits).any(|(said, bits)| said & bits != 0) {
                return Err(twice(term));
            }
            words = term.put(pmu, words).map_err(|wrong| term.error(pmu, wrong))?;
            for ((said, bits), word) in said.iter_mut().zip(bits).zip(words) {
                // For a whole word only its set bits, so that terms may set the others.
                *said |= if is_word(&term) { bits & word } else { bits };
            }
            wanting.retain(|name| *name != term.name);
        }
        match wanting.first() {
            None => Ok(Event::of_words(pmu.type_id(), words)),
            Some(name) => Err(Term { name, value: None }.error(pmu, Wrong::NeedsValue)),
        }
    }

    /// Returns the event that the kernel defines for all CPUs, counted by this PMU. None if it is no core PMU, or has an event or a
    /// term of this name.
    pub(super) fn on_pmu(
        &self,
        pmu: &Pmu,
        name: &str,
        event: Event,
    ) -> Result<Option<Event>, Error> {
        let is_own = || pmu.event_named(name).is_some() || pmu.field(name).is_some();
        if !pmu.is_core() || !event.is_generic() || is_own() {
            return Ok(None);
        }
        // If there is only one such PMU, the event need not name it, which older kernels do not support.
        let is_one_of_several = self.core()?.is_some_and(|core| core.len() > 1);
        Ok(Some(if is_one_of_several { event.on_core_pmu(pmu.type_id()) } else { event }))
    }
}

pub(super) fn of_letters(letters: &str) -> Result<Modifiers, Error> {
    match Modifiers::parse(letters) {
        Some(modifiers) if modifiers.are_precise() => {
            let cause = "`:{0}` requests precise samples, and a counter takes no samples";
            Err(invalid(cause, "Remove it").with(&letters))
        }
        Some(modifiers) => Ok(modifiers),
        None => Err(invalid(
            "`{0}` is not a set of event modifiers",
            "Use any of u, k, h, G, H, I, D, e, S and W, each at most once",
        )
        .with(&letters)),
    }
}
