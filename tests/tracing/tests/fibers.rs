//! Fibers with stacks of their own, which threads exchange: their open spans go with them.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(unsafe_code)]
#![allow(clippy::disallowed_types, reason = "no child of a fork comes here")]

use corosensei::{Coroutine, CoroutineResult, Yielder};
use rdpmc_spans::{
    Fiber, Flags, Laps, Reason, Row, Settings, Site, Span, Spans, Storage, TracingLayer, span,
};
use rdpmc_testing::recording::{Rec, all, counted, names, turn};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};
use tracing_subscriber::layer::SubscriberExt;

const FIBERS: usize = 200;
const BOTH: [Storage; 2] = [Storage::Ring { records: 1 << 16 }, Storage::Histograms];

fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {}
}

/// A job: a stack, and the spans that are open there.
struct Job {
    stack: Coroutine<(), (), ()>,
    fiber: Fiber,
    /// The thread of its last stay.
    thread: usize,
}

/// How often a fiber went on with another thread.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// Resumes a fiber that has not ended, and returns the time of its stay.
fn resume(job: &mut Option<Job>, thread: usize) -> Duration {
    let Some(of) = job else { return Duration::ZERO };
    CHANGES.fetch_add(u64::from(std::mem::replace(&mut of.thread, thread) != thread), Relaxed);
    let begin = Instant::now();
    let entered = of.fiber.enter();
    let result = of.stack.resume(());
    drop(entered);
    if let CoroutineResult::Return(()) = result {
        *job = None;
    }
    begin.elapsed()
}

// SAFETY: what is on the stack stays on it. Only guards are there that belong to a thread, and `fiber` takes their spans along.
unsafe impl Send for Job {}

