//! criterion with the library's measurements: what it prints, and what it saves. The event is page faults, which the
//! kernel counts exactly on every machine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use criterion::measurement::{Measurement, WallTime};
use criterion::{
    AxisScale, BatchSize, BenchmarkId, Criterion, PlotConfiguration, SamplingMode, Throughput,
};
use rdpmc::Event;
use rdpmc::error::ReadError;
use rdpmc_criterion::{ClockMeasurement, CounterMeasurement, WithCounters};
use rdpmc_testing::memory::Memory;
use rdpmc_testing::{process, skips};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

/// Set for a process that is to run as a benchmark. The value selects what it does.
const BENCHMARK: &str = "RDPMC_TEST_AS_BENCHMARK";

/// A directory for criterion's output, removed when this is dropped.
struct Home(PathBuf);

impl Home {
    fn new(test: &str) -> Home {
        let home = env::temp_dir().join(format!("rdpmc-{test}-{}", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        Home(home)
    }

    fn json(&self, file: &str) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.0.join(file)).unwrap()).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs this very test in a process of its own, where it is the benchmark. Returns what that prints.
fn run(test: &str, what: &str, home: &Home) -> String {
    let this = env::current_exe().unwrap();
    let output = Command::new(this)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(BENCHMARK, what)
        .env("CRITERION_HOME", &home.0)
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    printed
}

/// Returns what this process is to do, if it is a benchmark.
fn as_benchmark() -> Option<String> {
    env::var(BENCHMARK).ok()
}

/// Returns whether page faults cannot be counted here. If so, skips the test.
fn cannot_count(test: &str) -> bool {
    let why = CounterMeasurement::open(Event::PAGE_FAULTS).err();
    if let Some(why) = &why {
        skips::skip(test, &why.to_string());
    }
    why.is_some()
}

fn faults() -> CounterMeasurement {
    CounterMeasurement::open(Event::PAGE_FAULTS).unwrap()
}

/// Returns criterion with the shortest possible run.
fn criterion<M: Measurement>(measurement: M) -> Criterion<M> {
    Criterion::default()
        .with_measurement(measurement)
        .without_plots()
        .sample_size(10)
        .nresamples(1_001)
        .warm_up_time(Duration::from_millis(2))
        .measurement_time(Duration::from_millis(20))
}

/// Returns the first line of a report with this label after the name of the benchmark.
fn line<'a>(printed: &'a str, benchmark: &str, label: &str) -> &'a str {
    let start = printed.find(benchmark).unwrap_or_else(|| panic!("no {benchmark} in {printed}"));
    let mut lines = printed[start..].lines();
    lines.find(|line| line.contains(label)).unwrap_or_else(|| panic!("no {label} in {printed}"))
}

/// Returns the numbers in the brackets of a line, and their unit.
fn bounds(line: &str) -> ([f64; 3], &str) {
    let (_, inside) = line.split_once('[').unwrap();
    let (inside, _) = inside.split_once(']').unwrap();
    let words: Vec<&str> = inside.split_whitespace().collect();
    let number = |word: &str| -> f64 {
        word.trim_end_matches('%').replace('\u{2212}', "-").parse().expect("a number")
    };
    // Each bound has its own prefix. If they differ, all three are in the last one's unit.
    const TIMES: [&str; 5] = ["ps", "ns", "\u{b5}s", "ms", "s"];
    let size = |unit: &str| match TIMES.iter().position(|known| *known == unit) {
        Some(place) => 1_000_f64.powi(place as i32),
        None if unit == "mfaults" => 0.001,
        None => 1.0,
    };
    match words.as_slice() {
        [a, unit_a, b, unit_b, c, unit_c] => {
            let is_time = |unit: &&str| TIMES.contains(unit);
            let are_times = [unit_a, unit_b, unit_c].into_iter().all(is_time);
            let is_fault = |unit: &&str| unit.ends_with("faults");
            let are_faults = [unit_a, unit_b, unit_c].into_iter().all(is_fault);
            assert!(are_times || are_faults || (unit_a == unit_b && unit_b == unit_c), "{line}");
            let scale = if are_times { size(unit_c) } else { 1.0 };
            let of = |word: &str, unit: &str| number(word) * size(unit) / scale;
            ([of(a, unit_a), of(b, unit_b), of(c, unit_c)], unit_c)
        }
        [a, b, c] => ([a, b, c].map(|word| number(word)), "%"),
        _ => panic!("{line}"),
    }
}

