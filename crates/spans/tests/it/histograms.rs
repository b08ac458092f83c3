//! Histograms: each report is of one moment, and nothing is missing in the end.

use crate::recording::{turn, with};
use rdpmc_spans::{Laps, Report, Settings, Storage, span, stages};
use rdpmc_testing::process;
use std::sync::atomic::{AtomicBool, Ordering};

stages!(
    enum Stage {
        First = "first",
    }
);

/// Checks that count, sum, buckets and maximum of each row agree.
fn agrees(report: &Report) {
    for row in &report.rows {
        let (mut count, mut least, mut most) = (0, 0, 0);
        for ([lowest, highest], values) in row.distribution.iter() {
            count += values;
            least += u128::from(lowest) * u128::from(values);
            most += u128::from(highest + 1) * u128::from(values);
        }
        assert_eq!(count, row.count, "{report}");
        // A time is rounded down to a nanosecond.
        assert!(row.total.as_nanos() + u128::from(count) >= least, "{row:?}");
        assert!(row.total.as_nanos() <= most, "{row:?}");
        assert_eq!(row.distribution.max(), Some(row.time.max));
        assert!(row.time.p50 <= row.time.p99 && row.time.p999 <= row.time.max, "{row:?}");
        assert!(row.own <= row.total, "{row:?}");
    }
}

/// Eight threads record while another one takes intervals: their sum is what the threads have done. Views in between show no
/// less than before.
#[test]
fn eight_writers_and_a_reader() {
    const SPANS: u64 = 500_000;
    let _turn = turn();
    for storage in [Storage::Histograms, Storage::Ring { records: 1 << 12 }] {
        let mut spans = with(storage);
        let is_over = AtomicBool::new(false);
        let (mut counted, mut dropped, mut intervals) = ([0; 3], 0, 0_u64);
        let (mut taken, all) = (0, 3 * 8 * SPANS);
        std::thread::scope(|scope| {
            let write = || {
                for _ in 0..SPANS {
                    let _outer = span!("outer");
                    let mut laps = Laps::start();
                    drop(span!("inner"));
                    laps.next(Stage::First);
                }
            };
            let writers: Vec<_> = (0..8).map(|_| scope.spawn(write)).collect();
            scope.spawn(|| {
                writers.into_iter().for_each(|writer| writer.join().unwrap());
                is_over.store(true, Ordering::Release);
            });
            loop {
                let was_over = is_over.load(Ordering::Acquire);
                let before: u64 = spans.report().rows.iter().map(|row| row.count).sum();
                let interval = spans.take();
                let report = interval.report();
                agrees(&report);
                assert_eq!(report.lost, 0);
                // Also while threads end: none is left out, and none counts twice.
                let count: u64 = report.rows.iter().map(|row| row.count).sum();
                assert!(count >= before && taken + count <= all, "{count} after {before}");
                taken += count;
                for row in &report.rows {
                    let place =
                        ["outer", "inner", "first"].iter().position(|name| *name == row.name);
                    counted[place.unwrap()] += row.count;
                }
                dropped += report.threads.iter().map(|thread| thread.dropped).sum::<u64>();
                intervals += 1;
                if was_over {
                    break;
                }
            }
        });
        println!("{storage:?}: {intervals} intervals, {counted:?} counted, {dropped} dropped");
        if storage == Storage::Histograms {
            assert_eq!((counted, dropped), ([8 * SPANS; 3], 0));
        } else {
            assert_eq!(counted.iter().sum::<u64>() + dropped, 3 * 8 * SPANS);
        }
    }
}

/// An interval has what came since the last one, and a view takes nothing away.
#[test]
fn intervals() {
    let _turn = turn();
    let mut spans = with(Storage::Histograms);
    let late = || drop(span!("late"));
    let rows =
        |report: &Report| report.rows.iter().map(|row| (row.name, row.count)).collect::<Vec<_>>();
    (0..10).for_each(|_| late());
    assert_eq!(rows(&spans.report()), [("late", 10)]);
    assert_eq!(rows(&spans.report()), [("late", 10)]);
    (0..20).for_each(|_| late());
    drop(span!("new"));
    let interval = spans.take();
    assert_eq!(rows(&interval.report()), [("late", 30), ("new", 1)]);
    agrees(&interval.report());
    assert_eq!(interval.records().count(), 0);
    assert_eq!(rows(&spans.report()), []);
    late();
    assert_eq!(rows(&spans.take().report()), [("late", 1)]);
    assert_eq!(rows(&interval.report()), [("late", 30), ("new", 1)], "it is its own");
}