/// Opens spans inside each other, and leaves the thread in the middle of each.
fn job(yielder: &Yielder<(), ()>, sites: &[&'static Site], number: usize) {
    let Some((site, inner)) = sites.split_first() else { return };
    let _span = Span::enter(site);
    for _ in 0..1 + number % 3 {
        spin(Duration::from_micros(20));
        if number % 4 > 0 {
            yielder.suspend(());
        }
        job(yielder, inner, number / 3);
    }
}

/// Returns how often a job of this number leaves while it is in the outermost span of `depth` sites, and how often each site is entered.
fn visit(depth: usize, number: usize, place: usize, enters: &mut [u64], open: &mut [u64]) {
    if place == depth {
        return;
    }
    enters[place] += 1;
    for _ in 0..1 + number % 3 {
        if number % 4 > 0 {
            open[..=place].iter_mut().for_each(|stays| *stays += 1);
        }
        visit(depth, number / 3, place + 1, enters, open);
    }
}

/// 200 fibers on two threads, each of which takes any fiber next: the number of stays of each span is exact, each stay has its time, and what is
/// in between is in none.
#[test]
fn fibers_on_two_threads() {
    const SITES: usize = 3;
    static OF: [Site; SITES] = [
        Site::new("outer", file!(), line!()),
        Site::new("middle", file!(), line!()),
        Site::new("inner", file!(), line!()),
    ];
    let _turn = turn();
    for has_counters in [false, true] {
        for storage in BOTH {
            let settings = if has_counters { counted().causes() } else { Settings::new() };
            let mut spans = settings.storage(storage).start().unwrap();
            let (mut enters, mut stays) = ([0; SITES], [0; SITES]);
            let jobs: Vec<Job> = (0..FIBERS)
                .map(|number| {
                    visit(SITES, number, 0, &mut enters, &mut stays);
                    let stack = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
                        let sites: Vec<&'static Site> = OF.iter().collect();
                        job(yielder, &sites, number);
                    });
                    Job { stack, fiber: Fiber::new(), thread: number % 2 }
                })
                .collect();
            let jobs: Vec<Mutex<Option<Job>>> =
                jobs.into_iter().map(|job| Mutex::new(Some(job))).collect();
            let resumed = Mutex::new(Duration::ZERO);
            let barrier = Barrier::new(2);
            std::thread::scope(|scope| {
                for thread in 0..2 {
                    let (jobs, resumed, barrier) = (&jobs, &resumed, &barrier);
                    scope.spawn(move || {
                        let _worker = (thread == 0).then(|| span!("worker"));
                        let mut time = Duration::ZERO;
                        // Each fiber changes its thread some times, and goes on with any.
                        for round in 0..100 {
                            if round < 6 {
                                barrier.wait();
                            }
                            for (number, job) in jobs.iter().enumerate() {
                                let is_mine = (number + round) % 2 == thread;
                                if is_mine || round >= 6 {
                                    let Ok(mut job) = job.try_lock() else { continue };
                                    if job.is_some() {
                                        time += resume(&mut job, thread);
                                        drop(span!("between"));
                                    }
                                }
                            }
                        }
                        *resumed.lock().unwrap() += time;
                    });
                }
            });
            let changed = jobs.iter().map(|job| job.lock().unwrap());
            let left = changed.filter(|job| job.is_some()).count();
            assert_eq!(left, 0, "fibers that have not ended");
            let both = CHANGES.swap(0, Relaxed);
            assert!(both >= 3 * FIBERS as u64 / 4, "{both} changes of a fiber's thread");
            let interval = spans.take();
            let report = interval.report();
            let mut totals = HashMap::new();
            for (place, site) in OF.iter().enumerate() {
                let rows = report.rows.iter().filter(|row| row.name == site.name());
                let (mut count, mut total) = (0, Duration::ZERO);
                for row in rows {
                    assert_eq!(row.out_of_order, 0, "{report}");
                    (count, total) = (count + row.count, total + row.total);
                }
                // Each stay that ends because the fiber leaves, and the last one of each.
                assert_eq!(count, enters[place] + stays[place], "{}: {report}", site.name());
                totals.insert(site.name(), total);
            }
            // Each span spins at least once.
            let spun =
                Duration::from_micros(20) * u32::try_from(enters.iter().sum::<u64>()).unwrap();
            let outer = totals["outer"];
            let most = *resumed.lock().unwrap();
            let slack = most / 1_000;
            assert!(outer <= most + slack, "{outer:?} of {most:?}: {report}");
            assert!(outer + slack >= spun, "{outer:?}: {report}");
            assert!(totals["outer"] >= totals["middle"] && totals["middle"] >= totals["inner"]);
            assert_eq!(
                (report.lost, report.threads.iter().map(|it| it.dropped).sum::<u64>()),
                (0, 0)
            );
            // Own times of all add up to what is outermost: nothing is subtracted twice, or not at all.
            let own: Duration = report.rows.iter().map(|row| row.own).sum();
            let records = interval.records().filter(|record| record.depth() == 1);
            let outermost: Duration = records.map(|record| record.time()).sum();
            // Each record has whole nanoseconds.
            let slack = own / 100_000 + Duration::from_micros(20);
            assert_eq!(interval.not_kept(), 0);
            assert!(
                storage == Storage::Histograms || own.abs_diff(outermost) <= slack,
                "{own:?}, not {outermost:?}: {report}"
            );
            let of_inner = totals["middle"].saturating_sub(totals["inner"]);
            let own_of = |name: &str| -> Duration {
                report.rows.iter().filter(|row| row.name == name).map(|row| row.own).sum()
            };
            assert!(own_of("middle").abs_diff(of_inner) <= slack, "{report}");
            println!("{storage:?}: {stays:?} leaves in {enters:?} spans, {outer:?} of {most:?}");
        }
    }
}

/// A fiber's spans nest in those of the thread that it enters, and its stays have the time of the stays alone.
#[test]
fn stays_are_records() {
    let _turn = turn();
    let away = Duration::from_millis(30);
    let mut spans = Settings::new().start().unwrap();
    let mut fiber = Fiber::new();
    let entered = fiber.enter();
    let outer = span!("outer", 1);
    let inner = span!("inner", 2);
    drop(entered);
    std::thread::sleep(away);
    // Its guards are on this stack, and its spans on that of another thread: guards do not go there in safe code, so the fiber comes back.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _around = span!("around");
            drop(fiber.enter());
        });
    });
    {
        let _around = span!("here");
        let _entered = fiber.enter();
        drop(span!("innermost"));
        drop(inner);
        drop(span!("second"));
        drop(outer);
    }
    drop(span!("after"));
    let records = all(&mut spans);
    let expected = [
        ("inner", Some("outer")),
        ("outer", None),
        ("inner", Some("outer")),
        ("outer", Some("around")),
        ("around", None),
        ("innermost", Some("inner")),
        ("inner", Some("outer")),
        ("second", Some("outer")),
        ("outer", Some("here")),
        ("here", None),
        ("after", None),
    ];
    assert_eq!(names(&records), expected);
    let numbers: Vec<_> = records.iter().map(|record| record.number).collect();
    let (none, of) = (None, |number: u64| Some(number));
    assert_eq!(numbers[..6], [none; 6]);
    assert_eq!(numbers[6..], [of(2), none, of(1), none, none]);
    let time: u64 = records.iter().filter(|it| it.name() == "outer").map(Rec::time).sum();
    assert!(u128::from(time) < away.as_nanos(), "{records:?}");
    assert!(records.iter().all(|record| !record.flags.contains(Flags::OUT_OF_ORDER)));
    let depths: Vec<_> = records.iter().map(|record| record.depth).collect();
    assert_eq!(depths, [2, 1, 3, 2, 1, 4, 3, 3, 2, 1, 1]);
}

