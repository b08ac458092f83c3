//! Spans of the crate `tracing`, in code that waits for nothing and in code that a runtime moves between threads.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use rdpmc_spans::{Flags, TracingLayer, span};
use rdpmc_testing::recording::{all, names, start, turn};
use std::collections::HashSet;
use std::hint::black_box;
use std::task::{Context, Waker};
use tracing::Dispatch;
use tracing::instrument;
use tracing_subscriber::layer::SubscriberExt;

fn dispatch() -> Dispatch {
    Dispatch::new(tracing_subscriber::registry().with(TracingLayer::new()))
}

#[instrument]
fn outer() {
    let _span = span!("between");
    inner();
}

#[instrument]
fn inner() {
    black_box((0..1_000_u64).sum::<u64>());
}

#[test]
fn spans_of_both_crates_nest() {
    let _turn = turn();
    let mut spans = start();
    tracing::dispatcher::with_default(&dispatch(), || {
        outer();
        outer();
    });
    let records = all(&mut spans);
    let once = [("inner", Some("between")), ("between", Some("outer")), ("outer", None)];
    assert_eq!(names(&records), [once, once].concat());
    let is_counted = !spans.threads()[0].events.is_empty();
    for record in &records {
        assert!(!record.flags.contains(Flags::NOT_COUNTED), "{record:?}");
        assert_eq!(record.counts[1] > 0, is_counted, "{record:?}");
        assert!(record.site.file().ends_with("tracing.rs") && record.site.line() > 0);
    }
    // A place in the source is one site, however often it is entered.
    let sites: HashSet<_> = records.iter().map(|record| std::ptr::from_ref(record.site)).collect();
    assert_eq!(sites.len(), 3);
}

/// Each poll is a record of the thread that polls, with its counts.
#[instrument]
async fn in_two_polls() {
    let mut is_second = false;
    std::future::poll_fn(|context| match std::mem::replace(&mut is_second, true) {
        true => std::task::Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        }
    })
    .await;
    inner();
}

#[test]
fn a_future_that_another_thread_goes_on_with() {
    let _turn = turn();
    let mut spans = start();
    let dispatch = dispatch();
    let mut future = Box::pin(tracing::dispatcher::with_default(&dispatch, in_two_polls));
    let mut poll = || {
        let mut context = Context::from_waker(Waker::noop());
        tracing::dispatcher::with_default(&dispatch, || future.as_mut().poll(&mut context))
    };
    assert!(poll().is_pending());
    std::thread::scope(|scope| assert!(scope.spawn(poll).join().unwrap().is_ready()));
    let records = all(&mut spans);
    let polls = records.iter().filter(|record| record.name() == "in_two_polls");
    let threads: HashSet<u32> = polls.clone().map(|record| record.thread).collect();
    assert_eq!(threads.len(), 2, "{records:?}");
    for record in polls {
        let info = spans.threads().into_iter().find(|info| info.number == record.thread).unwrap();
        assert!(!record.flags.contains(Flags::NOT_COUNTED), "{record:?}");
        assert_eq!(record.counts[1] > 0, !info.events.is_empty(), "{record:?}");
    }
    assert!(records.iter().any(|record| record.name() == "inner"));
}

#[instrument]
async fn request(of: u64) -> u64 {
    for _ in 0..10 {
        tokio::task::yield_now().await;
        part().await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    of
}

#[instrument]
async fn part() {
    inner();
    tokio::task::yield_now().await;
}

#[test]
fn under_tokio() {
    const REQUESTS: u64 = 50;
    let _turn = turn();
    let mut spans = start();
    let dispatch = dispatch();
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }
        .worker_threads(3)
        .enable_time()
        .on_thread_start({
            let dispatch = dispatch.clone();
            move || std::mem::forget(tracing::dispatcher::set_default(&dispatch))
        })
        .build()
        .unwrap();
    tracing::dispatcher::with_default(&dispatch, || {
        let requests: Vec<_> = (0..REQUESTS).map(|of| runtime.spawn(request(of))).collect();
        for (of, request) in requests.into_iter().enumerate() {
            assert_eq!(runtime.block_on(request).unwrap(), of as u64);
        }
    });
    drop(runtime);
    let records = all(&mut spans);
    let of = |name: &str| records.iter().filter(|record| record.name() == name).count();
    // Each wait ends a poll, and the span is entered once more when it is dropped.
    println!("{} polls of requests, {} of parts", of("request"), of("part"));
    assert!(of("request") as u64 >= REQUESTS * 21, "{}", of("request"));
    assert_eq!(of("inner") as u64, REQUESTS * 10);
    for record in &records {
        let parent = match record.name() {
            "request" => None,
            "part" => Some("request"),
            _ => Some("part"),
        };
        assert_eq!(record.around(), parent, "{record:?}");
        for flag in [Flags::OUT_OF_ORDER, Flags::NOT_COUNTED] {
            assert!(!record.flags.contains(flag), "{record:?}");
        }
    }
    let report = spans.report();
    assert_eq!(report.lost, 0);
    let trace = {
        let mut trace = Vec::new();
        spans.view().write_trace(&mut trace).unwrap();
        trace
    };
    let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().len() > records.len());
}

