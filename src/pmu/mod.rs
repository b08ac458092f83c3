//! The PMUs of a machine: their events, the terms of events, and their CPUs.

// Floor 4: the kernel's list of PMUs, one directory each, and the core types. Uses `kernel`, `asm`, `event` and `error`.
//
// What is absent or not understood is left out. What exists and cannot be read is an error, `Unreadable`: it may be
// readable a moment later, and to treat it as absent would be wrong.

mod absent;
pub(crate) mod core_types;
mod cpus;
pub(crate) mod field;
pub(crate) mod files;

pub(crate) use absent::no_pmu;
#[cfg(test)]
pub(crate) use absent::no_pmu_on;
pub use cpus::CpuSet;

use crate::asm;
use crate::error::Error;
use crate::event::WORDS;
use crate::kernel::{PMU_DIRECTORY, kind, machine};
use field::Field;
use files::{Files, SysfsFiles};
use std::path::{Path, PathBuf};

/// Whether this is known to be a virtual machine, by the CPU (x86-64) or by files.
pub fn is_virtual() -> bool {
    asm::hypervisor().is_some() || machine::is_virtual()
}

/// The PMUs of this machine, as the kernel lists them in `/sys/bus/event_source/devices`, or of another machine, read
/// from a copy of that directory.
///
/// ```
/// use rdpmc::pmu::Pmus;
///
/// for pmu in Pmus::local().all()? {
///     println!("{} has type {} and {} events", pmu.name(), pmu.type_id(), pmu.events().len());
/// }
/// # Ok::<(), rdpmc::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmus {
    directory: PathBuf,
}

impl Pmus {
    /// Returns the PMUs of this machine. Reads nothing: files are read when they are needed.
    pub fn local() -> Pmus {
        Pmus { directory: PMU_DIRECTORY.into() }
    }

    /// Returns the PMUs in a copy of the kernel's directory, from this machine or another.
    pub fn from_dir(directory: impl Into<PathBuf>) -> Pmus {
        Pmus { directory: directory.into() }
    }

    /// Whether these are this machine's.
    pub(crate) fn are_local(&self) -> bool {
        self.directory == Path::new(PMU_DIRECTORY)
    }

    /// Reads all PMUs, ordered by name. Empty if the directory does not exist. Reads every file.
    ///
    /// # Errors
    /// [`ErrorKind::Unreadable`](crate::error::ErrorKind), with the file and the cause, if a file exists and cannot be read.
    pub fn all(&self) -> Result<Vec<Pmu>, Error> {
        let files = Files::new();
        let mut pmus = Vec::new();
        for name in self.names_in(&files)?.unwrap_or_default() {
            pmus.extend(self.get_in(&files, &name)?);
        }
        Ok(pmus)
    }

    /// Reads the PMU of this name. None if there is none. Reads its files only.
    ///
    /// # Errors
    /// As [`all`](Pmus::all).
    pub fn get(&self, name: &str) -> Result<Option<Pmu>, Error> {
        self.get_in(&Files::new(), name)
    }

    fn get_in(&self, files: &Files, name: &str) -> Result<Option<Pmu>, Error> {
        // A directory's name, not a path.
        if name.starts_with('.') || !is_plain(name) {
            return Ok(None);
        }
        let texts = SysfsFiles::read(files, &self.directory.join(name))?;
        let is_local = self.are_local();
        Ok(texts.and_then(|texts| Pmu::parse(name, &texts)).map(|pmu| Pmu { is_local, ..pmu }))
    }

    /// Reads the PMU of this type. Reads all `type` files, and the other files of that PMU.
    pub(crate) fn with_type(&self, type_id: u32) -> Result<Option<Pmu>, Error> {
        let files = Files::new();
        for name in self.names_in(&files)?.unwrap_or_default() {
            if files.type_in(&self.directory.join(&name))? == Some(type_id) {
                return self.get_in(&files, &name);
            }
        }
        Ok(None)
    }

    /// Reads `type` and `cpus` of the core PMUs: one, or one for each core type. None if the directory does not
    /// exist.
    pub(crate) fn core(&self) -> Result<Option<Vec<CorePmu>>, Error> {
        let files = Files::new();
        let Some(names) = self.names_in(&files)? else { return Ok(None) };
        let mut core = Vec::new();
        for name in names {
            let directory = self.directory.join(&name);
            let Some(type_id) = files.type_in(&directory)? else { continue };
            let cpus = files.line(&directory.join("cpus"))?;
            if is_core(&name, type_id, cpus.is_some()) {
                let cpus = cpus.and_then(|cpus| CpuSet::parse(&cpus));
                core.push(CorePmu { type_id, cpus });
            }
        }
        Ok(Some(core))
    }

    /// The names of all, sorted.
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        Ok(self.names_in(&Files::new())?.unwrap_or_default())
    }

    fn names_in(&self, files: &Files) -> Result<Option<Vec<String>>, Error> {
        files.entries(&self.directory)
    }
}

/// The type and the CPUs of a core PMU.
#[derive(Clone, Debug)]
pub(crate) struct CorePmu {
    pub(crate) type_id: u32,
    /// None if it does not list them.
    pub(crate) cpus: Option<CpuSet>,
}

/// One PMU, as it was when its files were read.
#[derive(Clone, Debug, PartialEq)]
pub struct Pmu {
    name: String,
    /// Whether it is this machine's, rather than from a copy of some machine's files.
    is_local: bool,
    type_id: u32,
    is_core: bool,
    cpus: Option<CpuSet>,
    counts_for_cpus: bool,
    terms: Vec<(String, Field)>,
    events: Vec<PmuEvent>,
}