/// What ends in the wrong place is counted, and has no wrong time.
#[test]
fn spans_that_end_elsewhere() {
    let _turn = turn();
    for storage in BOTH {
        let begin = Instant::now();
        let mut spans = Settings::new().storage(storage).start().unwrap();
        let mut fiber = Fiber::new();
        // A guard of the fiber ends outside.
        let entered = fiber.enter();
        let of_fiber = span!("of the fiber");
        drop(entered);
        drop(of_fiber);
        assert_eq!(spans.report().lost, 1);
        // Its stay was recorded. When the fiber enters again, the span does not begin again.
        drop(fiber.enter());
        // A guard of the thread ends in the fiber.
        let of_thread = span!("of the thread");
        let mut other = Fiber::new();
        let entered = other.enter();
        let inside = span!("inside");
        drop(of_thread);
        drop(inside);
        drop(entered);
        for _ in 0..3 {
            drop(span!("after"));
        }
        // Laps that go with a fiber.
        let entered = other.enter();
        let mut laps = Laps::start();
        static LAP: Site = Site::new("lap", file!(), line!());
        laps.next(&LAP);
        drop(entered);
        let entered = other.enter();
        laps.next(&LAP);
        laps.next(&LAP);
        drop(entered);
        // Another recording begins while a fiber is in.
        let report = spans.report();
        let most = begin.elapsed();
        let counts: HashMap<_, _> = report.rows.iter().map(|row| (row.name, row.count)).collect();
        let expected =
            [("of the fiber", 1), ("of the thread", 1), ("inside", 1), ("after", 3), ("lap", 2)];
        assert_eq!(counts, HashMap::from(expected), "{storage:?}: {report}");
        assert_eq!(report.lost, 2, "{report}");
        for row in &report.rows {
            assert!(row.total <= most, "{report}");
        }
        let entered = other.enter();
        let old = span!("old");
        drop(spans);
        let mut spans = Settings::new().storage(storage).start().unwrap();
        drop(span!("new"));
        drop(entered);
        let entered = other.enter();
        drop(old);
        drop(span!("new"));
        drop(entered);
        let report = spans.report();
        let counts: Vec<_> = report.rows.iter().map(|row| (row.name, row.count)).collect();
        assert_eq!(counts, [("new", 1), ("new", 1)], "{report}");
        assert_eq!(report.lost, 1, "{report}");
    }
}

/// Fibers in a fiber, deep stacks, and spans that are off meanwhile.
#[test]
fn fibers_in_fibers() {
    let _turn = turn();
    let mut spans = Settings::new().start().unwrap();
    let [mut first, mut second] = [Fiber::new(), Fiber::new()];
    let mut deep = Vec::new();
    for round in 0..3 {
        let entered = first.enter();
        let span = span!("first");
        {
            let entered = second.enter();
            if round == 0 {
                deep.extend((0..300).map(|_| span!("deep")));
            }
            drop(entered);
        }
        drop(span);
        drop(entered);
    }
    // Spans that are open go on.
    rdpmc_spans::set_enabled(false);
    drop(second.enter());
    rdpmc_spans::set_enabled(true);
    {
        // 511 spans can be open. The other 89 of this stay are dropped.
        let mut around: Vec<_> = (0..300).map(|_| span!("around")).collect();
        let entered = second.enter();
        assert_eq!(format!("{entered:?}").matches("spans: 300").count(), 1);
        drop(entered);
        while let Some(guard) = around.pop() {
            drop(guard);
        }
    }
    let entered = second.enter();
    while let Some(guard) = deep.pop() {
        drop(guard);
    }
    drop(entered);
    let report = spans.report();
    let count =
        |name: &str| report.rows.iter().find(|row| row.name == name).map_or(0, |row| row.count);
    assert_eq!([count("first"), count("around")], [3, 300]);
    assert_eq!(count("deep"), 4 * 300 + 211 + 211, "{report}");
    assert_eq!((report.threads[0].dropped, report.lost), (89, 89), "{report}");
    assert!(report.rows.iter().all(|row| row.out_of_order == 0), "{report}");
}