/// Threads that end while reports are made count once in each.
#[test]
fn threads_that_end_meanwhile() {
    const SPANS: u64 = 10;
    let _turn = turn();
    for storage in [Storage::Histograms, Storage::Ring { records: 64 }] {
        let mut spans = with(storage);
        let (is_over, begun) = (AtomicBool::new(false), std::sync::atomic::AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..300 {
                    begun.fetch_add(SPANS, Ordering::SeqCst);
                    std::thread::scope(|scope| {
                        let work = || (0..SPANS).for_each(|_| drop(span!("short")));
                        scope.spawn(work).join().unwrap();
                    });
                }
                is_over.store(true, Ordering::SeqCst);
            });
            let mut before = 0;
            while !is_over.load(Ordering::SeqCst) {
                let count: u64 = spans.report().rows.iter().map(|row| row.count).sum();
                let most = begun.load(Ordering::SeqCst);
                assert!((before..=most).contains(&count), "{count} after {before}, {most} begun");
                before = count;
            }
        });
        let count: u64 = spans.report().rows.iter().map(|row| row.count).sum();
        assert_eq!(count, 300 * SPANS);
    }
}

/// A number takes nothing from the spans around and inside, whatever it is.
#[test]
fn numbered_spans_have_their_own_time() {
    let _turn = turn();
    for storage in [Storage::Histograms, Storage::Ring { records: 64 }] {
        let mut spans = with(storage);
        for number in [7, u64::MAX] {
            let _outer = span!("outer");
            let _frame = span!("frame", number);
            let _inside = span!("inside");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let report = spans.report();
        let row = |name| report.rows.iter().find(|row| row.name == name).unwrap();
        let (outer, frame, inside) = (row("outer"), row("frame"), row("inside"));
        assert_eq!(report.rows.len(), 3, "{report}");
        // Each is rounded to a nanosecond.
        assert!(outer.own.abs_diff(outer.total - frame.total).as_nanos() <= 2, "{report}");
        assert!(frame.own.abs_diff(frame.total - inside.total).as_nanos() <= 2, "{report}");
    }
}

/// The times of two intervals add up, although the clock is calibrated anew in between.
#[test]
fn distributions_of_two_intervals() {
    let _turn = turn();
    let mut spans = with(Storage::Histograms);
    let work = || drop(span!("work"));
    let mut times = Vec::new();
    for spans_of_interval in [10, 20] {
        (0..spans_of_interval).for_each(|_| work());
        std::thread::sleep(std::time::Duration::from_millis(150));
        times.push(spans.take().report().rows[0].distribution.clone());
    }
    let [mut sum, second] = <[_; 2]>::try_from(times).unwrap();
    sum.merge(&second).unwrap();
    assert_eq!(sum.count(), 30);
    sum.subtract(&second).unwrap();
    assert_eq!(sum.count(), 10);
}

/// Where the kernel refuses membarrier, a thread that rests is in a later interval, and nothing is missing in the end.
#[test]
fn without_memory_barriers() {
    let _turn = turn();
    let child = process::fork(|| {
        process::refuse(libc::SYS_membarrier, libc::EPERM);
        let mut spans = with(Storage::Histograms);
        let (go_on, waits) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let rests = std::thread::spawn(move || {
            for round in [10, 5] {
                (0..round).for_each(|_| drop(span!("rests")));
                tell.send(()).unwrap();
                let _ = waits.recv();
            }
        });
        let mut count = |name: &str| -> u64 {
            let report = spans.take().report();
            report.rows.iter().filter(|row| row.name == name).map(|row| row.count).sum()
        };
        told.recv().unwrap();
        (0..7).for_each(|_| drop(span!("of this thread")));
        if count("of this thread") != 7 {
            return 2;
        }
        go_on.send(()).unwrap();
        told.recv().unwrap();
        let second = count("rests");
        drop(go_on);
        rests.join().unwrap();
        if second + count("rests") == 15 { 0 } else { 3 }
    });
    assert_eq!(process::wait(child), 0, "the wait status: the child's code in its second byte");
}

/// A span is listed before those inside it, and laps are not spans inside it.
#[test]
fn order_and_own_time() {
    let _turn = turn();
    let mut spans = Settings::new().storage(Storage::Histograms).start().unwrap();
    {
        let _outer = span!("outer");
        let mut laps = Laps::start();
        laps.next(Stage::First);
    }
    let report = spans.report();
    let [outer, first] = &report.rows[..] else { panic!("{report}") };
    assert_eq!((outer.name, first.name), ("outer", "first"));
    assert_eq!(outer.own, outer.total);
}
