//! Times that begin elsewhere: recorded by the program, and ended by a guard.

use crate::perfetto::decoded;
use crate::recording::turn;
use rdpmc::Clock;
use rdpmc_spans::{Flags, Moment, Row, Settings, SpanSince, Storage, record, span};
use std::future::Future;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime};

const BOTH: [Storage; 2] = [Storage::Ring { records: 1 << 16 }, Storage::Histograms];

fn row_of(rows: &[Row], name: &str) -> Row {
    rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name}: {rows:?}")).clone()
}

/// A guard that goes to another thread, with a number: the record is of the thread that drops it, and nests nowhere.
#[test]
fn a_guard_ends_on_another_thread() {
    let _turn = turn();
    let mut spans = Settings::new().start().unwrap();
    let outside = Instant::now();
    let guard: SpanSince = span!("handed over", 7, since = Moment::now());
    let (begun, number) = (Instant::now(), spans.threads().len());
    assert_eq!(number, 1, "a moment is the thread's first use of its clock");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _around = span!("around");
            std::thread::sleep(Duration::from_millis(2));
            drop(span!("inside"));
            drop(guard);
        });
    });
    let (least, most) = (Duration::from_millis(2), outside.elapsed());
    assert!(begun.elapsed() >= least);
    let interval = spans.view();
    let found = interval.records().find(|record| record.name() == "handed over").unwrap();
    assert_eq!((found.depth(), found.number(), found.thread()), (0, Some(7), 2), "{found:?}");
    assert!(found.time() >= least && found.time() <= most, "{found:?} in {most:?}");
    assert_eq!((found.parent().map(|site| site.name()), found.flags()), (None, Flags::NONE));
    let inside: Vec<_> = found.inside().map(|record| record.name()).collect();
    assert_eq!(inside, ["inside"], "the span around it had not ended");
    let around = interval.records().find(|record| record.name() == "around").unwrap();
    let inside: Vec<_> = around.inside().map(|record| record.name()).collect();
    assert_eq!((inside, around.depth()), (vec!["inside"], 1));
}

/// Times from an instant, from the wall clock and of a duration, in the past and in the future.
#[test]
fn moments_of_other_clocks() {
    let _turn = turn();
    let mut spans = Settings::new().start().unwrap();
    let [age, soon] = [50, 20].map(Duration::from_millis);
    let before = Instant::now();
    let (instant, wall) = (Instant::now() - age, SystemTime::now() - age);
    record!("instant", Moment::from(instant)..);
    record!("wall clock", Moment::from(wall)..);
    record!("duration", age);
    record!("future", Moment::from(Instant::now())..Moment::from(Instant::now() + soon));
    record!("future wall", Moment::from(SystemTime::now())..(SystemTime::now() + soon).into());
    record!("backwards", Moment::from(Instant::now() + soon)..Moment::now());
    drop(span!("since an instant", since = instant));
    drop(span!("since", 3, since = wall));
    let longest = before.elapsed();
    let interval = spans.view();
    let time = |name: &str| interval.records().find(|record| record.name() == name).unwrap().time();
    // NTP may slew the clocks by 500 ppm, and the conversion of a calibrated clock is some ppm off.
    let near = |time: Duration, least: Duration, name: &str| {
        let slack = age / 500;
        let is_near = time + slack >= least && time <= least + longest + slack;
        assert!(is_near, "{name}: {time:?}, not {least:?} and up to {longest:?} more");
    };
    for name in ["instant", "wall clock", "since an instant", "since"] {
        near(time(name), age, name);
    }
    near(time("duration"), age, "duration");
    near(time("future"), soon, "future");
    near(time("future wall"), soon, "future wall");
    assert_eq!(time("backwards"), Duration::ZERO);
}

/// A time that began, or would end, while spans are off is nothing. It is not lost either.
#[test]
fn nothing_while_spans_are_off() {
    let _turn = turn();
    for storage in BOTH {
        let off = Moment::now();
        record!("off", off..);
        let mut spans = Settings::new().storage(storage).start().unwrap();
        record!("begun before", off..);
        drop(span!("begun before", since = off));
        let on = Moment::now();
        rdpmc_spans::set_enabled(false);
        record!("ended after", on..);
        let off = Moment::now();
        rdpmc_spans::set_enabled(true);
        record!("begun while off", off..on);
        record!("whole", on..);
        let report = spans.report();
        let names: Vec<_> = report.rows.iter().map(|row| (row.name, row.count)).collect();
        assert_eq!((names, report.lost), (vec![("whole", 1)], 0), "{storage:?}");
    }
}

