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
    // The short walk refuses the first call of each kind with all errors, and later calls with one of them.
    let walks: &[(usize, usize)] =
        if is_whole { &[(8, usize::MAX)] } else { &[(1, usize::MAX), (4, 1)] };
    let (mut trials, mut wrong) = (0, Vec::new());
    for (sites, errors) in walks {
        let Some((more, wrong_there)) = everywhere(OPERATIONS, *sites, *errors, Share::WHOLE)
        else {
            return skips::skip(
                "each_call_is_refused_in_turn",
                "no process may answer for another here",
            );
        };
        trials += more;
        wrong.extend(wrong_there);
    }
    let errors = if is_whole { usize::MAX } else { 1 };
    let (more, wrong_there) = everywhere(&[COPY], 40, errors, Share::WHOLE).unwrap_or_default();
    skips::say(&format!("{} system calls were refused", trials + more));
    let wrong = [wrong, wrong_there].concat();
    assert!(
        wrong.is_empty(),
        "{} went wrong: {:#?}",
        wrong.len(),
        wrong.get(..wrong.len().min(20))
    );
    let least = if is_whole { (500, 100) } else { (500, 50) };
    assert!(trials > least.0 && more > least.1, "{trials} and {more} trials only");
}
