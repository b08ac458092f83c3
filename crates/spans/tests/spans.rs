//! What spans record, and what happens to those that a program misuses. Runs with and without a PMU.
#![cfg(all(target_os = "linux", feature = "enabled"))]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![allow(unsafe_code)]
#![allow(clippy::disallowed_types, reason = "no child of a fork comes here")]

#[path = "../../../tests/process/mod.rs"]
mod process;
#[path = "../../../tests/skips/mod.rs"]
mod skips;

mod recording;

use rdpmc::Event;
use rdpmc_spans::{
    Counters, Flags, Laps, Record, Settings, Site, Span, Spans, StartError, Storage, span, stages,
};
use recording::{all, start, turn};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::mem::{ManuallyDrop, forget};
use std::sync::atomic::{AtomicBool, Ordering};

fn names(records: &[(u32, Record)]) -> Vec<(&'static str, Option<&'static str>)> {
    let names = |(_, record): &(u32, Record)| (record.site.name(), record.parent.map(Site::name));
    records.iter().map(names).collect()
}

#[test]
fn spans_nest() {
    let _turn = turn();
    let mut spans = start();
    fn early(is_early: bool) {
        let _span = span!("early");
        if is_early {
            return;
        }
        let _span = span!("late");
    }
    {
        let _outer = span!("outer");
        early(true);
        early(false);
    }
    let records = all(&mut spans);
    let expected = [
        ("early", Some("outer")),
        ("late", Some("early")),
        ("early", Some("outer")),
        ("outer", None),
    ];
    assert_eq!(names(&records), expected);
    assert_eq!(records.iter().map(|(_, record)| record.depth).collect::<Vec<_>>(), [2, 3, 2, 1]);
    let [.., (_, late), _, (_, outer)] = &records[..] else { panic!() };
    assert!(outer.ticks[0] <= late.ticks[0] && late.ticks[1] <= outer.ticks[1]);
    let info = &spans.threads()[0];
    for (_, record) in &records {
        assert!(!record.flags.contains(Flags::NOT_COUNTED), "{record:?}");
        assert!(!info.events.is_empty() || record.counts == [0; 8], "{record:?}");
    }
    assert_eq!(info.time_only.is_some(), info.events.is_empty());
}

stages!(
    enum Stage {
        First = "first",
        Second = "second",
    }
);

#[test]
fn laps_follow_each_other() {
    let _turn = turn();
    let mut spans = start();
    let _outer = span!("outer");
    let mut never_begun = Laps::new();
    never_begun.next(Stage::Second);
    for _ in 0..2 {
        let mut laps = Laps::start();
        laps.next(Stage::First);
        laps.next(Stage::Second);
    }
    let records = all(&mut spans);
    let first = ("first", Some("outer"));
    let second = ("second", Some("outer"));
    assert_eq!(names(&records), [first, second, first, second]);
    for pair in records.chunks(2) {
        let [(_, first), (_, second)] = pair else { panic!() };
        assert_eq!(first.ticks[1], second.ticks[0], "one read at the boundary");
        assert!(first.flags.contains(Flags::LAP) && second.flags.contains(Flags::LAP));
        assert_eq!([first.depth, second.depth], [2, 2]);
    }
}

/// Whichever way spans are dropped, each is recorded or counted, and the spans after them nest again.
#[test]
fn out_of_order() {
    let _turn = turn();
    let mut spans = start();
    let a = span!("a");
    let b = span!("b");
    drop(a);
    let c = span!("c");
    let d = span!("d");
    drop(b); // its place on the stack is d's
    drop(d);
    drop(c);
    drop(span!("after"));
    let records = all(&mut spans);
    let lost = spans.report().lost;
    let is_disordered = |name: &str| {
        let found = records.iter().find(|(_, record)| record.site.name() == name);
        found.map(|(_, record)| record.flags.contains(Flags::OUT_OF_ORDER))
    };
    assert_eq!(is_disordered("a"), Some(true), "{records:?}");
    match is_disordered("b") {
        Some(is_disordered) => assert!(is_disordered && lost == 0),
        None => assert_eq!(lost, 1),
    }
    assert_eq!([is_disordered("c"), is_disordered("d")], [Some(false); 2]);
    assert_eq!(
        records.last().map(|(_, record)| (record.depth, record.parent.is_none())),
        Some((1, true))
    );
    let d = records.iter().find(|(_, record)| record.site.name() == "d").unwrap();
    assert_eq!(d.1.parent.map(Site::name), Some("c"));
}

