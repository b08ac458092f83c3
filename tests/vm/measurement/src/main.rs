//! criterion as a user runs it, with work of exactly known size. What it prints is for people. What it saves must be
//! exact.

use criterion::measurement::Measurement;
use criterion::{BatchSize, BenchmarkId, Criterion, SamplingMode, Throughput};
use rdpmc::Event;
use rdpmc_criterion::{
    ClockMeasurement, Comparison, CounterMeasurement, Gate, Limits, Status, WithCounters,
};
use rdpmc_testing::kernels::{COUNTDOWN_ENTRY, countdown};
use rdpmc_testing::process;
use serde_json::Value;
use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::time::Duration;
use std::{env, fs};

/// The directory for criterion's output.
const HOME: &str = "/criterion";

/// The directory for the output of the benchmarks that are compared.
const PLANTED_HOME: &str = "/planted";

/// Set for the benchmarks of a baseline: whether one instruction is planted in each iteration.
const PLANTED: &str = "PLANTED";

/// Set for the benchmarks of which one depends on the process.
const BY_PROCESS: &str = "BY_PROCESS";

/// Sizes of the work, in rounds of the countdown, with two instructions each.
const ROUNDS: [u64; 3] = [0, 1_000, 3_000];

/// The maximum number of instructions that criterion and the ends of a reading add to a batch.
const EDGES: u64 = 16;

type Outcome = Result<(), String>;

