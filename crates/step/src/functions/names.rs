//! Names of functions, from the files of the program.

use super::Loaded;
use super::inlined::Inlined;
use super::symbols::Symbols;
use object::read::{ReadCache, ReadRef};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::Path;

/// Finds the names of functions. It reads each file once.
#[derive(Default)]
pub struct Names {
    /// What is known of each file. None if it cannot be read, or is no program.
    files: BTreeMap<String, Option<Known>>,
    source: Source,
}

/// What the names of functions come from, from the least to the most. `Display` says it in words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Source {
    /// Symbols. What was inlined belongs to the function that it was inlined into.
    #[default]
    Symbols,
    /// Line tables (`debug = "line-tables-only"`). Functions that were inlined have short names.
    LineTables,
    /// Debug information (`debug = 1`, or more). Functions that were inlined have their names.
    DebugInformation,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Symbols => "symbols",
            Source::LineTables => "line tables",
            Source::DebugInformation => "debug information",
        })
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.files.keys()).finish()
    }
}

struct Known {
    symbols: Symbols,
    inlined: Option<Inlined>,
}

impl Names {
    /// Knows no file yet.
    pub fn new() -> Names {
        Names::default()
    }

    /// Returns what the names until now come from: of several files, the source with the most.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns the name of the function at a place, and what it was inlined into.
    pub(super) fn of_place(&mut self, file: &str, offset: u64) -> (String, Option<String>) {
        if file.is_empty() {
            return ("no file".to_owned(), None);
        }
        if !self.files.contains_key(file) {
            self.files.insert(file.to_owned(), known(file));
        }
        let known = self.files.get(file).and_then(Option::as_ref);
        let address = known.and_then(|known| known.symbols.address(offset));
        if let Some((known, address)) = known.zip(address) {
            let symbol = known.symbols.name(address).map(demangled);
            // The innermost first. The last one has the code.
            let mut frames =
                known.inlined.as_ref().map(|it| it.frames(address)).unwrap_or_default();
            // That of the standard library is always whole.
            for frame in frames.iter().filter(|frame| !frame.is_of_std) {
                let source =
                    if frame.is_whole { Source::DebugInformation } else { Source::LineTables };
                self.source = self.source.max(source);
            }
            if let Some(outermost) = frames.pop() {
                let symbol = symbol.unwrap_or(outermost.name);
                // What a function of the standard library does for its caller belongs to the caller.
                let inner = frames.into_iter().find(|frame| !frame.is_of_std);
                return match inner {
                    Some(frame) => (frame.name, Some(symbol)),
                    None => (symbol, None),
                };
            }
            if let Some(symbol) = symbol {
                return (symbol, None);
            }
        }
        let name = Path::new(file).file_name().map_or(file.into(), |name| name.to_string_lossy());
        (format!("{name}, no symbol"), None)
    }
}

/// Reads a file that is loaded. None without it, as for `[vdso]`.
fn known(file: &str) -> Option<Known> {
    if !file.starts_with('/') {
        return None;
    }
    // The program itself may have been replaced or removed meanwhile. The kernel still has the one that runs.
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let is_program = program.to_string_lossy() == file;
    let opened = File::open(if is_program { "/proc/self/exe" } else { file }).ok()?;
    // If another file has this path now, `(deleted)` follows the path of the one that is loaded.
    let is_loaded = is_program || Loaded::now().has(file);
    if !is_loaded || !opened.metadata().ok()?.is_file() {
        return None;
    }
    let cache = ReadCache::new(opened);
    let cache = &cache;
    cache.len().ok()?;
    let file = object::File::parse(cache).ok()?;
    Some(Known { symbols: Symbols::new(&file), inlined: Inlined::new(&file) })
}

/// Returns a name without hashes. That of another language stays as it is.
fn demangled(symbol: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(symbol))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only files are opened.
    #[test]
    fn what_is_no_file() {
        for file in ["[heap]", "[vdso]", "relative", "/", "/dev/null", "/memfd:x (deleted)"] {
            assert!(known(file).is_none(), "{file}");
        }
    }
}
