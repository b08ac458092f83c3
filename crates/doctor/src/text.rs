//! Times as text, and the escape of names.

pub(crate) use rdpmc::messages::{Thousands, Visible};
use std::time::Duration;

pub(crate) fn nanoseconds(time: Duration) -> String {
    format!("{} ns", Thousands(time.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::{self, Write as _};

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
