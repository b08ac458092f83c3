//! The runner on this machine, with and without a PMU: rows, tables, saved results.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[path = "../../../tests/skips/mod.rs"]
mod skips;

use rdpmc::Event;
use rdpmc_bench::{Bench, Kind, Quantity, Verdict};
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
    (0..count).fold(0, |sum, n| black_box(sum + n))
}

#[test]
fn longer_code_takes_longer() {
    let mut bench = Bench::new().unwrap();
    bench.row("100").throughput(|| additions(black_box(100)));
    bench.row("1000").throughput(|| additions(black_box(1_000)));
    bench.row("1000, each").operations(1_000).throughput(|| additions(black_box(1_000)));
    bench.row("inputs").inputs([900, 1_000, 1_100]).latency(|count| additions(*count));
    bench.row("chain").chain(1_000, |count| additions(black_box(count)) % 2 + 1_000);
    let time = |row: usize| bench.rows()[row].time().unwrap().estimate.value;
    // Not the ratio: the machine is busy.
    assert!(0.0 < time(0) && time(0) < time(1), "{bench}");
    assert!(time(2) < time(0) && time(0) < time(3) && time(0) < time(4), "{bench}");
    let row = &bench.rows()[0];
    assert!(
        row.name() == "100" && row.pairs() > 5 && row.runs() > 0 && row.set_aside() <= row.pairs()
    );
    // The quantities come in the order of the events, and each is here or missing.
    let order: Vec<usize> = row.figures()[1..]
        .iter()
        .filter(|figure| figure.quantity != Quantity::InstructionsPerCycle)
        .map(|figure| {
            let place = |event: &Event| figure.quantity == Quantity::Event(*event);
            Bench::EVENTS.iter().position(place).unwrap()
        })
        .collect();
    assert!(order.is_sorted());
    assert_eq!(order.len() + bench.missing().len(), Bench::EVENTS.len(), "{bench}");
    // Where they can be counted.
    let faults = row.event(Event::PAGE_FAULTS).map_or(0.0, |figure| figure.estimate.value);
    assert_eq!(faults, 0.0, "{bench}");
}

#[test]
fn a_row_takes_as_long_as_it_may() {
    let mut bench = Bench::with_events::<Event>(&[]).unwrap();
    bench.time_per_row(Duration::from_millis(20)).target(0.0);
    let row = bench.row("never good enough").throughput(|| additions(black_box(100)));
    assert!(matches!(row.time().unwrap().verdict, Verdict::Unstable(_)), "{row:?}");
    // Without end, and without sense.
    bench.time_per_row(Duration::MAX).target(f64::NAN).target(f64::INFINITY);
    bench.row("at once").throughput(|| additions(black_box(100)));
    let none: [u64; 0] = [];
    let row = bench.row("no inputs").inputs(none).latency(|count| additions(*count));
    assert!(row.figures().is_empty() && row.pairs() == 0);
    assert!(bench.to_string().contains("no inputs: there are no inputs."), "{bench}");
    bench.time_per_row(Duration::from_millis(20)).target(0.0);
    // Code that takes longer than the row may has the fewest pairs that an interval needs.
    let row = bench.row("long").throughput(|| std::thread::sleep(Duration::from_millis(10)));
    assert!(row.pairs() >= 6 && row.runs() <= 2, "{row:?}");
    assert!(row.time().unwrap().estimate.value > 9e6, "{row:?}");
}

#[test]
fn tables_have_a_line_for_each_row() {
    let mut bench = Bench::new().unwrap();
    bench.row("one | two").throughput(|| additions(black_box(100)));
    bench.row("a \"quoted\" name").throughput(|| additions(black_box(200)));
    bench.baseline("one | two");
    let table = bench.to_string();
    let lines: Vec<&str> = table.lines().take(4).collect();
    assert!(
        lines[0].starts_with("| ")
            && lines[0].contains(" ns ")
            && lines[0].ends_with("| per operation")
    );
    assert!(lines[0].contains(" ns / one \\| two "), "{table}");
    assert!(lines[1].starts_with("|-") && lines[2].ends_with("| one \\| two"), "{table}");
    let ratio = bench.ratio(&bench.rows()[1], Quantity::Time).unwrap();
    let ratio = ratio.estimate;
    assert!(ratio.low < ratio.value && ratio.value < ratio.high, "{ratio:?}");
    assert!(bench.csv().contains(" ratio\",") && bench.json().contains(" ratio\": {"));
    bench.baseline("none");
    assert!(bench.to_string().contains("no row has the name none"));
    bench.baseline("one | two");
    for missing in bench.missing() {
        assert!(table.contains(&missing.name), "{table}");
    }
    let csv = bench.csv();
    assert_eq!(csv.lines().next(), Some("row,quantity,value,low,high,verdict"));
    assert!(
        csv.lines().skip(1).all(|line| line.starts_with("\"one | two\",\"")
            || line.starts_with("\"a \"\"quoted\"\" name\",\"")),
        "{csv}"
    );
    let json: serde_json::Value = serde_json::from_str(&bench.json()).unwrap();
    assert_eq!(json["rows"][1]["name"], "a \"quoted\" name");
    let time = json["rows"][0]["figures"]["ns"]["value"].as_f64().unwrap();
    assert_eq!(time, bench.rows()[0].time().unwrap().estimate.value);
}

