//! Names of functions, from the files of the program.

use super::Loaded;
use super::inlined::{Frame, Inlined};
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
            if let Some(outermost) = frames.pop() {
                self.source = self.source.max(outermost.source());
                let symbol = symbol.unwrap_or_else(|| outermost.name());
                // What a function of the standard library does for its caller belongs to the caller.
                let inner = frames.into_iter().find(|frame| !frame.is_of_std());
                return match inner {
                    Some(frame) => (frame.name(), Some(symbol)),
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

impl Frame {
    fn name(&self) -> String {
        match self {
            Frame::Mangled(name) => demangled(name),
            Frame::Short { name, .. } => name.clone(),
        }
    }

    fn is_of_std(&self) -> bool {
        match self {
            Frame::Mangled(name) => is_of_std(&demangled(name)),
            Frame::Short { is_of_std, .. } => *is_of_std,
        }
    }

    fn source(&self) -> Source {
        match self {
            Frame::Mangled(_) => Source::DebugInformation,
            Frame::Short { .. } => Source::LineTables,
        }
    }
}

/// Whether a function is one of the standard library: by its path, or in `<TYPE as TRAIT>::name` by its type, or by its trait if the type
/// is in the language itself.
fn is_of_std(name: &str) -> bool {
    const CRATES: [&str; 3] = ["core::", "alloc::", "std::"];
    let is = |path: &str| CRATES.iter().any(|known| path.starts_with(known));
    let Some(of_type) = name.strip_prefix('<') else { return is(name) };
    let mut target = of_type;
    while let Some(rest) = target.strip_prefix('&') {
        target = rest.strip_prefix("mut ").unwrap_or(rest);
    }
    let of_trait = of_type.rsplit_once(" as ").map(|(_, rest)| rest);
    // One without a path: `u8`, `str`, `[T]`, `*const T`.
    let end = target.find(|c: char| !(c.is_alphanumeric() || "_:".contains(c)));
    let is_primitive = !end.and_then(|end| target.get(..end)).unwrap_or(target).contains("::");
    is(target) || is_primitive && of_trait.is_none_or(is)
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

    #[test]
    fn what_is_of_the_standard_library() {
        for name in [
            "core::num::from_str_radix",
            "alloc::vec::Vec<T,A>::push",
            "<alloc::vec::Vec<mine::T> as core::ops::Index<usize>>::index",
            "<core::slice::iter::Iter<mine::T> as core::iter::Iterator>::next",
            "<&mut core::slice::iter::Iter<T> as core::iter::Iterator>::next",
            "<u32 as core::fmt::Display>::fmt",
            "<[u8] as core::cmp::PartialEq>::eq",
            "<[mine::T]>::sort",
            "<*const u8>::add",
            "<str>::parse",
            "std::io::Write::write_all",
        ] {
            assert!(is_of_std(name), "{name}");
        }
        for name in [
            "mine::parse",
            "<mine::T as core::iter::Iterator>::next",
            "<&mine::T as core::cmp::PartialEq>::eq",
            "<mine::List<u8>>::push",
            "<u32 as mine::Digits>::digits",
            "stdx::parse",
            "main",
        ] {
            assert!(!is_of_std(name), "{name}");
        }
    }

    /// Only files are opened.
    #[test]
    fn what_is_no_file() {
        for file in ["[heap]", "[vdso]", "relative", "/", "/dev/null", "/memfd:x (deleted)"] {
            assert!(known(file).is_none(), "{file}");
        }
    }
}
