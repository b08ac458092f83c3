//! What an open costs that is refused.

use crate::process::supervised::{Answer, supervised};
use crate::skips::skip;
use rdpmc::error::ErrorKind;
use rdpmc::{Counter, Event};

/// A program may open a counter for each file that it compiles, and drop the error. The cause was found by the first one.
#[test]
fn a_counter_without_a_pmu_is_refused_in_one_system_call() {
    const TEST: &str = "a_counter_without_a_pmu_is_refused_in_one_system_call";
    let refused = || {
        let is_no_pmu = |why: rdpmc::Error| matches!(why.kind(), ErrorKind::NoPmu { .. });
        Counter::open(Event::INSTRUCTIONS).is_err_and(is_no_pmu)
    };
    if !refused() {
        return skip(TEST, "it takes a machine without a PMU");
    }
    let mut made = Vec::new();
    let calls = [
        libc::SYS_perf_event_open,
        libc::SYS_openat,
        libc::SYS_statx,
        libc::SYS_getdents64,
        libc::SYS_readlinkat,
        libc::SYS_read,
        libc::SYS_ioctl,
        libc::SYS_prctl,
        libc::SYS_close,
    ];
    let status = supervised(
        &calls,
        |call| {
            made.push(libc::c_long::from(call.number));
            Answer::Pass
        },
        |switch| {
            switch.set(true);
            let is_refused = refused();
            switch.set(false);
            i32::from(!is_refused)
        },
    );
    match status {
        None => skip(TEST, "it takes the kernel's notification of filtered calls"),
        Some(status) => {
            assert_eq!(status, 0);
            assert_eq!(made, [libc::SYS_perf_event_open]);
        }
    }
}