/// The same site twice: the number tells its spans apart.
#[test]
fn out_of_order_with_itself() {
    let _turn = turn();
    let mut spans = start();
    let open = || span!("the same");
    let (a, b) = (open(), open());
    drop(a);
    let begin = std::time::Instant::now();
    while begin.elapsed().as_millis() < 5 {}
    let (c, d) = (open(), open());
    drop(b); // older than d, in its place
    drop(d);
    drop(c);
    let records = all(&mut spans);
    let lost = spans.report().lost;
    assert_eq!(records.len() as u64 + lost, 4, "{records:?}");
    // Only a and b are long. If b is recorded, it has its own beginning.
    let lasted: Vec<bool> =
        records.iter().map(|(_, record)| record.duration() > 1_000_000).collect();
    assert_eq!(lasted.iter().filter(|long| **long).count() as u64, 1 - lost, "{records:?}");
}

#[test]
fn leaked() {
    let _turn = turn();
    let mut spans = start();
    for _ in 0..3 {
        let _outer = span!("outer");
        forget(span!("leaked"));
        drop(span!("inner"));
    }
    let records = all(&mut spans);
    let outer = records.iter().filter(|(_, record)| record.site.name() == "outer");
    assert!(
        outer
            .clone()
            .all(|(_, record)| record.depth == 1 && record.flags.contains(Flags::OUT_OF_ORDER))
    );
    assert_eq!((outer.count(), records.len()), (3, 6));
}

/// On the stack, an older span is not taken for a younger one of its site: what is not certain is flagged.
#[test]
fn out_of_order_and_recursive() {
    let _turn = turn();
    let mut spans = start();
    let open = || span!("recursive");
    let (a, b) = (span!("a"), open());
    drop(a);
    let (c, d) = (span!("c"), open());
    drop(b);
    drop(d);
    drop(c);
    let records = all(&mut spans);
    let lost = spans.report().lost;
    assert_eq!(records.len() as u64 + lost, 4);
    let certain: Vec<_> =
        records.iter().filter(|(_, record)| !record.flags.contains(Flags::OUT_OF_ORDER)).collect();
    let found: Vec<_> = certain
        .iter()
        .map(|(_, record)| (record.site.name(), record.parent.map(Site::name), record.depth))
        .collect();
    assert_eq!(found, [("recursive", Some("c"), 2), ("c", None, 1)], "{records:?}");
}

/// A span that ends out of order does not disturb those around it.
#[test]
fn out_of_order_inside_others() {
    let _turn = turn();
    let mut spans = start();
    for _ in 0..2 {
        let _outer = span!("outer");
        for _ in 0..2 {
            let _inner = span!("inner");
            for _ in 0..2 {
                let (a, b) = (span!("a"), span!("b"));
                drop(a);
                drop(b);
                drop(span!("c"));
            }
        }
    }
    let records = all(&mut spans);
    let lost = spans.report().lost;
    assert_eq!(records.len() as u64 + lost, 2 * (1 + 2 * (1 + 2 * 3)), "{records:?}");
    for (_, record) in &records {
        let (parent, depth) = match record.site.name() {
            "outer" => (None, 1),
            "inner" => (Some("outer"), 2),
            "c" => (Some("inner"), 3),
            _ => continue,
        };
        assert!(!record.flags.contains(Flags::OUT_OF_ORDER), "{record:?}");
        assert_eq!((record.parent.map(Site::name), record.depth), (parent, depth), "{record:?}");
    }
}

/// Guards dropped in any order, beside a stack that knows every span.
#[test]
fn any_order_beside_a_model() {
    let events = [Event::CYCLES, Event::INSTRUCTIONS];
    any_order(Settings::new().events(&events).counters(Counters::Always));
}

