//! The runner on this machine, with and without a PMU: rows, tables, saved results.

use crate::memory::Memory;
use crate::skips;
use rdpmc::Event;
use rdpmc_bench::{Bench, Limits, Quantity, Results, RowComparison, Status, Verdict};
use std::cell::Cell;
use std::cmp::Ordering;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

/// Whether this machine counts instructions.
fn counts(test: &str) -> bool {
    let group =
        rdpmc::Counter::builder(Event::INSTRUCTIONS).allow_all_privilege_levels(true).open();
    match group {
        Ok(_) => true,
        Err(why) => {
            skips::skip(test, &why.to_string());
            false
        }
    }
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[inline(never)]
fn additions(count: u64) -> u64 {
    // Without an iterator, whose functions are not inlined in every build.
    let (mut sum, mut n) = (0, 0);
    while n < count {
        sum = black_box(sum + n);
        n += 1;
    }
    sum
}

#[test]
fn longer_code_takes_longer() {
    let mut bench = Bench::new().unwrap();
    bench.row("100").throughput(|| additions(black_box(100)));
    bench.row("1000").throughput(|| additions(black_box(1_000)));
    bench.row("1000, each").operations(1_000).throughput(|| additions(black_box(1_000)));
    bench.row("inputs").inputs([900, 1_000, 1_100]).latency(|count| additions(*count));
    bench.row("chain").chain(1_000, |count| additions(black_box(count)) % 2 + 1_000);
    let results = bench.run();
    let time = |row: usize| results.rows()[row].time().unwrap().estimate.value;
    // Not the ratio: the machine is busy.
    assert!(0.0 < time(0) && time(0) < time(1), "{results}");
    assert!(time(2) < time(0) && time(0) < time(3) && time(0) < time(4), "{results}");
    let row = results.row("100").unwrap();
    assert!(row.name() == "100" && row.samples() >= 8 && row.runs() > 0);
    assert!(row.set_aside() <= row.samples());
    // The quantities come in the order of the events, and each is here or missing.
    let order: Vec<usize> = row.figures()[1..]
        .iter()
        .filter(|figure| matches!(figure.quantity, Quantity::Event(_)))
        .map(|figure| {
            let place = |event: &Event| figure.quantity == Quantity::Event(*event);
            Bench::EVENTS.iter().position(place).unwrap()
        })
        .collect();
    assert!(order.is_sorted());
    assert_eq!(order.len() + results.missing().len(), Bench::EVENTS.len(), "{results}");
    // Where they can be counted.
    let faults = row.event(Event::PAGE_FAULTS).map_or(0.0, |figure| figure.estimate.value);
    // The kernel may reclaim a page.
    assert!(faults < 0.01, "{results}");
}

/// Each sample has a number of runs that follows from the row's time, and each row has at least eight.
#[test]
fn rows_take_as_long_as_they_may() {
    let calls = Cell::new(0);
    let none: [u64; 0] = [];
    let mut bench = Bench::with_events::<Event>(&[]).unwrap();
    bench.time_per_row(Duration::from_millis(1)).target(0.0);
    bench.row("never good enough").throughput(|| additions(black_box(100)));
    bench.row("no inputs").inputs(none).latency(|count| additions(*count));
    // Code that takes longer than the row may.
    bench.row("long").throughput(|| {
        calls.set(calls.get() + 1);
        std::thread::sleep(Duration::from_millis(5));
    });
    let results = bench.run();
    let row = results.row("never good enough").unwrap();
    assert!(matches!(row.time().unwrap().verdict, Verdict::Unstable(_)), "{row:?}");
    let row = results.row("no inputs").unwrap();
    assert!(row.figures().is_empty() && row.samples() == 0);
    assert!(results.to_string().contains("no inputs: there are no inputs."), "{results}");
    let row = results.row("long").unwrap();
    assert!(row.samples() == 8 && row.runs() == 1, "{row:?}");
    assert!(row.time().unwrap().estimate.value > 4.5e6, "{row:?}");
    // Each sample has a loop of one run and one of two, and may have a run before. The length was found before.
    assert!(calls.get() <= 8 * 4 + 4, "{calls:?}");
    // Without end, and without sense.
    let mut bench = Bench::with_events::<Event>(&[]).unwrap();
    bench.time_per_row(Duration::MAX).target(f64::NAN).target(f64::INFINITY);
    bench.row("ends").throughput(|| additions(black_box(100)));
    assert!(bench.run().rows()[0].samples() > 1_000);
    assert_eq!(Bench::new().unwrap().run().rows().len(), 0);
}

/// Code that the compiler removes takes the time of the store of its result, or none. Code whose cost grows with each run has no
/// constant one. All end in time.
#[test]
fn code_that_is_removed_or_grows() {
    let mut bench = Bench::with_events::<Event>(&[]).unwrap();
    bench.row("removed").throughput(|| 2 + 2);
    bench.row("removed, too").chain(7, |number: u64| number);
    bench.row("additions").throughput(|| additions(black_box(1_000)));
    let mut run = 0;
    bench.row("grows").throughput(move || {
        run += 1;
        additions(black_box(run))
    });
    let mut all = Vec::new();
    bench.row("keeps more and more").against("grows").throughput(move || {
        all.push(1_u64);
        all.iter().sum::<u64>()
    });
    let results = bench.run();
    let time = |row: &str| results.row(row).and_then(|row| row.time()).unwrap();
    for row in ["grows", "keeps more and more"] {
        assert!(matches!(time(row).verdict, Verdict::Unstable(_)), "{row}\n{results}");
    }
    // One store at most, or a badly aligned loop. A thousand additions store a thousand times, one after the other.
    for row in ["removed", "removed, too"] {
        let most = time("additions").estimate.value / 100.0;
        assert!(time(row).estimate.value < most, "{row}\n{results}");
    }
}

/// A run that sleeps once in a while: the median does not show it, so a line below the table does.
#[test]
fn rare_sleep_is_named() {
    let mut run = 0;
    let mut bench = Bench::new().unwrap();
    bench.row("sleeps").throughput(|| {
        run += 1;
        if run % 500_000 == 0 {
            std::thread::sleep(Duration::from_millis(4));
        }
        additions(black_box(20))
    });
    let results = bench.run();
    let row = results.row("sleeps").unwrap();
    let slow = row.slow().unwrap_or_else(|| panic!("{results}"));
    // 8 ns a run, and that of the additions. A sample that another program disturbs may have the sleep.
    assert!(slow.loops > 0 && slow.mean > 6.0 && slow.longest >= 1e6, "{slow:?}");
    assert!(results.to_string().contains(" loops were slow, by up to "), "{results}");
}

/// What the kernel counts is counted in all samples, also in those in which the code waits.
#[test]
fn code_that_waits_has_its_page_faults() {
    let pages = Memory::new();
    let (runs, faults) = (Cell::new(0), Cell::new(0));
    let mut bench = Bench::with_events(&[Event::PAGE_FAULTS, Event::CONTEXT_SWITCHES]).unwrap();
    bench.row("waits once in a while").throughput(|| {
        runs.set(runs.get() + 1);
        if runs.get() % 2_000 == 0 {
            pages.fault(10);
            faults.set(faults.get() + 10);
            std::thread::sleep(Duration::from_micros(50));
        }
        additions(black_box(1_000))
    });
    bench.row("waits").throughput(|| std::thread::sleep(Duration::from_micros(50)));
    let results = bench.run();
    let count = |row: usize, event| results.rows()[row].event(event).unwrap().estimate.value;
    let truth = f64::from(faults.get()) / f64::from(runs.get());
    let found = count(0, Event::PAGE_FAULTS);
    assert!(found > truth / 2.0 && found < truth * 2.0, "{truth}\n{results}");
    match results.rows()[1].event(Event::CONTEXT_SWITCHES) {
        Some(figure) => assert!(figure.estimate.value >= 0.9, "{results}"),
        None => println!("context switches are not counted here\n{results}"),
    }
}

/// A row of 200 additions against one of 100, against itself, and against rows that are not there.
#[test]
fn rows_are_compared() {
    let mut bench = Bench::new().unwrap();
    bench.row("100").throughput(|| additions(black_box(100)));
    bench.row("200").against("100").throughput(|| additions(black_box(200)));
    bench.row("half").against("200").throughput(|| additions(black_box(100)));
    bench.row("each").against("200").operations(200).throughput(|| additions(black_box(200)));
    bench.row("lost").against("nobody").throughput(|| additions(black_box(100)));
    bench.row("itself").against("itself").throughput(|| additions(black_box(100)));
    let results = bench.run();
    let speed = |row: &str| results.comparison(row).and_then(RowComparison::speed).unwrap();
    assert_eq!(speed("200").direction(), Ordering::Greater, "{results}");
    assert_eq!(speed("half").direction(), Ordering::Less, "{results}");
    assert_eq!(speed("each").direction(), Ordering::Less, "{results}");
    let ratio = speed("each").ratio.unwrap();
    assert!(
        ratio.value < 0.1 && ratio.low <= ratio.value && ratio.value <= ratio.high,
        "{ratio:?}"
    );
    assert!(results.comparison("itself").is_none() && results.comparison("100").is_none());
    assert!(results.comparison("lost").unwrap().differences.is_empty());
    let text = results.to_string();
    assert!(text.contains("itself: it is not compared with itself."), "{text}");
    assert!(
        text.contains("lost is not compared: no row of the name nobody was measured."),
        "{text}"
    );
    assert!(text.contains(" slower than 100") && text.contains(" faster than 200"), "{text}");
    // Two rows of one name, one of which is compared.
    let mut bench = Bench::with_events::<Event>(&[]).unwrap();
    bench.time_per_row(Duration::from_millis(5));
    bench.row("x").throughput(|| additions(black_box(100)));
    bench.row("x").against("y").throughput(|| additions(black_box(1_000)));
    bench.row("y").throughput(|| additions(black_box(100)));
    let results = bench.run();
    let text = results.to_string();
    // By some percent, or so many times as slow, as the machine is.
    let compared = text.matches(" slower than y").count() + text.matches(" as slow as y").count();
    assert_eq!(compared, 1, "{text}");
    assert!(text.contains("x: another row has this name"), "{text}");
    // All with one row, except for those with another.
    let mut bench = Bench::with_events::<Event>(&[]).unwrap();
    bench.time_per_row(Duration::from_millis(5)).baseline("one");
    for name in ["two", "one", "three"] {
        bench.row(name).throughput(|| additions(black_box(100)));
    }
    bench.row("four").against("two").throughput(|| additions(black_box(100)));
    let results = bench.run();
    let compared: Vec<(&str, &str)> =
        results.comparisons().iter().map(|it| (it.row.as_str(), it.against.as_str())).collect();
    assert_eq!(compared, [("two", "one"), ("three", "one"), ("four", "two")]);
}

#[test]
fn tables_have_a_line_for_each_row() {
    let mut bench = Bench::new().unwrap();
    bench.row("one | two").throughput(|| additions(black_box(100)));
    bench.row("a \"quoted\" name").against("one | two").throughput(|| additions(black_box(200)));
    let results = bench.run();
    let table = results.to_string();
    let lines: Vec<&str> = table.lines().take(4).collect();
    assert!(lines[0].starts_with("| ") && lines[0].contains(" ns "), "{table}");
    assert!(lines[0].ends_with(" compared | per operation"), "{table}");
    assert!(lines[1].starts_with("|-") && lines[2].ends_with("| one \\| two"), "{table}");
    assert!(lines[3].contains(" slower than one \\| two"), "{table}");
    for missing in results.missing() {
        assert!(table.contains(&missing.name), "{table}");
    }
    let csv = results.csv();
    assert_eq!(csv.lines().next(), Some("row,quantity,value,low,high,verdict"));
    assert!(
        csv.lines().skip(1).all(|line| line.starts_with("\"one | two\",\"")
            || line.starts_with("\"a \"\"quoted\"\" name\",\"")),
        "{csv}"
    );
    assert!(csv.contains("\"ns ratio\","), "{csv}");
    let json: serde_json::Value = serde_json::from_str(&results.json()).unwrap();
    assert_eq!(json["rows"][1]["name"], "a \"quoted\" name");
    let time = json["rows"][0]["figures"]["ns"]["value"].as_f64().unwrap();
    assert_eq!(time, results.rows()[0].time().unwrap().estimate.value);
    let ratio = json["comparisons"][0]["differences"]["ns"]["ratio"]["value"].as_f64().unwrap();
    assert!(ratio > 1.0, "{table}");
}

/// Code that panics ends its row. The row says so, the others are measured, and the gate does not pass.
#[test]
fn a_panic_of_the_code_ends_its_row() {
    let mut bench = Bench::with_events::<Event>(&[]).unwrap();
    bench.time_per_row(Duration::from_millis(5));
    bench
        .row("panics")
        .chain(0, |number: u64| if number > 1_000 { panic!("{number}") } else { number + 1 });
    bench.row("at once").against("panics").throughput(|| -> u64 { panic!("as it should") });
    bench.row("does not").throughput(|| additions(black_box(10)));
    let results = bench.run();
    let [panics, at_once, does_not] = results.rows() else { panic!("{results}") };
    assert_eq!([panics.panicked(), at_once.panicked()], [Some("1001"), Some("as it should")]);
    assert!(panics.figures().is_empty() && at_once.figures().is_empty(), "{results}");
    assert!(does_not.panicked().is_none() && does_not.time().is_some(), "{results}");
    let text = results.to_string();
    for line in
        ["\npanics: its code panicked: 1001.\n", "\nat once: its code panicked: as it should.\n"]
    {
        assert!(text.contains(line), "{text}");
    }
    let path = file("panicked.json");
    results.save(&path).unwrap();
    let comparison = results.check(&path, &Limits::new().accept("ns", 1e6).allow_missing());
    assert_eq!(comparison.status(), Status::Incomplete, "{comparison}");
    let line = "panics: not compared: its code panicked: 1001\n";
    assert!(comparison.to_string().contains(line), "{comparison}");
}

/// Results as they are saved, with counts that this machine need not have.
fn saved(results: &Results, instructions: f64) -> serde_json::Value {
    let mut saved: serde_json::Value = serde_json::from_str(&results.json()).unwrap();
    let figure = serde_json::json!({ "value": instructions, "low": instructions, "high": instructions, "verdict": "exact" });
    saved["rows"][0]["figures"]["instructions"] = figure;
    saved
}

#[test]
fn what_cannot_be_compared_is_reported() {
    let mut bench = Bench::new().unwrap();
    bench.row("row").throughput(|| additions(black_box(100)));
    let results = bench.run();
    let path = file("obstacle.json");
    let why = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let comparison = results.check(&path, &Limits::new());
        assert_eq!(comparison.status(), Status::Incomplete, "{comparison}");
        comparison.to_string()
    };
    let changed = |field: &str, value: &str| {
        let mut saved = saved(&results, 1.0);
        saved[field] = value.into();
        saved.to_string()
    };
    let other = why(&changed("processor", "another"));
    assert!(other.contains("measured on different processors: another, and "), "{other}");
    let other = why(&changed("program", "another"));
    assert!(
        other.contains("measured by different programs, another and rdpmc-bench/it."),
        "{other}"
    );
    assert!(why("{").contains("obstacle.json is not JSON"));
    assert!(why("{}").contains("it has no version"));
    let none = results.check(file("there is none.json"), &Limits::new());
    assert_eq!(none.status(), Status::Incomplete);
    assert!(none.to_string().contains(" cannot be read: "), "{none}");
    // With counts on one side only, or on none.
    if results.rows()[0].event(Event::INSTRUCTIONS).is_none() {
        let why = why(&saved(&results, 1.0).to_string());
        assert!(why.contains("row, instructions: not in this run"), "{why}");
        assert!(why.contains("this run has no counters: "), "{why}");
    }
    let mut without = saved(&results, 1.0);
    without["rows"][0]["figures"] = serde_json::json!({});
    assert!(why(&without.to_string()).contains("Nothing was compared between "));
    // A row that is there twice.
    let mut twice = saved(&results, 1.0);
    let row = twice["rows"][0].clone();
    twice["rows"] = serde_json::json!([row, row]);
    assert!(why(&twice.to_string()).contains("two rows have the name row"));
}

