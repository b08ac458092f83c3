//! Counts by place and by function.

use crate::Tally;
use crate::functions::{Loaded, Names};
use std::collections::BTreeMap;
use std::fmt;

/// How often the instruction at each place of the loaded files ran, in a number of runs of the code.
///
/// `Display` writes it without spaces, and [`from_text`](Split::from_text) reads that: so another process of the same program can tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    runs: u64,
    /// By file and offset.
    places: BTreeMap<String, BTreeMap<u64, i64>>,
}

/// The instructions of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name as in the source, without hashes. If there is no symbol: `FILE, no symbol`. For code that is in no file: `no file`.
    pub name: String,
    /// The function that it was inlined into. None if it was not.
    pub within: Option<String>,
    /// How many instructions, in all runs together. Below 0 where more were subtracted.
    pub instructions: i64,
}

impl Split {
    /// Finds the places of the addresses of so many runs.
    pub fn new(tally: &Tally, runs: u64, loaded: &Loaded) -> Split {
        let mut split = Split { runs, ..Split::default() };
        for (address, runs) in tally.iter() {
            let (file, offset) = loaded.place(address);
            split.add(file, offset, runs);
        }
        split
    }

    /// Reads what `Display` writes. None if it is something else.
    pub fn from_text(text: &str) -> Option<Split> {
        let mut parts = text.split(';');
        let runs = parts.next()?.strip_prefix("split,")?.parse().ok()?;
        let mut split = Split { runs, ..Split::default() };
        for part in parts {
            let mut fields = part.split(',');
            let file = of_hexadecimal(fields.next()?)?;
            for field in fields {
                let (offset, runs) = field.split_once(':')?;
                split.add(&file, u64::from_str_radix(offset, 16).ok()?, runs.parse().ok()?);
            }
        }
        Some(split)
    }

    fn add(&mut self, file: &str, offset: u64, runs: i64) {
        if !self.places.contains_key(file) {
            self.places.insert(file.to_owned(), BTreeMap::new());
        }
        if let Some(places) = self.places.get_mut(file) {
            let known = places.entry(offset).or_default();
            *known = known.saturating_add(runs);
        }
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Returns the number of instructions in a run.
    pub fn instructions(&self) -> f64 {
        let all = self.places.values().flat_map(BTreeMap::values);
        let all = all.fold(0_i64, |sum, runs| sum.saturating_add(*runs));
        all as f64 / self.runs.max(1) as f64
    }

    /// Returns the functions, those with the most instructions first. The sum of their instructions is that of all runs. Reads the files.
    pub fn functions(&self, names: &mut Names) -> Vec<Function> {
        let mut found: BTreeMap<(String, Option<String>), i64> = BTreeMap::new();
        for (file, places) in &self.places {
            for (offset, runs) in places {
                let known = found.entry(names.of_place(file, *offset)).or_default();
                *known = known.saturating_add(*runs);
            }
        }
        let function = |((name, within), instructions)| Function { name, within, instructions };
        let mut functions: Vec<Function> =
            found.into_iter().filter(|(_, runs)| *runs != 0).map(function).collect();
        functions.sort_by_key(|function| std::cmp::Reverse(function.instructions));
        functions
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "split,{}", self.runs)?;
        for (file, places) in &self.places {
            f.write_str(";")?;
            // In hexadecimal digits, so that no character of a path is one of this format.
            file.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            places.iter().try_for_each(|(offset, runs)| write!(f, ",{offset:x}:{runs}"))?;
        }
        Ok(())
    }
}

fn of_hexadecimal(digits: &str) -> Option<String> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
    String::from_utf8(bytes?).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_split_is_read_as_it_was_written() {
        let mut split = Split { runs: 4, ..Split::default() };
        split.add("/a file;,:é", 0x1234, 5);
        split.add("/a file;,:é", u64::MAX, -7);
        split.add("", 0, 3);
        let text = split.to_string();
        assert!(!text.contains(char::is_whitespace), "{text}");
        assert_eq!(Split::from_text(&text).as_ref(), Some(&split));
        assert_eq!(split.instructions(), 0.25);
        assert_eq!(Split::from_text("split,0"), Some(Split::default()));
        for wrong in
            ["", "split", "split,1;zz", "split,1;2f,1", "split,1;2f,x:1", "split,1;2f,1:y", "other"]
        {
            assert_eq!(Split::from_text(wrong), None, "{wrong}");
        }
    }
}
