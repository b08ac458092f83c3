//! The PMUs that the kernel lists: one folder each, with its number, the terms of its events, and
//! events by name. The files are of one line, and nothing is read without bound.
//!
//! What is not there, or not understood, is left out. What is there and cannot be read is an error,
//! [`Unreadable`]: it may be readable a moment later, and to take it for absent would be wrong.

use crate::field::{Field, WORDS};
use crate::sys::{self, PMU_FOLDER, kind};
use std::cell::Cell;
use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// More than any file there has, in bytes: the kernel gives them a page.
const LONGEST: u64 = 1 << 16;
/// More than any folder there has entries.
const MOST: usize = 1 << 12;
/// More than all files there have together, in bytes. The largest servers have some 100 KiB.
const LONGEST_TOGETHER: u64 = 1 << 24;

/// Why what `/sys` says of PMUs is not known: a file that is there could not be read.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unreadable {
    /// The file or directory.
    pub path: PathBuf,
    /// The kernel's answer. `EFBIG` where this library has stopped: there is more than any kernel shows.
    pub errno: i32,
}

impl std::error::Error for Unreadable {}

impl Unreadable {
    fn new(path: &Path, error: &io::Error) -> Unreadable {
        Unreadable { path: path.to_owned(), errno: error.raw_os_error().unwrap_or(sys::EIO) }
    }
}

/// The PMUs of a machine: of this one, as the kernel lists them in `/sys/bus/event_source/devices`,
/// or of another, of which that folder was copied.
///
/// ```
/// use rdpmc::Pmus;
///
/// for pmu in Pmus::here().all()? {
///     println!("{} is PMU {}, with {} events", pmu.name(), pmu.number(), pmu.events().len());
/// }
/// # Ok::<(), rdpmc::Unreadable>(())
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

    /// All of them, in the order of their names. None at all where there is no such directory. Reads
    /// every file.
    ///
    /// # Errors
    /// [`Unreadable`], with the file and the cause, if one that is there cannot be read.
    pub fn all(&self) -> Result<Vec<Pmu>, Unreadable> {
        let files = Files::new();
        let mut pmus = Vec::new();
        for name in self.names_in(&files)?.unwrap_or_default() {
            pmus.extend(self.named_in(&files, &name)?);
        }
        Ok(pmus)
    }

    /// The one of this name. None if there is no such directory with a number in it. Reads its files.
    ///
    /// # Errors
    /// As [`all`](Pmus::all).
    pub fn named(&self, name: &str) -> Result<Option<Pmu>, Unreadable> {
        self.named_in(&Files::new(), name)
    }

    fn named_in(&self, files: &Files, name: &str) -> Result<Option<Pmu>, Unreadable> {
        // No path, but a directory's name.
        if name.starts_with('.') || !is_plain(name) {
            return Ok(None);
        }
        let texts = Texts::read(files, &self.folder.join(name))?;
        let is_here = self.folder == Path::new(PMU_FOLDER);
        Ok(texts.and_then(|texts| Pmu::understand(name, &texts)).map(|pmu| Pmu { is_here, ..pmu }))
    }

    /// The one of this number. Reads the numbers, and the files of that one.
    pub(crate) fn numbered(&self, number: u32) -> Result<Option<Pmu>, Unreadable> {
        let files = Files::new();
        for name in self.names_in(&files)?.unwrap_or_default() {
            if files.number_in(&self.folder.join(&name))? == Some(number) {
                return self.named_in(&files, &name);
            }
        }
        Ok(None)
    }

    /// Those of the processor's cores, by what `type` and `cpus` say: one, or one for each core type.
    /// None if there is no such directory.
    pub(crate) fn core(&self) -> Result<Option<Vec<CorePmu>>, Unreadable> {
        let files = Files::new();
        let Some(names) = self.names_in(&files)? else { return Ok(None) };
        let mut core = Vec::new();
        for name in names {
            let folder = self.folder.join(&name);
            let Some(number) = files.number_in(&folder)? else { continue };
            let cpus = files.line(&folder.join("cpus"))?;
            if is_core(&name, number, cpus.is_some()) {
                let processors = cpus.and_then(|cpus| Processors::parse(&cpus));
                core.push(CorePmu { number, processors });
            }
        }
        Ok(Some(core))
    }

    /// The names of all, sorted.
    pub(crate) fn names(&self) -> Result<Vec<String>, Unreadable> {
        Ok(self.names_in(&Files::new())?.unwrap_or_default())
    }

    fn names_in(&self, files: &Files) -> Result<Option<Vec<String>>, Unreadable> {
        files.entries(&self.folder)
    }
}

