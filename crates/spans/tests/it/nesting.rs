//! How spans and laps nest, in whatever order they end. Runs with and without a PMU.

use crate::recording::{Rec, all, names, records_of, start, turn};
use rdpmc::Event;
use rdpmc_spans::{Counters, Flags, Laps, Settings, Site, Span, Storage, span, stages};
use std::mem::forget;

stages!(
    enum Stage {
        First = "first",
        Second = "second",
    }
);

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
    assert_eq!(records.iter().map(|record| record.depth).collect::<Vec<_>>(), [2, 3, 2, 1]);
    let [.., late, _, outer] = &records[..] else { panic!() };
    assert!(outer.ticks[0] <= late.ticks[0] && late.ticks[1] <= outer.ticks[1]);
    let info = &spans.threads()[0];
    for record in &records {
        assert!(!record.flags.contains(Flags::NOT_COUNTED), "{record:?}");
        assert!(!info.events.is_empty() || record.counts == [0; 2], "{record:?}");
    }
    assert_eq!(info.time_only.is_some(), info.events.is_empty());
}

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
        let [first, second] = pair else { panic!() };
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
        let found = records.iter().find(|record| record.name() == name);
        found.map(|record| record.flags.contains(Flags::OUT_OF_ORDER))
    };
    assert_eq!(is_disordered("a"), Some(true), "{records:?}");
    match is_disordered("b") {
        Some(is_disordered) => assert!(is_disordered && lost == 0),
        None => assert_eq!(lost, 1),
    }
    assert_eq!([is_disordered("c"), is_disordered("d")], [Some(false); 2]);
    assert_eq!(
        records.last().map(|record| (record.depth, record.parent.is_none())),
        Some((1, true))
    );
    let d = records.iter().find(|record| record.name() == "d").unwrap();
    assert_eq!(d.around(), Some("c"));
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
    let lasted: Vec<bool> = records.iter().map(|record| record.time() > 1_000_000).collect();
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
    let outer = records.iter().filter(|record| record.name() == "outer");
    assert!(
        outer.clone().all(|record| record.depth == 1 && record.flags.contains(Flags::OUT_OF_ORDER))
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
        records.iter().filter(|record| !record.flags.contains(Flags::OUT_OF_ORDER)).collect();
    let found: Vec<_> =
        certain.iter().map(|record| (record.name(), record.around(), record.depth)).collect();
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
    for record in &records {
        let (parent, depth) = match record.name() {
            "outer" => (None, 1),
            "inner" => (Some("outer"), 2),
            "c" => (Some("inner"), 3),
            _ => continue,
        };
        assert!(!record.flags.contains(Flags::OUT_OF_ORDER), "{record:?}");
        assert_eq!((record.around(), record.depth), (parent, depth), "{record:?}");
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
    spans.take();
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
    let (mut lost, mut counted_as_lost) = (0, 0);
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
        let interval = spans.take();
        counted_as_lost += interval.lost();
        let mut records = records_of(&interval).into_iter().peekable();
        for Expected(number, known) in expected {
            let is_next = |record: &Rec| std::ptr::eq(record.site, &SITES[number]);
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
    assert_eq!(counted_as_lost, lost);
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
    let c = records.iter().find(|record| record.name() == "c").unwrap();
    assert_eq!((c.around(), c.depth), (Some("x"), 3), "{records:?}");
    let certain = records.iter().filter(|record| !record.flags.contains(Flags::OUT_OF_ORDER));
    let certain: Vec<_> = certain.map(|record| record.name()).collect();
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
        spans.take();
        {
            let _work = span!("work");
            drop(span!("inside"));
            spin(1);
        }
        drop(open);
        let report = spans.report();
        // 11 ms of it are work, within the error of the clock's rate.
        let (own, total) = (row(&report).own, row(&report).total);
        assert!(total >= own + std::time::Duration::from_micros(10_990), "{report}");
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
    spans.view().write_json_lines(&mut lines).unwrap();
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
    let depths = records.iter().filter(|record| record.flags.contains(Flags::LAP));
    let depths: Vec<u16> = depths.map(|record| record.depth).collect();
    assert_eq!(depths.len(), 600);
    assert_eq!((depths.iter().min(), depths.iter().max()), (Some(&2), Some(&511)));
    assert!(depths.is_sorted());
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
    assert_eq!(records.iter().map(|record| record.depth).max(), Some(511));
    assert_eq!(records.last().map(|record| record.depth), Some(1));
}

/// The record of a numbered span may be dropped where that of its number was not. No other span gets the number.
#[test]
fn a_number_is_not_that_of_another_span() {
    let _turn = turn();
    for records in 1..4 {
        let mut spans = Settings::new().storage(Storage::Ring { records }).start().unwrap();
        let (mut numbered, mut others) = (0, 0);
        for number in 0..1_000 {
            for _ in 0..number % 3 {
                drop(span!("another"));
            }
            drop(span!("numbered", number));
            let before = spans.take();
            drop(span!("another"));
            for record in before.records().chain(spans.take().records()) {
                if record.name() == "another" {
                    assert_eq!(record.number(), None, "{record:?}");
                    others += 1;
                } else {
                    assert!(record.number().is_none_or(|of| of == number), "{record:?}");
                    numbered += u32::from(record.number().is_some());
                }
            }
        }
        println!("a ring of {records}: {numbered} with their numbers, {others} others");
        assert!(others > 0 && (records < 2 || numbered > 0));
    }
}

/// A lap's spans are inside it, and the laps beside it are not.
#[test]
fn what_is_inside_a_lap() {
    let _turn = turn();
    let mut spans = start();
    let mut laps = Laps::start();
    for stage in [Stage::First, Stage::Second] {
        {
            let _outer = span!("outer");
            drop(span!("inner"));
        }
        laps.next(stage);
    }
    let interval = spans.take();
    for lap in interval.records().filter(|record| record.flags().contains(Flags::LAP)) {
        let inside: Vec<_> = lap.inside().map(|record| record.name()).collect();
        assert_eq!(inside, ["inner", "outer"], "{lap:?}");
    }
    let outer = interval.records().find(|record| record.name() == "outer").unwrap();
    assert_eq!(outer.inside().map(|record| record.name()).collect::<Vec<_>>(), ["inner"]);
}

/// Guards that are forgotten, with no span around them, use up the places of open spans. They are given up, and counted.
#[test]
fn forgotten_guards_do_not_silence_a_thread() {
    let _turn = turn();
    let settings = Settings::new().storage(Storage::Ring { records: 1 << 17 });
    for settings in [settings.clone(), settings.causes()] {
        let mut spans = settings.start().unwrap();
        for _ in 0..600 {
            std::mem::forget(span!("forgotten"));
        }
        for _ in 0..100_000 {
            drop(span!("recorded"));
        }
        let report = spans.report();
        let row = report.rows.iter().find(|row| row.name == "recorded").unwrap();
        let dropped = report.threads[0].dropped;
        assert_eq!((row.count + dropped, report.lost), (100_000 + 600 - 511, 511), "{report}");
        assert!(row.count > 30_000, "{report}");
        assert_eq!(row.out_of_order, 0, "{report}");
    }
}

/// A recursion that is too deep, often: the spans that are open and end in order are not given up.
#[test]
fn a_deep_recursion_is_not_given_up() {
    fn descend(depth: u32) {
        let _span = span!("level");
        if depth > 0 {
            descend(depth - 1);
        }
    }
    let _turn = turn();
    for storage in [Storage::Ring { records: 1 << 14 }, Storage::Histograms] {
        let mut spans = Settings::new().storage(storage).start().unwrap();
        // 89 of 600 find no place.
        for _ in 0..1_000 {
            descend(599);
            spans.collect();
        }
        let report = spans.report();
        let row = &report.rows[0];
        assert_eq!((row.count, report.threads[0].dropped), (511_000, 89_000), "{report}");
        assert_eq!((row.out_of_order, report.lost), (0, 0), "{report}");
    }
}