/// Results as they are saved, with counts that this machine need not have.
fn saved(processor: &str, instructions: f64) -> String {
    let figure = |value: f64, verdict: &str| serde_json::json!({ "value": value, "low": value, "high": value, "verdict": verdict });
    let figures = serde_json::json!({ "instructions": figure(instructions, "exact") });
    let row = serde_json::json!({ "name": "row", "figures": figures });
    serde_json::json!({ "version": 1, "processor": processor, "rows": [row] }).to_string()
}

#[test]
fn what_cannot_be_compared_is_reported() {
    let mut bench = Bench::new().unwrap();
    bench.row("row").throughput(|| additions(black_box(100)));
    let obstacle = |text: &str| {
        let path = file("obstacle.json");
        std::fs::write(&path, text).unwrap();
        let comparison = bench.check(&path, 0.0);
        assert_eq!(comparison.status(), 2, "{comparison}");
        assert!(!comparison.has_regressed() && !comparison.is_complete());
        comparison.obstacle().unwrap().to_owned()
    };
    assert!(obstacle(&saved("another", 1.0)).contains("another processor (another)"));
    assert!(obstacle("{").contains("not JSON"));
    assert!(obstacle("{}").contains("version"));
    let unknown = saved("another", 1.0).replace("\"another\"", "null");
    assert!(obstacle(&unknown).contains("the processor is not known"));
    let none = bench.check(file("there is none.json"), 0.0);
    assert_eq!((none.status(), none.obstacle().unwrap().contains("cannot be read")), (2, true));
    // With counts on one side only.
    let this = serde_json::from_str::<serde_json::Value>(&bench.json()).unwrap();
    let processor = this["processor"].as_str().unwrap();
    let counts = bench.rows()[0].event(Event::INSTRUCTIONS).is_some();
    if counts {
        let without = saved(processor, 1.0).replace("instructions", "page-faults");
        assert!(obstacle(&without).contains("saved results have no counts"));
    } else {
        assert!(obstacle(&saved(processor, 1.0)).contains("here nothing can be counted"));
        assert!(obstacle(&bench.json()).contains("neither"));
    }
}

/// On a machine with a PMU: the counts of one program, twice.
#[test]
fn saved_results_are_compared() {
    if !counts("saved_results_are_compared") {
        return;
    }
    let measured = |names: &[&str], count: u64| {
        let mut bench = Bench::with_events(&[Event::INSTRUCTIONS]).unwrap();
        for name in names {
            bench.row(*name).throughput(|| additions(black_box(count)));
        }
        bench
    };
    let path = file("saved.json");
    measured(&["one", "two"], 100).save(&path).unwrap();
    let same = measured(&["one", "two"], 100).check(&path, 0.0);
    assert_eq!(same.status(), 0, "{same}");
    let more = measured(&["one", "two"], 101).check(&path, 0.0);
    assert_eq!(more.status(), 1, "{more}");
    assert!(more.changes().iter().all(|change| matches!(change.kind, Kind::More { .. })), "{more}");
    let other = measured(&["one", "three"], 100).check(&path, 0.0);
    assert_eq!(other.status(), 2, "{other}");
    let kinds: Vec<Kind> = other.changes().iter().map(|change| change.kind).collect();
    assert!(kinds.contains(&Kind::Appeared) && kinds.contains(&Kind::Disappeared), "{other}");
}

/// The table of `real-machine` on this machine: dependent additions take a cycle each, and multiplications a constant
/// number. Fifteen results are close together, and instructions are exact every time.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
#[test]
fn chains_of_known_latency() {
    #[path = "../../../asm/kernels/chains.rs"]
    #[allow(unsafe_code, unreachable_pub)]
    mod chains;
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
        of.push(bench);
    }
    println!("{}", of[0]);
    let cycles =
        |bench: &Bench, row: usize| bench.rows()[row].event(Event::CYCLES).unwrap().estimate.value;
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
    let names = ["instructions", "cpu/event=0xc0/", "page-faults", "cylces", "cpu/no-such-event/"];
    let mut bench = Bench::with_events(&names).unwrap();
    bench.time_per_row(Duration::from_millis(1)).row("nothing").throughput(|| ());
    let missing = |name: &str| bench.missing().iter().find(|missing| missing.name == name);
    for name in ["cylces", "cpu/no-such-event/"] {
        assert!(missing(name).is_some_and(|missing| missing.event.is_none()), "{bench}");
    }
    assert!(missing("cylces").unwrap().why.contains("Did you mean cycles?"), "{bench}");
    if has_no_pmu() && cfg!(target_arch = "x86_64") {
        // By the encoding as by the constant.
        let of = |name| missing(name).map(|missing| missing.why.replacen(name, "", 1));
        assert!(of("instructions").is_some() && of("instructions") == of("rc0"), "{bench}");
    }
    assert!(missing("page-faults").is_none(), "{bench}");
}

fn has_no_pmu() -> bool {
    matches!(
        rdpmc::Counter::open(rdpmc::Event::INSTRUCTIONS),
        Err(rdpmc::error::OpenError::NoPmu { .. })
    )
}
