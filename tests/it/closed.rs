//! Handles whose descriptors other code has closed. The emulated machines run the same trials with hardware events.

use crate::{attacks, process, skips};
use rdpmc::Event;

#[test]
fn a_number_that_is_used_again() {
    let events = [Event::TASK_CLOCK, Event::CPU_CLOCK];
    let is_refused = process::wait(process::fork(|| i32::from(attacks::open(events[0]).is_err())));
    if is_refused != 0 {
        return skips::skip("a_number_that_is_used_again", "no event can be opened here");
    }
    attacks::closed::each(events).unwrap_or_else(|why| panic!("{why}"));
}
