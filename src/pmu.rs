//! The PMUs that the kernel lists: one folder each, with its number, the terms of its events, and
//! events by name. The files are of one line; nothing is read without bound, and what cannot be read
//! or understood is left out.

use crate::field::{Field, WORDS};
use crate::sys::{PMU_FOLDER, kind};
use std::fmt;
use std::fs::{self, File};
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// More than any file there has, in bytes: the kernel gives them a page.
const LONGEST: u64 = 1 << 16;
/// More than any folder there has entries.
const MOST: usize = 1 << 12;

/// The PMUs of a machine: of this one, as the kernel lists them in `/sys/bus/event_source/devices`,
/// or of another, of which that folder was copied.
///
/// ```
/// use rdpmc::Pmus;
///
/// for pmu in Pmus::here().all() {
///     println!("{} is PMU {}, with {} events", pmu.name(), pmu.number(), pmu.events().len());
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Pmus {
    folder: PathBuf,
}

impl Pmus {
    /// Those of this machine. Costs nothing: files are read when they are asked for.
    pub fn here() -> Pmus {
        Pmus { folder: PMU_FOLDER.into() }
    }

    /// Those in a copy of the folder, of this machine or another.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Pmus {
        Pmus { folder: folder.into() }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// All of them, in the order of their names. None at all where the folder cannot be read. Reads
    /// every file.
    pub fn all(&self) -> Vec<Pmu> {
        self.names().iter().filter_map(|name| self.named(name)).collect()
    }

    /// The one of this name. None if there is no such folder with a number in it. Reads its files.
    pub fn named(&self, name: &str) -> Option<Pmu> {
        // No path, but a folder's name.
        if name.starts_with('.') || !is_plain(name) {
            return None;
        }
        Pmu::understand(name, &Texts::read(&self.folder.join(name))?)
    }

    /// The one of this number. Reads the numbers, and the files of that one.
    pub(crate) fn numbered(&self, number: u32) -> Option<Pmu> {
        let is_it = |name: &String| number_in(&self.folder.join(name)) == Some(number);
        self.named(&self.names().into_iter().find(is_it)?)
    }

    /// Those of the processor's cores: one, or one for each core type. Reads every PMU's number.
    pub(crate) fn core(&self) -> Vec<Pmu> {
        self.core_names().iter().filter_map(|name| self.named(name)).collect()
    }

    /// Whether there is a PMU of the processor's cores; None if the folder cannot be read.
    pub(crate) fn has_core(&self) -> Option<bool> {
        fs::read_dir(&self.folder).ok()?;
        Some(!self.core_names().is_empty())
    }

    pub(crate) fn core_names(&self) -> Vec<String> {
        let is_core = |name: &String| {
            let folder = self.folder.join(name);
            number_in(&folder)
                .is_some_and(|number| is_core(name, number, folder.join("cpus").exists()))
        };
        self.names().into_iter().filter(is_core).collect()
    }

    /// The names of all, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        entries(&self.folder)
    }
}

/// One PMU, as it was when it was read.
#[derive(Clone, Debug)]
pub struct Pmu {
    name: String,
    number: u32,
    is_core: bool,
    processors: Option<Processors>,
    counts_for_processors: bool,
    terms: Vec<(String, Field)>,
    events: Vec<PmuEvent>,
}

/// An event that a PMU has by name, from its `events` folder.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PmuEvent {
    /// Its name, as in `PMU/NAME/`.
    pub name: String,
    /// The terms it stands for, e.g. `event=0xcd,umask=0x1,ldlat=3`. One with `=?` takes a value from
    /// whoever asks for it.
    pub terms: String,
    /// What to multiply a count by to have it in [`unit`](PmuEvent::unit)s, where the PMU says so
    /// (`NAME.scale`).
    pub scale: Option<f64>,
    /// The unit, e.g. `Joules` or `MiB` (`NAME.unit`).
    pub unit: Option<String>,
}

impl Pmu {
    /// What its files come to; what is not understood is left out. None without a number.
    pub(crate) fn understand(name: &str, texts: &Texts) -> Option<Pmu> {
        let number = texts.number.parse().ok()?;
        let term = |(name, text): &(String, String)| {
            // What is called like a word is that word.
            let usable = is_plain(name) && !WORDS.contains(&name.as_str());
            Some((name.clone(), Field::parse(text).filter(|_| usable)?))
        };
        let processors = |text: &Option<String>| Processors::parse(text.as_ref()?);
        Some(Pmu {
            name: name.to_owned(),
            number,
            is_core: is_core(name, number, texts.cpus.is_some()),
            counts_for_processors: texts.cpumask.is_some(),
            processors: processors(&texts.cpus).or_else(|| processors(&texts.cpumask)),
            terms: texts.format.iter().filter_map(term).collect(),
            events: events(&texts.events),
        })
    }