/// The same on a thread that may not read the tick counter, whose spans take the path of those with counters.
#[test]
#[cfg(target_arch = "x86_64")]
fn any_order_at_the_kernels_time() {
    let of_a_thread = std::thread::spawn(|| {
        // SAFETY: only this thread's setting. It reads the tick counter no more: the kernel's clock is a system call here.
        unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) };
        any_order(Settings::new());
    });
    of_a_thread.join().unwrap();
}

fn any_order(settings: Settings) {
    const SPANS: usize = 60;
    /// One for each span, so that its record is known.
    static SITES: [Site; SPANS] = [const { Site::new("a span", file!(), line!()) }; SPANS];
    /// What a record is expected to be: its span, the one around it, and whether it is out of order. The last two are not
    /// known if a span around it has ended before.
    struct Expected(usize, Option<(Option<usize>, bool)>);
    let _turn = turn();
    let mut spans = settings.start().unwrap();
    drop(span!("the first"));
    spans.collect();
    // A span that is off the stack is lost if another has its slot. On the inlined path, its guard has all.
    let is_inlined = spans.threads()[0].events.is_empty()
        && !matches!(spans.report().clock, rdpmc::clock::ClockKind::Kernel(_));
    let mut random = 1_u64;
    let mut below = |end: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 32) as usize % end
    };
    let mut lost = 0;
    for round in 0..2_000 {
        let (mut stack, mut guards, mut opened) = (Vec::new(), Vec::new(), 0);
        let mut expected = Vec::new();
        loop {
            if opened < SPANS && (guards.is_empty() || below(2) == 0) {
                guards.push((opened, Span::enter(&SITES[opened])));
                stack.push(opened);
                opened += 1;
                continue;
            }
            // Mostly the youngest.
            let Some(last) = guards.len().checked_sub(1) else { break };
            let at = if below(4) == 0 { below(guards.len()) } else { last };
            let (number, guard) = guards.remove(at);
            drop(guard);
            let known = stack.iter().position(|open| *open == number).map(|at| {
                let (around, is_last) = (at.checked_sub(1), at + 1 == stack.len());
                let around = around.map(|around| stack[around]);
                stack.truncate(at);
                (around, !is_last)
            });
            expected.push(Expected(number, known));
        }
        let mut records = all(&mut spans).into_iter().map(|(_, record)| record).peekable();
        for Expected(number, known) in expected {
            let is_next = |record: &Record| std::ptr::eq(record.site, &SITES[number]);
            let Some(record) = records.next_if(is_next) else {
                assert!(known.is_none() && !is_inlined, "round {round}: span {number} is lost");
                lost += 1;
                continue;
            };
            let (around, is_disordered) = known.unwrap_or((None, true));
            let around = around.map(|around| std::ptr::from_ref(&SITES[around]));
            let context = format!("round {round}, span {number}: {record:?}");
            assert_eq!(record.parent.map(std::ptr::from_ref), around, "{context}");
            assert_eq!(record.flags.contains(Flags::OUT_OF_ORDER), is_disordered, "{context}");
        }
        assert!(records.next().is_none());
    }
    assert_eq!(spans.report().lost, lost);
}

/// An outdated guard does not take a younger span of its site from the stack.
#[test]
fn a_guard_that_is_outdated() {
    let _turn = turn();
    let mut spans = start();
    let open = || span!("x");
    let (a, outdated) = (span!("a"), open());
    drop(a);
    {
        let _b = span!("b");
        let _x = open();
        drop(outdated);
        drop(span!("c"));
    }
    let records = all(&mut spans);
    let c = records.iter().find(|(_, record)| record.site.name() == "c").unwrap();
    assert_eq!((c.1.parent.map(Site::name), c.1.depth), (Some("x"), 3), "{records:?}");
    let certain = records.iter().filter(|(_, record)| !record.flags.contains(Flags::OUT_OF_ORDER));
    let certain: Vec<_> = certain.map(|(_, record)| record.site.name()).collect();
    assert_eq!(certain, ["c", "x", "b"]);
}

