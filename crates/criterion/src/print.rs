//! Lines that are printed with criterion's reports.

use crate::arguments::Arguments;
use std::io::{IsTerminal, Write, stderr, stdout};

/// The column in which criterion's figures begin. The name of the benchmark is before it.
const COLUMN: usize = 24;

/// Prints notes on lines of their own, and lines of a benchmark in criterion's columns. Its report comes next.
///
/// This is the only moment between the results and the next benchmark at which criterion calls its measurement and a
/// line has a place in a log: below the report, criterion announces the next benchmark first.
pub(crate) fn before_the_report(notes: &[String], benchmark: Option<&str>, lines: &[String]) {
    // The report for programs has already begun its line.
    if notes.is_empty() && lines.is_empty() || Arguments::of_this_process().is_for_programs {
        return;
    }
    // On a terminal, criterion shows what it is doing on this line.
    if stdout().is_terminal() && stderr().is_terminal() {
        let _ = stderr().write_all(b"\r\x1b[K");
    }
    let mut name = benchmark.unwrap_or_default();
    let mut text: String = notes.iter().map(|note| format!("{note}\n")).collect();
    if name.len() >= COLUMN && !lines.is_empty() {
        text.push_str(&format!("{name}\n"));
        name = "";
    }
    for line in lines {
        text.push_str(&format!("{name:COLUMN$}{line}\n"));
        name = "";
    }
    let _ = stdout().write_all(text.as_bytes());
}
