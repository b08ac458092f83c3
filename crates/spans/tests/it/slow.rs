//! Slow spans: what is kept of them, and why they were slow.

use crate::recording::turn;
use rdpmc_spans::{Flags, Reason, Settings, SlowSpan, Storage, span};
use std::time::{Duration, Instant, SystemTime};

fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {}
}

const BOTH: [Storage; 2] = [Storage::Ring { records: 1 << 14 }, Storage::Histograms];

/// Returns the least time that its span can have.
fn frame(number: u64, slow: Duration) -> Duration {
    let _frame = span!("frame", number);
    let begin = Instant::now();
    drop(span!("input"));
    let _work = span!("work");
    spin(slow);
    begin.elapsed()
}

fn names(slow: SlowSpan<'_>) -> Vec<&'static str> {
    slow.inside().map(|record| record.name()).collect()
}

/// The slowest frames are those that were slow, with their numbers and what ran in them, and the next interval has its own. A
/// machine in use may make others slow.
#[test]
fn the_slowest_of_each_interval() {
    let _turn = turn();
    for storage in BOTH {
        let mut spans = Settings::new().storage(storage).slowest(2).keep(0).start().unwrap();
        let begin = SystemTime::now();
        for slow in [[30, 70], [50, 20]] {
            let mut least = Vec::new();
            for number in 0..100 {
                let milliseconds = if slow.contains(&number) { 20 + number } else { 0 };
                least.push(frame(number, Duration::from_millis(milliseconds)));
            }
            spans.collect();
            let interval = spans.take();
            let found: Vec<_> = interval.slowest().collect();
            let [slowest, second] = found[..] else { panic!("{storage:?}: {found:?}") };
            let [slowest, second] = [slowest, second].map(|slow| slow.record());
            assert!(slowest.time() >= second.time(), "{found:?}");
            let numbers = [slowest, second].map(|record| record.number().unwrap() as usize);
            for (number, least) in least.into_iter().enumerate() {
                let is_found = numbers.contains(&number);
                assert!(is_found || least <= second.time(), "{number}: {least:?}, {found:?}");
            }
            for slow in found {
                assert_eq!(names(slow), ["input", "work"]);
                let record = slow.record();
                assert_eq!((record.name(), record.depth()), ("frame", 1));
                assert!(record.time() >= Duration::from_millis(20), "{record:?}");
                assert!(record.wall_clock() + Duration::from_secs(1) >= begin, "{record:?}");
                assert!(record.wall_clock() <= SystemTime::now() + Duration::from_secs(1));
            }
            let report = interval.report();
            let [first, _] = report.slowest() else { panic!("{report}") };
            assert!(first.starts_with(&format!("frame {} on ", numbers[0])), "{first}");
            assert!(first.contains(" UTC. work took "), "{first}");
            let line = interval.line("frame");
            assert!(line.starts_with("frame: 100, 50 % ") && line.contains(first), "{line}");
            let mut trace = Vec::new();
            interval.write_slow_trace(&mut trace).unwrap();
            let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
            let events = trace["traceEvents"].as_array().unwrap();
            assert_eq!(events.iter().filter(|event| event["ph"] == "X").count(), 6);
        }
    }
}

/// All spans over a limit, at any depth, and no others.
#[test]
fn spans_over_a_limit() {
    let _turn = turn();
    for storage in BOTH {
        let limit = Duration::from_millis(300);
        let mut spans = Settings::new().storage(storage).slow("work", limit).start().unwrap();
        for number in 0..20 {
            let milliseconds = if number % 10 == 7 { 310 } else { 1 };
            let _ = frame(number, Duration::from_millis(milliseconds));
        }
        let interval = spans.take();
        let found: Vec<_> = interval.slowest().map(|slow| slow.record().name()).collect();
        // A machine may take longer for others, too.
        assert!(found.len() >= 2 && found.iter().all(|name| *name == "work"), "{found:?}");
        assert!(interval.slowest().all(|slow| slow.record().time() > limit));
        assert_eq!(spans.take().slowest().count(), 0);
    }
}

/// More spans inside a slow one than are kept: the others are counted, and one over its limit is kept all the same.
#[test]
fn a_slow_span_with_many_inside() {
    let _turn = turn();
    for (storage, kept) in BOTH.into_iter().zip([4_096, 1_024]) {
        let limit = Duration::from_millis(300);
        let settings = Settings::new().storage(storage).slowest(1).slow("late", limit);
        let mut spans = settings.start().unwrap();
        {
            let _outer = span!("outer");
            (0..10_000).for_each(|_| drop(span!("inside")));
            let _late = span!("late", 7);
            spin(2 * limit);
        }
        let interval = spans.take();
        let [outer, late] = ["outer", "late"].map(|name| {
            let mut slow = interval.slowest();
            slow.find(|slow| slow.record().name() == name).unwrap()
        });
        assert_eq!(outer.inside().filter(|inside| inside.name() == "late").count(), 1);
        let (inside, not_kept) = (outer.inside().count() as u64, outer.not_kept());
        println!("{storage:?}: {inside} inside, {not_kept} not kept");
        assert_eq!((inside, not_kept), (kept + u64::from(kept == 1_024), 10_001 - inside));
        assert_eq!(late.inside().count(), 0);
        let cause = outer.cause().to_string();
        assert!(cause.ends_with(&format!(" Not kept: {not_kept} spans.")), "{cause}");
        assert_eq!(late.record().number(), Some(7), "{late:?}");
        // The next one has its own.
        drop(span!("outer"));
        let interval = spans.take();
        let slow = interval.slowest().next().unwrap();
        assert_eq!((slow.inside().count(), slow.not_kept()), (0, 0));
    }
}

/// The ring of slow spans is full before the slowest is in it: what is left out of that one is not the next one's.
#[test]
fn a_slow_span_that_is_dropped() {
    let _turn = turn();
    let mut spans = Settings::new().storage(Storage::Histograms).slowest(1_000).start().unwrap();
    for _ in 0..8 {
        let _outer = span!("outer");
        (0..5_000).for_each(|_| drop(span!("inside")));
    }
    spans.collect();
    drop(span!("short"));
    let interval = spans.take();
    let short = interval.slowest().find(|slow| slow.record().name() == "short").unwrap();
    assert_eq!((short.inside().count(), short.not_kept()), (0, 0));
    for outer in interval.slowest().filter(|slow| slow.record().name() == "outer") {
        assert_eq!(outer.inside().count() as u64 + outer.not_kept(), 5_000);
    }
    // All of them are in the statistics.
    assert_eq!(interval.threads()[0].dropped, 0);
    assert!(interval.report().slow_not_kept > 0);
}

/// What an earlier collect has taken is beside a slow span that ends later.
#[test]
fn beside_across_collects() {
    let _turn = turn();
    let mut spans = Settings::new().slowest(1).start().unwrap();
    {
        let _root = span!("root");
        std::thread::spawn(|| {
            let _job = span!("job");
            spin(Duration::from_millis(1));
        })
        .join()
        .unwrap();
        assert_eq!(spans.collect(), 1);
    }
    let interval = spans.take();
    let slow = interval.slowest().next().unwrap();
    assert_eq!(slow.record().name(), "root");
    assert_eq!(slow.beside().map(|record| record.name()).collect::<Vec<_>>(), ["job"]);
}

/// What takes longest in a lap is a span in it, and not one inside that.
#[test]
fn why_a_lap_was_slow() {
    let _turn = turn();
    static STAGE: rdpmc_spans::Site = rdpmc_spans::Site::new("stage", file!(), line!());
    let limit = Duration::from_millis(2);
    let mut spans = Settings::new().slow("stage", limit).start().unwrap();
    {
        let _outer = span!("outer");
        let mut laps = rdpmc_spans::Laps::start();
        {
            let _long = span!("long");
            drop(span!("inner"));
            spin(2 * limit);
        }
        laps.next(&STAGE);
    }
    let interval = spans.take();
    let slow = interval.slowest().find(|slow| slow.record().name() == "stage").unwrap();
    assert_eq!(names(slow), ["inner", "long"]);
    let place = slow.cause().place.unwrap();
    assert_eq!((place.name, place.is_root, place.is_own), ("long", false, true), "{place:?}");
}

/// A frame that waits for another thread has waited, and shows what that thread did.
#[test]
fn why_a_frame_was_slow() {
    let _turn = turn();
    let mut spans = Settings::new().causes().slowest(1).start().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().name("worker".into());
        let work = || {
            {
                let _job = span!("job");
                std::thread::sleep(Duration::from_millis(30));
            }
            tell.send(()).unwrap();
        };
        {
            let _frame = span!("frame");
            worker.spawn_scoped(scope, work).unwrap();
            told.recv().unwrap();
        }
        spans.collect();
    });
    let interval = spans.take();
    // The job is an outermost span, too.
    let slow = interval.slowest().next().unwrap();
    assert!(["frame", "job"].contains(&slow.record().name()), "{slow:?}");
    let knows = interval.threads().iter().all(|thread| thread.knows_causes);
    let frame = interval.records().find(|record| record.name() == "frame").unwrap();
    let beside: Vec<_> = frame.beside().map(|record| record.name()).collect();
    assert_eq!(beside, ["job"]);
    if slow.record().name() == "frame" {
        let beside: Vec<_> = slow.beside().map(|record| record.thread_name().to_string()).collect();
        assert_eq!(beside, ["worker"]);
    }
    println!("causes are known: {knows}. {}", slow.cause());
    let report = interval.report();
    if knows {
        assert!(frame.flags().contains(Flags::DISTURBED.union(Flags::WAITED)), "{frame:?}");
        if slow.record().name() == "frame" {
            let cause = slow.cause();
            assert!(matches!(cause.reasons[..], [Reason::Waited { .. }, ..]), "{cause}");
            let names =
                cause.waited_for.iter().map(|holder| (holder.place.name, &*holder.place.thread));
            assert_eq!(names.collect::<Vec<_>>(), [("job", "worker")], "{cause}");
        }
        assert!(report.rows.iter().all(|row| row.waited == Some(1)), "{report}");
    } else {
        assert!(report.rows.iter().all(|row| row.waited.is_none()), "{report}");
    }
}

