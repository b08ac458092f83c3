//! `rdpmc-bench` measures code of known cost exactly, more events than there are counters, and finds what is planted.

use super::{Entry, known_events, open};
use crate::harness::{Facts, Outcome, Stop, equal, require};
use rdpmc::Event;
use rdpmc_bench::{Bench, Estimate, Figure, Limits, Quantity, Results, Row, Verdict};
use rdpmc_testing::chains::{additions, multiplications};
use rdpmc_testing::kernels::countdown;
use std::cell::Cell;
use std::hint::black_box;
use std::time::Duration;

pub const ALL: &[Entry] = &[
    ("bench_of_known_chains", bench_of_known_chains),
    #[cfg(target_arch = "x86_64")]
    ("bench_of_more_events_than_counters", bench_of_more_events_than_counters),
    ("bench_of_two_paths", bench_of_two_paths),
    ("bench_checks_to_the_instruction", bench_checks_to_the_instruction),
    ("bench_compares_to_the_instruction", bench_compares_to_the_instruction),
    ("bench_counts_in_other_processes", bench_counts_in_other_processes),
];

/// An emulated machine is slow, and may switch to other threads in most of the loops: it gets more time.
fn bench_of<'a>(events: &[Event]) -> Result<Bench<'a>, Stop> {
    drop(open(Event::INSTRUCTIONS)?);
    let mut bench = Bench::with_events(events).map_err(|error| error.to_string())?;
    // The arguments are those of the scenario. One scenario starts other processes.
    bench.time_per_row(Duration::from_millis(600)).ignore_arguments().processes(1);
    Ok(bench)
}

fn is_exactly(row: &Row, event: Event, value: f64) -> Outcome {
    let found = row.event(event);
    let is_exact = found.is_some_and(|figure| {
        let Estimate { value: found, low, high, .. } = figure.estimate;
        figure.verdict == Verdict::Exact && [found, low, high] == [value; 3]
    });
    require(is_exact, || format!("{}, {event}: {found:?}, not {value}", row.name()))
}

