//! Functions that were inlined, by the line tables of a file.

use addr2line::Context;
use gimli::{Dwarf, EndianRcSlice, RunTimeEndian, SectionId};
use object::{Object, ObjectSection};
use std::rc::Rc;

/// The debug information of a file.
pub(super) struct Inlined(Context<EndianRcSlice<RunTimeEndian>>);

impl Inlined {
    /// Returns None if the file has none that can be read.
    pub(super) fn new<'data>(file: &impl Object<'data>) -> Option<Inlined> {
        let endian = match file.is_little_endian() {
            true => RunTimeEndian::Little,
            false => RunTimeEndian::Big,
        };
        let section = |id: SectionId| {
            let data = file.section_by_name(id.name()).and_then(|it| it.data().ok());
            Ok::<_, ()>(EndianRcSlice::new(Rc::from(data.unwrap_or_default()), endian))
        };
        Context::from_dwarf(Dwarf::load(section).ok()?).ok().map(Inlined)
    }

    /// Returns the functions at an address, the innermost first.
    pub(super) fn frames(&self, address: u64) -> Vec<Named> {
        let Ok(mut frames) = self.0.find_frames(address).skip_all_loads() else {
            return Vec::new();
        };
        let mut names = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.and_then(|it| Some(it.raw_name().ok()?.into_owned()));
            let file = frame.location.and_then(|location| location.file);
            names.extend(name.map(|name| match name.starts_with("_") {
                true => Named::Mangled(name),
                false => Named::Short(short(&name, file)),
            }));
        }
        names
    }
}

/// The name of a function in the debug information.
pub(super) enum Named {
    /// As the linker knows it.
    Mangled(String),
    /// Line tables alone have a name without its path.
    Short(String),
}

/// Returns a name without generic arguments, and the end of the path of its file.
fn short(name: &str, file: Option<&str>) -> String {
    let plain = name.split('<').next().filter(|plain| !plain.is_empty()).unwrap_or(name);
    let Some(file) = file else { return plain.to_owned() };
    let end = file.rmatch_indices('/').nth(1).and_then(|(place, _)| file.get(place + 1..));
    format!("{plain} ({})", end.unwrap_or(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_have_a_file() {
        let file = Some("/rustc/5980/library/core/src/num/mod.rs");
        assert_eq!(short("unchecked_add", file), "unchecked_add (num/mod.rs)");
        assert_eq!(short("fold<core::ops::range::Range<u64>, u64>", file), "fold (num/mod.rs)");
        assert_eq!(short("{closure#0}", Some("main.rs")), "{closure#0} (main.rs)");
        assert_eq!(short("<odd>", None), "<odd>");
    }
}
