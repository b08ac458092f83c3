//! A debugger that stops the program after every instruction: see `attacks/stepped.rs`. Without a PMU, the counters are the
//! kernel's, and the clock is the same.

use crate::attacks::stepped;
use crate::skips;
use rdpmc::{Counter, Event};

#[test]
fn every_read_ends_under_a_debugger() {
    const TEST: &str = "every_read_ends_under_a_debugger";
    let has_pmu = Counter::open(Event::INSTRUCTIONS).is_ok();
    let events = match has_pmu {
        true => [Event::INSTRUCTIONS, Event::CYCLES],
        false => [Event::PAGE_FAULTS, Event::CONTEXT_SWITCHES],
    };
    if cfg!(target_arch = "riscv64") {
        return skips::skip(TEST, "Linux has no PTRACE_SINGLESTEP there");
    }
    match stepped::every_read_ends(events) {
        Ok(Ok(said)) => skips::say(&format!("steps: {said}")),
        Ok(Err(why)) => skips::skip(TEST, &why.to_string()),
        Err(why) if why.starts_with(stepped::REFUSED) => skips::skip(TEST, &why),
        Err(why) => panic!("{why}"),
    }
}