/// A recording that counts nothing, and one in which no span is on the inlined path.
fn recordings() -> [Settings; 2] {
    [Settings::new(), Settings::new().causes()]
}

/// The thread records as before: a span is outermost, and has its own time.
fn is_sound(spans: &mut Spans) {
    drop(span!("sound"));
    let records = all(spans);
    let last = records.last().unwrap();
    assert_eq!((last.name(), last.depth, last.around()), ("sound", 1, None), "{records:?}");
}

/// Spans of the thread that end out of order after a fiber has left have their own times.
#[test]
fn out_of_order_after_a_stay() {
    let _turn = turn();
    for settings in recordings() {
        let mut spans = settings.start().unwrap();
        let begin = Instant::now();
        let mut fiber = Fiber::new();
        let first = span!("first");
        drop(fiber.enter());
        let second = span!("second");
        drop(first);
        drop(second);
        let most = begin.elapsed().as_nanos() as u64;
        let records = all(&mut spans);
        assert_eq!(names(&records).len(), 2);
        assert!(records[0].flags.contains(Flags::OUT_OF_ORDER), "{records:?}");
        assert!(records.iter().all(|record| record.time() <= most), "{records:?} in {most}");
        is_sound(&mut spans);
    }
}

/// A span of the thread ends in the fiber, and one of the fiber begins after it and leaves with it.
#[test]
fn a_span_of_the_thread_ends_in_a_fiber() {
    let _turn = turn();
    for settings in recordings() {
        for has_inner in [false, true] {
            let mut spans = settings.clone().start().unwrap();
            let (around, outer) = (span!("around"), span!("outer"));
            let mut fiber = Fiber::new();
            let entered = fiber.enter();
            let inner = has_inner.then(|| span!("before"));
            drop(outer);
            let of_fiber = span!("of the fiber");
            drop(entered);
            drop(span!("between"));
            let entered = fiber.enter();
            drop(of_fiber);
            drop(inner);
            drop(entered);
            drop(around);
            is_sound(&mut spans);
            let report = spans.report();
            let count = |name: &str| {
                report.rows.iter().find(|row| row.name == name).map_or(0, |row| row.count)
            };
            let all = ["around", "outer", "of the fiber", "between"].map(count);
            assert_eq!(all, [1, 1, 2, 1], "{report}");
        }
    }
}

/// Spans are switched on, or another recording begins, while a fiber is in: what it begins does not stay on the thread.
#[test]
fn spans_that_are_switched_on_in_a_fiber() {
    let _turn = turn();
    for settings in recordings() {
        for is_first in [true, false] {
            let mut spans = settings.clone().start().unwrap();
            if !is_first {
                drop(span!("the thread has a state"));
            }
            rdpmc_spans::set_enabled(false);
            let mut fiber = Fiber::new();
            let entered = fiber.enter();
            rdpmc_spans::set_enabled(true);
            let job = span!("job");
            drop(entered);
            is_sound(&mut spans);
            let entered = fiber.enter();
            drop(job);
            drop(entered);
            is_sound(&mut spans);
            let report = spans.report();
            let jobs = report.rows.iter().find(|row| row.name == "job").map_or(0, |row| row.count);
            // Where the thread had no state, the span is lost.
            assert_eq!((jobs, report.lost), if is_first { (0, 1) } else { (2, 0) }, "{report}");
        }
        let spans = settings.clone().start().unwrap();
        drop(span!("before"));
        let mut fiber = Fiber::new();
        let entered = fiber.enter();
        drop(spans);
        let mut spans = settings.start().unwrap();
        let job = span!("job");
        drop(entered);
        is_sound(&mut spans);
        drop(job);
        is_sound(&mut spans);
        assert_eq!(spans.report().lost, 1);
    }
}

