//! Names of functions, from the files of the program.

use super::inlined::{Inlined, Named};
use super::symbols::Symbols;
use object::read::{ReadCache, ReadRef};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// Finds the names of functions. It reads each file once.
#[derive(Default)]
pub struct Names {
    /// What is known of each file. None if it cannot be read, or is no program.
    files: BTreeMap<String, Option<Known>>,
}

struct Known {
    symbols: Symbols,
    inlined: Option<Inlined>,
}

/// The optimizer does not look into this function, whose instructions belong to its caller.
fn is_opaque(name: &str) -> bool {
    name == "core::hint::black_box" || name.starts_with("black_box (")
}

impl Names {
    /// Knows no file yet.
    pub fn new() -> Names {
        Names::default()
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
            let frames = known.frames(address);
            let mut frames = frames.into_iter().skip_while(|name| is_opaque(name));
            if let Some(innermost) = frames.next() {
                return match frames.last() {
                    Some(outermost) => (innermost, Some(symbol.unwrap_or(outermost))),
                    None => (symbol.unwrap_or(innermost), None),
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

impl Known {
    fn frames(&self, address: u64) -> Vec<String> {
        let names = self.inlined.as_ref().map(|inlined| inlined.frames(address));
        let name = |name| match name {
            Named::Mangled(name) => demangled(&name),
            Named::Short(name) => name,
        };
        names.unwrap_or_default().into_iter().map(name).collect()
    }
}

/// Reads a file that is loaded. None without it, as for `[vdso]`.
fn known(file: &str) -> Option<Known> {
    // The program itself may have been replaced or removed meanwhile. The kernel still has the one that runs.
    let is_program = std::fs::read_link("/proc/self/exe").is_ok_and(|path| path == Path::new(file));
    let path = if is_program { Path::new("/proc/self/exe") } else { Path::new(file) };
    let cache = ReadCache::new(File::open(path).ok()?);
    let cache = &cache;
    cache.len().ok()?;
    let file = object::File::parse(cache).ok()?;
    Some(Known { symbols: Symbols::new(&file), inlined: Inlined::new(&file) })
}

/// Returns a name without hashes and generic arguments. That of another language stays as it is.
fn demangled(symbol: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(symbol))
}