/// A span's own time lacks that of the spans inside it, and no other: also while spans are open, and after a clear.
#[test]
fn own_time_while_spans_are_open() {
    let spin = |milliseconds| {
        let begin = std::time::Instant::now();
        while begin.elapsed().as_millis() < milliseconds {}
    };
    let _turn = turn();
    for storage in [Storage::Histograms, Storage::Ring { records: 100 }] {
        let mut spans = Settings::new().storage(storage).start().unwrap();
        let request = || span!("request");
        {
            let _short = request();
            spin(3);
        }
        let open = request();
        {
            let _work = span!("work");
            spin(10);
        }
        let row = |report: &rdpmc_spans::Report| {
            report.rows.iter().find(|row| row.name == "request").cloned().unwrap()
        };
        let report = spans.report();
        assert_eq!(row(&report).own, row(&report).total, "{report}");
        spans.clear();
        {
            let _work = span!("work");
            drop(span!("inside"));
            spin(1);
        }
        drop(open);
        let report = spans.report();
        // 11 ms of it are work.
        let (own, total) = (row(&report).own, row(&report).total);
        assert!(total >= own + std::time::Duration::from_millis(11), "{report}");
    }
}

/// Laps are no spans inside a span, and have the parent of their beginning.
#[test]
fn laps_and_spans() {
    let _turn = turn();
    let mut spans = start();
    let spin = |microseconds| {
        let begin = std::time::Instant::now();
        while begin.elapsed().as_micros() < microseconds {}
    };
    {
        let _outer = span!("outer");
        spin(3_000);
        let mut laps = Laps::start();
        {
            let _inside = span!("inside");
            spin(3_000);
        }
        laps.next(Stage::First);
        let _later = span!("later");
        laps.next(Stage::Second);
    }
    let report = spans.report();
    let row = |name| report.rows.iter().find(|row| row.name == name).unwrap();
    let (outer, inside, later) = (row("outer"), row("inside"), row("later"));
    // Each is rounded to a nanosecond.
    let own = outer.total - inside.total - later.total;
    assert!(outer.own.abs_diff(own).as_nanos() <= 3, "{report}");
    assert_eq!([row("first").out_of_order, row("second").out_of_order], [0, 1]);
    let mut lines = Vec::new();
    spans.write_json_lines(&mut lines).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let second = lines.lines().find(|line| line.contains("\"second\"")).unwrap();
    assert!(second.contains("\"parent\":null"), "{second}");
}

/// The deepest lap.
#[test]
fn laps_at_every_depth() {
    let _turn = turn();
    let mut spans = start();
    fn nest(depth: u32) {
        let _span = span!("deep");
        let mut laps = Laps::start();
        laps.next(Stage::First);
        if depth < 600 {
            nest(depth + 1);
        }
    }
    nest(1);
    let records = all(&mut spans);
    let depths = records.iter().filter(|(_, record)| record.flags.contains(Flags::LAP));
    let depths: Vec<u16> = depths.map(|(_, record)| record.depth).collect();
    assert_eq!(depths.len(), 600);
    assert_eq!((depths.iter().min(), depths.iter().max()), (Some(&2), Some(&511)));
    assert!(depths.is_sorted());
}

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