/// What is asked of every PMU of the processor's cores.
#[derive(Clone, Debug)]
pub(crate) struct CorePmu {
    pub(crate) number: u32,
    /// None if it does not say which.
    pub(crate) processors: Option<Processors>,
}

/// One PMU, as it was when it was read.
#[derive(Clone, Debug)]
pub struct Pmu {
    name: String,
    /// Whether it is this machine's, rather than in a copy of some machine's files.
    is_here: bool,
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
            is_here: false,
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
            is_here: false,
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

    /// Whether it was found on this machine.
    pub(crate) fn is_here(&self) -> bool {
        self.is_here
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
    fn read(files: &Files, folder: &Path) -> Result<Option<Texts>, Unreadable> {
        let inside = |name: &str| {
            let folder = folder.join(name);
            let mut texts = Vec::new();
            for name in files.entries(&folder)?.unwrap_or_default() {
                if let Some(text) = files.text(&folder.join(&name))? {
                    texts.push((name, text));
                }
            }
            Ok(texts)
        };
        let Some(number) = files.line(&folder.join("type"))? else { return Ok(None) };
        Ok(Some(Texts {
            number,
            cpus: files.line(&folder.join("cpus"))?,
            cpumask: files.line(&folder.join("cpumask"))?,
            format: inside("format")?,
            events: inside("events")?,
        }))
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

/// It is called `cpu`, or it has the number of raw events, or (hybrid x86-64, arm64) it says which
/// processors it is of.
fn is_core(name: &str, number: u32, has_cpus: bool) -> bool {
    name == "cpu" || has_cpus || number == kind::RAW
}

/// Reads the files of PMUs, for one request.
struct Files {
    /// How many bytes more may be read.
    left: Cell<u64>,
}

impl Files {
    fn new() -> Files {
        Files { left: Cell::new(LONGEST_TOGETHER) }
    }

    /// The names in the directory, sorted. None if there is none.
    fn entries(&self, folder: &Path) -> Result<Option<Vec<String>>, Unreadable> {
        let unreadable = |error: io::Error| Unreadable::new(folder, &error);
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(unreadable)?.file_name();
            self.charge(folder, name.len())?;
            if names.len() >= MOST {
                return Err(Unreadable { path: folder.to_owned(), errno: sys::EFBIG });
            }
            // What is not text is no name of perf's.
            names.extend(name.into_string());
        }
        names.sort();
        Ok(Some(names))
    }

    /// Returns the trimmed text. None if the file is missing, not regular, not UTF-8 or longer than any.
    fn text(&self, path: &Path) -> Result<Option<String>, Unreadable> {
        Ok(self.untrimmed(path)?.map(|text| text.trim().to_owned()))
    }

    fn untrimmed(&self, path: &Path) -> Result<Option<String>, Unreadable> {
        let bytes = match self.bytes(path) {
            Ok(bytes) => bytes,
            Err(error) if is_absent(&error) => None,
            Err(error) => return Err(Unreadable::new(path, &error)),
        };
        let Some(bytes) = bytes else { return Ok(None) };
        self.charge(path, bytes.len())?;
        let is_whole = (bytes.len() as u64) < LONGEST;
        Ok(String::from_utf8(bytes).ok().filter(|_| is_whole))
    }

    /// Like `text`, but an empty file is an error: the kernel always writes a line, so the read failed.
    fn line(&self, path: &Path) -> Result<Option<String>, Unreadable> {
        match self.untrimmed(path)? {
            Some(text) if text.is_empty() => {
                Err(Unreadable { path: path.to_owned(), errno: sys::EIO })
            }
            text => Ok(text.map(|text| text.trim().to_owned())),
        }
    }

    /// None if it is no regular file.
    fn bytes(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        // Looked at before it is opened, which does something to devices, and afterwards, as it may be
        // something else by then.
        if !fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        let file = sys::open_file(path)?;
        if !file.metadata()?.is_file() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.take(LONGEST.min(self.left.get())).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// The number of the PMU with this directory. None if there is none.
    fn number_in(&self, folder: &Path) -> Result<Option<u32>, Unreadable> {
        let text = self.line(&folder.join("type"))?;
        Ok(text.and_then(|text| text.parse().ok()))
    }

    /// Subtracts `bytes`, and a fixed cost for each file, from what may be read.
    fn charge(&self, path: &Path, bytes: usize) -> Result<(), Unreadable> {
        self.left.set(self.left.get().saturating_sub(bytes as u64 + 64));
        match self.left.get() {
            0 => Err(Unreadable { path: path.to_owned(), errno: sys::EFBIG }),
            _ => Ok(()),
        }
    }
}

/// Whether the error says that there is no such file. `ENODEV` is the answer of `/sys` for one of a
/// device that has just gone.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(sys::ENOENT | sys::ENOTDIR | sys::ENODEV))
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