/// Entered on one thread, left on another: the time is known, the counts are not. It is recorded once the first thread enters
/// another one.
#[test]
fn a_span_that_moves() {
    let _turn = turn();
    let mut spans = start();
    let dispatch = dispatch();
    let moved = tracing::dispatcher::with_default(&dispatch, || tracing::info_span!("moved"));
    let id = moved.id().unwrap();
    (0..3).for_each(|_| drop(span!("before")));
    let around = span!("around");
    dispatch.enter(&id);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let begin = std::time::Instant::now();
            while begin.elapsed().as_millis() < 5 {}
            let _span = span!("elsewhere");
            dispatch.exit(&id);
        });
    });
    tracing::dispatcher::with_default(&dispatch, || drop(tracing::info_span!("next").entered()));
    drop(around);
    drop(span!("after"));
    let records = all(&mut spans);
    let of = |name: &str| records.iter().find(|record| record.name() == name).unwrap();
    let (moved, elsewhere, around) = (of("moved"), of("elsewhere"), of("around"));
    assert_eq!(moved.thread, around.thread, "it belongs to the thread that entered it");
    let flags = Flags::NOT_COUNTED.union(Flags::OUT_OF_ORDER);
    assert!(moved.flags.contains(flags) && moved.counts == [0; 2], "{moved:?}");
    assert!(moved.ticks[0] >= around.ticks[0] && moved.ticks[1] <= elsewhere.ticks[1]);
    assert!(moved.ticks[1] >= elsewhere.ticks[0] && moved.depth == 2, "{moved:?}");
    // Its beginning is its own, and not that of an earlier span in its place.
    let before = records.iter().filter(|record| record.name() == "before");
    assert!(before.clone().map(|record| record.ticks[1]).max() <= Some(moved.ticks[0]));
    assert_eq!((of("next").depth, of("next").flags), (2, Flags::NONE));
    assert_eq!((of("after").depth, of("around").flags), (1, Flags::NONE));
    let report = spans.report();
    let row = report.rows.iter().find(|row| row.name == "moved").unwrap();
    assert_eq!((row.count, row.not_counted, row.counts.len()), (1, 1, 0));
    assert!(row.time.max > 4_000_000, "{row:?}");
}

/// It is the first span of its thread.
#[test]
fn a_first_span_that_moves() {
    let _turn = turn();
    let mut spans = start();
    let dispatch = dispatch();
    let moved = tracing::dispatcher::with_default(&dispatch, || tracing::info_span!("moved"));
    let id = moved.id().unwrap();
    dispatch.enter(&id);
    std::thread::scope(|scope| {
        scope.spawn(|| dispatch.exit(&id)).join().unwrap();
    });
    tracing::dispatcher::with_default(&dispatch, || drop(tracing::info_span!("next").entered()));
    let records = all(&mut spans);
    let [moved, next] = &records[..] else { panic!("{records:?}") };
    assert_eq!((moved.name(), next.name()), ("moved", "next"));
    assert!(moved.time() < 10_000_000_000 && moved.ticks[1] <= next.ticks[0], "{records:?}");
}

/// The thread that entered a span ends without entering another one: the span is counted.
#[test]
fn a_span_that_moves_from_a_thread_that_ends() {
    let _turn = turn();
    let mut spans = start();
    let dispatch = dispatch();
    let moved = tracing::dispatcher::with_default(&dispatch, || tracing::info_span!("moved"));
    let id = moved.id().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| dispatch.enter(&id)).join().unwrap();
    });
    dispatch.exit(&id);
    assert_eq!(all(&mut spans).len(), 0);
    assert_eq!(spans.report().lost, 1);
}