/// Spans in the allocator: each is recorded or counted.
#[test]
fn spans_in_the_allocator() {
    let _turn = turn();
    for storage in [Storage::Histograms, Storage::Ring { records: 4 }] {
        let mut spans = Settings::new().storage(storage).start().unwrap();
        let begun = std::thread::spawn(|| {
            IN_THE_ALLOCATOR.set(Some(0));
            for _ in 0..100 {
                drop(span!("a span"));
                drop(black_box(Box::new(1)));
            }
            let begun = IN_THE_ALLOCATOR.take().unwrap_or(0) + 100;
            assert_eq!(written_after_they_were_freed(), 0, "bytes");
            begun
        });
        let begun: u64 = begun.join().unwrap();
        let report = spans.report();
        let recorded: u64 = report.rows.iter().map(|row| row.count).sum();
        let dropped: u64 = report.threads.iter().map(|thread| thread.dropped).sum();
        assert!(begun > 200 && recorded > 0, "{begun} begun");
        assert_eq!(recorded + dropped + report.lost, begun, "{report}");
    }
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

#[test]
fn rings_that_are_too_large() {
    let _turn = turn();
    let settings = Settings::new().storage(Storage::Ring { records: usize::MAX });
    assert!(matches!(settings.start(), Err(StartError::RingTooLarge { .. })));
}

/// More spans than there are slots: the rest is counted.
#[test]
fn too_deep() {
    let _turn = turn();
    let mut spans = start();
    fn nest(more: u32) {
        if more > 0 {
            let _span = span!("deep");
            nest(more - 1);
        }
    }
    nest(600);
    drop(span!("after"));
    let records = all(&mut spans);
    assert_eq!(records.len() as u64 - 1 + spans.threads()[0].dropped, 600);
    assert_eq!(records.iter().map(|(_, record)| record.depth).max(), Some(511));
    assert_eq!(records.last().map(|(_, record)| record.depth), Some(1));
}

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
    assert!(spans.threads()[0].is_ended);
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

/// A ring of one record keeps the first, and counts the others.
#[test]
fn a_ring_of_one_record() {
    let _turn = turn();
    let settings = Settings::new().storage(Storage::Ring { records: 1 });
    let mut spans = settings.start().unwrap();
    for _ in 0..2 {
        for _ in 0..10 {
            drop(span!("one"));
        }
        assert_eq!(spans.collect(), 1);
    }
    assert_eq!(spans.threads()[0].dropped, 18);
    assert!(spans.report().to_string().contains("18 records were dropped"));
    // What is dropped after a report is in the next one.
    (0..10).for_each(|_| drop(span!("one")));
    spans.clear();
    assert_eq!(spans.threads()[0].dropped, 9);
}

/// Eight threads, drained meanwhile: every record arrives or is counted, and none is torn.
#[test]
fn eight_threads() {
    const SPANS: u64 = 10_000_000;
    let _turn = turn();
    let mut spans = Settings::new().keep(0).start().unwrap();
    let running = (0..8_u64).map(|_| {
        std::thread::spawn(|| {
            for _ in 0..SPANS / 2 {
                let _outer = span!("outer");
                let _inner = span!("inner");
            }
        })
    });
    let running: Vec<_> = running.collect();
    let mut last = [[0_u64; 2]; 9];
    let mut arrived = [0_u64; 9];
    loop {
        let are_over = running.iter().all(|thread| thread.is_finished());
        spans.collect_with(|thread, record| {
            let thread = thread as usize;
            arrived[thread] += 1;
            let [start, end] = record.ticks;
            // Records come in the order in which spans end. An inner one begins after its outer one.
            assert!(start <= end && last[thread][1] <= end, "{record:?} after {:?}", last[thread]);
            match record.site.name() {
                "inner" => {
                    assert_eq!((record.parent.map(Site::name), record.depth), (Some("outer"), 2))
                }
                "outer" => assert_eq!((record.parent.map(Site::name), record.depth), (None, 1)),
                other => panic!("{other}"),
            }
            assert_eq!(record.counts, [0; 8]);
            last[thread] = [start, end];
        });
        if are_over {
            break;
        }
    }
    let threads = spans.threads();
    assert_eq!(threads.len(), 8);
    for thread in threads {
        let arrived = arrived[thread.number as usize];
        println!("{arrived} arrived, {} dropped", thread.dropped);
        assert_eq!(arrived + thread.dropped, SPANS);
        assert!(arrived > 0);
    }
}

/// Threads and sites with the same names are told apart.
#[test]
fn names_that_are_not_unique() {
    let _turn = turn();
    let mut spans = Settings::new().start().unwrap();
    for _ in 0..2 {
        let thread = std::thread::Builder::new().name("a worker".into()).spawn(|| {
            drop(span!("twice"));
            drop(span!("twice"));
            drop(span!("once"));
        });
        thread.unwrap().join().unwrap();
    }
    let report = spans.report();
    let table = report.to_string();
    for row in &report.rows {
        let span = match row.name {
            "twice" => format!(" twice (crates/spans/tests/spans.rs:{}) ", row.site.line()),
            _ => " once ".to_string(),
        };
        let line =
            table.lines().filter(|line| line.contains(&format!("a worker ({})", row.thread)));
        let lines: Vec<_> = line.filter(|line| line.contains(&span)).collect();
        assert_eq!(lines.len(), 1, "{table}");
    }
    assert_eq!(report.rows.len(), 6);
    let mut lines = Vec::new();
    spans.write_json_lines(&mut lines).unwrap();
    let lines: std::collections::HashSet<String> = String::from_utf8(lines)
        .unwrap()
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            format!("{} {} {}", line["thread_number"], line["file"], line["line"])
        })
        .collect();
    assert_eq!(lines.len(), 6);
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
    assert!(!report.threads[0].is_ended);
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
                spans.write_trace(&mut trace).unwrap();
                let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
                assert!(trace["traceEvents"].is_array());
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
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