/// A thread that neither waits nor shares its CPU with others is not disturbed for ever: most spans are clean.
#[test]
fn clean_spans() {
    let _turn = turn();
    let mut spans = Settings::new().causes().start().unwrap();
    for _ in 0..100_000 {
        drop(span!("short"));
    }
    let report = spans.report();
    let row = &report.rows[0];
    println!("{report}");
    if report.threads[0].knows_causes {
        assert!(row.disturbed.unwrap() < 10_000, "{report}");
        assert!(row.time_clean.unwrap().max <= row.time.max);
    } else {
        assert_eq!((row.disturbed, row.time_clean), (None, None), "it is not known");
        assert!(report.to_string().contains("disturbed -"));
    }
}

/// More spans over their limit than are kept: the longest are, and the others are counted.
#[test]
fn the_longest_over_a_limit_are_kept() {
    let _turn = turn();
    let mut spans = Settings::new().slow("tick", Duration::ZERO).keep(0).start().unwrap();
    for number in 0..3_000 {
        let _tick = span!("tick", number);
        if number >= 2_990 {
            spin(Duration::from_millis(1));
        }
    }
    let interval = spans.take();
    let report = interval.report();
    let over = interval.slowest().count() as u64;
    // A span may take less than a step of the clock.
    assert!(over <= 1_000 && over + report.slow_not_kept <= 3_000, "{over}");
    assert!(report.slow_not_kept > 0 || over < 1_000, "{report}");
    let kept: Vec<u64> = interval.slowest().filter_map(|slow| slow.record().number()).collect();
    assert!((2_990..3_000).all(|number| kept.contains(&number)), "{kept:?}");
}

