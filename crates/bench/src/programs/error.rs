//! Why two programs cannot be compared.

use std::error::Error;
use std::fmt;

/// Why two programs cannot be compared, from [`Programs::compare`](crate::Programs::compare). `Display` names the
/// program and says what happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompareError {
    message: String,
}

impl CompareError {
    pub(super) fn new(message: String) -> CompareError {
        CompareError { message }
    }
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for CompareError {}
