//! Converts event names in perf's syntax to events, and back.

// Floor 5: the parser, and the nearest names for a wrong one (`suggest`). Uses `kernel`, `event`, `error` and `pmu`.

pub(crate) mod suggest;

use crate::error::{Error, ErrorKind};
use crate::event::modifiers::Modifiers;
use crate::event::{Event, WORDS, Words, generic};
use crate::pmu::field::Field;
use crate::pmu::{Pmu, PmuEvent, Pmus, no_pmu};
use std::fmt;
use std::str::FromStr;

/// The maximum length of a name, in bytes.
const MAX_NAME_LENGTH: usize = 1024;

impl FromStr for Event {
    type Err = Error;

    /// Parses the name of an event on this machine: see [`Event`] and [`Pmus::event`].
    fn from_str(name: &str) -> Result<Event, Error> {
        Pmus::local().event(name)
    }
}

/// An [`Event`] or the name of one, for functions that go on without an event that this machine lacks.
///
/// ```
/// use rdpmc::{Event, IntoEvent};
///
/// assert_eq!("instructions".into_event(), Ok(Event::INSTRUCTIONS));
/// assert_eq!(Event::CYCLES.into_event(), Ok(Event::CYCLES));
/// ```
pub trait IntoEvent: fmt::Display {
    /// Returns the event. A name is parsed on this machine: see [`Pmus::event`].
    ///
    /// # Errors
    /// [`ErrorKind::UnknownName`] or [`ErrorKind::InvalidName`] for a name that is not that of an event here.
    /// [`ErrorKind::NoPmu`] or [`ErrorKind::NoPmuList`] if the machine lacks the PMU that it needs, or the list.
    /// [`ErrorKind::Unreadable`] or [`ErrorKind::TooManyOpenFiles`] if the files of the PMUs cannot be read.
    fn into_event(self) -> Result<Event, Error>;
}

impl IntoEvent for Event {
    fn into_event(self) -> Result<Event, Error> {
        Ok(self)
    }
}

impl<T: IntoEvent + Clone> IntoEvent for &T {
    fn into_event(self) -> Result<Event, Error> {
        self.clone().into_event()
    }
}

impl IntoEvent for &str {
    fn into_event(self) -> Result<Event, Error> {
        self.parse()
    }
}

impl IntoEvent for String {
    fn into_event(self) -> Result<Event, Error> {
        self.parse()
    }
}

/// Returns the event with its name on this machine, for an error. Reads the files that [`Pmus::name_of`] reads.
pub(crate) fn named(event: Event) -> (Event, String) {
    (event, Pmus::local().name_of(event))
}

fn no_pmu_list(name: &str) -> Error {
    Error::new(
        ErrorKind::NoPmuList,
        "{event} needs the list of this machine's PMUs, and there is no /sys/bus/event_source/devices",
        "Mount /sys in this container or chroot. Constants such as Event::CYCLES do not need it",
    )
    .about(name)
}

fn invalid(cause: &'static str, remedy: &'static str) -> Error {
    Error::new(ErrorKind::InvalidName, cause, remedy)
}

/// Makes the error of a name that is unknown: asks for the nearest names, or without any tells where all are.
fn unknown(cause: &'static str, name: &str, nearest: &[String], all: String) -> Error {
    let remedy = match nearest {
        [] => all,
        [one] => format!("Did you mean {one}?"),
        [first @ .., last] => format!("Did you mean {} or {last}?", first.join(", ")),
    };
    Error::new(ErrorKind::UnknownName, cause, "{1}").with(&name).with(&remedy)
}

/// Makes the error of a name with a colon, of which the first part is no event for this reason, and the second no modifiers: unless it
/// looks like a misspelt event, it is a name of other tools, such as `sched:sched_switch`.
fn of_a_tracepoint(name: &str, event: &str, why: Error) -> Error {
    let is_misspelt = !suggest::nearest(event, generic::all()).is_empty();
    if is_misspelt || event.is_empty() || why.kind() != ErrorKind::UnknownName {
        return why;
    }
    let cause = "`{0}` is neither an event with modifiers nor a counter's name: perf names tracepoints and breakpoints with a colon, \
                 and libpfm4 its events";
    let remedy = "Count tracepoints with perf. For a vendor's name, use the crate rdpmc-events";
    invalid(cause, remedy).with(&name)
}

/// `has_no_core` tells that this machine is known to have no core PMU.
fn unknown_event(name: &str, nearest: &[String], has_no_core: bool) -> Error {
    if name.is_empty() {
        return invalid("the event name is empty", "Give one, such as cycles");
    }
    if name.contains(',') {
        let remedy = "Parse one event at a time, and open a group for several";
        return invalid("`{0}` is not an event name", remedy).with(&name);
    }
    let second = name.as_bytes().get(1);
    if name.starts_with('r') && second.is_some_and(u8::is_ascii_digit) && nearest.is_empty() {
        let remedy = "Write r and at most 16 hexadecimal digits";
        return invalid("`{0}` is not a raw event", remedy).with(&name);
    }
    let all = if has_no_core {
        "This machine has no core PMU, whose own events would have names. Run `perf list` to see the others. The crate \
         rdpmc-events has the names of CPUs' vendors"
    } else {
        "Run `perf list` to see them. For a name of the CPU's vendor, use the crate rdpmc-events, or the encoding that `perf \
         stat -vv -e NAME true` prints, e.g. cpu/event=0xc0,umask=0x1/"
    };
    unknown("there is no event `{0}` on this machine", name, nearest, all.into())
}

