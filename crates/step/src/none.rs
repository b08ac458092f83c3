//! Every other target: nothing is stepped.

use crate::StepError;

/// Returns [`StepError::Unsupported`].
pub(crate) fn check() -> Result<(), StepError> {
    Err(StepError::Unsupported)
}

/// Returns [`StepError::Unsupported`].
pub(crate) fn count(_: u64, _: &mut dyn FnMut()) -> Result<u64, StepError> {
    Err(StepError::Unsupported)
}