/// Code that starts a thread has no stepped instructions. The gate has this reason, and not that the PMU is missing.
#[test]
fn the_gate_says_why_a_row_was_not_stepped() {
    const TEST: &str = "the_gate_says_why_a_row_was_not_stepped";
    if has_instructions() {
        return skips::skip(TEST, "instructions are counted here");
    }
    if let Some(why) = why_not_stepped() {
        return skips::skip(TEST, &why);
    }
    let mut bench = Bench::with_events(&[Event::INSTRUCTIONS]).unwrap();
    bench.time_per_row(Duration::from_millis(1)).time_to_step(Duration::from_secs(60));
    bench.row("steps").throughput(|| additions(black_box(10)));
    bench.row("starts a thread").throughput(|| std::thread::spawn(|| ()).join().unwrap());
    let results = bench.run();
    let note = "starts a thread: instructions were not stepped: the code starts a thread ";
    let text = results.to_string();
    assert!(text.contains(note) && text.contains(". Instructions are stepped instead."), "{text}");
    let path = file("not stepped.json");
    let mut saved: serde_json::Value = serde_json::from_str(&results.json()).unwrap();
    assert_eq!(saved["rows"][0]["not_stepped"], serde_json::Value::Null);
    let check = |saved: &serde_json::Value| {
        std::fs::write(&path, saved.to_string()).unwrap();
        let comparison = results.check(&path, &Limits::new());
        assert_eq!(comparison.status(), Status::Incomplete, "{comparison}");
        comparison.to_string()
    };
    // It was stepped earlier, in a file without the field.
    let figures = saved["rows"][0]["figures"].clone();
    let row = saved["rows"][1].as_object_mut().unwrap();
    row.insert("figures".into(), figures);
    row.remove("not_stepped").unwrap();
    let text = check(&saved);
    let why = "No stepped-instructions of starts a thread in this run: the code starts a thread ";
    assert!(text.contains("starts a thread, stepped-instructions: not in this run"), "{text}");
    assert!(text.contains(why) && !text.contains("has no counters"), "{text}");
}

