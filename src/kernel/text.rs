//! Text made safe to print, and numbers made easy to read.

use std::fmt::{self, Write as _};

/// A writer that escapes characters that a terminal would obey rather than show (`\u{1b}`): control characters, line
/// separators, and marks that change the direction of writing. Names and files may contain anything.
#[allow(missing_debug_implementations, reason = "a formatter has none")]
pub struct Visible<'a, 'b>(pub &'a mut fmt::Formatter<'b>);

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
#[derive(Debug)]
pub struct Thousands(pub u128);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(Thousands(number).to_string(), text);
        }
    }
}
