//! Turns spans on and off.

use crate::session::current;
use crate::thread::RECORDING;
use std::sync::atomic::Ordering;

/// Turns spans off or on while a recording runs. Off, a span costs one load and one branch. A span that is open goes on
/// and is recorded. A lap is lost if spans are off at the boundary that ends it.
pub fn set_enabled(on: bool) {
    if !on {
        return RECORDING.store(0, Ordering::SeqCst);
    }
    if !cfg!(feature = "enabled") {
        return;
    }
    // Another thread may end the recording, or begin another, at any time.
    while let Some(session) = current() {
        RECORDING.store(session.number, Ordering::SeqCst); // before the second look; pairs with `Session::end`
        if current().is_some_and(|now| now.number == session.number) {
            return;
        }
        let _ = RECORDING.compare_exchange(session.number, 0, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// Whether spans are recorded: a recording runs, and is not turned off.
///
/// Each copy of this library has recordings of its own. A plugin that is built as a `cdylib` has a copy, which knows nothing of the
/// host's recording: this returns false there, and its spans are not recorded. Build host and plugin as Rust dylibs that share this
/// library (`-C prefer-dynamic`), or start a recording in the plugin.
pub fn is_enabled() -> bool {
    crate::thread::recording() != 0
}