/// Returns why nothing can be stepped here. Other tests of this process step as well, one at a time.
pub(crate) fn why_not_stepped() -> Option<String> {
    let stepped = || rdpmc_step::count(1_000, || ()).err();
    let mut why = stepped();
    while why == Some(rdpmc_step::StepError::Busy) {
        std::thread::yield_now();
        why = stepped();
    }
    why.map(|why| why.to_string())
}

fn has_instructions() -> bool {
    rdpmc::Counter::open(Event::INSTRUCTIONS).is_ok()
}

/// Page faults, which every machine counts, and instructions on a machine with a PMU. The threads of other tests would make both
/// unstable.
#[cfg(target_os = "linux")]
#[test]
fn saved_results_are_compared() {
    if !crate::threads::is_alone("bench::saved_results_are_compared") {
        return;
    }
    let pages = Memory::new();
    let measured = |names: &[&str], count: usize| {
        let mut bench = Bench::with_events(&[Event::PAGE_FAULTS, Event::INSTRUCTIONS]).unwrap();
        // On a busy machine, a second may be too short.
        bench.time_per_row(Duration::from_millis(20)).time_to_step(Duration::from_secs(60));
        bench.processes(1);
        for name in names {
            bench.row(*name).throughput(move || pages.fault(count));
        }
        bench.run()
    };
    let path = file("saved.json");
    measured(&["one", "two"], 10).save(&path).unwrap();
    let has_instructions = has_instructions();
    let limits = || {
        let limits = Limits::new().accept("page-faults", 0.001);
        if has_instructions { limits.accept("instructions", 1.0) } else { limits }
    };
    let check = |results: Results, limits: Limits| {
        let comparison = results.check(&path, &limits);
        (comparison.status(), comparison.to_string())
    };
    let (same, text) = check(measured(&["one", "two"], 10), limits());
    assert_eq!(same, Status::Passed, "{text}");
    let (more, text) = check(measured(&["one", "two"], 11), limits());
    assert_eq!(more, Status::Regressed, "{text}");
    let (less, text) = check(measured(&["one", "two"], 9), limits());
    assert_eq!(less, Status::Passed, "{text}");
    let (other, text) = check(measured(&["one", "three"], 10), limits());
    assert_eq!(other, Status::Incomplete, "{text}");
    assert!(text.contains("two: not in this run") && text.contains("three: not in "), "{text}");
    let (other, text) = check(measured(&["one", "three"], 10), limits().allow_missing());
    assert_eq!(other, Status::Passed, "{text}");
}

