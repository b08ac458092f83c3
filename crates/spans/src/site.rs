//! The source locations that spans are named after.

use std::fmt;

/// A source location where spans begin, made by [`span!`](crate::span) and [`stages!`](crate::stages).
///
/// Each has a static of its own, so a span names it by its address. Two sites may have the same name.
pub struct Site {
    name: &'static str,
    file: &'static str,
    line: u32,
}

impl Site {
    /// Makes a site. The macros do this.
    pub const fn new(name: &'static str, file: &'static str, line: u32) -> Site {
        Site { name, file, line }
    }

    /// Returns the name of the spans that begin here.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the source file.
    pub fn file(&self) -> &'static str {
        self.file
    }

    /// Returns the line in the source file.
    pub fn line(&self) -> u32 {
        self.line
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Site({} at {}:{})", self.name, self.file, self.line)
    }
}
