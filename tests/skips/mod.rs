//! A test that cannot run here reports it on standard error, past the test runner's capture. `.ci/run` reads these
//! lines.
#![allow(dead_code, unreachable_pub)]

use std::io::Write;

/// Reports that `test` is skipped, and why.
pub fn skip(test: &str, why: &str) {
    say(&format!("test {test} ... skipped ({why})"));
}

/// Prints a line of its own. Other tests and the test runner print at the same time, so the line goes out in one
/// write.
pub fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("\n{line}\n").as_bytes());
}
