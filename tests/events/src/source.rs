//! The readable form of a vendor's events: `crates/events/sources/VENDOR.txt`.
//!
//! Lines with tabs between the fields:
//! - `cpu`, a table's name, its other names, and the CPUs that have it.
//! - `event`, a name, the terms of its encoding, the tables that have it, and a description.

use std::collections::BTreeMap;
use std::fmt;

/// The terms of an event: what its numbers mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Terms {
    /// RISC-V's has all bits of `config` here.
    pub(crate) event: u64,
    pub(crate) umask: u16,
    pub(crate) cmask: u8,
    pub(crate) edge: bool,
    pub(crate) any: bool,
    pub(crate) inv: bool,
    pub(crate) eq: bool,
    pub(crate) config1: u64,
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event={:#x}", self.event)?;
        for (name, value) in
            [("umask", self.umask.into()), ("cmask", self.cmask.into()), ("config1", self.config1)]
        {
            if value != 0 {
                write!(f, ",{name}={value:#x}")?;
            }
        }
        for (name, is_set) in self.flags() {
            if is_set {
                write!(f, ",{name}")?;
            }
        }
        Ok(())
    }
}

impl Terms {
    pub(crate) fn flags(&self) -> [(&'static str, bool); 4] {
        [("edge", self.edge), ("any", self.any), ("inv", self.inv), ("eq", self.eq)]
    }

    pub(crate) fn parse(text: &str) -> Result<Terms, String> {
        let mut terms = Terms::default();
        for term in text.split(',') {
            let (name, value) = term.split_once('=').unwrap_or((term, "0x1"));
            let value = number(value)?;
            let is_too_large = || format!("{term} is too large");
            match name {
                "event" => terms.event = value,
                "umask" => terms.umask = value.try_into().map_err(|_| is_too_large())?,
                "cmask" => terms.cmask = value.try_into().map_err(|_| is_too_large())?,
                "config1" => terms.config1 = value,
                "edge" => terms.edge = true,
                "any" => terms.any = true,
                "inv" => terms.inv = true,
                "eq" => terms.eq = true,
                _ => return Err(format!("unknown term {term}")),
            }
        }
        Ok(terms)
    }
}

/// Parses a decimal number, or a hexadecimal one that begins with 0x.
pub(crate) fn number(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    digits
        .map_or_else(|| text.parse().ok(), |digits| u64::from_str_radix(digits, 16).ok())
        .ok_or_else(|| format!("{text:?} is not a number"))
}

/// Returns a name as a lookup takes it: in lower case, with dots for colons.
fn plain(name: &str) -> String {
    name.trim().to_ascii_lowercase().replace(':', ".")
}

/// A table: the events of a CPU model, or of one of its core types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cpu {
    pub(crate) name: String,
    pub(crate) aliases: Vec<String>,
    /// Parts of `FAMILY-MODEL`, ... as in the source's own list.
    pub(crate) matches: Vec<String>,
}

/// An event of one or more tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) tables: Vec<String>,
    pub(crate) description: String,
}

impl Entry {
    pub(crate) fn is_of(&self, table: &str) -> bool {
        self.tables.iter().any(|known| known == table)
    }
}

/// All tables of a vendor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Source {
    /// The comment at the start: where the data is from.
    pub(crate) origin: String,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) events: BTreeMap<(String, Terms), Entry>,
}

impl Source {
    /// Adds an event to a table. The first description of an event stays.
    pub(crate) fn add(&mut self, table: &str, name: &str, terms: Terms, description: &str) {
        let description: Vec<&str> = description.split_whitespace().collect();
        let name = plain(name);
        let entry = self
            .events
            .entry((name, terms))
            .or_insert_with(|| Entry { tables: Vec::new(), description: description.join(" ") });
        if entry.tables.last().is_none_or(|last| last != table) {
            entry.tables.push(table.to_owned());
        }
    }

    /// Returns the terms of a table's event. None if it has no event of this name.
    pub(crate) fn terms_in(&self, table: &str, name: &str) -> Option<Terms> {
        let name = plain(name);
        let all = self.events.range((name.clone(), Terms::default())..);
        let mut named = all.take_while(|((other, _), _)| *other == name);
        let of_table = named.find(|(_, entry)| entry.is_of(table));
        of_table.map(|((_, terms), _)| *terms)
    }

    pub(crate) fn parse(text: &str) -> Result<Source, String> {
        let mut source = Source::default();
        for line in text.lines() {
            if let Some(comment) = line.strip_prefix('#') {
                source.origin += &format!("#{comment}\n");
                continue;
            }
            let fields: Vec<&str> = line.split('\t').collect();
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
            match fields[..] {
                ["cpu", name, aliases, matches] => source.cpus.push(Cpu {
                    name: name.to_owned(),
                    aliases: words(aliases),
                    matches: words(matches),
                }),
                ["event", name, terms, tables, description] => {
                    let entry =
                        Entry { tables: words(tables), description: description.to_owned() };
                    source.events.insert((name.to_owned(), Terms::parse(terms)?), entry);
                }
                _ => return Err(format!("not understood: {line:?}")),
            }
        }
        Ok(source)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)?;
        for cpu in &self.cpus {
            writeln!(f, "cpu\t{}\t{}\t{}", cpu.name, cpu.aliases.join(" "), cpu.matches.join(" "))?;
        }
        for ((name, terms), entry) in &self.events {
            let tables = entry.tables.join(" ");
            writeln!(f, "event\t{name}\t{terms}\t{tables}\t{}", entry.description)?;
        }
        Ok(())
    }
}