#[test]
fn bounds_of_different_prefixes() {
    let (bounds, unit) = bounds("nothing time: [877.24 ps 998.37 ps 1.1455 ns]");
    assert_eq!(unit, "ns");
    for (found, expected) in bounds.into_iter().zip([0.877_24, 0.998_37, 1.145_5]) {
        assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    }
}

/// Checks all three within 1 %, because the machine sometimes adds a page fault of its own.
#[track_caller]
fn all_about(line: &str, expected: f64, unit: &str) {
    let (bounds, printed) = bounds(line);
    assert_eq!(printed, unit, "{line}");
    for bound in bounds {
        assert!((bound - expected).abs() <= 0.01 * expected.abs(), "{bound} in {line}");
    }
}

/// Code that closes all descriptors closes the counter's, and the report says so.
#[test]
fn code_that_closes_all_descriptors() {
    let test = "code_that_closes_all_descriptors";
    if cannot_count(test) {
        return;
    }
    if as_benchmark().is_some() {
        let mut criterion = criterion(faults());
        criterion.bench_function("closes", |bencher| {
            bencher.iter(rdpmc_testing::process::close_all);
        });
        return;
    }
    let printed = run(test, "all", &Home::new(test));
    let why = "page-faults: other code of this process has closed the counter's descriptor";
    assert!(printed.contains("incomplete: ") && printed.contains(why), "{printed}");
}

#[test]
fn five_kinds_of_throughput() {
    let test = "five_kinds_of_throughput";
    if cannot_count(test) {
        return;
    }
    let kinds = [
        ("bits", Throughput::Bits(8_192)),
        ("bytes", Throughput::Bytes(16_384)),
        ("decimal", Throughput::BytesDecimal(16_384)),
        ("elements", Throughput::Elements(2)),
        ("few", Throughput::Elements(3_000)),
        ("both", Throughput::ElementsAndBytes { elements: 12, bytes: 16_384 }),
    ];
    if as_benchmark().is_some() {
        let memory = Memory::new();
        let mut criterion = criterion(faults());
        let mut group = criterion.benchmark_group("four");
        for (name, throughput) in kinds {
            group.throughput(throughput);
            group.bench_function(name, |bencher| bencher.iter(|| memory.fault(4)));
        }
        group.throughput(Throughput::Bytes(8_000));
        let mut sample = 0;
        group.bench_function("more or less", |bencher| {
            sample += 1;
            let pages = if sample % 2 == 0 { 3 } else { 5 };
            bencher.iter(|| memory.fault(pages));
        });
        return;
    }
    let printed = run(test, "all", &Home::new(test));
    for (name, _) in &kinds {
        all_about(line(&printed, &format!("four/{name}"), "time:"), 4.0, "faults");
    }
    // Computed by hand: the amount divided by four faults.
    let thrpt = |name| line(&printed, name, "thrpt:");
    all_about(thrpt("four/bits"), 2.048, "Kb/fault");
    all_about(thrpt("four/bytes"), 4.0, "KiB/fault");
    all_about(thrpt("four/decimal"), 4.096, "KB/fault");
    all_about(thrpt("four/elements"), 0.5, "elem/fault");
    all_about(thrpt("four/few"), 750.0, "elem/fault");
    all_about(thrpt("four/both"), 3.0, "elem/fault");
    let (_, behind) = printed.split_once("four/both").unwrap();
    let (_, behind) = behind.split_once("thrpt:").unwrap();
    all_about(line(behind, "", "thrpt:"), 4.0, "KiB/fault");
    // The lowest rate is first, and belongs to the most faults.
    let ([least, middle, most], _) = bounds(line(&printed, "four/more or less", "time:"));
    let ([low, rate, high], unit) = bounds(thrpt("four/more or less"));
    assert!(least < middle && middle < most, "{printed}");
    assert!(low < rate && rate < high, "{printed}");
    let unit = if unit == "KiB/fault" { 1_024.0 } else { 1.0 };
    for (faults, rate) in [(least, high), (middle, rate), (most, low)] {
        assert!((faults * rate * unit / 8_000.0 - 1.0).abs() < 0.01, "{printed}");
    }
}

