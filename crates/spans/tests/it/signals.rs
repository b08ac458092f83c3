//! Spans in signal handlers: each is recorded or counted, and nothing is corrupted.

use crate::recording::{counted, turn};
use rdpmc_spans::{Fiber, Laps, Storage, record, span, stages};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

stages!(
    enum Stage {
        First = "first",
    }
);

static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Three spans, two laps and a recorded time, whatever it interrupts.
extern "C" fn handler(_: libc::c_int) {
    let _outer = span!("in the handler");
    let mut laps = Laps::start();
    drop(span!("inside"));
    laps.next(Stage::First);
    drop(span!("inside"));
    laps.next(Stage::First);
    record!("recorded", std::time::Duration::ZERO);
    BEGUN.fetch_add(6, Ordering::Relaxed);
}

#[test]
fn every_span_is_recorded_or_counted() {
    const SIGNALS: u64 = 20_000;
    let _turn = turn();
    // SAFETY: zeros are a valid sigaction, and the handler only uses this crate and an atomic.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
    let rings = [1, 4, 64].map(|records| Storage::Ring { records });
    for storage in rings.into_iter().chain([Storage::Histograms]) {
        for causes in [false, true] {
            let settings = counted().storage(storage);
            let mut spans = if causes { settings.causes() } else { settings }.start().unwrap();
            BEGUN.store(0, Ordering::Relaxed);
            let (is_over, mut begun) = (AtomicBool::new(false), 0);
            let (tell, told) = std::sync::mpsc::channel();
            let is_empty = AtomicBool::new(false);
            let (mut recorded, mut lost, mut dropped, mut in_handlers) = (0, 0, 0, 0);
            let mut add = |interval: rdpmc_spans::Interval| {
                let report = interval.report();
                for row in &report.rows {
                    recorded += row.count;
                    in_handlers += if row.name == "in the handler" { row.count } else { 0 };
                    assert_eq!(row.distribution.count(), row.count);
                }
                (lost, dropped) = (lost + report.lost, dropped);
                dropped += report.threads.iter().map(|thread| thread.dropped).sum::<u64>();
            };
            std::thread::scope(|scope| {
                let target = scope.spawn(|| {
                    assert!(rdpmc_spans::register_thread());
                    // SAFETY: no arguments.
                    tell.send(unsafe { libc::pthread_self() }).unwrap();
                    let mut fiber = Fiber::new();
                    while !is_over.load(Ordering::Relaxed) {
                        let _outer = span!("outer");
                        drop(span!("inner"));
                        drop(span!("numbered", begun));
                        begun += 3;
                        // Two stays.
                        let entered = fiber.enter();
                        let of_fiber = span!("of a fiber");
                        drop(entered);
                        let entered = fiber.enter();
                        drop(of_fiber);
                        drop(entered);
                        begun += 2;
                    }
                    // Its ring is emptied, and no signal comes any more.
                    while !is_empty.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                    drop(span!("last"));
                });
                let target_thread = told.recv().unwrap();
                let mut sent = 0;
                while sent < SIGNALS {
                    // SAFETY: the thread lives until `is_over`.
                    unsafe { libc::pthread_kill(target_thread, libc::SIGUSR1) };
                    sent += 1;
                    if sent % 500 == 0 {
                        add(spans.take());
                    }
                    (0..20).for_each(|_| std::hint::spin_loop());
                }
                is_over.store(true, Ordering::Relaxed);
                // The spans that it has open end, or it is in none.
                std::thread::sleep(std::time::Duration::from_millis(20));
                add(spans.take());
                is_empty.store(true, Ordering::Relaxed);
                target.join().unwrap();
            });
            let interval = spans.take();
            let rows = interval.report().rows;
            let last: u64 = rows.iter().filter(|row| row.name == "last").map(|row| row.count).sum();
            add(interval);
            let all = 1 + begun + BEGUN.load(Ordering::Relaxed);
            println!(
                "{storage:?}, causes {causes}: {all} begun, {recorded} recorded, {in_handlers} of them in handlers, {lost} lost, {dropped} dropped"
            );
            assert_eq!(recorded + lost + dropped, all, "{storage:?}, causes {causes}");
            assert_eq!(last, 1, "the thread goes on recording: {storage:?}, causes {causes}");
            if storage == Storage::Histograms {
                assert!(in_handlers > 0);
                assert_eq!((recorded + lost, dropped), (all, 0));
            }
        }
    }
}
