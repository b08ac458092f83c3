//! A test that cannot run here reports it on standard error, past the test runner's capture, and so does a test that
//! has a short walk. `.ci/parts/tests` reads these lines.
#![allow(dead_code, unreachable_pub)]

use std::io::Write;

/// Reports that `test` is skipped, and why.
pub fn skip(test: &str, why: &str) {
    say(&format!("test {test} ... skipped ({why})"));
}

/// Returns whether `test` makes its whole walk, which takes minutes, or a short one. Prints which. `.ci/parts/walks` sets
/// `RDPMC_WHOLE=1` and looks for the lines.
pub fn is_whole(test: &str) -> bool {
    let is_whole = std::env::var_os("RDPMC_WHOLE").is_some_and(|value| value == "1");
    let walk = if is_whole { "whole" } else { "short, RDPMC_WHOLE=1 makes the whole one" };
    say(&format!("walk of {test}: {walk}"));
    is_whole
}

/// Prints a line of its own. Other tests and the test runner print at the same time, so the line goes out in one
/// write.
pub fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("\n{line}\n").as_bytes());
}