/// The variable with the file that `an_older_file_remains` replaces in a process of its own.
const SAVE_TO: &str = "RDPMC_TEST_SAVE_TO";
const REFUSED: i32 = 7;

/// Saving fails: on a full disk (no file may grow), and where no file can be.
#[test]
fn an_older_file_remains() {
    let results = || {
        let mut bench = Bench::with_events::<Event>(&[]).unwrap();
        bench.time_per_row(Duration::from_millis(1)).row("row").throughput(|| ());
        bench.run()
    };
    if let Some(path) = std::env::var_os(SAVE_TO) {
        // With a status of its own: a name that selects no test ends with 0.
        std::process::exit(if results().save(path).is_err() { REFUSED } else { 1 });
    }
    let path = file("remains.json");
    results().save(&path).unwrap();
    let old = std::fs::read(&path).unwrap();
    let script =
        "trap '' XFSZ; ulimit -f 0; exec \"$0\" --exact bench::an_older_file_remains >/dev/null";
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", script]).arg(std::env::current_exe().unwrap()).env(SAVE_TO, &path);
    assert_eq!(limited.status().unwrap().code(), Some(REFUSED));
    assert_eq!(std::fs::read(&path).unwrap(), old);
    for nowhere in ["/proc/saved.json", "no directory/saved.json", "/"] {
        assert!(results().save(nowhere).is_err(), "{nowhere}");
    }
}

