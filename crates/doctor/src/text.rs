//! Text made safe to print, and numbers made easy to read.

use std::fmt::{self, Write as _};
use std::time::Duration;

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

/// A number with a comma between thousands.
pub(crate) struct Thousands(pub(crate) u128);

impl fmt::Display for Thousands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (place, digit) in digits.char_indices() {
            if place > 0 && (digits.len() - place) % 3 == 0 {
                f.write_char(',')?;
            }
            f.write_char(digit)?;
        }
        Ok(())
    }
}

pub(crate) fn nanoseconds(time: Duration) -> String {
    format!("{} ns", Thousands(time.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(Thousands(number).to_string(), text);
        }
    }

    /// A name that would color the terminal, and one that would be read from right to left.
    #[test]
    fn no_character_is_obeyed() {
        struct Name(&'static str);
        impl fmt::Display for Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(Visible(f), "{}", self.0)
            }
        }
        assert_eq!(Name("\u{1b}[31mé").to_string(), "\\u{1b}[31mé");
        assert_eq!(Name("a\u{202e}b\n").to_string(), "a\\u{202e}b\\u{a}");
    }
}
