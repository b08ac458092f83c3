//! Text for HTML.

/// Returns text for the content of an element, or for the value of an attribute in quotes.
///
/// Control characters, and marks that change the direction of the text around them, are written as in Rust: `\u{1}`, `\n`.
///
/// ```
/// assert_eq!(rdpmc_report::page::escaped("a<b> & \"c\"\n"), "a&lt;b&gt; &amp; &quot;c&quot;\\n");
/// ```
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Also those that change the direction of the text around them.
            '\u{200e}'
            | '\u{200f}'
            | '\u{61c}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => safe.extend(char.escape_unicode()),
            char if char.is_control() => safe.extend(char.escape_default()),
            char => safe.push(char),
        }
    }
    safe
}