/// A named event of a PMU, from its `events` directory.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PmuEvent {
    /// Its name, as in `PMU/NAME/`.
    pub name: String,
    /// The terms it stands for, e.g. `event=0xcd,umask=0x1,ldlat=3`. A term with `=?` must be given a value.
    pub terms: String,
    scale: Option<String>,
    /// The unit, e.g. `Joules` or `MiB`. None if the PMU gives none (`NAME.unit`).
    pub unit: Option<String>,
}

impl PmuEvent {
    /// Returns the factor that turns a count into [`unit`](PmuEvent::unit)s. None if the PMU gives none (`NAME.scale`).
    pub fn scale(&self) -> Option<f64> {
        self.scale.as_ref()?.parse().ok().filter(|scale: &f64| scale.is_finite())
    }
}

impl Pmu {
    /// Parses the files of a PMU. What is not understood is left out. None if there is no valid `type`.
    pub(crate) fn parse(name: &str, texts: &SysfsFiles) -> Option<Pmu> {
        let type_id = texts.type_id.parse().ok()?;
        let term = |(name, text): &(String, String)| {
            // The names of the config words are not available to terms.
            let usable = is_plain(name) && !WORDS.contains(&name.as_str());
            Some((name.clone(), Field::parse(text).filter(|_| usable)?))
        };
        let cpus = |text: &Option<String>| CpuSet::parse(text.as_ref()?);
        Some(Pmu {
            name: name.to_owned(),
            is_local: false,
            type_id,
            is_core: is_core(name, type_id, texts.cpus.is_some()),
            counts_for_cpus: texts.cpumask.is_some(),
            cpus: cpus(&texts.cpus).or_else(|| cpus(&texts.cpumask)),
            terms: texts.format.iter().filter_map(term).collect(),
            events: events(&texts.events),
        })
    }

    /// Returns the core PMU that machines of this architecture usually have, with the terms that all of them have. None for
    /// names of several, and for other architectures. The type is that of raw events.
    pub(crate) fn usual(name: &str) -> Option<Pmu> {
        let format: &[(&str, &str)] = match name {
            "cpu" if cfg!(target_arch = "x86_64") => &[
                ("cmask", "config:24-31"),
                ("edge", "config:18"),
                ("event", "config:0-7,32-35"),
                ("inv", "config:23"),
                ("umask", "config:8-15"),
            ],
            name if cfg!(target_arch = "aarch64") && name.starts_with("armv") => {
                &[("event", "config:0-15")]
            }
            _ => return None,
        };
        let format = format.iter().map(|(name, bits)| ((*name).to_owned(), (*bits).to_owned()));
        let texts = SysfsFiles {
            type_id: kind::RAW.to_string(),
            format: format.collect(),
            ..SysfsFiles::default()
        };
        Pmu::parse(name, &texts)
    }

    /// A PMU of which only the type is known.
    pub(crate) fn of_type(type_id: u32) -> Pmu {
        Pmu {
            name: type_id.to_string(),
            is_local: false,
            type_id,
            is_core: false,
            cpus: None,
            counts_for_cpus: false,
            terms: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Returns its name: that of its directory, and the part of an event's name before the slash.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it was read from this machine's own directory.
    pub fn is_local(&self) -> bool {
        self.is_local
    }

    /// Returns its type (the file `type`), for [`Event::of_pmu`](crate::Event::of_pmu). Dynamic types differ from boot
    /// to boot.
    pub fn type_id(&self) -> u32 {
        self.type_id
    }

    /// Whether it belongs to the CPU's cores, or to the cores of one type. Core PMUs count the generic events.
    pub fn is_core(&self) -> bool {
        self.is_core
    }

    /// Returns its CPUs: those of its core type (`cpus`), or those to open its events on (`cpumask`). None if it
    /// lists none.
    pub fn cpus(&self) -> Option<&CpuSet> {
        self.cpus.as_ref()
    }

    /// Whether it counts for CPUs, packages or the machine (`cpumask`). This library counts for a thread and cannot
    /// open its events.
    pub fn counts_for_cpus(&self) -> bool {
        self.counts_for_cpus
    }

    /// Returns the terms of its events, each with the number of bits of its value. Terms whose format this library
    /// does not understand are left out.
    pub fn terms(&self) -> impl Iterator<Item = (&str, u32)> {
        self.terms.iter().map(|(name, field)| (name.as_str(), field.width()))
    }

    /// Returns its named events, ordered by name.
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

/// Returns the events among the files, each with its scale and unit.
fn events(texts: &[(String, String)]) -> Vec<PmuEvent> {
    const ABOUT_EVENTS: [&str; 4] = [".scale", ".unit", ".per-pkg", ".snapshot"];
    let is_event =
        |name: &str| is_plain(name) && !ABOUT_EVENTS.iter().any(|end| name.ends_with(end));
    let event = |(name, terms): &(String, String)| {
        let about = |what: &str| {
            let is_it = |known: &str| known.strip_prefix(name.as_str()) == Some(what);
            texts.iter().find(|(known, _)| is_it(known)).map(|(_, text)| text)
        };
        PmuEvent {
            name: name.clone(),
            terms: terms.clone(),
            scale: about(".scale").cloned(),
            unit: about(".unit").cloned(),
        }
    };
    texts.iter().filter(|(name, _)| is_event(name)).map(event).collect()
}

/// Whether the name can be part of an event's name.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:@".contains(&byte);
    // A number is a PMU's type.
    name.bytes().all(plain) && name.bytes().any(|byte| !byte.is_ascii_digit())
}

/// A core PMU is called `cpu`, or has the type of raw events, or lists its CPUs (hybrid x86-64, arm64).
fn is_core(name: &str, type_id: u32, has_cpus: bool) -> bool {
    name == "cpu" || has_cpus || type_id == kind::RAW
}