/// However many spans move, the thread that entered them goes on as before.
#[test]
fn many_spans_that_move() {
    let _turn = turn();
    let mut spans = start();
    let dispatch = dispatch();
    tracing::dispatcher::with_default(&dispatch, || {
        let (tell, told) = std::sync::mpsc::channel::<tracing::Id>();
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let dispatch = dispatch.clone();
            scope.spawn(move || {
                for id in told {
                    dispatch.exit(&id);
                    done.send(()).unwrap();
                }
            });
            for _ in 0..1_000 {
                let moved = tracing::info_span!("moved");
                let id = moved.id().unwrap();
                tracing::dispatcher::get_default(|dispatch| dispatch.enter(&id));
                tell.send(id).unwrap();
                is_done.recv().unwrap();
            }
            drop(tell);
        });
        tracing::info_span!("after").in_scope(inner);
    });
    let records = all(&mut spans);
    let of = |name: &'static str| records.iter().filter(move |record| record.name() == name);
    assert_eq!(of("moved").count(), 1_000);
    for record in of("after") {
        assert_eq!((record.depth, record.parent.is_none(), record.flags), (1, true, Flags::NONE));
    }
    assert_eq!(of("after").count(), 1);
    assert_eq!(spans.report().lost, 0);
}

/// A span whose last handle is dropped while it is entered.
#[test]
fn a_span_that_is_closed_while_it_is_entered() {
    let _turn = turn();
    let mut spans = start();
    let dispatch = dispatch();
    let closed = tracing::dispatcher::with_default(&dispatch, || tracing::info_span!("closed"));
    let id = closed.id().unwrap();
    dispatch.enter(&id);
    drop(closed);
    dispatch.exit(&id);
    drop(span!("after"));
    let records = all(&mut spans);
    let found: Vec<_> =
        records.iter().map(|record| (record.name(), record.depth, record.flags)).collect();
    assert_eq!(found, [("closed", 1, Flags::NONE), ("after", 1, Flags::NONE)]);
}

/// One source location is one site, whatever the layer.
#[test]
fn several_layers() {
    let _turn = turn();
    let mut spans = start();
    for _ in 0..3 {
        tracing::dispatcher::with_default(&dispatch(), inner);
    }
    let report = spans.report();
    assert_eq!(report.rows.iter().map(|row| row.count).collect::<Vec<_>>(), [3], "{report}");
}

/// One span on two threads at once, and twice on one.
#[test]
fn a_span_that_is_entered_again() {
    let _turn = turn();
    let mut spans = start();
    let dispatch = dispatch();
    let again = tracing::dispatcher::with_default(&dispatch, || tracing::info_span!("again"));
    let first = again.enter();
    std::thread::scope(|scope| {
        scope.spawn(|| again.in_scope(|| again.in_scope(inner)));
    });
    let second = again.enter();
    drop(second);
    drop(first);
    let records = all(&mut spans);
    let found: Vec<_> = records.iter().filter(|record| record.name() == "again").collect();
    assert_eq!(found.len(), 4, "{records:?}");
    assert_eq!(found.iter().map(|record| record.thread).collect::<HashSet<_>>().len(), 2);
    for record in found {
        assert!(!record.flags.contains(Flags::OUT_OF_ORDER), "{record:?}");
    }
}

/// Switched off between entering and leaving, and on.
#[test]
fn switched_off() {
    let _turn = turn();
    let mut spans = start();
    let dispatch = dispatch();
    let [a, b] = tracing::dispatcher::with_default(&dispatch, || {
        [tracing::info_span!("a"), tracing::info_span!("b")]
    });
    let entered = a.enter();
    rdpmc_spans::set_enabled(false);
    let unrecorded = b.enter();
    rdpmc_spans::set_enabled(true);
    drop(unrecorded);
    drop(entered);
    let names: Vec<_> = all(&mut spans).iter().map(|record| record.name()).collect();
    assert_eq!(names, ["a"]);
    assert_eq!(spans.report().lost, 0);
}