/// A time with a number takes two records of a ring. One that has no room is counted, and no number goes to another span.
#[test]
fn a_full_ring() {
    let _turn = turn();
    for records in [1, 2, 3, 4, 7] {
        let mut spans = Settings::new().storage(Storage::Ring { records }).start().unwrap();
        for number in 0..20_u64 {
            record!("numbered", Duration::ZERO, number);
            record!("bare", Duration::ZERO);
            drop(span!("span", 100 + number));
        }
        let interval = spans.take();
        let report = interval.report();
        for record in interval.records() {
            match record.name() {
                "numbered" => assert!(record.number().is_some_and(|it| it < 20), "{record:?}"),
                "bare" => assert_eq!(record.number(), None, "{record:?}"),
                _ => assert!(record.number().is_some_and(|it| it >= 100), "{record:?}"),
            }
        }
        let kept = interval.records().count() as u64;
        assert_eq!(kept + report.threads[0].dropped, 60, "{records}: {report}");
        assert!(kept > 0, "{records}");
    }
}

/// A slow time has its cause among the spans of its thread: those of the outermost span that is open, or of the last one.
#[test]
fn the_cause_of_a_slow_time() {
    let _turn = turn();
    let limit = Duration::from_millis(5);
    for storage in BOTH {
        for is_inside in [true, false] {
            let settings = Settings::new().storage(storage).slow("tick to trade", limit);
            let mut spans = settings.start().unwrap();
            for tick in 0..50_u64 {
                let sent = Moment::now();
                let tick_span = span!("tick", tick);
                {
                    let _decide = span!("decide");
                    if tick == 33 {
                        std::thread::sleep(20 * limit);
                    }
                }
                drop(span!("encode"));
                if is_inside {
                    record!("tick to trade", sent.., tick);
                    drop(tick_span);
                } else {
                    drop(tick_span);
                    record!("tick to trade", sent.., tick);
                }
            }
            let interval = spans.take();
            let found = interval.slowest().find(|slow| slow.record().number() == Some(33)).unwrap();
            let record = found.record();
            assert_eq!((record.name(), record.depth()), ("tick to trade", 0));
            assert!(record.time() >= 20 * limit, "{record:?}");
            let mut names: Vec<_> = found.inside().map(|record| record.name()).collect();
            if !is_inside {
                assert_eq!(names.pop(), Some("tick"), "{storage:?}");
            }
            assert_eq!(names, ["decide", "encode"], "{storage:?}");
            let cause = found.cause();
            let place = cause.place.clone().unwrap();
            assert_eq!((place.name, place.spans), ("decide", 1), "{storage:?}: {cause}");
            assert!(place.time >= 20 * limit && place.time <= record.time(), "{cause}");
            let line = interval.report().slowest()[0].clone();
            assert!(line.starts_with("tick to trade "), "{line}");
            let mut trace = Vec::new();
            interval.write_slow_trace(&mut trace).unwrap();
            let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
            let events = trace["traceEvents"].as_array().unwrap();
            let of = |phase: &str| {
                let events = events.iter().filter(|event| event["ph"] == phase);
                events.filter(|event| event["name"] == "tick to trade").count()
            };
            assert_eq!([of("b"), of("e")], [interval.slowest().len(); 2], "{storage:?}");
        }
    }
}