/// The table of `real-machine` on this machine: dependent additions take a cycle each, and multiplications a constant
/// number. Fifteen results are close together, and instructions are exact every time.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
#[test]
fn chains_of_known_latency() {
    use crate::chains;
    if !counts("chains_of_known_latency") {
        return;
    }
    let mut of = Vec::new();
    for _ in 0..15 {
        let mut bench = Bench::with_events(&[Event::CYCLES, Event::INSTRUCTIONS]).unwrap();
        bench.row("10 additions").chain(1, chains::additions::<10>);
        bench.row("100 additions").chain(1, chains::additions::<100>);
        bench.row("1000 additions").chain(1, chains::additions::<1000>);
        bench.row("10 multiplications").chain(3, chains::multiplications::<10>);
        bench.row("100 multiplications").chain(3, chains::multiplications::<100>);
        bench.row("1000 multiplications").chain(3, chains::multiplications::<1000>);
        of.push(bench.run());
    }
    println!("{}", of[0]);
    let cycles = |bench: &Results, row: usize| {
        bench.rows()[row].event(Event::CYCLES).unwrap().estimate.value
    };
    // A multiplication takes a whole number of cycles.
    let each = (cycles(&of[0], 5) / 1_000.0).round();
    for (row, length) in [10.0, 100.0, 1_000.0, 10.0, 100.0, 1_000.0].into_iter().enumerate() {
        let truth = if row < 3 { length } else { length * each };
        let mut all: Vec<f64> = of.iter().map(|bench| cycles(bench, row)).collect();
        all.sort_by(f64::total_cmp);
        println!(
            "{}: {:.2} to {:.2} cycles of {truth:.0}",
            of[0].rows()[row].name(),
            all[0],
            all[14]
        );
        // A neighbour may disturb some.
        assert!((all[7] - truth).abs() <= f64::max(1.0, truth / 100.0), "{all:?}");
        assert!(all[12] - all[2] <= f64::max(0.5, truth / 1_000.0), "{all:?}");
        for bench in &of {
            let figure = bench.rows()[row].event(Event::INSTRUCTIONS).unwrap();
            assert_eq!((figure.estimate.value, figure.verdict), (length, Verdict::Exact));
        }
    }
}

