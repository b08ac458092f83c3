//! The files that are loaded into this process.

/// The files that are loaded into this process, and where. Empty without `/proc`.
#[derive(Clone, Debug, Default)]
pub struct Loaded(Vec<Mapping>);

#[derive(Clone, Debug)]
struct Mapping {
    start: usize,
    end: usize,
    /// Where the mapping begins in the file.
    offset: u64,
    file: String,
}

impl Loaded {
    /// Looks at `/proc/self/maps`. What is unloaded before is not known.
    pub fn now() -> Loaded {
        let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
        Loaded(String::from_utf8_lossy(&maps).lines().filter_map(mapping).collect())
    }

    /// Whether this file is loaded, and still has its path.
    pub(super) fn has(&self, file: &str) -> bool {
        self.0.iter().any(|mapping| mapping.file == file)
    }

    /// Returns the file that has an address, and where in it: a path, `[vdso]`, or nothing for code that is in no file.
    pub(super) fn place(&self, address: usize) -> (&str, u64) {
        let known = |mapping: &&Mapping| (mapping.start..mapping.end).contains(&address);
        match self.0.iter().find(known) {
            Some(Mapping { start, offset, file, .. }) if !file.is_empty() => {
                (file, offset.saturating_add((address - start) as u64))
            }
            _ => ("", 0),
        }
    }
}

/// Reads a line: `START-END ACCESS OFFSET DEVICE INODE   PATH`.
fn mapping(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut field = || {
        let (field, others) = rest.trim_start().split_once(' ').unwrap_or((rest, ""));
        rest = others;
        field
    };
    let (range, _, offset, _, _) = (field(), field(), field(), field(), field());
    let (start, end) = range.split_once('-')?;
    let [start, end] = [start, end].map(|end| usize::from_str_radix(end, 16).ok());
    let offset = u64::from_str_radix(offset, 16).ok()?;
    Some(Mapping { start: start?, end: end?, offset, file: rest.trim_start().to_owned() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let lines = "\
7f0000001000-7f0000003000 r-xp 00002000 fd:01 123                        /a file (deleted)
7f0000003000-7f0000004000 rw-p 00000000 00:00 0 
7fff00000000-7fff00002000 r-xp 00000000 00:00 0                          [vdso]
no line";
        let loaded = Loaded(lines.lines().filter_map(mapping).collect());
        assert_eq!(loaded.0.len(), 3);
        assert_eq!(loaded.place(0x7f00_0000_1abc), ("/a file (deleted)", 0x2abc));
        assert_eq!(loaded.place(0x7fff_0000_0010), ("[vdso]", 0x10));
        for address in [0, 0x7f00_0000_3000, 0x7f00_0000_4000] {
            assert_eq!(loaded.place(address), ("", 0));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_program() {
        let here = this_program as fn() as usize;
        let program = std::env::current_exe().unwrap();
        assert_eq!(Loaded::now().place(here).0, program.to_str().unwrap());
    }
}