/// A guard that ends while spans are off, or while its fiber is out: no later stay has its span.
#[test]
fn guards_that_end_meanwhile() {
    let _turn = turn();
    for settings in recordings() {
        for is_outside in [false, true] {
            let mut spans = settings.clone().start().unwrap();
            let mut fiber = Fiber::new();
            let entered = fiber.enter();
            let (outer, inner) = (span!("outer"), span!("inner"));
            drop(entered);
            if is_outside {
                std::thread::sleep(Duration::from_millis(1));
                drop(inner);
            } else {
                rdpmc_spans::set_enabled(false);
                let entered = fiber.enter();
                drop(inner);
                drop(entered);
                rdpmc_spans::set_enabled(true);
            }
            for _ in 0..3 {
                drop(fiber.enter());
            }
            let entered = fiber.enter();
            drop(outer);
            drop(entered);
            is_sound(&mut spans);
            let report = spans.report();
            let row = |name: &str| report.rows.iter().find(|row| row.name == name).unwrap();
            let expected = if is_outside { (1, 5, 1) } else { (2, 6, 0) };
            let found = (row("inner").count, row("outer").count, report.lost);
            assert_eq!(found, expected, "{report}");
            assert_eq!(row("inner").out_of_order, 0, "{report}");
        }
    }
}

/// A span that ends out of order before its fiber leaves, and whose guard ends in a later stay, is lost. It has no time in between.
#[test]
fn out_of_order_in_a_fiber() {
    let _turn = turn();
    for settings in recordings() {
        let mut spans = settings.start().unwrap();
        let mut fiber = Fiber::new();
        let entered = fiber.enter();
        let (outer, inner) = (span!("outer"), span!("inner"));
        drop(outer);
        drop(entered);
        std::thread::sleep(Duration::from_millis(20));
        let entered = fiber.enter();
        drop(inner);
        drop(entered);
        is_sound(&mut spans);
        let report = spans.report();
        assert_eq!(report.lost, 1, "{report}");
        assert!(report.rows.iter().all(|row| row.total < Duration::from_millis(20)), "{report}");
    }
}

/// Guards of fibers that leave in the wrong order: the inner fiber's spans are lost, and none is recorded twice.
#[test]
fn fibers_that_leave_in_the_wrong_order() {
    let _turn = turn();
    for settings in recordings() {
        let mut spans = settings.start().unwrap();
        let [mut first, mut second, mut third] = [Fiber::new(), Fiber::new(), Fiber::new()];
        let of_first = first.enter();
        let one = span!("one");
        let of_second = second.enter();
        let two = span!("two");
        drop(of_first);
        let of_third = third.enter();
        drop(of_second);
        drop(of_third);
        is_sound(&mut spans);
        drop(two);
        let entered = first.enter();
        drop(one);
        drop(entered);
        is_sound(&mut spans);
        let report = spans.report();
        let counts: Vec<_> = report.rows.iter().map(|row| (row.name, row.count)).collect();
        assert_eq!(counts, [("one", 2), ("two", 1), ("sound", 2)], "{report}");
        assert_eq!(report.lost, 1, "{report}");
    }
}

/// A span of `tracing` does not go with a fiber: it ends when the fiber leaves, once, and its end is lost.
#[test]
fn spans_of_tracing_in_a_fiber() {
    let _turn = turn();
    for settings in recordings() {
        let mut spans = settings.start().unwrap();
        let layer = tracing_subscriber::registry().with(TracingLayer::new());
        tracing::subscriber::with_default(layer, || {
            let mut fiber = Fiber::new();
            let entered = fiber.enter();
            let of_fiber = span!("of the fiber");
            let traced = tracing::info_span!("traced").entered();
            drop(tracing::info_span!("inside").entered());
            drop(entered);
            is_sound(&mut spans);
            let entered = fiber.enter();
            drop(traced);
            drop(of_fiber);
            drop(entered);
        });
        is_sound(&mut spans);
        let report = spans.report();
        let count = |name: &str| report.rows.iter().find(|row| row.name == name).unwrap().count;
        assert_eq!(["traced", "inside", "of the fiber"].map(count), [1, 1, 2], "{report}");
        assert_eq!(report.lost, 1, "{report}");
    }
}

/// Page faults of a span that has come with its fiber are those of its last stay.
#[test]
fn page_faults_of_a_stay() {
    let _turn = turn();
    let settings = Settings::new().faults("frame").slowest(1);
    let mut spans = settings.causes().start().unwrap();
    for number in 0..5_u64 {
        let mut fiber = Fiber::new();
        let entered = fiber.enter();
        let frame = span!("frame", number);
        drop(entered);
        let entered = fiber.enter();
        if number == 4 {
            let memory = vec![1_u8; 64 << 20];
            assert_eq!(std::hint::black_box(memory)[1], 1);
        }
        drop(frame);
        drop(entered);
    }
    let interval = spans.take();
    let slowest = interval.slowest().next().unwrap();
    let cause = slowest.cause();
    let has_faults = |reason: &Reason| matches!(reason, Reason::PageFaults { .. });
    assert!(cause.reasons.iter().any(has_faults), "{cause}");
}