fn main() -> ExitCode {
    if let Ok(planted) = env::var(PLANTED) {
        benchmarks(planted == "1");
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = env::args().skip(1).collect();
    let fact = |name: &str| {
        arguments
            .iter()
            .find_map(|fact| fact.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok())
    };
    // SAFETY: there is only one thread yet.
    unsafe { env::set_var("CRITERION_HOME", HOME) };
    let outcome = rdpmc::contain_faults().map_err(|error| error.to_string()).and_then(|()| {
        instructions()?;
        cycles(fact("cycles"))?;
        let page_has_clock = arguments.iter().any(|fact| fact == "clock=page");
        no_system_call(page_has_clock)?;
        others_come_and_go(page_has_clock)?;
        multiplexed()?;
        other_threads()?;
        time()?;
        planted()?;
        processes()
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("FAILED: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Returns criterion with the shortest possible run: if every instruction counts once, more samples add nothing.
fn criterion<M: Measurement>(measurement: M) -> Criterion<M> {
    Criterion::default()
        .with_measurement(measurement)
        .without_plots()
        .sample_size(10)
        .nresamples(1_001)
        .warm_up_time(Duration::from_millis(5))
        .measurement_time(Duration::from_millis(50))
}

fn counter(event: Event) -> Result<CounterMeasurement, String> {
    CounterMeasurement::open(event).map_err(|error| error.to_string())
}

/// Opens WithCounters: the counter of `event` as the measurement, and one of `other`.
fn along(event: Event, other: Event) -> Result<WithCounters<CounterMeasurement, 1>, String> {
    WithCounters::open(counter(event)?, [other]).map_err(|error| error.to_string())
}

fn sizes<M: Measurement + 'static>(criterion: &mut Criterion<M>, group: &str) {
    let mut group = criterion.benchmark_group(group);
    for rounds in ROUNDS {
        group.throughput(Throughput::Elements(rounds));
        group.bench_with_input(
            BenchmarkId::new("countdown", rounds),
            &rounds,
            |bencher, &rounds| {
                bencher.iter(|| countdown(rounds));
            },
        );
        group.bench_with_input(BenchmarkId::new("batched", rounds), &rounds, |bencher, &rounds| {
            bencher.iter_batched(|| rounds, countdown, BatchSize::PerIteration);
        });
    }
}

/// Returns what criterion has saved of a benchmark: the iterations of each sample, and its measured value.
fn saved(benchmark: &str) -> Result<Vec<(u64, u64)>, String> {
    let json = read(&format!("{benchmark}/new/sample.json"))?;
    let (iterations, times) = (numbers(&json["iters"])?, numbers(&json["times"])?);
    Ok(iterations.into_iter().zip(times).collect())
}

/// Reads a file of a benchmark that instructions have driven.
fn read_in(home: &str, file: &str) -> Result<Value, String> {
    let text = fs::read(format!("{home}-instructions/{file}"))
        .map_err(|error| format!("{file}: {error}"))?;
    serde_json::from_slice(&text).map_err(|error| format!("{file}: {error}"))
}

fn read(file: &str) -> Result<Value, String> {
    let text = fs::read(format!("{HOME}/{file}")).map_err(|error| format!("{file}: {error}"))?;
    serde_json::from_slice(&text).map_err(|error| format!("{file}: {error}"))
}

fn numbers(json: &Value) -> Result<Vec<u64>, String> {
    let all = json.as_array().ok_or("no array")?.iter();
    // For criterion's sake, a sample of 0 is saved as slightly more, and every second sample as more by 1e-12.
    let whole = |number: &Value| {
        let (exact, whole) = (number.as_f64()?, number.as_f64()?.round());
        ((exact - whole).abs() <= whole * 1e-11 + 1e-9).then_some(whole as u64)
    };
    all.map(|number| whole(number).ok_or(format!("{number} is no count"))).collect()
}

/// Returns the exact count of each iteration, and the rest of each sample.
fn per_iteration(samples: &[(u64, u64)]) -> Result<(u64, u64), String> {
    let mut each: Vec<u64> = samples.iter().map(|(iterations, count)| count / iterations).collect();
    each.sort_unstable();
    let each = each[each.len() / 2];
    let mut left: Vec<u64> =
        samples.iter().map(|(iterations, count)| count.wrapping_sub(iterations * each)).collect();
    left.sort_unstable();
    // An interrupted reading, which was repeated, has added to at most one.
    if left[0] != left[left.len() / 2] {
        return Err(format!("{samples:?} are not {each} each and the same besides"));
    }
    Ok((each, left[0]))
}

/// Checks that the work is counted to the instruction, times `factor`.
fn exact(group: &str, factor: u64) -> Outcome {
    let of = |kind: &str, rounds: u64| per_iteration(&saved(&format!("{group}/{kind}/{rounds}"))?);
    let (nothing, left) = of("countdown", 0)?;
    let (batched, batched_left) = of("batched", 0)?;
    let known = COUNTDOWN_ENTRY * factor;
    let (looping, edges) = (nothing - known, batched - known);
    for rounds in ROUNDS {
        let work = 2 * rounds * factor;
        for (kind, expected) in [("countdown", nothing + work), ("batched", batched + work)] {
            let (each, left) = of(kind, rounds)?;
            println!(
                "exact: {group}/{kind}/{rounds}: {each} an iteration, {left} besides in a sample"
            );
            if each != expected {
                return Err(format!("{group}/{kind}/{rounds}: {each} is not {expected}"));
            }
        }
    }
    println!(
        "exact: {group}: the work is all of it, but for criterion's loop, {looping} an iteration, \
         and the edges of a reading, {edges} after the overhead"
    );
    let most = EDGES * factor;
    if looping > most || edges > most || left > most || batched_left != 0 {
        return Err("that is too much".into());
    }
    Ok(())
}

fn instructions() -> Outcome {
    sizes(&mut criterion(along(Event::INSTRUCTIONS, Event::CYCLES)?), "instructions");
    exact("instructions", 1)
}

fn cycles(per_instruction: Option<u64>) -> Outcome {
    sizes(&mut criterion(along(Event::CYCLES, Event::INSTRUCTIONS)?), "cycles");
    exact("cycles", per_instruction.unwrap_or(1))?;
    // The counters beside the measurement are as exact, and so are their medians.
    for rounds in ROUNDS {
        let json = read(&format!("cycles/countdown/{rounds}/new/counters.json"))?;
        let instructions = &json["counters"][0];
        let samples: Vec<_> =
            numbers(&json["iters"])?.into_iter().zip(numbers(&instructions["counts"])?).collect();
        let (each, left) = per_iteration(&samples)?;
        let (alone, _) = per_iteration(&saved(&format!("instructions/countdown/{rounds}"))?)?;
        let median = instructions["median"].as_f64().ok_or("no median")?;
        println!(
            "exact: along cycles/countdown/{rounds}: {each} instructions, {left} besides, {median}"
        );
        if each != alone || left > 2 * EDGES || (median - each as f64).abs() > 0.1 {
            return Err(format!("{each} instructions, when it was {alone} alone"));
        }
    }
    Ok(())
}

/// Runs in a process of its own, which any system call but the last would kill. The clock is included if it is not
/// the kernel's.
fn no_system_call(with_clock: bool) -> Outcome {
    let child = process::fork(|| {
        let (Ok(counter), Ok(clock)) =
            (CounterMeasurement::instructions(), ClockMeasurement::open())
        else {
            return 1;
        };
        // At the begin of a benchmark, and after each sample, the CPU times of threads are asked for.
        let (mut counts, mut time) = (counter.zero(), clock.zero());
        process::allow_only(libc::SYS_exit_group);
        for _ in 0..10_000 {
            counter.start();
            if with_clock {
                let start = clock.start();
                time = clock.add(&time, &clock.end(start));
            }
            countdown(black_box(10));
            counts = counter.add(&counts, &counter.end(()));
            black_box(clock.to_f64(&time));
        }
        std::mem::forget((counter, clock)); // closing them is a system call
        i32::from(counts.counts() < [200_000])
    });
    match process::wait(child) {
        0 => Ok(()),
        status => Err(format!("no_system_call: wait status {status:#x}")),
    }
}

/// Returns the minimum of some samples of a thousand rounds.
fn least(counter: &CounterMeasurement) -> u64 {
    let once = |_| {
        counter.start();
        countdown(black_box(1_000));
        let [count] = counter.end(()).counts();
        count
    };
    (0..10).map(once).min().unwrap_or(0)
}

fn others() -> Result<Vec<rdpmc::Counter>, String> {
    let others = (0..12).map(|_| rdpmc::Counter::open(Event::INSTRUCTIONS));
    others.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// If other events come in the middle of a sample, it is an estimate. Without a clock on the page it is incomplete,
/// because the undisturbed time before is unknown. When the others have gone, all is as before.
fn others_come_and_go(page_has_clock: bool) -> Outcome {
    let counter = counter(Event::INSTRUCTIONS)?;
    let before = least(&counter);
    counter.start();
    let others = others()?;
    countdown(black_box(50_000_000));
    let counts = counter.end(());
    let debug = format!("{counts:?}");
    let [count] = counts.counts();
    println!("others come: {count} for 100000000, {debug}");
    let incomplete = debug.contains("lacks: true");
    let estimate = count.abs_diff(100_000_000) < 5_000_000 && !incomplete;
    if if page_has_clock { !estimate } else { !incomplete } {
        return Err("others that come are not noticed".into());
    }
    drop(others);
    std::thread::sleep(Duration::from_millis(50)); // the others may have had the last turn
    let after = least(&counter);
    println!("others go: {after} for {before} before");
    if after.abs_diff(before) > EDGES {
        Err("measuring costs otherwise now".into())
    } else {
        Ok(())
    }
}

/// While other events compete for the counters, samples are estimates, and are reported as such.
fn multiplexed() -> Outcome {
    let others = others()?;
    let mut criterion = criterion(along(Event::INSTRUCTIONS, Event::INSTRUCTIONS)?);
    // An iteration takes 100 ms, in which all events get a turn.
    let rounds = 50_000_000;
    let mut group = criterion.benchmark_group("multiplexed");
    group.sampling_mode(SamplingMode::Flat).measurement_time(Duration::from_secs(1));
    group.bench_function("countdown", |bencher| bencher.iter(|| countdown(black_box(rounds))));
    drop(group);
    drop((criterion, others));
    let samples = saved("multiplexed/countdown")?;
    let (iterations, counts): (Vec<u64>, Vec<u64>) = samples.into_iter().unzip();
    let each = counts.iter().sum::<u64>() as f64 / iterations.iter().sum::<u64>() as f64;
    println!("estimated: {each:.0} for {}", 2 * rounds);
    let json = read("multiplexed/countdown/new/counters.json")?;
    if json["estimates"] != 10 || json["incomplete"] != 0 {
        return Err(format!("samples that are estimates: {}", json["estimates"]));
    }
    // The counters run during as much of this work as of any other.
    if (each / (2 * rounds) as f64 - 1.0).abs() > 0.05 {
        return Err("that is no estimate".into());
    }
    Ok(())
}

/// What other threads do is not counted.
fn other_threads() -> Outcome {
    let counter = counter(Event::INSTRUCTIONS)?;
    let work = || countdown(black_box(10_000_000));
    counter.start();
    std::thread::scope(|scope| scope.spawn(work).join()).map_err(|_| "a thread panicked")?;
    let [apart] = counter.end(()).counts();
    counter.start();
    work();
    let [here] = counter.end(()).counts();
    println!("threads: {here} here, {apart} when another does it");
    if here < 20_000_000 || apart > 1_000_000 {
        return Err("other threads are counted".into());
    }
    Ok(())
}

/// If an instruction takes a nanosecond, time is as exact, except for the kernel's work in between.
fn time() -> Outcome {
    let clock = ClockMeasurement::open().map_err(|error| error.to_string())?;
    let is_known = !matches!(clock.kind(), rdpmc::clock::ClockKind::Kernel(_));
    sizes(&mut criterion(clock), "time");
    for rounds in ROUNDS {
        let mut each: Vec<u64> =
            saved(&format!("time/batched/{rounds}"))?.iter().map(|(n, time)| time / n).collect();
        each.sort_unstable();
        let (each, work) = (each[each.len() / 2], COUNTDOWN_ENTRY + 2 * rounds);
        println!("exact: time/batched/{rounds}: {each} ns for {work}");
        if is_known && each.abs_diff(work) > EDGES {
            return Err("what reading the clock costs is not taken off".into());
        }
    }
    Ok(())
}

/// Benchmarks as users write them, with the arguments of this process.
fn benchmarks(planted: bool) {
    let mut criterion = rdpmc_criterion::counters([Event::INSTRUCTIONS, Event::CYCLES])
        .without_plots()
        .sample_size(10)
        .nresamples(1_001)
        .warm_up_time(Duration::from_millis(5))
        .measurement_time(Duration::from_millis(50))
        .configure_from_args();
    if env::var_os(BY_PROCESS).is_some() {
        return by_process(&mut criterion);
    }
    if planted { planted_in::<true>(&mut criterion) } else { planted_in::<false>(&mut criterion) }
}

fn by_process(criterion: &mut rdpmc_criterion::Criterion) {
    // Each process that is started has another number of variables.
    let rounds = 100 + env::vars_os().count() as u64 % 2 * 4;
    let mut group = criterion.benchmark_group("processes");
    group.bench_function("same", |bencher| bencher.iter(|| countdown(black_box(100))));
    group.bench_function("other", |bencher| bencher.iter(|| countdown(black_box(rounds))));
    group.bench_function("batched", |bencher| {
        bencher.iter_batched(|| (), |()| countdown(black_box(100)), BatchSize::SmallInput);
    });
}

/// A count that depends on the process is a range, which the gate compares. One that does not is as it was.
fn processes() -> Outcome {
    for baseline in ["first", "second"] {
        let mut this = Command::new(env::current_exe().map_err(|error| error.to_string())?);
        let this = this.env(PLANTED, "0").env(BY_PROCESS, "1").env("CRITERION_HOME", PLANTED_HOME);
        let this = this.args(["--bench", "--color", "never", "--save-baseline", baseline]);
        let status = this.status().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("benchmarks: {status}"));
        }
    }
    for (name, is_same) in [("same", true), ("other", false), ("batched", true)] {
        let json = read_in(PLANTED_HOME, &format!("processes/{name}/second/counters.json"))?;
        let instructions = &json["counters"][0];
        let of_processes = &instructions["of_processes"];
        println!("processes: {name}: {}, of all: {of_processes}", instructions["median"]);
        if of_processes.is_null() != is_same {
            return Err(format!("processes: {name}: {of_processes}"));
        }
    }
    let comparison = Gate::new("first", "second").home(PLANTED_HOME).compare();
    print!("gate:\n{comparison}");
    match comparison.status() {
        Status::Passed => Ok(()),
        other => Err(format!("processes: {other:?}")),
    }
}

fn planted_in<const PLANTED: bool>(criterion: &mut rdpmc_criterion::Criterion) {
    let work = |rounds: u64| {
        countdown(rounds);
        if PLANTED {
            // SAFETY: the instruction does nothing.
            unsafe { std::arch::asm!("nop") };
        }
    };
    let mut group = criterion.benchmark_group("planted");
    for rounds in [10, 10_000] {
        group.bench_with_input(BenchmarkId::new("iter", rounds), &rounds, |bencher, &rounds| {
            bencher.iter(|| work(rounds));
        });
        group.bench_with_input(BenchmarkId::new("batched", rounds), &rounds, |bencher, &rounds| {
            bencher.iter_batched(|| rounds, work, BatchSize::PerIteration);
        });
    }
}

/// One instruction more in an iteration is found, in 20 and in 20,000: by name, with its figure, and with an exit status. An equal
/// run is equal.
fn planted() -> Outcome {
    let run = |planted: &str, arguments: &[&str]| -> Outcome {
        let mut this = Command::new(env::current_exe().map_err(|error| error.to_string())?);
        let this = this.env(PLANTED, planted).env("CRITERION_HOME", PLANTED_HOME);
        let this = this.args(["--bench", "--color", "never"]).args(arguments);
        let status = this.status().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("benchmarks: {status}")) }
    };
    let gates = |comparison: Comparison, expected: Status, line: &str| -> Outcome {
        print!("gate:\n{comparison}");
        println!("gate: status {}", comparison.status().code());
        let is_there = comparison.to_string().contains(line);
        if comparison.status() == expected && is_there {
            Ok(())
        } else {
            Err(format!("not {expected:?}, or no {line}"))
        }
    };
    let gate = |from: &str, to: &str| Gate::new(from, to).home(PLANTED_HOME);
    run("0", &["--save-baseline", "a"])?;
    run("0", &["--baseline", "a"])?;
    gates(
        gate("a", "new").compare(),
        Status::Passed,
        "Figures compared: 4. Regressions: 0. Improvements: 0.",
    )?;
    run("1", &["--baseline", "a"])?;
    gates(
        gate("a", "new").compare(),
        Status::Regressed,
        "Figures compared: 4. Regressions: 4. Improvements: 0.",
    )?;
    gates(
        gate("new", "a").compare(),
        Status::Passed,
        "Figures compared: 4. Regressions: 0. Improvements: 4.",
    )?;
    // One more cycle in 20,000 is noise to the gate on cycles.
    gates(
        gate("a", "new").limits(Limits::new().accept("cycles", 0.01)).compare(),
        Status::Regressed,
        "Figures compared: 8. Regressions: 6.",
    )?;
    for name in ["iter/10", "iter/10000", "batched/10", "batched/10000"] {
        let of = |baseline: &str| -> Result<f64, String> {
            let json = read_in(PLANTED_HOME, &format!("planted/{name}/{baseline}/counters.json"))?;
            json["counters"][0]["median"].as_f64().ok_or("no median".into())
        };
        let (before, after) = (of("a")?, of("new")?);
        println!("exact: planted/{name}: {after:.4} instructions, {before:.4} before");
        // What reading adds to a sample is shared by its iterations, whose number differs.
        if (after - before - 1.0).abs() > 0.01 {
            return Err(format!("planted/{name}: {before} and {after} do not differ by 1"));
        }
    }
    Ok(())
}
