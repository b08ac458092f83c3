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
use rdpmc_spans::{Fiber, Flags, Laps, Settings, Site, Span, Storage, span};
use rdpmc_testing::recording::{Rec, all, counted, names, turn};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

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
                    Job { stack, fiber: Fiber::new() }
                })
                .collect();
            let queue = Mutex::new(jobs);
            let resumed = Mutex::new(Duration::ZERO);
            std::thread::scope(|scope| {
                for thread in 0..2 {
                    let (queue, resumed) = (&queue, &resumed);
                    scope.spawn(move || {
                        let _worker = (thread == 0).then(|| span!("worker"));
                        let mut time = Duration::ZERO;
                        loop {
                            let next = {
                                let mut queue = queue.lock().unwrap();
                                let place = queue.len().checked_sub(1 + thread);
                                place.map(|place| queue.swap_remove(place / (1 + thread)))
                            };
                            let Some(mut job) = next else { break };
                            let begin = Instant::now();
                            let entered = job.fiber.enter();
                            let result = job.stack.resume(());
                            drop(entered);
                            time += begin.elapsed();
                            match result {
                                CoroutineResult::Yield(()) => queue.lock().unwrap().push(job),
                                CoroutineResult::Return(()) => {}
                            }
                            drop(span!("between"));
                        }
                        *resumed.lock().unwrap() += time;
                    });
                }
            });
            // The other thread may have ended while this one still had a fiber.
            let mut left = queue.into_inner().unwrap();
            for job in &mut left {
                loop {
                    let begin = Instant::now();
                    let entered = job.fiber.enter();
                    let result = job.stack.resume(());
                    drop(entered);
                    *resumed.lock().unwrap() += begin.elapsed();
                    if let CoroutineResult::Return(()) = result {
                        break;
                    }
                }
            }
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
            // Own times of all add up to what is outermost: nothing is subtracted twice.
            let own: Duration = report.rows.iter().map(|row| row.own).sum();
            let outermost: Duration = match storage {
                Storage::Histograms => own,
                _ => interval.records().filter(|it| it.depth() == 1).map(|it| it.time()).sum(),
            };
            assert!(
                own.abs_diff(outermost) <= own / 100_000 + Duration::from_micros(5),
                "{own:?}, not {outermost:?}"
            );
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
        // Its stay was recorded. When the fiber enters again, the span is open for ever, and so it is recorded at each leave.
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
            [("of the fiber", 2), ("of the thread", 1), ("inside", 1), ("after", 3), ("lap", 2)];
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
    assert_eq!(count("deep"), 3 * 300 + 211 + 211, "{report}");
    assert_eq!((report.threads[0].dropped, report.lost), (89, 89), "{report}");
    assert!(report.rows.iter().all(|row| row.out_of_order == 0), "{report}");
}
