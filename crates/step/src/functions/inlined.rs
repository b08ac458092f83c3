//! Functions that were inlined, by the debug information of a file.

use addr2line::Context;
use gimli::{Dwarf, EndianRcSlice, RunTimeEndian, SectionId};
use object::{CompressionFormat, Object, ObjectSection};
use std::rc::Rc;

/// The debug information of a file.
pub(super) struct Inlined(Context<EndianRcSlice<RunTimeEndian>>);

impl Inlined {
    /// Returns None if the file has none that can be read, or if it is compressed.
    pub(super) fn new<'data>(file: &impl Object<'data>) -> Option<Inlined> {
        let endian = match file.is_little_endian() {
            true => RunTimeEndian::Little,
            false => RunTimeEndian::Big,
        };
        // Some of the sections would say something else than all.
        let is_compressed = |section: SectionId| {
            let section = file.section_by_name(section.name());
            let range = section.and_then(|section| section.compressed_file_range().ok());
            range.is_some_and(|range| range.format != CompressionFormat::None)
        };
        if [SectionId::DebugInfo, SectionId::DebugLine].into_iter().any(is_compressed) {
            return None;
        }
        let section = |id: SectionId| {
            let data = file.section_by_name(id.name()).and_then(|it| it.data().ok());
            Ok::<_, ()>(EndianRcSlice::new(Rc::from(data.unwrap_or_default()), endian))
        };
        let has_units = file.section_by_name(SectionId::DebugInfo.name()).is_some();
        let context = Context::from_dwarf(Dwarf::load(section).ok()?).ok();
        context.filter(|_| has_units).map(Inlined)
    }

    /// Returns the functions at an address, the innermost first.
    pub(super) fn frames(&self, address: u64) -> Vec<Frame> {
        let Ok(mut frames) = self.0.find_frames(address).skip_all_loads() else {
            return Vec::new();
        };
        let mut names = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.and_then(|it| Some(it.raw_name().ok()?.into_owned()));
            let file = frame.location.and_then(|location| location.file);
            names.extend(name.map(|name| Frame::new(&name, file)));
        }
        names
    }
}

/// A function in the debug information.
pub(super) struct Frame {
    pub(super) name: String,
    /// Whether the name has its path. Line tables alone have none.
    pub(super) is_whole: bool,
    /// Whether it is in the source of the standard library.
    pub(super) is_of_std: bool,
}

impl Frame {
    fn new(name: &str, file: Option<&str>) -> Frame {
        // As the compiler's own builds write it, and as it is where the source of the library is installed.
        let is_of_std =
            |file: &str| file.starts_with("/rustc/") || file.contains("/rustlib/src/rust/library/");
        let is_of_std = file.is_some_and(is_of_std);
        match rustc_demangle::try_demangle(name) {
            Ok(name) => Frame { name: format!("{name:#}"), is_whole: true, is_of_std },
            Err(_) => Frame { name: short(name, file), is_whole: false, is_of_std },
        }
    }
}

/// Returns a name as far as its generic arguments, and the end of the path of its file.
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
    fn names_of_frames() {
        let of_std = Some("/rustc/5980/library/core/src/num/mod.rs");
        let own = Some("src/main.rs");
        for (name, file, expected, is_whole, is_of_std) in [
            ("unchecked_add", of_std, "unchecked_add (num/mod.rs)", false, true),
            ("fold<core::ops::range::Range<u64>, u64>", of_std, "fold (num/mod.rs)", false, true),
            ("{closure#0}", own, "{closure#0} (src/main.rs)", false, false),
            ("_under", own, "_under (src/main.rs)", false, false),
            ("<odd>", None, "<odd>", false, false),
            ("_ZN4mine5parse17h0123456789abcdefE", own, "mine::parse", true, false),
            ("_ZN4core5parse17h0123456789abcdefE", of_std, "core::parse", true, true),
        ] {
            let frame = Frame::new(name, file);
            let found = (frame.name.as_str(), frame.is_whole, frame.is_of_std);
            assert_eq!(found, (expected, is_whole, is_of_std));
        }
    }
}