impl Pmus {
    /// Returns the event of this name. [`Event`] has the syntax.
    ///
    /// Makes no system call for events that the kernel defines for all CPUs. For others, it reads the files of the
    /// PMU, or of all PMUs if the name has none.
    ///
    /// # Errors
    /// As [`IntoEvent::into_event`]. The message has the fault in the name, and the nearest known names.
    pub fn event(&self, name: &str) -> Result<Event, Error> {
        if name.len() > MAX_NAME_LENGTH {
            let cause = "the name is longer than {0} bytes";
            return Err(invalid(cause, "Give the name of one event").with(&MAX_NAME_LENGTH));
        }
        let name = name.trim();
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
    fn on_pmu(&self, pmu: &Pmu, name: &str, event: Event) -> Result<Option<Event>, Error> {
        let is_own = || pmu.event_named(name).is_some() || pmu.field(name).is_some();
        if !pmu.is_core() || !event.is_generic() || is_own() {
            return Ok(None);
        }
        // If there is only one such PMU, the event need not name it, which older kernels do not support.
        let is_one_of_several = self.core()?.is_some_and(|core| core.len() > 1);
        Ok(Some(if is_one_of_several { event.on_core_pmu(pmu.type_id()) } else { event }))
    }

    /// Returns a name from which [`event`](Pmus::event) makes an equal event.
    ///
    /// The name is the kernel's, the PMU's own, or made of the PMU's terms. If there is no such PMU, or its files
    /// cannot be read now, it is the PMU type and the words. Only this library understands that form. Reads the files
    /// of the PMU for events of PMUs.
    pub fn name_of(&self, event: Event) -> String {
        let generic = generic::name_of(&event);
        if generic.is_some() && event.pmu().is_none() {
            return event.to_string();
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
            _ => return event.to_string(),
        };
        let name = pmu.map_or_else(|| number.to_string(), |pmu| pmu.name().to_owned());
        format!("{name}/{terms}/{}", event.modifiers.letters())
    }
}

fn of_letters(letters: &str) -> Result<Modifiers, Error> {
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

/// Parses `r` and up to 16 hexadecimal digits. The digits may begin with `0x`, as in newer perf.
fn raw(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('r')?;
    hexadecimal(digits.strip_prefix("0x").unwrap_or(digits))
}

fn hexadecimal(digits: &str) -> Option<u64> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| plain)
}

/// A term between the slashes.
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

    /// Returns the PMU's event of that name. A term of that name takes precedence, as in perf.
    fn event_of<'p>(&self, pmu: &'p Pmu) -> Option<&'p PmuEvent> {
        let is_event = self.value.is_none() && pmu.field(self.name).is_none();
        pmu.event_named(self.name).filter(|_| is_event)
    }

    /// Whether the term is for sampling, or perf's label of the event. A counter ignores both.
    fn is_of_sampling(&self, pmu: &Pmu) -> bool {
        const OTHERS: [&str; 4] = ["name", "period", "freq", "metric-id"];
        OTHERS.contains(&self.name) && !self.is_own(pmu)
    }

    /// Whether the PMU has a term or an event of that name.
    fn is_own(&self, pmu: &Pmu) -> bool {
        pmu.field(self.name).is_some() || self.event_of(pmu).is_some()
    }

    /// Returns the index of the word that the term sets as a whole. `r` and digits set the first.
    fn word(&self, pmu: &Pmu) -> Option<usize> {
        if pmu.field(self.name).is_some() {
            return None;
        }
        let word = WORDS.iter().position(|word| *word == self.name);
        word.or_else(|| raw(self.name).filter(|_| self.value.is_none()).map(|_| 0))
    }

    /// Returns the bits that the term sets or clears.
    fn bits(&self, pmu: &Pmu) -> Words {
        let mut bits = pmu.field(self.name).map_or(Words::default(), |field| *field.bits());
        if let Some(word) = self.word(pmu).and_then(|word| bits.get_mut(word)) {
            *word = u64::MAX;
        }
        bits
    }

    /// Returns the words with the term's value set.
    fn put(&self, pmu: &Pmu, words: Words) -> Result<Words, Wrong> {
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
    fn error(&self, pmu: &Pmu, wrong: Wrong) -> Error {
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

    fn unknown(&self, pmu: &Pmu) -> Error {
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
enum Wrong {
    Unknown,
    NeedsValue,
    NotANumber,
    Twice,
    TooLarge { bits: u32 },
}

fn number(text: &str) -> Result<u64, Wrong> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => hexadecimal(digits),
        None => text.parse().ok().filter(|_| digits),
    };
    number.ok_or(Wrong::NotANumber)
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

/// The terms that are written first.
const FIRST: [&str; 2] = ["event", "umask"];