/// Names are events, or are missing with the reason, on a machine with a PMU and on one without.
#[test]
fn events_by_their_names() {
    let names = [
        "instructions",
        "cpu/event=0xc0/",
        "page-faults",
        "cylces",
        "cpu/no-such-event/",
        "hostile\u{1b}[31m\nname",
        "",
    ];
    let mut bench = Bench::with_events(&names).unwrap();
    bench.time_per_row(Duration::from_millis(1)).row("nothing").throughput(|| ());
    let bench = bench.run();
    let missing = |name: &str| bench.missing().iter().find(|missing| missing.name == name);
    for name in ["cylces", "cpu/no-such-event/"] {
        assert!(missing(name).is_some_and(|missing| missing.event.is_none()), "{bench}");
    }
    assert!(missing("cylces").unwrap().why.remedy().contains("Did you mean cycles?"), "{bench}");
    if has_no_pmu() && cfg!(target_arch = "x86_64") {
        // By the encoding as by the constant. Another test may have given it another name.
        let of = |event| {
            let missing = bench.missing().iter().find(|missing| missing.event == Some(event));
            missing.map(|missing| missing.why.shared_cause())
        };
        let instructions = of(Event::INSTRUCTIONS);
        assert!(instructions.is_some() && instructions == of(Event::raw(0xc0)), "{bench}");
    }
    assert!(missing("page-faults").is_none(), "{bench}");
    let text = bench.to_string();
    assert!(!text.contains('\u{1b}') && text.contains("hostile [31m name"), "{text}");
    assert!(text.contains("Not counted: \"\": "), "{text}");
}

