//! The doctor's verdicts against counts of known work here, on a machine with a PMU.
//!
//! On other machines this is skipped. The emulated machines of `tests/vm` assert exact numbers everywhere.

use rdpmc::{Counter, Event};
use rdpmc_testing::kernels::countdown;
use rdpmc_testing::skips::{self, skip};
use std::hint::black_box;

/// Compares the doctor's verdicts with those of a loop here, and prints what reads cost.
#[test]
fn the_doctors_verdicts_hold() {
    const ROUNDS: u64 = 100_000;
    let test = "the_doctors_verdicts_hold";
    rdpmc::contain_faults().unwrap();
    let report = rdpmc_doctor::diagnose();
    for cost in &report.costs {
        skips::say(&format!("{:?}: {:?}", cost.events, cost.cost));
    }
    skips::say(&report.summary());
    let trust = match rdpmc_doctor::test_counters() {
        Ok(trust) => trust,
        Err(why) => return skip(test, &why.to_string()),
    };
    skips::say(&trust.to_string());
    // In a virtual machine, the host may take or return a counter at any time.
    let mut rounds = 0..10;
    loop {
        let trust = rdpmc_doctor::test_counters().unwrap();
        let pinned = || {
            let counter = Counter::builder(Event::INSTRUCTIONS).allow_all_privilege_levels(true);
            counter.pinned(true).open().ok().filter(|counter| counter.read().is_ok())
        };
        let counters: Vec<Counter> = (0..64).map_while(|_| pinned()).collect();
        let read =
            || counters.iter().map(|counter| counter.read().unwrap_or(0)).collect::<Vec<_>>();
        let mut counting = vec![true; counters.len()];
        for _ in 0..20 {
            let before = read();
            countdown(black_box(ROUNDS));
            let after = read();
            for ((counting, before), after) in counting.iter_mut().zip(before).zip(after) {
                let counted = after.wrapping_sub(before);
                *counting &= (2 * ROUNDS..3 * ROUNDS).contains(&counted);
            }
        }
        let right = counting.iter().filter(|counting| **counting).count();
        let found = trust.tests[0].verdicts.iter().filter(|verdict| verdict.is_right()).count();
        let all = trust.tests[0].verdicts.len();
        if (right, counters.len()) == (found, all) {
            return skips::say(&format!("{right} of {all} counters count, as the doctor says"));
        }
        let differ = format!("{right} of {} count, {found} of {all} by {trust}", counters.len());
        assert!(rdpmc::machine::is_virtual() && rounds.next().is_some(), "{differ}");
    }
}