/// Ten, a hundred and a thousand dependent additions and multiplications: each figure is exact.
fn bench_of_known_chains(facts: &Facts) -> Outcome {
    let known = known_events(facts);
    let events: Vec<Event> = known.iter().map(|(event, _)| *event).collect();
    let mut bench = bench_of(&events)?;
    bench.row("10 additions").chain(1, additions::<10>);
    bench.row("100 additions").chain(1, additions::<100>);
    bench.row("1000 additions").chain(1, additions::<1000>);
    bench.row("10 multiplications").chain(3, multiplications::<10>);
    bench.row("100 multiplications").chain(3, multiplications::<100>);
    bench.row("1000 multiplications").chain(3, multiplications::<1000>);
    bench.row("10 additions with a fence").latency(|| additions::<10>(black_box(1)));
    bench.row("10 additions, overlapping").throughput(|| additions::<10>(black_box(1)));
    let bench = bench.run();
    println!("{bench}");
    // An instruction takes a nanosecond of the machine's clock, also beside a fence.
    for row in bench.rows().iter().filter(|row| row.name().contains(" with a fence")) {
        let value = |figure: Option<&Figure>| figure.map(|figure| figure.estimate.value);
        let times = value(row.time()).zip(value(row.event(Event::INSTRUCTIONS)));
        let is_right = times.is_some_and(|(ns, instructions)| (ns - instructions).abs() < 0.5);
        require(is_right, || format!("{}: ns and instructions: {times:?}", row.name()))?;
    }
    for row in bench.rows() {
        let length: f64 = row.name().split(' ').next().unwrap_or_default().parse().unwrap_or(0.0);
        require(row.paths().len() == 1, || format!("{:?}", row.paths()))?;
        for (event, per_round) in &known {
            // A round of the known events is two instructions.
            match (*event, row.name().contains("additions ") || row.name().contains(',')) {
                (Event::BRANCHES, _) => is_exactly(row, *event, 0.0)?,
                (_, false) => is_exactly(row, *event, length * *per_round as f64 / 2.0)?,
                // The value of a closure goes through memory.
                (_, true) => {
                    let each = *per_round as f64 / 2.0;
                    let count = row.event(*event).map(|figure| figure.estimate.value / each);
                    require(count.is_some_and(|count| (10.0..=14.0).contains(&count)), || {
                        format!("{}: {count:?}", row.name())
                    })?;
                    let figure = row.event(*event);
                    require(figure.is_some_and(|it| it.verdict == Verdict::Exact), || {
                        format!("{}, {event}: {figure:?}", row.name())
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// Twenty-one events on a few counters: the known ones with modifiers that change nothing here.
#[cfg(target_arch = "x86_64")]
fn bench_of_more_events_than_counters(facts: &Facts) -> Outcome {
    let registers = facts.number("registers").unwrap_or(0);
    let cycles = facts.number("cycles").unwrap_or(0) as f64;
    let expected = [("instructions", 100.0), ("cycles", 100.0 * cycles), ("branches", 0.0)];
    let mut events = Vec::new();
    for modifiers in ["u", "uh", "uI", "uH", "uhI", "uhH", "uIH"] {
        for (name, count) in expected {
            let event = format!("{name}:{modifiers}").parse::<Event>();
            events.push((event.map_err(|error| error.to_string())?, count));
        }
    }
    let names: Vec<Event> = events.iter().map(|(event, _)| *event).collect();
    let mut bench = bench_of(&names)?;
    bench.row("100 additions").chain(1, additions::<100>);
    let bench = bench.run();
    println!("{bench}");
    let [row] = bench.rows() else { return Err(Stop::Failed("not one row".into())) };
    equal("more events", names.len() as u64 > registers, true)?;
    for (event, count) in events {
        is_exactly(row, event, count)?;
    }
    equal("missing", bench.missing().len(), 0)
}

fn bench_of_two_paths(_: &Facts) -> Outcome {
    let is_long = Cell::new(false);
    let mut bench = bench_of(&[Event::INSTRUCTIONS])?;
    bench.row("in turn").throughput(|| {
        is_long.set(!is_long.get());
        if black_box(is_long.get()) { additions::<1000>(1) } else { additions::<100>(1) }
    });
    let results = bench.run();
    let [row] = results.rows() else { return Err(Stop::Failed("not one row".into())) };
    let [first, second] = row.paths() else {
        return Err(Stop::Failed(format!("not two paths: {:?}", row.paths())));
    };
    let apart = (first.instructions - second.instructions).abs();
    require((890..=910).contains(&apart), || format!("{:?}", row.paths()))?;
    require((first.share - 0.5).abs() < 0.2, || format!("{:?}", row.paths()))
}

/// One more instruction in a function of a thousand.
fn bench_checks_to_the_instruction(_: &Facts) -> Outcome {
    const FILE: &str = "/baseline.json";
    let measured = |code: fn(u64) -> u64| -> Result<Results, Stop> {
        let mut bench = bench_of(&[Event::INSTRUCTIONS])?;
        bench.row("a function").chain(1, code);
        Ok(bench.run())
    };
    let thousand = measured(additions::<1000>)?;
    thousand.save(FILE).map_err(|error| error.to_string())?;
    let again = measured(additions::<1000>)?.check(FILE, &Limits::new());
    equal("again", again.status().code(), 0)?;
    let more = measured(additions::<1001>)?.check(FILE, &Limits::new());
    println!("{more}");
    equal("one more", more.status().code(), 1)?;
    // The call of the function is counted, too.
    require(more.to_string().contains("%): regression"), || more.to_string())?;
    let accepted = Limits::new().accept("instructions", 0.01);
    let more = measured(additions::<1001>)?.check(FILE, &accepted);
    equal("one more, within 1 %", more.status().code(), 0)?;
    let less = measured(additions::<999>)?.check(FILE, &Limits::new());
    equal("one less", less.status().code(), 0)
}

/// One instruction in a function of a thousand, and the cycles that it takes, between two rows of one run.
fn bench_compares_to_the_instruction(facts: &Facts) -> Outcome {
    let cycles = facts.number("cycles").unwrap_or(0);
    let mut bench = bench_of(&[Event::INSTRUCTIONS, Event::CYCLES])?;
    bench.row("old").chain(1, additions::<1000>);
    bench.row("one more").against("old").chain(1, additions::<1001>);
    bench.row("one less").against("old").chain(1, additions::<999>);
    bench.row("equal").against("old").chain(1, additions::<1000>);
    let results = bench.run();
    println!("{results}");
    for (row, instructions, words) in [
        ("one more", 1.0, "0.1 % slower than old, 1 instruction more"),
        ("one less", -1.0, "0.1 % faster than old, 1 instruction fewer"),
        ("equal", 0.0, "exactly as fast as old, as many instructions"),
    ] {
        let Some(comparison) = results.comparison(row) else {
            return Err(Stop::Failed(format!("{row} is not compared")));
        };
        let found = comparison.difference(Quantity::Event(Event::INSTRUCTIONS));
        let found = found.map(|it| (it.verdict == Verdict::Exact, it.difference.value));
        equal(row, found, Some((true, instructions)))?;
        if cycles > 0 {
            equal("in words", comparison.to_string().as_str(), words)?;
        }
    }
    Ok(())
}

/// A count that is the same in each run of a process, and differs between processes, is not exact.
fn bench_counts_in_other_processes(_: &Facts) -> Outcome {
    let mut bench = bench_of(&[Event::INSTRUCTIONS])?;
    let by_process = u64::from(std::process::id() % 64);
    bench.processes(8);
    bench.row("by process").throughput(move || countdown(black_box(100 + by_process)));
    bench.row("constant").throughput(|| countdown(black_box(100)));
    let results = bench.run();
    println!("{results}");
    let figure = |row: &str| results.row(row).and_then(|row| row.event(Event::INSTRUCTIONS));
    let (Some(differs), Some(constant)) = (figure("by process"), figure("constant")) else {
        return Err(Stop::Failed("no instructions".into()));
    };
    require(constant.verdict == Verdict::Exact, || format!("constant: {constant:?}"))?;
    let width = differs.estimate.high - differs.estimate.low;
    require(differs.verdict != Verdict::Exact && width > 1.0, || format!("by process: {differs:?}"))
}