/// All alive at once. More than a process may have descriptors for: those without counters have the reason.
#[test]
fn a_thousand_threads_at_once() {
    const THREADS: usize = 1_000;
    let _turn = turn();
    let settings = Settings::new().storage(Storage::Ring { records: 16 });
    let events = [Event::CYCLES, Event::INSTRUCTIONS];
    let mut spans = settings.events(&events).counters(Counters::Always).start().unwrap();
    let barrier = std::sync::Barrier::new(THREADS + 1);
    let mut first = 0;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                drop(span!("of a thread"));
                barrier.wait();
                barrier.wait();
                drop(span!("of a thread"));
            });
        }
        barrier.wait();
        first = spans.collect();
        assert_eq!(first + spans.report().lost, THREADS as u64);
        assert_eq!(spans.threads().iter().filter(|thread| thread.is_ended).count(), 0);
        barrier.wait();
    });
    assert_eq!(first + spans.collect() + spans.report().lost, 2 * THREADS as u64);
    for thread in spans.threads() {
        assert_eq!(thread.time_only.is_some(), thread.events.is_empty());
    }
}

#[test]
fn a_thousand_threads() {
    let _turn = turn();
    let settings = Settings::new().storage(Storage::Ring { records: 16 });
    let events = [Event::CYCLES, Event::INSTRUCTIONS];
    let mut spans = settings.events(&events).counters(Counters::Always).start().unwrap();
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
    assert_eq!(spans.threads().iter().filter(|thread| thread.is_ended).count(), 1_000);
    spans.clear();
    assert_eq!(spans.threads().len(), 0, "those that have ended are forgotten");
}