/// A span of the thread ends in a fiber, and guards end in any order afterwards: no two guards have one number, and each span has its own time.
#[test]
fn numbers_after_a_span_of_the_thread_ended_in_a_fiber() {
    let _turn = turn();
    for settings in recordings() {
        for is_swapped in [false, true] {
            let begin = Instant::now();
            let mut spans = settings.clone().start().unwrap();
            let mut fiber = Fiber::new();
            let own = span!("own");
            let entered = fiber.enter();
            drop(own);
            let of_fiber = span!("of the fiber");
            drop(entered);
            let later = span!("later");
            if is_swapped {
                spin(Duration::from_millis(2));
                drop(later);
                drop(of_fiber);
            } else {
                drop(of_fiber);
                spin(Duration::from_millis(2));
                drop(later);
            }
            is_sound(&mut spans);
            let report = spans.report();
            let most = begin.elapsed();
            let row = |name: &str| report.rows.iter().find(|row| row.name == name).unwrap();
            let later = row("later");
            assert!(later.total >= Duration::from_millis(2) && later.out_of_order == 0, "{report}");
            assert_eq!((row("of the fiber").count, report.lost), (1, 1), "{report}");
            assert!(report.rows.iter().all(|row| row.total <= most), "{report}");
        }
        // The same in fibers in fibers.
        let mut spans = settings.clone().start().unwrap();
        let [mut around, mut inner] = [Fiber::new(), Fiber::new()];
        let of_around = around.enter();
        let first = span!("first");
        let of_inner = inner.enter();
        drop(first);
        let second = span!("second");
        drop(of_inner);
        let third = span!("third");
        drop(second);
        drop(third);
        drop(of_around);
        is_sound(&mut spans);
        let report = spans.report();
        let counts: Vec<_> = report.rows.iter().map(|row| (row.name, row.count)).collect();
        assert_eq!(counts, [("first", 1), ("second", 1), ("third", 1), ("sound", 1)], "{report}");
        assert_eq!(report.lost, 1, "{report}");
    }
}

/// Spans of a thread that end out of order, between and after stays: as without fibers.
#[test]
fn out_of_order_between_stays() {
    let _turn = turn();
    for settings in recordings() {
        let mut spans = settings.start().unwrap();
        let mut fiber = Fiber::new();
        {
            let _around = span!("around");
            drop(fiber.enter());
        }
        let entered = fiber.enter();
        drop(span!("of the fiber"));
        drop(entered);
        for _ in 0..2 {
            let (outer, inner) = (span!("outer"), span!("inner"));
            drop(outer);
            drop(inner);
            is_sound(&mut spans);
            drop(fiber.enter());
        }
        let (outer, inner) = (span!("outer"), span!("inner"));
        drop(fiber.enter());
        drop(outer);
        drop(inner);
        is_sound(&mut spans);
        let report = spans.report();
        assert_eq!(report.lost, 0, "{report}");
        let sum = |of: fn(&Row) -> u64| -> u64 {
            report.rows.iter().filter(|row| row.name == "outer").map(of).sum()
        };
        assert_eq!([sum(|row| row.count), sum(|row| row.out_of_order)], [3, 3], "{report}");
    }
}

/// More guards end elsewhere than are known: no fiber begins one of their spans again.
#[test]
fn many_guards_that_end_elsewhere() {
    let _turn = turn();
    for settings in recordings() {
        for guards in [100, 2_000] {
            let mut spans = settings.clone().start().unwrap();
            let (mut fiber, mut others) = (Fiber::new(), Vec::new());
            let entered = fiber.enter();
            let guard = span!("of the fiber");
            drop(entered);
            drop(guard);
            for _ in 0..guards / 100 {
                let mut other = Fiber::new();
                let entered = other.enter();
                let mut of_other: Vec<_> = (0..100).map(|_| span!("of another")).collect();
                drop(entered);
                while let Some(guard) = of_other.pop() {
                    drop(guard);
                }
                others.push(other);
            }
            for fiber in others.iter_mut().chain([&mut fiber]) {
                drop(fiber.enter());
            }
            is_sound(&mut spans);
            let report = spans.report();
            let count = |name: &str| report.rows.iter().find(|row| row.name == name).unwrap().count;
            assert_eq!(["of the fiber", "of another"].map(count), [1, guards], "{report}");
            assert_eq!(report.lost, 1 + guards, "{report}");
        }
    }
}
