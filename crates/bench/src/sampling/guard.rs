//! Panics of the code of a row.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of a row.
///
/// # Errors
/// The message of its panic. The code is not used after that.
pub(crate) fn panic_of<T>(code: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        // Dropping it could panic, too.
        std::mem::forget(panic);
        text.unwrap_or_else(|| "a value that is no message".to_owned())
    })
}
