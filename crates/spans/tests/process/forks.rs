//! Children of a fork beside threads that record: none hangs, and none crashes.

use crate::recording::turn;
use rdpmc_spans::{Laps, Settings, Spans, Storage, span, stages};
use rdpmc_testing::{process, skips};
use std::sync::atomic::{AtomicBool, Ordering};

stages!(
    enum Stage {
        First = "first",
    }
);

extern "C" fn of_the_child(_: *mut libc::c_void) -> *mut libc::c_void {
    drop(span!("of a thread of the child"));
    std::ptr::null_mut()
}

/// Calls every function of the interface.
fn everything(spans: &mut Spans) {
    let _outer = span!("outer");
    drop(span!("numbered", 1));
    let mut laps = Laps::start();
    laps.next(Stage::First);
    rdpmc_spans::set_enabled(false);
    let _ = rdpmc_spans::is_enabled();
    rdpmc_spans::set_enabled(true);
    // Not by the standard library: its threads begin with a lock there, which another thread may have held at the fork.
    // SAFETY: zeros are a pthread_t, the function needs no argument, and the thread is joined.
    unsafe {
        let mut thread: libc::pthread_t = std::mem::zeroed();
        let (none, no_attributes) = (std::ptr::null_mut(), std::ptr::null());
        assert_eq!(libc::pthread_create(&mut thread, no_attributes, of_the_child, none), 0);
        assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
    }
    rdpmc_spans::register_thread();
    spans.collect();
    let interval = spans.view();
    let _ = (interval.report().to_string(), interval.line("outer"), interval.slowest().count());
    let mut to = Vec::new();
    interval.write_trace(&mut to).unwrap();
    interval.write_slow_trace(&mut to).unwrap();
    interval.write_json(&mut to).unwrap();
    interval.write_json_lines(&mut to).unwrap();
    interval.write_prometheus(&mut to).unwrap();
    let _ = spans.take().records().count();
}

#[test]
fn no_child_hangs() {
    let children = if skips::is_whole("no_child_hangs") { 150 } else { 30 };
    let _turn = turn();
    for storage in [Storage::Ring { records: 64 }, Storage::Histograms] {
        let settings = Settings::new().causes().slowest(2).storage(storage);
        let mut spans = settings.start().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Also if an assertion fails: otherwise the threads go on, and the test hangs.
            let _end = Ends(&is_over);
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        // Joins, records and leaves.
                        std::thread::scope(|scope| {
                            scope.spawn(|| (0..1_000).for_each(|_| drop(span!("short"))));
                        });
                        let _outer = span!("outer");
                        let mut laps = Laps::start();
                        laps.next(Stage::First);
                        rdpmc_spans::register_thread();
                    }
                });
            }
            for number in 0..children {
                let child = process::fork(|| {
                    // SAFETY: ends this process if it hangs.
                    unsafe { libc::alarm(60) };
                    everything(&mut spans);
                    let twice = Settings::new().start();
                    drop(twice); // refused: the copy of the recording is alive
                    0
                });
                let status = process::wait(child);
                assert_eq!(status, 0, "{storage:?}: the wait status of child {number}");
                if number % 10 == 0 {
                    everything(&mut spans);
                }
            }
        });
    }
}

/// Sets it when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A trace that does not fit on the disk is an error, leaves no file, and keeps an earlier one.
#[test]
fn a_disk_that_becomes_full() {
    let _turn = turn();
    let mut spans = Settings::new().start().unwrap();
    (0..10_000).for_each(|_| drop(span!("a span")));
    let folder = std::env::temp_dir().join(format!("rdpmc-spans-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    for earlier in [false, true] {
        let path = folder.join("trace.json");
        if earlier {
            std::fs::write(&path, "an earlier one").unwrap();
        }
        // The limit is that of a process, so it is a child's.
        let child = process::fork(|| {
            let limit = libc::rlimit { rlim_cur: 1 << 16, rlim_max: 1 << 16 };
            // SAFETY: no pointer but to `limit`. With the signal ignored, a write beyond the limit fails.
            unsafe {
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
            }
            let interval = spans.view();
            i32::from(interval.save_trace(&path).is_ok())
        });
        assert_eq!(process::wait(child), 0, "the wait status: the trace was saved");
        let files: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|of| of.unwrap().path()).collect();
        assert_eq!(files, if earlier { vec![path.clone()] } else { vec![] });
        assert!(!earlier || std::fs::read_to_string(&path).unwrap() == "an earlier one");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