#[test]
fn a_change_for_the_worse_is_one() {
    let test = "a_change_for_the_worse_is_one";
    if cannot_count(test) {
        return;
    }
    if let Some(pages) = as_benchmark() {
        let (memory, pages) = (Memory::new(), pages.parse().unwrap());
        let mut criterion = criterion(faults());
        let mut group = criterion.benchmark_group("change");
        group.throughput(Throughput::Bytes(4_096));
        group.bench_function("faults", |bencher| bencher.iter(|| memory.fault(pages)));
        return;
    }
    let home = Home::new(test);
    run(test, "4", &home);
    let printed = run(test, "8", &home);
    let (_, change) = printed.split_once("change:").unwrap();
    all_about(line(change, "", "time:"), 100.0, "%");
    all_about(line(change, "", "thrpt:"), -50.0, "%");
    assert!(change.contains("Performance has regressed."), "{printed}");
    let printed = run(test, "4", &home);
    let (_, change) = printed.split_once("change:").unwrap();
    all_about(line(change, "", "time:"), -50.0, "%");
    all_about(line(change, "", "thrpt:"), 100.0, "%");
    assert!(change.contains("Performance has improved."), "{printed}");
}

#[test]
fn nothing_is_a_result() {
    let test = "nothing_is_a_result";
    if cannot_count(test) {
        return;
    }
    if let Some(pages) = as_benchmark() {
        let (memory, pages) = (Memory::new(), pages.parse::<usize>().unwrap());
        // With all plots, of equal samples.
        let mut criterion = criterion(faults()).with_plots();
        let logarithmic = PlotConfiguration::default().summary_scale(AxisScale::Logarithmic);
        for (name, plots) in [("lines", PlotConfiguration::default()), ("logarithms", logarithmic)]
        {
            // Plots of all benchmarks together, with their throughputs.
            let mut group = criterion.benchmark_group(name);
            group.plot_config(plots);
            for size in [64, 4_096] {
                group.throughput(Throughput::Bytes(size));
                group.bench_with_input(
                    BenchmarkId::new("bytes", size),
                    &pages,
                    |bencher, &pages| {
                        bencher.iter(|| memory.fault(pages));
                    },
                );
            }
        }
        let mut group = criterion.benchmark_group("nothing");
        for throughput in [Throughput::Bytes(4_096), Throughput::Elements(0)] {
            group.throughput(throughput.clone());
            group.bench_function(format!("{throughput:?}"), |bencher| {
                bencher.iter(|| memory.fault(pages));
            });
        }
        let mut sample = 0;
        group.bench_function("sometimes", |bencher| {
            sample += 1;
            let pages = if sample % 2 == 0 { 0 } else { pages + 1 };
            bencher.iter_batched(|| (), |()| memory.fault(pages), BatchSize::PerIteration);
        });
        return;
    }
    let home = Home::new(test);
    let printed = run(test, "0", &home);
    let time = line(&printed, "nothing/Bytes(4096)", "time:");
    assert_eq!(bounds(time), ([0.0; 3], "faults"), "{time}");
    let time = line(&printed, "nothing/Elements(0)", "time:");
    assert_eq!(bounds(time), ([0.0; 3], "faults"), "{time}");
    let ([least, _, most], _) = bounds(line(&printed, "nothing/sometimes", "time:"));
    assert!(0.0 <= least && least < most && most <= 1_000.0, "{printed}");
    // The saved values are almost 0, but not 0. In the table of numbers they are 0.
    let saved = home.json("nothing/Bytes(4096)/new/sample.json");
    let times: Vec<f64> =
        saved["times"].as_array().unwrap().iter().map(|time| time.as_f64().unwrap()).collect();
    assert!(times.iter().all(|time| *time > 0.0 && *time < 1e-11), "{saved}");
    let table = fs::read_to_string(home.0.join("nothing/Bytes(4096)/new/raw.csv")).unwrap();
    let cells: Vec<&str> = table.lines().nth(1).unwrap().split(',').collect();
    assert!(cells.contains(&"faults") && cells.contains(&"0.0"), "{table}");
    assert!(home.0.join("nothing/Bytes(4096)/report/index.html").exists());
    // Compared with no faults, no faults are no change, and some faults are a change.
    let printed = run(test, "0", &home);
    assert!(
        line(&printed, "nothing/Bytes(4096)", "No change").contains("No change in performance")
    );
    let printed = run(test, "2", &home);
    let changed = line(&printed, "nothing/Bytes(4096)", "Performance");
    assert!(changed.contains("has regressed"), "{printed}");
}