/// A slow time, and then the slow outermost span in which it was recorded: each once, with what ran in it.
#[test]
fn a_slow_time_in_a_slow_span() {
    let _turn = turn();
    for storage in BOTH {
        let limit = Duration::from_millis(1);
        let settings = Settings::new().storage(storage).slow("answer", limit).slowest(2);
        let mut spans = settings.start().unwrap();
        for frame in 0..5_u64 {
            let _frame = span!("frame", frame);
            drop(span!("first"));
            if frame == 2 {
                record!("answer", 10 * limit);
                drop(span!("second"));
                record!("answer", 20 * limit);
                std::thread::sleep(30 * limit);
            }
            drop(span!("third"));
        }
        let interval = spans.take();
        let slow: Vec<_> = interval.slowest().collect();
        let numbers = slow.iter().filter(|slow| slow.record().number() == Some(2)).count();
        assert_eq!(numbers, 1, "{storage:?}: {slow:?}");
        let answers = slow.iter().filter(|slow| slow.record().name() == "answer");
        assert_eq!(answers.count(), 2, "{storage:?}: {slow:?}");
        let frame = slow.iter().find(|slow| slow.record().number() == Some(2)).unwrap();
        let inside: Vec<_> = frame.inside().map(|record| record.name()).collect();
        assert_eq!(inside, ["first", "second", "third"], "{storage:?}");
        let rows = interval.report().rows;
        let count = |name: &str| row_of(&rows, name).count;
        assert_eq!(["frame", "first", "second", "third"].map(count), [5, 5, 1, 5]);
    }
}

/// Times that began before the counter did, or would end in the far future, have their lengths and places that a trace can show. What is longer
/// than years is of a wrong timestamp, and is lost.
#[test]
fn extreme_times() {
    let _turn = turn();
    let day = Duration::from_secs(86_400);
    for storage in BOTH {
        let mut spans = Settings::new().storage(storage).slow("long", day).start().unwrap();
        record!("long", 300 * day);
        record!("long", Moment::from(SystemTime::now() - 200 * day).., 7);
        drop(span!("long", since = SystemTime::now() - 100 * day));
        let lost: u64 = 6;
        for _ in 0..2 {
            record!("lost", Duration::MAX);
            record!("lost", SystemTime::UNIX_EPOCH..);
            record!("lost", Moment::from_ticks(0)..Moment::from_ticks(u64::MAX));
        }
        record!("backwards", Moment::from_ticks(u64::MAX)..Moment::from_ticks(0));
        let interval = spans.take();
        let report = interval.report();
        assert_eq!(report.lost, lost, "{report}");
        let long = report.rows.iter().filter(|row| row.name == "long");
        let total: Duration = long.map(|row| row.total).sum();
        assert!(total.abs_diff(600 * day) < day / 24, "{report}");
        let backwards = row_of(&report.rows, "backwards");
        assert_eq!((backwards.count, backwards.total), (1, Duration::ZERO), "{report}");
        assert_eq!(interval.slowest().len(), 3);
        for slow in interval.slowest() {
            let record = slow.record();
            assert!(record.start() <= record.end() && record.end() < day, "{record:?}");
            assert!(record.wall_clock() <= SystemTime::now() + day, "{record:?}");
            assert!(record.time() >= 99 * day, "{record:?}");
        }
        for line in report.slowest() {
            assert!(line.starts_with("long"), "{line}");
        }
    }
}

/// Times with the same ends are as many slow times, and each has its own number and cause.
#[test]
fn equal_times() {
    let _turn = turn();
    for storage in BOTH {
        let settings = Settings::new().storage(storage);
        let settings = settings.slow("first", Duration::ZERO).slow("second", Duration::ZERO);
        let mut spans = settings.start().unwrap();
        let (begin, end);
        {
            let _around = span!("around");
            begin = Moment::now();
            drop(span!("work"));
            std::thread::sleep(Duration::from_millis(1));
            end = Moment::now();
            record!("third", begin..end);
            record!("first", begin..end, 1);
            record!("second", begin..end, 2);
            for number in 10..13 {
                record!("first", begin..end, number);
            }
        }
        let interval = spans.take();
        let mut found: Vec<_> = interval
            .slowest()
            .map(|slow| (slow.record().name(), slow.record().number().unwrap()))
            .collect();
        found.sort_unstable();
        assert_eq!(
            found,
            [("first", 1), ("first", 10), ("first", 11), ("first", 12), ("second", 2)]
        );
        let mut trace = Vec::new();
        interval.write_slow_trace(&mut trace).unwrap();
        let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        assert_eq!(events.iter().filter(|event| event["ph"] == "b").count(), 5, "{storage:?}");
    }
}

