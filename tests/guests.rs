//! Events that include guests, and a kernel that refuses them: see `attacks/guests.rs`. One test, so that
//! nothing else runs in the process that forks.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used)]

mod attacks;
mod process;
mod skips;

#[test]
fn events_with_guests_are_refused() {
    match attacks::guests::refused() {
        Some(result) => result.unwrap(),
        None => {
            skips::skip("events_with_guests_are_refused", "no process may answer for another here")
        }
    }
}
