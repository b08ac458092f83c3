//! Children of a fork beside threads that record the spans of `tracing`: none hangs.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
#![allow(unsafe_code)]

use rdpmc_spans::{Settings, Storage, TracingLayer};
use rdpmc_testing::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tracing::{Dispatch, info_span};
use tracing_subscriber::layer::SubscriberExt;

/// Spans inside each other, and one that is entered twice.
fn record() {
    let outer = info_span!("outer");
    for _ in 0..2 {
        let _outer = outer.enter();
        info_span!("inner").in_scope(|| ());
    }
}

/// The threads of the parent move spans between each other, and end, while it forks. Its children record on the thread that
/// they have. (A thread that is new to `tracing` locks a list of threads there, so a child must not start one.)
#[test]
fn no_child_hangs() {
    const CHILDREN: u32 = 150;
    const SPANS: u64 = 100;
    for storage in [Storage::Ring { records: 1 << 10 }, Storage::Histograms] {
        let mut spans = Settings::new().storage(storage).slowest(2).start().unwrap();
        let dispatch = Dispatch::new(tracing_subscriber::registry().with(TracingLayer::new()));
        let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    tracing::dispatcher::with_default(&dispatch, || {
                        while !is_over.load(Ordering::Relaxed) {
                            record();
                            let moved = info_span!("moved");
                            drop(moved.enter());
                            let dispatch = &dispatch;
                            std::thread::scope(|scope| {
                                let ends = move || {
                                    tracing::dispatcher::with_default(dispatch, || {
                                        moved.in_scope(record);
                                    });
                                };
                                scope.spawn(ends).join().unwrap();
                            });
                            rounds.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                });
            }
            tracing::dispatcher::with_default(&dispatch, || {
                record();
                for number in 0..CHILDREN {
                    let child = process::fork(|| {
                        // SAFETY: ends this process if it hangs.
                        unsafe { libc::alarm(60) };
                        spans.take();
                        (0..SPANS).for_each(|_| record());
                        let interval = spans.take();
                        let mut trace = Vec::new();
                        interval.write_trace(&mut trace).unwrap();
                        let report = interval.report();
                        let rows = report.rows.iter().filter(|row| row.name == "inner");
                        // Those of the parent's threads may be among them, but no more than once.
                        i32::from(rows.map(|row| row.count).sum::<u64>() < 2 * SPANS)
                    });
                    let status = process::wait(child);
                    assert_eq!(status, 0, "{storage:?}: the wait status of child {number}");
                }
            });
            is_over.store(true, Ordering::Relaxed);
        });
        let rounds = rounds.load(Ordering::Relaxed);
        println!("{storage:?}: {CHILDREN} children, none hung, beside {rounds} rounds of others");
        assert!(rounds > 0);
    }
}