    /// One of which nothing is known but its number.
    pub(crate) fn of_number(number: u32) -> Pmu {
        Pmu {
            name: number.to_string(),
            number,
            is_core: false,
            processors: None,
            counts_for_processors: false,
            terms: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Its name: that of its folder, and what stands before the slash of an event.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number, for [`Event::of_pmu`](crate::Event::of_pmu). Dynamic ones differ from boot to boot.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether it is the processor's own, or that of one core type: what the kernel's generic events
    /// are counted by.
    pub fn is_core(&self) -> bool {
        self.is_core
    }

    /// Which processors it is of, if it says so: those of a core type (`cpus`) or, for a PMU outside of
    /// the cores, those that its events are to be opened on (`cpumask`).
    pub fn processors(&self) -> Option<&Processors> {
        self.processors.as_ref()
    }

    /// Whether it counts for processors, packages or the machine, and so not for a thread, which is all
    /// that this library opens counters of (`cpumask`).
    pub fn counts_for_processors(&self) -> bool {
        self.counts_for_processors
    }

    /// The terms of its events, and how many bits the value of each has; those whose place this library
    /// does not understand are left out.
    pub fn terms(&self) -> impl Iterator<Item = (&str, u32)> {
        self.terms.iter().map(|(name, field)| (name.as_str(), field.width()))
    }

    /// The events it has by name, in the order of their names.
    pub fn events(&self) -> &[PmuEvent] {
        &self.events
    }

    pub(crate) fn event_named(&self, name: &str) -> Option<&PmuEvent> {
        self.events.iter().find(|event| event.name == name)
    }

    pub(crate) fn field(&self, term: &str) -> Option<&Field> {
        self.fields().find(|(name, _)| *name == term).map(|(_, field)| field)
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &Field)> {
        self.terms.iter().map(|(name, field)| (name.as_str(), field))
    }
}

/// A set of processors, as the kernel writes it: `0-3,8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processors(Vec<RangeInclusive<u32>>);

impl Processors {
    /// None if it is not such a list.
    pub(crate) fn parse(text: &str) -> Option<Processors> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse().ok()?..=last.parse().ok()?)
        };
        let text = text.trim();
        if text.is_empty() {
            return Some(Processors(Vec::new()));
        }
        Some(Processors(text.split(',').map(range).collect::<Option<_>>()?))
    }

    /// Whether this processor is one of them.
    pub fn contains(&self, processor: u32) -> bool {
        self.0.iter().any(|range| range.contains(&processor))
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, range) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match (range.start(), range.end()) {
                (first, last) if first == last => write!(f, "{comma}{first}")?,
                (first, last) => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// What the files of a PMU say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    /// `type`.
    pub(crate) number: String,
    pub(crate) cpus: Option<String>,
    pub(crate) cpumask: Option<String>,
    /// The files in `format`, by name.
    pub(crate) format: Vec<(String, String)>,
    /// The files in `events`, by name.
    pub(crate) events: Vec<(String, String)>,
}

impl Texts {
    /// None if there is no `type`.
    fn read(folder: &Path) -> Option<Texts> {
        let inside = |name: &str| {
            let folder = folder.join(name);
            let texts = entries(&folder).into_iter();
            texts.filter_map(|name| Some((name.clone(), text(folder.join(name))?))).collect()
        };
        Some(Texts {
            number: text(folder.join("type"))?,
            cpus: text(folder.join("cpus")),
            cpumask: text(folder.join("cpumask")),
            format: inside("format"),
            events: inside("events"),
        })
    }
}

/// The events among the files, with what other files say of them.
fn events(texts: &[(String, String)]) -> Vec<PmuEvent> {
    const ABOUT_EVENTS: [&str; 4] = [".scale", ".unit", ".per-pkg", ".snapshot"];
    let is_event =
        |name: &str| is_plain(name) && !ABOUT_EVENTS.iter().any(|end| name.ends_with(end));
    let event = |(name, terms): &(String, String)| {
        let about = |what: &str| {
            let is_it = |known: &str| known.strip_prefix(name.as_str()) == Some(what);
            texts.iter().find(|(known, _)| is_it(known)).map(|(_, text)| text)
        };
        let scale = about(".scale").and_then(|scale| scale.parse().ok());
        PmuEvent {
            name: name.clone(),
            terms: terms.clone(),
            scale: scale.filter(|scale: &f64| scale.is_finite()),
            unit: about(".unit").cloned(),
        }
    };
    texts.iter().filter(|(name, _)| is_event(name)).map(event).collect()
}

/// Whether it can be written in the name of an event.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:@".contains(&byte);
    // A number stands for the PMU that has it.
    name.bytes().all(plain) && name.bytes().any(|byte| !byte.is_ascii_digit())
}

fn number_in(folder: &Path) -> Option<u32> {
    text(folder.join("type"))?.parse().ok()
}

/// It is called `cpu`, or it has the number of raw events, or (hybrid x86-64, arm64) it says which
/// processors it is of.
fn is_core(name: &str, number: u32, has_cpus: bool) -> bool {
    name == "cpu" || has_cpus || number == kind::RAW
}

/// What the folder contains, sorted.
fn entries(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
    let mut names: Vec<String> = entries.flatten().take(MOST).filter_map(name).collect();
    names.sort();
    names
}

/// What the file contains, if it is not too much.
fn text(file: impl AsRef<Path>) -> Option<String> {
    let mut text = String::new();
    let length = File::open(file).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    ((length as u64) < LONGEST).then(|| text.trim().to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        for text in ["0", "0-3", "0-3,8,10-11", ""] {
            assert_eq!(Processors::parse(&format!("{text}\n")).unwrap().to_string(), text);
        }
        let some = Processors::parse("0-3,8").unwrap();
        assert!(some.contains(3) && some.contains(8) && !some.contains(4));
        for wrong in ["a", "1-", "1,,2", "-1", "1-2-3"] {
            assert_eq!(Processors::parse(wrong), None, "{wrong}");
        }
    }
}