/// Three systems of one source location are three rows, and so are routes that become known later. Numbers are those of a field.
#[test]
fn fields_name_and_number_spans() {
    let _turn = turn();
    let mut spans = start();
    let layer = TracingLayer::new().names_from("route").names_from("name").numbers_from("entities");
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    tracing::dispatcher::with_default(&dispatch, || {
        for (place, name) in ["physics", "render", "audio"].into_iter().cycle().take(9).enumerate()
        {
            let span = tracing::info_span!("system", name, entities = place, other = "x");
            drop(span.entered());
        }
        for route in ["/a", "/b"] {
            let fields = (tracing::field::Empty, -1);
            let span =
                tracing::info_span!("request", route = fields.0, name = 7, entities = fields.1);
            drop(span.enter());
            span.record("route", route);
            span.record("entities", 1_u64 << 40);
            span.record("name", "it comes after the route");
            drop(span.enter());
        }
        drop(tracing::info_span!("bare", unknown = 1).entered());
        // Values without an end.
        for number in 0..1_000 {
            let _span = tracing::info_span!("many", name = number).entered();
        }
    });
    let records = all(&mut spans);
    let of = |name: &str| -> Vec<_> {
        records.iter().filter(|it| it.name() == name).map(|it| it.number).collect()
    };
    assert_eq!(of("system: physics"), [Some(0), Some(3), Some(6)]);
    assert_eq!(of("system: render"), [Some(1), Some(4), Some(7)]);
    assert_eq!(of("system: audio"), [Some(2), Some(5), Some(8)]);
    assert_eq!(of("request: 7"), [None, None], "before the route is known");
    assert_eq!([of("request: /a"), of("request: /b")], [vec![Some(1 << 40)], vec![Some(1 << 40)]]);
    assert_eq!((of("bare"), of("many: 255"), of("many: 256")), (vec![None], vec![None], vec![]));
    assert_eq!(of("many: other names").len(), 1_000 - 256);
    let sites: HashSet<_> = records.iter().map(|record| std::ptr::from_ref(record.site)).collect();
    assert_eq!(sites.len(), 3 + 3 + 1 + 256 + 1);
    assert!(records.iter().all(|it| it.depth == 1 && it.site.file().ends_with("tracing.rs")));
}

/// Two layers with other fields, in one registry and on several threads: each keeps its own.
#[test]
fn fields_of_several_layers() {
    let _turn = turn();
    let mut spans = start();
    let [first, second] = ["first", "second"].map(|field| TracingLayer::new().names_from(field));
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(first).with(second));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let dispatch = &dispatch;
            scope.spawn(move || {
                tracing::dispatcher::with_default(dispatch, || {
                    for number in 0..50 {
                        let (first, second) = (number % 5, (number + thread) % 3);
                        drop(tracing::info_span!("both", first, second).entered());
                    }
                });
            });
        }
    });
    let mut counts: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    all(&mut spans).iter().for_each(|record| *counts.entry(record.name()).or_default() += 1);
    let (names, counts): (Vec<_>, Vec<_>) = counts.into_iter().unzip();
    assert_eq!(names, ["both: 0", "both: 1", "both: 2", "both: 3", "both: 4"]);
    // 40 of each of the first five, and a third of 200 of each of the others.
    assert_eq!(counts.iter().sum::<u64>(), 400);
    assert_eq!(counts[3..], [40, 40]);
}

/// The end of a poll on another thread than its begin leaves the whole time unknown: it is lost, and not forgotten.
#[test]
fn a_whole_time_with_an_unknown_poll() {
    let _turn = turn();
    let mut spans = start();
    let layer = TracingLayer::new().whole_times();
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    tracing::dispatcher::with_default(&dispatch, || {
        let span = tracing::info_span!("moved");
        let id = span.id().unwrap();
        dispatch.enter(&id);
        std::thread::scope(|scope| {
            scope.spawn(|| dispatch.exit(&id));
        });
        drop(span.enter());
        drop(span);
        // One that is entered as by two polls and a drop, for the row.
        let span = tracing::info_span!("known");
        (0..3).for_each(|_| drop(span.enter()));
    });
    let report = spans.report();
    let whole: Vec<_> = report.rows.iter().filter(|row| row.name.ends_with(" (whole)")).collect();
    assert_eq!((whole.len(), whole[0].name, whole[0].polls), (1, "known (whole)", Some(2)));
    assert_eq!(report.lost, 1, "{report}");
}