/// Each second has a line of its own, and the whole run a page: as if it had been one interval.
#[test]
fn merged_intervals() {
    let _turn = turn();
    for storage in BOTH {
        let settings =
            Settings::new().storage(storage).slowest(2).slow("work", Duration::from_millis(5));
        let mut spans = settings.keep(100).start().unwrap();
        let mut run = spans.take();
        for second in 0..5_u64 {
            for number in 0..20 {
                let is_slow = number == second;
                let _ =
                    frame(100 * second + number, Duration::from_millis(10 * u64::from(is_slow)));
            }
            std::thread::Builder::new()
                .name("short".into())
                .spawn(|| drop(span!("job")))
                .unwrap()
                .join()
                .unwrap();
            let interval = spans.take();
            assert!(spans.line("frame").ends_with("no spans"));
            run.merge(&interval).unwrap();
        }
        let report = run.report();
        let count = |name: &str| -> u64 {
            report.rows.iter().filter(|row| row.name == name).map(|row| row.count).sum()
        };
        assert_eq!(["frame", "input", "work", "job"].map(count), [100, 100, 100, 5], "{report}");
        assert_eq!(report.threads.iter().find(|thread| thread.name == "short").unwrap().ended, 5);
        let slow: Vec<&str> = run.slowest().map(|slow| slow.record().name()).collect();
        assert_eq!(slow.iter().filter(|name| **name == "frame").count(), 2, "{slow:?}");
        assert!(slow.iter().filter(|name| **name == "work").count() >= 5, "{slow:?}");
        let kept = run.records().len() as u64;
        match storage {
            Storage::Histograms => assert_eq!(kept, 0),
            // 64 a second: three a frame, and that of the job.
            _ => assert_eq!((kept, run.not_kept()), (100, 5 * 61 - 100)),
        }
        drop(spans);
        let mut other = Settings::new().start().unwrap();
        assert!(run.merge(&other.take()).unwrap_err().to_string().contains("two recordings"));
    }
}

