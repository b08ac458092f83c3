//! Every other target: nothing is stepped.

use crate::StepError;
use std::convert::Infallible;

/// Returns [`StepError::Unsupported`].
pub(crate) fn check() -> Result<(), StepError> {
    Err(StepError::Unsupported)
}

/// Does nothing.
pub(crate) fn start() {}

/// Does not exist.
#[derive(Debug)]
pub(crate) struct Counting(Infallible);

impl Counting {
    /// Returns [`StepError::Unsupported`].
    pub(crate) fn begin(_: u64) -> Result<Counting, StepError> {
        Err(StepError::Unsupported)
    }

    /// Is never called.
    pub(crate) fn end(self) -> Result<u64, StepError> {
        match self.0 {}
    }
}
