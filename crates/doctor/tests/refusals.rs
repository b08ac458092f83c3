//! Each system call of a diagnosis is refused in turn: see `tests/attacks/refusals.rs`. There is only one test, so that nothing
//! else runs in the process that forks.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used)]

use rdpmc_testing::attacks::Share;
use rdpmc_testing::attacks::refusals::{Operation, everywhere};
use rdpmc_testing::skips;

const DIAGNOSIS: Operation = Operation {
    name: "a diagnosis",
    run: || {
        let report = rdpmc_doctor::diagnose();
        assert!(!report.to_string().is_empty() && !report.to_json().is_empty());
        let core: Vec<_> = report.core_pmus.iter().map(|pmu| &pmu.name).collect();
        format!("{core:?} {:?} {:?}", report.unreadable, report.clock.map(drop))
    },
};

#[test]
fn each_call_of_a_diagnosis_is_refused_in_turn() {
    let (sites, errors, least) =
        match skips::is_whole("each_call_of_a_diagnosis_is_refused_in_turn") {
            true => (8, usize::MAX, 100),
            false => (4, 2, 50),
        };
    let Some((trials, wrong)) = everywhere(&[DIAGNOSIS], sites, errors, Share::WHOLE) else {
        return skips::skip(
            "each_call_of_a_diagnosis_is_refused_in_turn",
            "no process may answer for another here",
        );
    };
    skips::say(&format!("{trials} system calls were refused"));
    let first = wrong.get(..wrong.len().min(20));
    assert!(wrong.is_empty(), "{} went wrong: {first:#?}", wrong.len());
    assert!(trials > least, "{trials} trials only");
}
