//! The beginning and the end of recordings, and what threads do meanwhile.

use crate::recording::{all, names, start, turn, with};
use rdpmc::Event;
use rdpmc_spans::{Laps, Settings, Site, Spans, StartError, Storage, span, stages};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

stages!(
    enum Stage {
        First = "first",
        Second = "second",
    }
);

/// The program's own code in the middle of `next` ends the recording.
#[test]
fn a_stage_that_begins_another_recording() {
    struct Malicious<'a>(&'a Cell<Option<Spans>>);
    impl rdpmc_spans::Stage for Malicious<'_> {
        fn site(self) -> &'static Site {
            drop(self.0.take());
            self.0.set(Some(Settings::new().start().unwrap()));
            assert!(rdpmc_spans::register_thread());
            Stage::First.site()
        }
    }
    let _turn = turn();
    let spans = Cell::new(Some(start()));
    let mut laps = Laps::start();
    laps.next(Malicious(&spans));
    laps.next(Stage::First);
    laps.next(Stage::Second);
    let mut spans = spans.take().unwrap();
    assert_eq!(names(&all(&mut spans)), [("first", None), ("second", None)]);
}

#[test]
fn one_recording_at_a_time() {
    let _turn = turn();
    drop(span!("before"));
    let spans = start();
    assert_eq!(Settings::new().start().err(), Some(StartError::Running));
    let open = span!("open");
    drop(spans);
    drop(span!("between"));
    let mut spans = start();
    {
        let _after = span!("after");
        drop(open);
    }
    assert_eq!(names(&all(&mut spans)), [("after", None)]);
    assert_eq!(spans.report().lost, 1, "a span of an earlier recording");
    let nine = [Event::CYCLES; 9];
    assert!(matches!(Settings::new().events(&nine).start(), Err(StartError::TooManyEvents { .. })));
}

#[test]
fn switched_off() {
    let _turn = turn();
    let mut spans = start();
    let mut laps = Laps::start();
    let open = span!("open");
    rdpmc_spans::set_enabled(false);
    drop(span!("off"));
    laps.next(Stage::First);
    drop(open);
    rdpmc_spans::set_enabled(true);
    laps.next(Stage::Second); // begins
    laps.next(Stage::First);
    assert_eq!(names(&all(&mut spans)), [("open", None), ("first", None)]);
    assert!(rdpmc_spans::is_enabled());
    drop(spans);
    assert!(!rdpmc_spans::is_enabled());
    rdpmc_spans::set_enabled(true);
    assert!(!rdpmc_spans::is_enabled(), "there is no recording");
}

/// Spans are switched off and on while threads join: nothing is lost, and the cost is known.
#[test]
fn switched_while_threads_join() {
    let _turn = turn();
    let mut spans = Settings::new().storage(Storage::Ring { records: 4 }).start().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                rdpmc_spans::set_enabled(false);
                rdpmc_spans::set_enabled(true);
            }
        });
        for _ in 0..300 {
            scope.spawn(rdpmc_spans::register_thread).join().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    spans.collect();
    let threads = spans.threads();
    assert!(!threads.is_empty());
    assert!(threads.iter().all(|thread| !thread.empty_span.is_zero()), "{threads:?}");
    assert_eq!(spans.report().lost, 0);
}

/// A thread may register while spans are off.
#[test]
fn registered_while_switched_off() {
    let _turn = turn();
    assert!(!rdpmc_spans::register_thread(), "there is no recording");
    let mut spans = start();
    rdpmc_spans::set_enabled(false);
    assert!(rdpmc_spans::register_thread());
    drop(span!("off"));
    rdpmc_spans::set_enabled(true);
    drop(span!("on"));
    assert_eq!(names(&all(&mut spans)), [("on", None)]);
    assert!(!spans.threads()[0].empty_span.is_zero());
}

#[test]
fn rings_that_are_too_large() {
    let _turn = turn();
    let settings = Settings::new().storage(Storage::Ring { records: usize::MAX });
    assert!(matches!(settings.start(), Err(StartError::RingTooLarge { .. })));
}

/// Names are events. One that says nothing is an error, and one that needs a PMU which is missing is a reason in the report.
#[test]
fn events_by_their_names() {
    let _turn = turn();
    let error = Settings::new().events(&["instructions", "cylces"]).start().unwrap_err();
    assert!(error.to_string().contains("Did you mean cycles?"), "{error}");
    for names in [["cpu/event=0xc0/", "instructions"], ["cycles", "cpu/event=0xc0,umask=0/"]] {
        if cfg!(target_arch = "x86_64") {
            let mut spans = Settings::new().events(&names).start().unwrap();
            drop(span!("named"));
            let report = spans.report();
            let thread = &report.threads[0];
            // All of them, or the reason why there are none.
            assert!(thread.events.len() == 2 || thread.time_only.is_some(), "{report}");
        }
    }
}

/// Views that are kept share the records: they do not make the chunks of later ones small.
#[test]
fn views_share_records() {
    let _turn = turn();
    let mut spans = Settings::new().start().unwrap();
    let resident = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let of = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        of.split_whitespace().next().unwrap().parse().unwrap()
    };
    let mut view = spans.view();
    let before = resident();
    for number in 0..5_000_u64 {
        drop(span!("s", number));
        view = spans.view();
        assert_eq!(view.records().len() as u64, number + 1);
    }
    let numbers: Vec<u64> = view.records().filter_map(|record| record.number()).collect();
    assert!(numbers.into_iter().eq(0..5_000));
    // 5,000 records take a megabyte. One chunk for each would take 600.
    assert!(resident() < before + 100_000, "{before} kB, then {} kB", resident());
}

/// Intervals follow each other without a gap, and a merged one has the time of all.
#[test]
fn intervals_have_times() {
    let _turn = turn();
    let outside = std::time::Instant::now();
    let mut spans = with(Storage::Ring { records: 100 });
    let mut run = spans.take();
    assert_eq!(run.start(), Duration::ZERO);
    let mut end = run.duration();
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(15));
        let interval = spans.take();
        assert_eq!(interval.start(), end);
        assert!(interval.duration() >= Duration::from_millis(4), "{interval:?}");
        end = interval.start() + interval.duration();
        run.merge(&interval).unwrap();
    }
    assert_eq!((run.start(), run.duration()), (Duration::ZERO, end));
    assert!(end <= outside.elapsed() + Duration::from_millis(1));
}