#[test]
fn what_is_saved_is_the_plain_count() {
    let test = "what_is_saved_is_the_plain_count";
    if cannot_count(test) {
        return;
    }
    if as_benchmark().is_some() {
        let memory = Memory::new();
        let mut criterion = criterion(faults());
        criterion.bench_function("iter", |bencher| bencher.iter(|| memory.fault(4)));
        for size in [BatchSize::PerIteration, BatchSize::SmallInput, BatchSize::NumIterations(7)] {
            criterion.bench_function(&format!("{size:?}"), |bencher| {
                // What happens between the batches is not counted.
                bencher.iter_batched(|| memory.fault(9), |()| memory.fault(4), size);
            });
        }
        criterion.bench_function("custom", |bencher| {
            bencher.iter_custom(|iterations| {
                (0..iterations).for_each(|_| memory.fault(4));
                [4 * iterations].into()
            });
        });
        return;
    }
    let home = Home::new(test);
    run(test, "all", &home);
    for name in ["iter", "PerIteration", "SmallInput", "NumIterations(7)", "custom"] {
        let saved = home.json(&format!("{name}/new/sample.json"));
        let numbers = |what: &str| -> Vec<f64> {
            saved[what].as_array().unwrap().iter().map(|each| each.as_f64().unwrap()).collect()
        };
        let pairs = numbers("iters").into_iter().zip(numbers("times"));
        // Every second sample is greater by 1e-12. The machine sometimes adds a page fault of its own.
        let ratio = |(iterations, faults): &(f64, f64)| faults / (4.0 * iterations) - 1.0;
        let exact = pairs.filter(|pair| (-1e-15..2e-12).contains(&ratio(pair))).count();
        assert!(exact >= 8, "{name}: {saved}");
        let table = fs::read_to_string(home.0.join(format!("{name}/new/raw.csv"))).unwrap();
        assert!(table.lines().nth(1).unwrap().contains(",faults,"), "{table}");
    }
}

/// Returns the lines that are printed of a benchmark before criterion's report of it: those between its last announcement
/// and its figures.
fn before_the_report<'a>(printed: &'a str, benchmark: &str) -> Vec<&'a str> {
    let analyzing = format!("Benchmarking {benchmark}: Analyzing\n");
    let (_, behind) =
        printed.split_once(&analyzing).unwrap_or_else(|| panic!("{benchmark}: {printed}"));
    behind.lines().take_while(|line| !line.contains("time: ")).collect()
}

/// Runs this very test as [`run`], with standard error in the same file as standard output, as in the log of a CI job.
fn run_with_log(test: &str, what: &str, home: &Home) -> String {
    let path = home.0.with_extension("log");
    let log = fs::File::create(&path).unwrap();
    let mut this = Command::new(env::current_exe().unwrap());
    this.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    this.env(BENCHMARK, what).env("CRITERION_HOME", &home.0);
    let status = this.stderr(log.try_clone().unwrap()).stdout(log).status().unwrap();
    let printed = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(status.success(), "{printed}");
    printed
}

