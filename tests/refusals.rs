//! Each system call of the library is refused in turn: see `attacks/refusals.rs`. There is only one test, so that
//! nothing else runs in the process that forks.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used)]

mod attacks;
mod machines;
mod process;
mod skips;

use attacks::Share;
use attacks::refusals::{OPERATIONS, Operation, everywhere};

/// A copy of another machine's files, which this process reads instead of its own.
const COPY: Operation = Operation {
    name: "another machine's PMUs",
    run: || {
        let folder =
            concat!(env!("CARGO_TARGET_TMPDIR"), "/refusals-intel-hybrid/bus/event_source/devices");
        let pmus = rdpmc::pmu::Pmus::from_dir(folder);
        let all = pmus.all().map(|all| all.len());
        let names = ["cpu_core/cycles/", "mem-loads", "cpu_atom/event=0xc0/", "power/energy-pkg/"];
        format!("{all:?} {:?}", names.map(|name| pmus.event(name)))
    },
};

#[test]
fn each_call_is_refused_in_turn() {
    let _copy = machines::Machine::new(env!("CARGO_TARGET_TMPDIR"), "intel-hybrid", "refusals");
    let is_whole = skips::is_whole("each_call_is_refused_in_turn");
    // The short walk refuses two calls of each kind, with two of the errors in turn.
    let (sites, errors) = if is_whole { (8, usize::MAX) } else { (2, 2) };
    let Some((trials, mut wrong)) = everywhere(OPERATIONS, sites, errors, Share::WHOLE) else {
        return skips::skip(
            "each_call_is_refused_in_turn",
            "no process may answer for another here",
        );
    };
    let (sites, errors) = if is_whole { (40, usize::MAX) } else { (10, 1) };
    let (more, wrong_there) = everywhere(&[COPY], sites, errors, Share::WHOLE).unwrap_or_default();
    skips::say(&format!("{} system calls were refused", trials + more));
    wrong.extend(wrong_there);
    assert!(
        wrong.is_empty(),
        "{} went wrong: {:#?}",
        wrong.len(),
        wrong.get(..wrong.len().min(20))
    );
    let least = if is_whole { (500, 100) } else { (100, 20) };
    assert!(trials > least.0 && more > least.1, "{trials} and {more} trials only");
}
