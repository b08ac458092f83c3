//! A test that cannot run here says so on standard error, past the test runner's capture, where
//! `.ci/run` reads such lines.
#![allow(dead_code, unreachable_pub)]

use std::io::Write;

/// Says that `test` is left out, and why.
pub fn skip(test: &str, why: &str) {
    say(&format!("test {test} ... skipped ({why})"));
}

/// Says something on a line of its own. Other tests and the test runner write meanwhile, so it goes
/// out in one piece.
pub fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("\n{line}\n").as_bytes());
}