#[test]
fn counted_along() {
    let test = "counted_along";
    if cannot_count(test) {
        return;
    }
    let events = [Event::PAGE_FAULTS, Event::DUMMY];
    if let Some(primary) = as_benchmark() {
        fn benchmarks<M: Measurement + 'static>(mut criterion: Criterion<M>) {
            let memory = Memory::new();
            let mut group = criterion.benchmark_group("group");
            group.bench_function("three", |bencher| bencher.iter(|| memory.fault(3)));
            group.bench_function("five", |bencher| {
                bencher.iter_batched(
                    || memory.fault(9),
                    |()| memory.fault(5),
                    BatchSize::PerIteration,
                );
            });
            drop(group);
            criterion.bench_function("seven", |bencher| bencher.iter(|| memory.fault(7)));
            criterion.bench_function("none", |bencher| bencher.iter(|| ()));
        }
        match primary.as_str() {
            "clock" => benchmarks(criterion(
                WithCounters::open(ClockMeasurement::open().unwrap(), events).unwrap(),
            )),
            "wall time" => benchmarks(criterion(WithCounters::open(WallTime, events).unwrap())),
            "faults" => benchmarks(criterion(WithCounters::open(faults(), events).unwrap())),
            "lost" => {
                let elsewhere = Path::new(&env::var("CRITERION_HOME").unwrap()).join("elsewhere");
                // SAFETY: there is only one other thread, the test runner's, and it is waiting.
                unsafe { env::set_var("CRITERION_HOME", elsewhere.join("nowhere")) };
                let along = WithCounters::open(WallTime, events).unwrap();
                benchmarks(criterion(along).output_directory(&elsewhere));
            }
            _ => unreachable!(),
        }
        return;
    }
    for primary in ["clock", "wall time", "faults"] {
        let home = Home::new(test);
        let printed = run_with_log(test, primary, &home);
        for (name, pages) in
            [("group/three", 3.0), ("group/five", 5.0), ("seven", 7.0), ("none", 0.0)]
        {
            // Between the announcement of its report and the report itself.
            let lines = before_the_report(&printed, name);
            let begins = |line: &&&str| {
                line.trim_start_matches(name).trim_start().starts_with("page-faults: [")
            };
            let faults = lines.iter().find(begins).unwrap_or_else(|| panic!("{name}: {printed}"));
            all_about(faults, pages, "faults");
            assert!(lines[0].starts_with(&format!("{name} ")), "{printed}");
            let dummy = "dummy:  [0.0000 events 0.0000 events 0.0000 events]";
            assert!(lines.iter().any(|line| line.trim() == dummy), "{printed}");
            let saved = home.json(&format!("{name}/new/counters.json"));
            assert_eq!(saved, home.json(&format!("{name}/base/counters.json")));
            let sample = home.json(&format!("{name}/new/sample.json"));
            assert_eq!(saved["iters"], sample["iters"]);
            assert_eq!([&saved["estimates"], &saved["incomplete"]], [0, 0], "{saved}");
            assert_eq!(saved["measured"], if primary == "faults" { "faults" } else { "time" });
            let counters = saved["counters"].as_array().unwrap();
            assert_eq!(counters.len(), 2, "{saved}");
            assert_eq!(counters[0]["event"], "page-faults", "{saved}");
            assert_eq!(counters[0]["unit"], "faults", "{saved}");
            assert!((counters[0]["median"].as_f64().unwrap() - pages).abs() < 0.01, "{saved}");
            let counts = counters[0]["counts"].as_array().unwrap();
            let pairs = saved["iters"].as_array().unwrap().iter().zip(counts);
            let exact = |(n, count): &(&serde_json::Value, &serde_json::Value)| {
                count.as_f64().unwrap() == pages * n.as_f64().unwrap()
            };
            assert!(pairs.filter(exact).count() >= 8, "{saved}");
        }
    }
    let home = Home::new(test);
    let printed = run(test, "lost", &home);
    assert_eq!(
        printed.matches("counters: not known, because criterion saved no samples").count(),
        4,
        "{printed}"
    );
}