/// Slow spans inside are kept once, however many slow times follow them, and no slow time is crowded out.
#[test]
fn many_slow_times_in_one_span() {
    const TIMES: u64 = 900;
    let _turn = turn();
    for storage in BOTH {
        let settings = Settings::new().storage(storage).slow("inner", Duration::ZERO);
        let mut spans = settings.slow("queue", Duration::ZERO).start().unwrap();
        {
            let _frame = span!("frame");
            {
                let _inner = span!("inner");
                std::thread::sleep(Duration::from_millis(20));
            }
            for number in 0..TIMES {
                record!("queue", Duration::from_micros(10 + number), number);
                if number % 100 == 0 {
                    spans.collect();
                }
            }
        }
        let interval = spans.take();
        let count = |name: &str| {
            interval.slowest().filter(|slow| slow.record().name() == name).count() as u64
        };
        assert_eq!([count("inner"), count("queue")], [1, TIMES], "{storage:?}");
        assert_eq!(interval.report().slow_not_kept, 0, "{storage:?}");
    }
}

/// What is not kept of the spans in a slow time is counted, so that a cause does not blame the time outside of spans.
#[test]
fn spans_in_a_slow_time_that_are_not_kept() {
    const SPANS: u64 = 6_000;
    let _turn = turn();
    for storage in BOTH {
        let settings = Settings::new().storage(storage).slow("time", Duration::from_millis(1));
        let mut spans = settings.start().unwrap();
        let begin = {
            let _outer = span!("outer");
            let begin = Moment::now();
            for number in 0..SPANS {
                drop(span!("short"));
                if number % 1_000 == 0 {
                    spans.collect();
                }
            }
            std::thread::sleep(Duration::from_millis(2));
            record!("time", begin..);
            begin
        };
        {
            let _next = span!("next outer");
            drop(span!("inside"));
            record!("time", begin.., 2);
        }
        let interval = spans.take();
        for slow in interval.slowest() {
            let kept = slow.inside().filter(|record| record.name() == "short").count() as u64;
            assert!(kept < SPANS && slow.not_kept() > 0, "{storage:?}: {kept}, {slow:?}");
            if slow.record().number().is_none() {
                assert_eq!(kept + slow.not_kept(), SPANS, "{storage:?}");
            }
            assert!(slow.cause().to_string().contains("Not kept: "), "{}", slow.cause());
        }
        assert_eq!(interval.slowest().len(), 2);
    }
}

/// A moment of an `Instant` is when it was, also if the thread has first to open its clock.
#[test]
fn a_first_moment_is_not_late() {
    let _turn = turn();
    let mut spans = Settings::new().events(&["cycles", "instructions"]).start().unwrap();
    let clock = Clock::open().unwrap();
    for _ in 0..20 {
        let before = clock.ticks();
        let instant = Instant::now();
        let after = clock.ticks();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let moment = Moment::from(instant);
                record!("from", Moment::from_ticks(before)..moment);
                record!("until", moment..Moment::from_ticks(after));
                record!("all", Moment::from_ticks(before)..Moment::from_ticks(after));
            });
        });
    }
    let interval = spans.take();
    let times = |name: &str| {
        let records = interval.records().filter(|record| record.name() == name);
        records.map(|record| record.time()).collect::<Vec<_>>()
    };
    let (from, until, all) = (times("from"), times("until"), times("all"));
    // A switch between two reads of one of the looks may add to it, and not to all.
    let differences = from
        .iter()
        .zip(&until)
        .zip(&all)
        .map(|((from, until), all)| (*from + *until).abs_diff(*all));
    let mut differences: Vec<_> = differences.collect();
    differences.sort_unstable();
    assert!(differences[10] <= Duration::from_micros(20), "{differences:?}");
}

