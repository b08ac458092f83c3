//! As `tests/skips` of the library, which is another package. With `rdpmc-testing`, each example would compile it.

use std::io::Write;

/// Reports that `test` is skipped, and why, past the test runner's capture.
pub(crate) fn skip(test: &str, why: &str) {
    let line = format!("\ntest {test} ... skipped ({why})\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