/// The child of a fork cannot read its parent's counters. It reports that, and nothing crashes.
#[test]
fn what_cannot_be_counted_is_said() {
    let test = "what_cannot_be_counted_is_said";
    if cannot_count(test) {
        return;
    }
    if as_benchmark().is_some() {
        let mut criterion = criterion(faults());
        let child = process::fork(|| {
            criterion.bench_function("forked", |bencher| bencher.iter(|| ()));
            drop(criterion);
            0
        });
        assert_eq!(process::wait(child), 0);
        return;
    }
    let printed = run(test, "all", &Home::new(test));
    let why = ReadError::Forked.to_string();
    let said = format!("incomplete: 10 of 10 samples of page-faults: {why}");
    assert!(printed.contains(&said), "{printed}");
}

/// However long it takes to do nothing, criterion reports no change.
#[test]
fn nothing_does_not_get_worse() {
    let test = "nothing_does_not_get_worse";
    if cannot_count(test) {
        return;
    }
    if let Some(microseconds) = as_benchmark() {
        let pause = Duration::from_micros(microseconds.parse().unwrap());
        let mut counters = criterion(faults());
        let mut group = counters.benchmark_group("nothing");
        for mode in [SamplingMode::Linear, SamplingMode::Flat] {
            group.sampling_mode(mode);
            group.bench_function(format!("{mode:?}"), |bencher| {
                bencher.iter(|| std::thread::sleep(pause));
            });
        }
        drop(group);
        // Nor does it with the clock, if a benchmark reports no time at all.
        let mut criterion = criterion(ClockMeasurement::open().unwrap());
        criterion.bench_function("no time", |bencher| {
            bencher.iter_custom(|iterations| {
                std::thread::sleep(pause * iterations as u32);
                0
            });
        });
        return;
    }
    let home = Home::new(test);
    run(test, "10", &home);
    for microseconds in ["400", "10"] {
        let printed = run(test, microseconds, &home);
        let unchanged = printed.matches("No change in performance detected.").count();
        assert_eq!(unchanged, 3, "{printed}");
        assert_eq!(
            printed.matches("time:   [0.0000 faults 0.0000 faults 0.0000 faults]").count(),
            2
        );
        assert_eq!(printed.matches("time:   [0.0000 ps 0.0000 ps 0.0000 ps]").count(), 1);
    }
}

/// A complete run of criterion with the clock, on every machine. The emulated machines test that it makes no system
/// call.
#[test]
fn time_by_the_clock() {
    let test = "time_by_the_clock";
    if as_benchmark().is_some() {
        let mut criterion = criterion(ClockMeasurement::open().unwrap());
        let mut group = criterion.benchmark_group("time");
        group.throughput(Throughput::Bytes(1 << 20));
        let milliseconds = Duration::from_millis(2);
        group.bench_function("sleep", |bencher| bencher.iter(|| std::thread::sleep(milliseconds)));
        group.bench_function("nothing", |bencher| {
            bencher.iter_batched(|| (), |()| (), BatchSize::PerIteration);
        });
        return;
    }
    let printed = run(test, "all", &Home::new(test));
    let ([least, ..], unit) = bounds(line(&printed, "time/sleep", "time:"));
    assert!(least >= 2.0 && unit == "ms", "{printed}");
    assert!(line(&printed, "time/sleep", "thrpt:").contains("iB/s"), "{printed}");
    bounds(line(&printed, "time/nothing", "time:"));
}

/// Errors come before there is any measurement, and are the library's own.
#[test]
fn errors_are_those_of_the_counters() {
    match (CounterMeasurement::cycles(), rdpmc::Counter::open(Event::CYCLES)) {
        (Ok(_), Ok(_)) => {}
        (Err(ours), Err(why)) => assert_eq!(ours, why),
        (ours, counter) => panic!("{ours:?} {counter:?}"),
    }
    let (never, why) =
        (Event::of_pmu(u32::MAX, 0), rdpmc::Counter::open(Event::of_pmu(u32::MAX, 0)));
    assert_eq!(CounterMeasurement::open(never).unwrap_err(), why.unwrap_err());
    let group = rdpmc::Group::open([Event::DUMMY, never]).unwrap_err();
    assert_eq!(WithCounters::open(WallTime, [Event::DUMMY, never]).err(), Some(group));
}
