//! Events that include guests, and a kernel that refuses them: see `attacks/guests.rs`. There is only one test, so
//! that nothing else runs in the process that forks.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used)]

mod attacks;
mod process;
mod skips;

use rdpmc::error::ErrorKind;
use rdpmc::{Counter, Event};

#[test]
fn events_with_guests_are_refused() {
    let test = "events_with_guests_are_refused";
    if cfg!(target_arch = "riscv64") {
        return skips::skip(test, "riscv64 has no flag for guests");
    }
    // This process must be permitted to count, in the kernel, too.
    for event in [Event::TASK_CLOCK, Event::INSTRUCTIONS.kernel()] {
        match Counter::open(event) {
            Ok(_) => {}
            Err(why) if matches!(why.kind(), ErrorKind::NoPmu { .. }) => {}
            Err(why) => return skips::skip(test, &why.to_string()),
        }
    }
    match attacks::guests::refused() {
        Some(result) => result.unwrap(),
        None => skips::skip(test, "no process may answer for another here"),
    }
}