/// Reports of histograms while threads record. Counts only grow.
#[test]
fn histograms_are_read_while_they_are_written() {
    let _turn = turn();
    let mut spans = Settings::new().storage(Storage::Histograms).start().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _outer = span!("outer");
                    let mut laps = Laps::start();
                    laps.next(Stage::First);
                }
            });
        }
        let (mut before, mut reports) = (0, 0);
        while reports < 50 || before == 0 {
            reports += 1;
            let report = spans.report();
            let count: u64 = report.rows.iter().map(|row| row.count).sum();
            assert!(count >= before);
            before = count;
            for row in &report.rows {
                assert!(row.time.p50 <= row.time.p99 && row.time.p99 <= row.time.p999, "{row:?}");
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let report = spans.report();
    let [outer, first] = &report.rows[..2] else { panic!("{report}") };
    assert_eq!((outer.name, first.name), ("outer", "first"));
    assert_eq!(outer.own, outer.total, "laps are not spans inside it");
    assert_eq!(spans.collect(), 0);
    // The next report is about what follows. What is recorded after a report is in the next one.
    drop(span!("early"));
    spans.report();
    drop(span!("after the report"));
    spans.clear();
    assert!(spans.threads().iter().all(|thread| !thread.is_ended), "they are forgotten");
    let rows = spans.report().rows;
    assert_eq!(rows.iter().map(|row| row.name).collect::<Vec<_>>(), ["after the report"]);
    spans.clear();
    assert_eq!(spans.report().rows.len(), 0);
    let late = || drop(span!("late"));
    (0..10).for_each(|_| late());
    spans.report();
    spans.clear();
    (0..20).for_each(|_| late());
    drop(span!("new"));
    let report = spans.report();
    let counts: Vec<_> = report.rows.iter().map(|row| (row.name, row.count)).collect();
    assert_eq!(counts, [("late", 20), ("new", 1)]);
    let row = &report.rows[0];
    assert!(row.time.p50 > 0 && row.time.p50 <= row.time.max, "{report}");
    // That of its bucket, and not that of an earlier interval.
    assert!(u128::from(row.time.max) <= row.total.as_nanos() * 101 / 100 + 1, "{report}");
}

/// A span across a fork: the child's spans go on, without counts, and its end does no harm.
#[test]
fn a_span_across_a_fork() {
    let _turn = turn();
    let mut spans = start();
    let across = span!("across");
    drop(span!("before"));
    spans.report(); // to know the threads
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
        let mut records = Vec::new();
        spans.collect_with(|_, record| records.push(*record));
        let found: Vec<_> = records.iter().map(|record| record.site.name()).collect();
        if found != ["before", "in the child", "first", "across"] {
            return 2;
        }
        let is_uncounted = |record: &Record| {
            record.flags.contains(Flags::NOT_COUNTED) == is_counted && record.counts == [0; 8]
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

/// Names with quotes, backslashes and control characters, in the trace, in the lines and in the table.
#[test]
fn any_name() {
    const NAME: &str = "a \"name\"\\ with\ncontrol\u{1} characters | and ü";
    let _turn = turn();
    let mut spans = start();
    let thread = std::thread::Builder::new().name("a \"thread\"\t".into());
    let thread = thread.spawn(|| {
        for _ in 0..3 {
            let _span = span!(NAME);
            drop(span!("inner"));
        }
    });
    thread.unwrap().join().unwrap();
    let mut trace = Vec::new();
    spans.write_trace(&mut trace).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    let found = of("X");
    assert_eq!(found.len(), 6);
    assert_eq!(found.iter().filter(|event| event["name"] == NAME).count(), 3);
    assert!(of("M").iter().any(|event| event["args"]["name"] == "a \"thread\"\t"));
    for event in found {
        let [at, lasted] = ["ts", "dur"].map(|key| event[key].as_f64().unwrap());
        assert!(at >= 0.0 && lasted >= 0.0, "{event}");
        assert!(event["args"]["flags"].is_array());
    }
    let mut lines = Vec::new();
    spans.write_json_lines(&mut lines).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    assert_eq!(lines.lines().count(), 6);
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["parent"].is_null(), line["name"] == NAME);
    }
    let table = spans.report().to_string();
    assert!(table.contains(r#"a "name"\\ with\ncontrol\u{1} characters \| and ü"#), "{table}");
}

/// A disk that is full is an error, and the recording goes on.
#[test]
fn a_full_disk() {
    let _turn = turn();
    let mut spans = start();
    (0..1_000).for_each(|_| drop(span!("a span")));
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let error = spans.write_trace(&full).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert!(spans.write_json_lines(&full).is_err());
    drop(span!("a span"));
    let mut lines = Vec::new();
    spans.write_json_lines(&mut lines).unwrap();
    assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), 1_001);
}

/// Only so many records are kept for traces. The report has all.
#[test]
fn records_that_are_not_kept() {
    let _turn = turn();
    let mut spans = Settings::new().keep(10).start().unwrap();
    (0..20).for_each(|_| drop(span!("early")));
    (0..10).for_each(|_| drop(span!("late")));
    let mut trace = Vec::new();
    spans.write_trace(&mut trace).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
    assert_eq!(trace["otherData"]["not_kept"], 20);
    let kept = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X");
    let kept: Vec<_> = kept.map(|event| event["name"].as_str().unwrap()).collect();
    assert_eq!(kept, ["late"; 10]);
    let counts: Vec<u64> = spans.report().rows.iter().map(|row| row.count).collect();
    assert_eq!(counts, [20, 10]);
    spans.clear();
    assert_eq!(spans.report().rows.len(), 0);
}

/// After a thread's first spans: no system call, no allocation, no page fault.
#[test]
fn nothing_on_the_hot_path() {
    let clock = rdpmc::Clock::open().unwrap();
    if let rdpmc::clock::ClockKind::Kernel(why) = clock.kind() {
        let why = format!("a tick is a call of the kernel's clock here: {why}");
        return skips::skip("nothing_on_the_hot_path", &why);
    }
    let _turn = turn();
    for storage in [Storage::Ring { records: 100 }, Storage::Histograms] {
        let events = [Event::CYCLES, Event::INSTRUCTIONS];
        let ends = |obedient: bool| {
            process::wait(process::fork(|| {
                let settings = Settings::new().events(&events).storage(storage);
                let spans = settings.counters(Counters::Always).start().unwrap();
                let _spans = ManuallyDrop::new(spans);
                work(100);
                let (allocations, faults) = (ALLOCATIONS.get(), minor_faults());
                work(10_000);
                let before = minor_faults();
                if (ALLOCATIONS.get(), before) != (allocations, faults) {
                    return 2;
                }
                process::allow_only(libc::SYS_exit_group);
                work(10_000);
                if !obedient {
                    process::monotonic_raw(); // a system call
                }
                0
            }))
        };
        assert_eq!(ends(true), 0, "the wait status with {storage:?}");
        assert_eq!(libc::WTERMSIG(ends(false)), libc::SIGSYS, "what ends the control");
    }
}

fn work(times: u32) {
    for _ in 0..times {
        let _outer = span!("outer");
        let mut laps = Laps::start();
        drop(span!("inner"));
        laps.next(Stage::First);
        laps.next(Stage::Second);
    }
}

fn minor_faults() -> i64 {
    // SAFETY: a structure of integers, for which 0 is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: a valid pointer.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_minflt
}

/// The system's allocator, with the number of each thread's allocations.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    /// The number of spans that began in this thread's allocations. None: they have no spans.
    static IN_THE_ALLOCATOR: Cell<Option<u64>> = const { Cell::new(None) };
    /// Memory that such a thread has freed, and the place after the next one.
    static KEPT: [Cell<(*mut u8, usize)>; MAX_KEPT] =
        const { [const { Cell::new((std::ptr::null_mut(), 0)) }; MAX_KEPT] };
    static NEXT_KEPT: Cell<usize> = const { Cell::new(MAX_KEPT) };
}