/// A future that is made or polled while spans are off has no whole time, and is not lost. Names are constants of any name.
#[test]
fn futures_while_spans_are_off() {
    const NAME: &str = "a future";
    let _turn = turn();
    let mut spans = Settings::new().start().unwrap();
    let run = |is_on: [bool; 3]| {
        let [is_made, is_polled, is_dropped] = is_on;
        rdpmc_spans::set_enabled(is_made);
        let mut future = rdpmc_spans::polled!(NAME, std::future::ready(NAME.len()));
        rdpmc_spans::set_enabled(is_polled);
        let waker = std::task::Waker::noop();
        let polled = std::pin::Pin::new(&mut future)
            .as_mut()
            .poll(&mut std::task::Context::from_waker(waker));
        assert_eq!(polled, std::task::Poll::Ready(NAME.len()));
        rdpmc_spans::set_enabled(is_dropped);
        drop(future);
        rdpmc_spans::set_enabled(true);
    };
    for number in 0..8 {
        run([number & 1 != 0, number & 2 != 0, number & 4 != 0]);
    }
    drop(rdpmc_spans::polled!(NAME, 17, std::future::ready(())));
    let report = spans.report();
    assert_eq!(report.lost, 0, "{report}");
    let counts: Vec<_> = report.rows.iter().map(|row| (row.name, row.count)).collect();
    // Polled while on, made and polled while on, and the one that was dropped before it was polled.
    assert_eq!(
        counts,
        [("a future", 4), ("a future (whole)", 2), ("a future (whole)", 1)],
        "{report}"
    );
}

/// What a thread can no longer record is lost: in a destructor that runs after its state is gone.
#[test]
fn times_at_the_end_of_a_thread() {
    struct AtTheEnd;
    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            record!("at the end", Duration::from_micros(1));
            record!("at the end", Moment::now()..);
        }
    }
    thread_local! {
        static LATE: AtTheEnd = const { AtTheEnd };
    }
    let _turn = turn();
    let mut spans = Settings::new().start().unwrap();
    // Joined, so that its destructors have run: a scope does not wait for these.
    let ends = || {
        LATE.with(|_| ()); // first, so that it is dropped last
        drop(span!("a span"));
    };
    std::thread::spawn(ends).join().unwrap();
    let report = spans.report();
    let recorded: u64 =
        report.rows.iter().filter(|row| row.name == "at the end").map(|row| row.count).sum();
    assert_eq!(recorded + report.lost, 2, "{report}");
}

/// Times of many names are all in a Perfetto trace: those of the first names on tracks of their own.
#[test]
fn times_of_many_names_in_a_trace() {
    let _turn = turn();
    let sites: Vec<&'static rdpmc_spans::Site> = (0..200)
        .map(|number| {
            let name = String::leak(format!("time {number}"));
            &*Box::leak(Box::new(rdpmc_spans::Site::new(name, file!(), line!())))
        })
        .collect();
    let mut spans = Settings::new().start().unwrap();
    for site in &sites {
        rdpmc_spans::record_time(site, Duration::ZERO, None);
    }
    let mut trace = Vec::new();
    spans.take().write_perfetto(&mut trace).unwrap();
    let mut names = std::collections::HashSet::new();
    decoded::Decoded::decode(&trace).spans(|span, _| {
        names.insert(span["name"].as_str().unwrap().to_owned());
    });
    assert_eq!(names.len(), 200);
}

/// Ticks that wait behind a slow one have it as their cause, although it began before they did.
#[test]
fn the_cause_of_a_backlog() {
    let _turn = turn();
    let (stall, limit) = (Duration::from_millis(50), Duration::from_millis(10));
    let mut spans = Settings::new().slow("tick to trade", limit).start().unwrap();
    let (feed, ticks) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for tick in 0..200_u64 {
                feed.send((Moment::now(), tick)).unwrap();
                std::thread::sleep(Duration::from_micros(if tick < 50 { 200 } else { 50 }));
            }
        });
        for (sent, tick) in ticks {
            {
                let _handle = span!("handle", tick);
                if tick == 100 {
                    std::thread::sleep(stall);
                }
            }
            record!("tick to trade", sent.., tick);
        }
    });
    let interval = spans.take();
    let is_stalled = |name: &str, number: Option<u64>| name == "handle" && number == Some(100);
    let mut records = interval.records();
    let stalled = records.find(|record| is_stalled(record.name(), record.number())).unwrap();
    let mut behind = 0;
    for slow in interval.slowest().filter(|slow| slow.record().number() > Some(100)) {
        let cause = slow.cause();
        let place = cause.place.clone().unwrap();
        // Most of its wait was for that one.
        let begun = slow.record().start();
        if begun > stalled.start() && begun + stall / 2 < stalled.end() {
            assert_eq!((place.name, place.number), ("handle", Some(100)), "{cause}");
            assert!(place.time >= stall, "{cause}");
            behind += 1;
        }
    }
    assert!(behind > 0, "{behind} of {}", interval.slowest().len());
}
