//! Numbers and names, for tables and lines.

/// A number without an interval: whole, or with up to four significant decimals.
pub fn exact(value: f64) -> String {
    if needs_exponent(value) {
        return format!("{value:.3e}");
    }
    let text = format!("{value:.*}", decimals(value.fract()).max(4));
    match text.trim_end_matches('0').trim_end_matches('.') {
        "-0" | "" => "0".to_owned(),
        text => text.to_owned(),
    }
}

/// A number and its error, with the decimals that the error allows.
pub fn with_error(value: f64, error: f64) -> String {
    if !error.is_finite() {
        return if needs_exponent(value) { exact(value) } else { format!("{value:.2}") };
    }
    if error == 0.0 {
        return format!("{} ± 0", exact(value));
    }
    if needs_exponent(error) || value.abs() >= LARGE {
        return format!("{} ± {error:.0e}", exact(value));
    }
    let decimals = decimals(error);
    format!("{value:.decimals$} ± {error:.decimals$}")
}

/// Numbers from this one on have more digits than they are precise.
pub(crate) const LARGE: f64 = 1e15;

/// Whether a number would be 0 without an exponent, or have many digits.
fn needs_exponent(number: f64) -> bool {
    number != 0.0 && !(1e-6..LARGE).contains(&number.abs())
}

/// A number that is not negative, rounded up to two significant digits.
pub fn upwards(number: f64) -> String {
    let decimals = decimals(number) + usize::from(number < 10.0);
    let scale = POWERS.get(decimals).copied().unwrap_or(1e8);
    // A product such as 7.000000000000001 is the 7 that it should be.
    let scaled = number * scale * (1.0 - f64::EPSILON);
    format!("{:.decimals$}", scaled.ceil() / scale)
}

/// The powers of ten up to the most decimals of a table. Each is exact, which `powi` does not promise.
const POWERS: [f64; 9] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8];

/// How many decimals show one digit of a number below 2.
fn decimals(number: f64) -> usize {
    let number = number.abs();
    POWERS.iter().take(8).position(|power| number * power >= 0.5).map_or(0, |found| match found {
        0 if number < 2.0 => 1,
        found => found,
    })
}

/// A name in one line, without what a terminal would obey, and without changes of the writing direction.
pub fn plain(name: &str) -> String {
    let is_direction = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    name.replace(|c: char| c.is_control() || is_direction(c), " ")
}

/// A name in a cell of a table: in one line, without the cell's border.
pub fn escaped(name: &str) -> String {
    plain(name).replace('\\', "\\\\").replace('|', "\\|")
}

/// A name in a cell of a comment on a web page: as code, in which there are no links, mentions and HTML.
pub fn inert(name: &str) -> String {
    let name = plain(name).replace('|', "\\|");
    // More backticks than any run of them in the name.
    let longest = name.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if name.starts_with('`') || name.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{name}{space}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_decimals_that_their_error_allows() {
        assert_eq!(with_error(300.43, 0.31), "300.4 ± 0.3");
        assert_eq!(with_error(3.7416, 0.0123), "3.74 ± 0.01");
        assert_eq!(with_error(0.0004, 0.0001), "0.0004 ± 0.0001");
        assert_eq!(with_error(-1234.5, 20.0), "-1234 ± 20");
        assert_eq!(with_error(12.0, 1.25), "12.0 ± 1.2");
        assert_eq!(with_error(2.0, f64::INFINITY), "2.00");
        assert_eq!(with_error(2.5, 0.0), "2.5 ± 0");
        assert_eq!([0.0301, 1.0, 12.3].map(upwards), ["0.031", "1.00", "13"]);
        // A number of two digits stays what it is.
        for number in 1..100_u32 {
            let [hundredths, tenths] = [100.0, 10.0].map(|scale| f64::from(number) / scale);
            let shown = |number: f64| upwards(number).parse::<f64>();
            assert_eq!(shown(hundredths), Ok(hundredths));
            assert_eq!(shown(tenths), Ok(tenths));
        }
        assert_eq!(exact(170.0), "170");
        assert_eq!(exact(15.5), "15.5");
        assert_eq!(exact(6.0022), "6.0022");
        assert_eq!(exact(0.000_02), "0.00002");
        assert_eq!(exact(-0.0), "0");
        assert_eq!(
            [-4e-9, 1e-6, 1e15, -1e308].map(exact),
            ["-4.000e-9", "0.000001", "1.000e15", "-1.000e308"]
        );
        assert_eq!(with_error(3e-9, 0.0), "3.000e-9 ± 0");
        assert_eq!(with_error(3e-9, 1e-9), "3.000e-9 ± 1e-9");
        assert_eq!(with_error(300.43, 1e-9), "300.43 ± 1e-9");
        assert_eq!(with_error(1e308, 20.0), "1.000e308 ± 2e1");
        assert_eq!(with_error(1e308, f64::INFINITY), "1.000e308");
        assert_eq!(with_error(3e-9, 0.1), "0.0 ± 0.1");
    }

    #[test]
    fn names_stay_in_their_cell() {
        assert_eq!(escaped("a|b\\|c\nd\x1b[31m"), "a\\|b\\\\\\|c d [31m");
        assert_eq!(inert("<b>@you|x"), "`<b>@you\\|x`");
        assert_eq!(inert("`x``y"), "``` `x``y ```");
        assert_eq!(plain("a\u{202e}b"), "a b");
        assert_eq!(plain("a|b\x1b\n"), "a|b  ");
    }
}