fn has_no_pmu() -> bool {
    rdpmc::Counter::open(rdpmc::Event::INSTRUCTIONS)
        .is_err_and(|why| matches!(why.kind(), rdpmc::error::ErrorKind::NoPmu { .. }))
}

/// The plot and the page have every row, its samples, and the differences of those that are compared.
#[test]
fn distributions_are_shown() {
    let mut bench = Bench::new().unwrap();
    bench.time_to_step(Duration::ZERO);
    bench.row("old <b>\u{1b}[31m").throughput(|| additions(black_box(100)));
    bench.row("new").against("old <b>\u{1b}[31m").throughput(|| additions(black_box(90)));
    let results = bench.run();
    for row in results.rows() {
        assert_eq!(row.times().len(), row.samples() - row.set_aside());
        // The figure is the median of these, unless the mean of several paths is.
        let mut times = row.times().to_vec();
        times.sort_by(f64::total_cmp);
        assert!(times[0] <= row.time().unwrap().estimate.value, "{results}");
        assert!(row.time().unwrap().estimate.value <= times[times.len() - 1], "{results}");
    }
    let comparison = results.comparison("new").unwrap();
    let (quantity, ratios) = comparison.ratios().unwrap();
    assert_eq!(quantity, comparison.speed().unwrap().quantity);
    assert!(ratios.len() >= 8);
    let plot = results.plot();
    let lines: Vec<&str> = plot.lines().collect();
    assert_eq!(lines.len(), 3, "{plot}");
    assert!(lines[0].starts_with("old <b> [31m ") && lines[1].starts_with("new "), "{plot}");
    assert!(lines[2].starts_with(&format!("  - old <b> [31m, {quantity} ")), "{plot}");
    // The distributions are below each other.
    let ends = |line: &str| {
        let places = line.chars().enumerate().filter(|(_, char)| *char == '|');
        places.map(|(place, _)| place).collect::<Vec<_>>()
    };
    assert!(
        lines.iter().all(|line| ends(line) == ends(lines[0]) && ends(line).len() == 2),
        "{plot}"
    );
    let path = file("distributions.html");
    results.save_html(&path).unwrap();
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page.contains("old &lt;b&gt;\\u{1b}[31m") && !page.contains("<b>"), "{page}");
    let pairs = format!("<p>{} pairs.", ratios.len());
    assert!(page.contains(&pairs) && page.contains(">median "), "{page}");
    for row in results.rows() {
        assert!(page.contains(&format!("<p>{} samples, median ", row.times().len())), "{page}");
    }
}
