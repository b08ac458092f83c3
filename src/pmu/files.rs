//! Reads the files of PMUs, within bounds.

use crate::error::Error;
use crate::kernel::{self, Errno, Unreadable};
use std::cell::Cell;
use std::fs;
use std::io;
use std::path::Path;

/// A limit above the size of any of these files, in bytes. The kernel gives each at most a page.
const FILE_LIMIT: u64 = 1 << 16;
/// A limit above the number of entries of any of these directories.
const ENTRY_LIMIT: usize = 1 << 12;
/// A limit above the size of all these files together, in bytes. The largest servers have some 100 KiB.
const TOTAL_LIMIT: u64 = 1 << 24;

/// A reader of PMU files for one request, which bounds what the request reads in all.
pub(super) struct Files {
    /// The bytes that may still be read.
    left: Cell<u64>,
}

impl Files {
    pub(super) fn new() -> Files {
        Files { left: Cell::new(TOTAL_LIMIT) }
    }

    /// Lists the names in the directory, sorted. None if it does not exist.
    pub(super) fn entries(&self, directory: &Path) -> Result<Option<Vec<String>>, Error> {
        let unreadable = |error: io::Error| Error::from(Unreadable::new(directory, &error));
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(unreadable)?.file_name();
            self.charge(directory, name.len())?;
            if names.len() >= ENTRY_LIMIT {
                return Err(too_much(directory));
            }
            // A name that is not UTF-8 is not one of perf's.
            if let Ok(name) = name.into_string() {
                // There are some dozens. A sort of std's would be the largest part of a program with one counter.
                names.insert(names.partition_point(|known| *known < name), name);
            }
        }
        Ok(Some(names))
    }

    /// Returns the trimmed text. None if the file is missing, not regular, not UTF-8 or too long.
    pub(super) fn text(&self, path: &Path) -> Result<Option<String>, Error> {
        Ok(self.untrimmed(path)?.map(|text| text.trim().to_owned()))
    }

    fn untrimmed(&self, path: &Path) -> Result<Option<String>, Error> {
        let bytes = match kernel::read_file(path, FILE_LIMIT.min(self.left.get())) {
            Ok(bytes) => bytes,
            Err(error) if is_absent(&error) => None,
            Err(error) => return Err(Unreadable::new(path, &error).into()),
        };
        let Some(bytes) = bytes else { return Ok(None) };
        self.charge(path, bytes.len())?;
        let is_whole = (bytes.len() as u64) < FILE_LIMIT;
        Ok(String::from_utf8(bytes).ok().filter(|_| is_whole))
    }

    /// Like `text`, but an empty file is an error: the kernel always writes a line, so the read failed.
    pub(super) fn line(&self, path: &Path) -> Result<Option<String>, Error> {
        match self.untrimmed(path)? {
            Some(text) if text.is_empty() => {
                Err(Unreadable { path: path.to_owned(), errno: Errno(kernel::EIO) }.into())
            }
            text => Ok(text.map(|text| text.trim().to_owned())),
        }
    }

    /// Reads the type of the PMU in this directory. None if there is none.
    pub(super) fn type_in(&self, directory: &Path) -> Result<Option<u32>, Error> {
        let text = self.line(&directory.join("type"))?;
        Ok(text.and_then(|text| text.parse().ok()))
    }

    /// Subtracts `bytes`, and a fixed cost for each file, from what may be read.
    fn charge(&self, path: &Path, bytes: usize) -> Result<(), Error> {
        self.left.set(self.left.get().saturating_sub(bytes as u64 + 64));
        match self.left.get() {
            0 => Err(too_much(path)),
            _ => Ok(()),
        }
    }
}

fn too_much(path: &Path) -> Error {
    Unreadable { path: path.to_owned(), errno: Errno(kernel::EFBIG) }.into()
}

/// Whether the error means that the file does not exist. `/sys` answers `ENODEV` for a device that was just removed.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(kernel::ENOENT | kernel::ENOTDIR | kernel::ENODEV))
}

/// The contents of a PMU's files.
#[derive(Clone, Debug, Default)]
pub(crate) struct SysfsFiles {
    /// The text of `type`.
    pub(crate) type_id: String,
    pub(crate) cpus: Option<String>,
    pub(crate) cpumask: Option<String>,
    /// The files in `format`, by name.
    pub(crate) format: Vec<(String, String)>,
    /// The files in `events`, by name.
    pub(crate) events: Vec<(String, String)>,
}

impl SysfsFiles {
    /// Reads the files of the PMU in this directory. None if there is no `type`.
    pub(super) fn read(files: &Files, directory: &Path) -> Result<Option<SysfsFiles>, Error> {
        let inside = |name: &str| {
            let directory = directory.join(name);
            let mut texts = Vec::new();
            for name in files.entries(&directory)?.unwrap_or_default() {
                if let Some(text) = files.text(&directory.join(&name))? {
                    texts.push((name, text));
                }
            }
            Ok::<_, Error>(texts)
        };
        let Some(type_id) = files.line(&directory.join("type"))? else { return Ok(None) };
        Ok(Some(SysfsFiles {
            type_id,
            cpus: files.line(&directory.join("cpus"))?,
            cpumask: files.line(&directory.join("cpumask"))?,
            format: inside("format")?,
            events: inside("events")?,
        }))
    }
}
