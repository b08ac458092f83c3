//! Threads that record, end, are killed or fork.

use crate::recording::{Rec, all, counted, names, start, turn, with};
use rdpmc_spans::{Flags, Laps, Settings, Site, Span, Storage, ThreadInfo, span, stages};
use rdpmc_testing::process;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

stages!(
    enum Stage {
        First = "first",
        Second = "second",
    }
);

#[test]
fn a_panic_ends_its_spans() {
    let _turn = turn();
    let mut spans = start();
    let result = std::thread::spawn(|| {
        let _span = span!("panics");
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(result.join().is_err());
    assert_eq!(names(&all(&mut spans)), [("panics", None)]);
    assert!(spans.threads()[0].ended > 0);
}

/// A span in a thread-local variable ends when its thread's state may be gone.
#[test]
fn spans_outlive_their_thread() {
    thread_local! { static KEPT: Cell<Option<Span>> = const { Cell::new(None) }; }
    let _turn = turn();
    let mut spans = start();
    let threads: Vec<_> = (0..10)
        .map(|n| {
            std::thread::spawn(move || {
                if n % 2 == 0 {
                    KEPT.set(None); // its destructor is registered before that of the thread's state
                }
                KEPT.set(Some(span!("kept")));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let recorded = spans.collect();
    assert!(recorded > 0);
    assert_eq!(recorded + spans.report().lost, 10);
}

/// A ring of one record keeps the first, and counts the others.
#[test]
fn a_ring_of_one_record() {
    let _turn = turn();
    let mut spans = with(Storage::Ring { records: 1 });
    for _ in 0..2 {
        for _ in 0..10 {
            drop(span!("one"));
        }
        assert_eq!(spans.collect(), 1);
    }
    assert_eq!(spans.threads()[0].dropped, 18);
    assert!(spans.report().to_string().contains("Dropped: 18 spans."));
    // What is dropped after a report is in the next one.
    (0..10).for_each(|_| drop(span!("one")));
    assert_eq!(spans.take().threads()[0].dropped, 27);
    (0..10).for_each(|_| drop(span!("one")));
    assert_eq!(spans.threads()[0].dropped, 9);
}

/// A thread with a small stack: the state of a thread is larger.
#[test]
fn a_small_stack() {
    let _turn = turn();
    for storage in [Storage::Ring { records: 4 }, Storage::Histograms] {
        let mut spans = with(storage);
        let thread = std::thread::Builder::new().stack_size(64 << 10);
        thread.spawn(|| drop(span!("small"))).unwrap().join().unwrap();
        assert_eq!(spans.report().rows[0].count, 1);
    }
}

/// Eight threads, drained meanwhile: every record arrives or is counted, and none is torn.
#[test]
fn eight_threads() {
    const SPANS: u64 = 10_000_000;
    let _turn = turn();
    let mut spans = Settings::new().start().unwrap();
    let running = (0..8_u64).map(|number| {
        // Named, so that each is a row of its own when it has ended.
        let thread = std::thread::Builder::new().name(format!("thread {number}"));
        let record = || {
            for _ in 0..SPANS / 2 {
                let _outer = span!("outer");
                let _inner = span!("inner");
            }
        };
        thread.spawn(record).unwrap()
    });
    let mut running: Vec<_> = running.collect();
    let mut last = [[0_u64; 2]; 9];
    let (mut arrived, mut reported, mut dropped) = ([0_u64; 9], [0_u64; 9], [0_u64; 9]);
    let mut not_kept = 0;
    loop {
        let are_over = running.iter().all(|thread| thread.is_finished());
        if are_over {
            // With what the threads leave.
            running.drain(..).for_each(|thread| thread.join().unwrap());
        }
        let interval = spans.take();
        for record in interval.records() {
            let thread = record.thread() as usize;
            arrived[thread] += 1;
            let ticks = [record.start(), record.end()].map(|time| time.as_nanos() as u64);
            // Records come in the order in which spans end. An inner one begins after its outer one.
            assert!(ticks[0] <= ticks[1] && last[thread][1] <= ticks[1], "{record:?}");
            let around = record.parent().map(Site::name);
            match record.name() {
                "inner" => assert_eq!((around, record.depth()), (Some("outer"), 2)),
                "outer" => assert_eq!((around, record.depth()), (None, 1)),
                other => panic!("{other}"),
            }
            last[thread] = ticks;
        }
        // Of threads that have ended, the latest records are kept.
        not_kept += interval.not_kept();
        // The statistics of an interval are those of its records.
        let report = interval.report();
        assert_eq!(report.lost, 0);
        for row in &report.rows {
            assert_eq!(row.distribution.count(), row.count);
            let of_name = |info: &&ThreadInfo| info.name == row.thread_name;
            let info = report.threads.iter().find(of_name).unwrap();
            reported[info.number as usize] += row.count;
        }
        for info in &report.threads {
            dropped[info.number as usize] += info.dropped;
        }
        let sum = |of: [u64; 9]| of.iter().sum::<u64>();
        assert_eq!(sum(arrived) + not_kept, sum(reported));
        if are_over {
            break;
        }
    }
    for (reported, dropped) in reported.into_iter().zip(dropped).skip(1) {
        println!("{reported} recorded, {dropped} dropped");
        assert_eq!(reported + dropped, SPANS);
        assert!(reported > 0);
    }
}

/// A thread that ends by the system call, without its destructors: its records are there.
#[test]
fn a_thread_that_is_killed() {
    let _turn = turn();
    let mut spans = start();
    let (tell, told) = std::sync::mpsc::channel();
    let killed = std::thread::spawn(move || {
        drop(span!("before"));
        let open = span!("open");
        // SAFETY: no arguments but a number.
        tell.send(unsafe { libc::gettid() }).unwrap();
        // SAFETY: ends this thread alone, and nothing waits for it.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
        drop(open);
    });
    let task = format!("/proc/self/task/{}", told.recv().unwrap());
    while std::fs::exists(&task).unwrap() {
        std::thread::yield_now();
    }
    std::mem::forget(killed);
    assert_eq!(names(&all(&mut spans)), [("before", None)]);
    drop(span!("after"));
    assert_eq!(spans.collect(), 1);
    let report = spans.report();
    assert_eq!((report.threads.len(), report.rows.len(), report.lost), (2, 2, 0));
    assert!(!report.threads[0].ended > 0);
}

/// Reports and traces while threads record.
#[test]
fn reports_while_threads_write() {
    let _turn = turn();
    let mut spans = Settings::new().keep(1_000).start().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _outer = span!("outer");
                    drop(span!("inner"));
                }
            });
        }
        let (mut before, mut reports) = (0, 0);
        while reports < 20 || before < 1_000 {
            reports += 1;
            let report = spans.report();
            let count: u64 = report.rows.iter().map(|row| row.count).sum();
            assert!(count >= before && report.lost == 0, "{report}");
            before = count;
            for row in &report.rows {
                assert!(row.own <= row.total && row.time.p50 <= row.time.max, "{row:?}");
            }
            if reports % 5 == 0 {
                let mut trace = Vec::new();
                spans.view().write_trace(&mut trace).unwrap();
                let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
                assert!(trace["traceEvents"].is_array());
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// All alive at once. More than a process may have descriptors for: those without counters have the reason.
#[test]
fn a_thousand_threads_at_once() {
    const THREADS: usize = 1_000;
    let _turn = turn();
    let mut spans = counted().storage(Storage::Ring { records: 16 }).start().unwrap();
    let barrier = std::sync::Barrier::new(THREADS + 1);
    let mut first = 0;
    std::thread::scope(|scope| {
        let spawn = |_| {
            scope.spawn(|| {
                drop(span!("of a thread"));
                barrier.wait();
                barrier.wait();
                drop(span!("of a thread"));
            })
        };
        let threads: Vec<_> = (0..THREADS).map(spawn).collect();
        barrier.wait();
        first = spans.collect();
        assert_eq!(first + spans.report().lost, THREADS as u64);
        assert!(spans.threads().iter().all(|thread| thread.ended == 0));
        barrier.wait();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(first + spans.collect() + spans.report().lost, 2 * THREADS as u64);
    for thread in spans.threads() {
        assert_eq!(thread.time_only.is_some(), thread.events.is_empty());
    }
}

#[test]
fn a_thousand_threads() {
    let _turn = turn();
    let mut spans = counted().storage(Storage::Ring { records: 16 }).start().unwrap();
    for _ in 0..20 {
        let threads: Vec<_> = (0..50)
            .map(|_| {
                std::thread::spawn(|| {
                    let _span = span!("of a thread");
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
    assert_eq!(spans.collect(), 1_000);
    let report = spans.report();
    assert_eq!(report.threads.iter().map(|thread| thread.ended).sum::<u64>(), 1_000);
    assert_eq!(report.rows.iter().map(|row| row.count).sum::<u64>(), 1_000);
    assert!(report.threads.len() <= 66, "{} names", report.threads.len());
    spans.take();
    assert_eq!(spans.threads().len(), 0, "those that have ended are forgotten");
}

/// A span across a fork: the child's spans go on, without counts, and its end does no harm.
#[test]
fn a_span_across_a_fork() {
    let _turn = turn();
    let mut spans = start();
    let across = span!("across");
    drop(span!("before"));
    spans.take();
    let is_counted = !spans.threads()[0].events.is_empty();
    drop(span!("before"));
    let child = process::fork(|| {
        // A second thread may have held a lock when this process forked: nothing here takes one.
        let across = across;
        drop(span!("in the child"));
        // The page of the clock is gone, too. The ticks go on all the same.
        let mut laps = Laps::start();
        laps.next(Stage::First);
        drop(across);
        let records = all(&mut spans);
        let found: Vec<_> = records.iter().map(|record| record.name()).collect();
        if found != ["before", "in the child", "first", "across"] {
            return 2;
        }
        let is_uncounted = |record: &Rec| {
            record.flags.contains(Flags::NOT_COUNTED) == is_counted && record.counts == [0; 2]
        };
        if !records[1..].iter().all(is_uncounted) {
            return 3;
        }
        let ticks = [&records[3], &records[0], &records[1], &records[2]];
        let are_in_order = ticks[0].ticks[0] <= ticks[1].ticks[0]
            && ticks[1..].iter().all(|record| record.ticks[0] <= record.ticks[1])
            && ticks[1..].windows(2).all(|two| two[0].ticks[1] <= two[1].ticks[0])
            && records[2].ticks[1] <= records[3].ticks[1];
        if are_in_order { 0 } else { 4 }
    });
    assert_eq!(process::wait(child), 0, "the wait status: the child's code in its second byte");
}

/// What a view has shown, the next one shows, whatever threads join and end meanwhile.
#[test]
fn views_do_not_fall() {
    const SPANS: u64 = 1_000;
    let _turn = turn();
    for storage in [Storage::Ring { records: 1 << 12 }, Storage::Histograms] {
        let mut spans = Settings::new().storage(storage).keep(0).start().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let starters = [(); 2].map(|()| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let thread = std::thread::Builder::new().name("short".into());
                        let record = || (0..SPANS).for_each(|_| drop(span!("work")));
                        thread.spawn(record).unwrap().join().unwrap();
                    }
                })
            });
            let (mut last, mut views) = (0, 0);
            // A starter ends early if this machine refuses a thread, and says so when it is joined.
            while last < 300 * SPANS && !starters.iter().any(|starter| starter.is_finished()) {
                let report = spans.report();
                let now = report.rows.iter().map(|row| row.count).sum();
                assert!(now >= last, "{storage:?}: {last} spans, then {now}");
                (last, views) = (now, views + 1);
            }
            is_over.store(true, Ordering::Relaxed);
            starters.into_iter().for_each(|starter| starter.join().unwrap());
            println!("{storage:?}: {last} spans in the last of {views} views, none fell");
        });
    }
}

/// A thread that C or C++ code has named, by the kernel, has that name. One that was not named has none of its creator's.
#[test]
fn names_that_the_kernel_knows() {
    let _turn = turn();
    let mut spans = start();
    let run = |name: Option<&'static std::ffi::CStr>| {
        let work = move || {
            if let Some(name) = name {
                // SAFETY: the name ends with 0.
                assert_eq!(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) }, 0);
            }
            drop(span!("job"));
        };
        std::thread::spawn(work).join().unwrap();
    };
    [Some(c"Job 0"), Some(c"Job 0"), Some(c"Audio"), None, None].into_iter().for_each(run);
    let interval = spans.take();
    let names = interval.threads().into_iter().map(|thread| (thread.name, thread.ended));
    let mut names: Vec<(String, u64)> = names.collect();
    names.sort();
    let expected = [("Audio", 1), ("Job 0", 2), ("unnamed threads", 2)];
    assert_eq!(names, expected.map(|(name, threads)| (name.to_string(), threads)));
}
