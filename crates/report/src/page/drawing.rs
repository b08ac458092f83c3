//! What charts and timelines share: the colors, and names that fit.

use super::escape::escaped;

/// The number of colors of the page.
pub(crate) const COLORS: usize = 6;
/// About the width of a letter.
pub(crate) const LETTER: f64 = 7.0;

/// Returns as much of a name as fits, escaped.
pub(crate) fn shortened(name: &str, width: f64) -> String {
    let most = (width / LETTER) as usize;
    match name.chars().count() > most {
        true => {
            escaped(&name.chars().take(most.saturating_sub(1)).chain(['…']).collect::<String>())
        }
        false => escaped(name),
    }
}
