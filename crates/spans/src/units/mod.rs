//! Times and counts as a person reads them.

use std::time::Duration;

/// Returns three digits of a value and its unit.
fn scaled(value: f64, units: &[(&str, f64)]) -> String {
    let known = units.iter().rev().find(|(_, size)| value >= size * 0.9995);
    let (unit, size) = known.or(units.first()).copied().unwrap_or(("", 1.0));
    let value = value / size;
    let decimals = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{unit}")
}

/// Returns nanoseconds: `17 ns`, `7.88 ms`.
pub(crate) fn time(ns: u64) -> String {
    match ns {
        ..1_000 => format!("{ns} ns"),
        _ => scaled(ns as f64, &[(" µs", 1e3), (" ms", 1e6), (" s", 1e9)]),
    }
}

pub(crate) fn duration(time: Duration) -> String {
    self::time(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Returns a count: `4711`, `7.88 M`.
pub(crate) fn count(count: u64) -> String {
    match count {
        ..100_000 => count.to_string(),
        _ => scaled(count as f64, &[(" k", 1e3), (" M", 1e6), (" G", 1e9)]),
    }
}

/// Returns a name without control characters, and without what would end a cell of a table.
pub(crate) fn cell(name: &str) -> String {
    let escaped: String = name.chars().flat_map(char::escape_debug).collect();
    escaped.replace("\\'", "'").replace("\\\"", "\"").replace('|', "\\|")
}

/// Returns `1 span`, `2 spans`.
pub(crate) fn number_of(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