const MAX_KEPT: usize = 1_000;
const FREED: u8 = 0xaa;

/// Returns how many bytes were written after they were freed.
fn written_after_they_were_freed() -> usize {
    KEPT.with(|all| {
        let freed = all[NEXT_KEPT.get()..].iter().map(Cell::get);
        // SAFETY: not freed in fact.
        let bytes = freed.map(|(memory, size)| unsafe { std::slice::from_raw_parts(memory, size) });
        bytes.flatten().filter(|byte| **byte != FREED).count()
    })
}

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        if let Some(begun) = IN_THE_ALLOCATOR.get() {
            IN_THE_ALLOCATOR.set(Some(begun + 1));
            drop(span!("in the allocator"));
        }
        // SAFETY: the caller's promise is the condition of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if let Some(begun) = IN_THE_ALLOCATOR.get() {
            IN_THE_ALLOCATOR.set(Some(begun + 1));
            drop(span!("in the deallocator"));
        }
        if let (Some(_), Some(kept)) = (IN_THE_ALLOCATOR.get(), NEXT_KEPT.get().checked_sub(1)) {
            // Not freed, so that what is written afterwards is found.
            // SAFETY: the memory is that of the layout, and nobody uses it any more.
            unsafe { memory.write_bytes(FREED, layout.size()) };
            KEPT.with(|all| all[kept].set((memory, layout.size())));
            return NEXT_KEPT.set(kept);
        }
        // SAFETY: the caller's promise is the condition of the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn the_control_of_the_allocator() {
    let before = ALLOCATIONS.get();
    drop(black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.get(), before + 1);
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
