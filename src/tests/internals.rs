//! Private code for tests in packages of their own: the emulated machines, faults in shared objects, fuzzing. Only with
//! `--cfg rdpmc_internals`, so it is no part of the library as others build it.
#![allow(missing_docs, unsafe_code)]

pub use crate::kernel::abi;

use crate::error::Error;
use crate::event::Event;
use crate::event::WORDS;
use crate::kernel::Descriptor;
use crate::names;
use crate::page::Pages;
use crate::page::fork;
use crate::page::reader::View;
use crate::pmu::field;
use crate::pmu::files::SysfsFiles;
use crate::pmu::{CpuSet, Pmu, Pmus};
use crate::region::Region;
use std::os::fd::OwnedFd;

/// The control pages of a group, and reads of them.
pub struct Reader<const N: usize> {
    view: View,
    _pages: Pages,
}

impl<const N: usize> Reader<N> {
    /// Maps the pages of these descriptors. An error if the kernel refuses, or if the pages cannot be read.
    pub fn map(descriptors: &[OwnedFd]) -> Result<Reader<N>, String> {
        let imitate = |file: &OwnedFd| file.try_clone().map(Descriptor::imitated_by);
        let descriptors: Vec<Descriptor> =
            descriptors.iter().map(imitate).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        let process = fork::process().map_err(|errno| errno.to_string())?;
        let pages = Pages::map(&descriptors.iter().collect::<Vec<_>>(), process);
        let pages = pages.map_err(|errno| errno.to_string())?.ok_or("forked")?;
        // SAFETY: the view is kept beside the pages.
        let view = unsafe { View::of_pages(&pages) };
        let view = view.map_err(|(place, why)| format!("page {place}: {why}"))?;
        Ok(Reader { view, _pages: pages })
    }

    /// A reader that always returns None.
    pub fn none() -> Reader<N> {
        Reader { view: View::none(), _pages: Pages::empty() }
    }

    #[inline(always)]
    pub fn counts(&self) -> Option<[u64; N]> {
        self.view.counts()
    }

    pub fn region(&self) -> Region<'_, N> {
        Region::new(&self.view)
    }
}

/// Reads in the library itself, rather than inlined into the caller.
#[inline(never)]
pub fn is_none_in_the_library(reader: &Reader<1>) -> bool {
    reader.counts().is_none()
}

/// The contents of a PMU's files.
#[derive(Default)]
pub struct PmuFiles {
    pub type_id: String,
    pub cpus: Option<String>,
    pub cpumask: Option<String>,
    /// The files in `format`, by name.
    pub format: Vec<(String, String)>,
    /// The files in `events`, by name.
    pub events: Vec<(String, String)>,
}

impl PmuFiles {
    /// The PMU of this name with these files. None if there is no valid type.
    pub fn parse(&self, name: &str) -> Option<Pmu> {
        let files = SysfsFiles {
            type_id: self.type_id.clone(),
            cpus: self.cpus.clone(),
            cpumask: self.cpumask.clone(),
            format: self.format.clone(),
            events: self.events.clone(),
        };
        Pmu::parse(name, &files)
    }
}

/// The event that these terms of the PMU make.
pub fn event_of(pmu: &Pmu, terms: &str) -> Result<Event, Error> {
    // No file is read.
    Pmus::from_dir("/nonexistent").event_of(pmu, terms)
}

/// The terms of this PMU that make the event.
pub fn terms_of(pmu: &Pmu, event: Event) -> String {
    names::terms_of(pmu, &event)
}

/// Whether the kernel defines the event for every CPU.
pub fn is_generic(event: Event) -> bool {
    event.is_generic()
}

pub fn parse_cpus(text: &str) -> Option<CpuSet> {
    CpuSet::parse(text)
}

/// The bits of a term in the config words.
pub struct Field(field::Field);

impl Field {
    pub fn parse(text: &str) -> Option<Field> {
        field::Field::parse(text).map(Field)
    }
    pub fn width(&self) -> u32 {
        self.0.width()
    }
    pub fn put(&self, value: u64, words: [u64; WORDS.len()]) -> Option<[u64; WORDS.len()]> {
        self.0.put(value, words)
    }
    pub fn take(&self, words: &[u64; WORDS.len()]) -> Option<u64> {
        self.0.take(words)
    }
}
