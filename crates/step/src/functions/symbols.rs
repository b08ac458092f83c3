//! The symbols of a file.

use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

/// A function of a file, by its symbol.
struct Symbol {
    /// Its virtual addresses.
    start: u64,
    end: u64,
    /// As the linker knows it.
    name: String,
}

/// The functions of a file.
pub(super) struct Symbols {
    /// By their beginnings.
    symbols: Vec<Symbol>,
    /// Where parts of the file are loaded: the first offset, the size, and the virtual address.
    segments: Vec<(u64, u64, u64)>,
}

/// A function may begin within another. An address is looked for in so many of those that begin before it.
const NESTED: usize = 32;

impl Symbols {
    pub(super) fn new<'data>(file: &impl Object<'data>) -> Symbols {
        let segment = |segment: &_| {
            let (offset, size) = ObjectSegment::file_range(segment);
            (offset, size, ObjectSegment::address(segment))
        };
        let segments = file.segments().map(|it| segment(&it)).collect();
        // A stripped library has those that it exports.
        let all = file.symbols().chain(file.dynamic_symbols());
        let functions = all.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
        let mut symbols: Vec<Symbol> = functions
            .filter_map(|symbol| {
                let name = symbol.name().ok().filter(|name| !name.is_empty())?;
                let start = symbol.address();
                Some(Symbol { start, end: start.saturating_add(symbol.size()), name: name.into() })
            })
            .collect();
        // Of several names at one place, each build takes the same one.
        symbols.sort_by(|one, two| {
            (one.start, two.end, &two.name).cmp(&(two.start, one.end, &one.name))
        });
        Symbols { symbols, segments }
    }

    /// Returns the virtual address of an offset in the file.
    pub(super) fn address(&self, offset: u64) -> Option<u64> {
        let (first, _, address) = self
            .segments
            .iter()
            .find(|(first, size, _)| offset.checked_sub(*first).is_some_and(|it| it < *size))?;
        Some(address.wrapping_add(offset - first))
    }

    /// Returns the name of the innermost function that has a virtual address.
    pub(super) fn name(&self, address: u64) -> Option<&str> {
        let after = self.symbols.partition_point(|symbol| symbol.start <= address);
        let before = self.symbols.get(..after)?.iter().rev().take(NESTED);
        before.filter(|symbol| address < symbol.end).map(|symbol| symbol.name.as_str()).next()
    }
}