/// Writes to pages that the process has never had: a fault for each.
fn touch_new_memory(pages: usize) {
    // SAFETY: memory of its own, which is written within its bounds and then unmapped.
    unsafe {
        let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap();
        let (size, protection) = (pages * page, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let memory = libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        // Kernels without huge pages refuse this.
        libc::madvise(memory, size, libc::MADV_NOHUGEPAGE);
        for at in (0..size).step_by(page) {
            memory.cast::<u8>().add(at).write_volatile(1);
        }
        assert_eq!(libc::munmap(memory, size), 0);
    }
}

/// Page faults of named spans, beside the kernel's own numbers.
#[test]
fn page_faults_of_named_spans() {
    let _turn = turn();
    for storage in BOTH {
        for with_causes in [false, true] {
            let mut settings =
                Settings::new().storage(storage).faults("named").slow("named", Duration::ZERO);
            if with_causes {
                settings = settings.causes();
            }
            let mut spans = settings.start().unwrap();
            for number in 0..20_u64 {
                let _named = span!("named", number);
                let _inner = span!("inner");
                if number == 13 {
                    touch_new_memory(1_000);
                }
                spin(Duration::from_micros(20));
            }
            let interval = spans.take();
            let faults = |number: u64| {
                let slow = interval.slowest().find(|slow| slow.record().number() == Some(number));
                let cause = slow.unwrap().cause();
                cause.reasons.into_iter().find_map(|reason| match reason {
                    Reason::PageFaults { of, count, .. } => Some((of, count)),
                    _ => None,
                })
            };
            let (of, count) = faults(13).unwrap();
            // The program itself may have some more.
            assert!(of == "named" && (1_000..1_100).contains(&count), "{of}: {count}");
            assert_eq!(faults(5), None);
            let row = interval.report().rows.into_iter().find(|row| row.name == "named").unwrap();
            assert_eq!(row.count, 20);
        }
    }
}

/// Names in the settings that no span has are said once, as soon as there are spans.
#[test]
fn names_that_no_span_has() {
    let _turn = turn();
    let limit = Duration::from_secs(1);
    let settings = Settings::new().slow("fram", limit).slow("frame", limit).faults("fram");
    let mut spans = settings.start().unwrap();
    assert!(!spans.report().to_string().contains("No span is named"));
    drop(span!("frame"));
    let interval = spans.take();
    let report = interval.report().to_string();
    let note = "No span is named `fram`, which `Settings::slow` or `Settings::faults` names.";
    assert_eq!(report.matches("No span is named").count(), 1, "{report}");
    assert!(report.contains(note), "{report}");
    assert_eq!(interval.line("fram"), "fram: no spans");
}
