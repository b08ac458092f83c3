//! Text from names and files, made safe to print.

use std::fmt;

/// A writer that escapes characters that a terminal would obey rather than show (`\u{1b}`): control characters, line
/// separators, and marks that change the direction of writing. Names and files may contain anything.
pub(crate) struct Visible<'a, 'b>(pub(crate) &'a mut fmt::Formatter<'b>);

impl fmt::Write for Visible<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            let turns = matches!(
                character,
                '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            );
            if turns || character.is_control() {
                write!(self.0, "{}", character.escape_unicode())?;
            } else {
                self.0.write_char(character)?;
            }
        }
        Ok(())
    }
}
