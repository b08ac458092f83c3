//! The gate on equal code: how often it finds a regression where there is none, and where there is one.
//!
//! `cargo bench -p rdpmc-benches --bench gate` runs a criterion benchmark 101 times beside other load, and compares each run with the
//! one before. Then it plants 5 % more. `-- --quick` runs it four times.
#![allow(missing_docs)]

use criterion::{SamplingMode, criterion_group};
use rdpmc::Event;
use rdpmc_criterion::{Compared, Criterion, Gate, Limits, Outcome, Status};
use rdpmc_testing::load::{self, Load};
use rdpmc_testing::memory::Memory;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, io};

/// The variables for the benchmark: its faults, and where criterion saves.
const FAULTS: &str = "RDPMC_BENCHES_FAULTS";
const HOME: &str = "CRITERION_HOME";

/// The kinds of figures, and how much more is accepted: the default of the reports, or what the README proposes.
const KINDS: [(&str, f64); 5] = [
    ("instructions", 1e-5),
    ("page-faults", 0.01),
    ("minor-faults", 0.01),
    ("context-switches", 0.5),
    ("cycles", 0.05),
];

fn faults(criterion: &mut Criterion) {
    let pages: usize = env::var(FAULTS).ok().and_then(|pages| pages.parse().ok()).unwrap_or(20);
    let memory = Memory::new();
    let mut group = criterion.benchmark_group("faults");
    group.sampling_mode(SamplingMode::Flat);
    group.bench_function("exact", |bencher| {
        bencher.iter(|| [10, pages - 10].into_iter().for_each(|pages| memory.fault(pages)));
    });
    let mut random = u64::from(std::process::id()) | 1;
    group.bench_function("random", |bencher| {
        bencher.iter(|| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            memory.fault(pages / 2 + (random >> 32) as usize % 3);
        });
    });
    let mut run = 0;
    group.bench_function("rare", |bencher| {
        bencher.iter(|| {
            run += 1;
            memory.fault(if run % 20 == 0 { 10 } else { 1 });
        });
    });
}

fn config() -> Criterion {
    rdpmc_criterion::counters([
        Event::INSTRUCTIONS,
        Event::CYCLES,
        Event::PAGE_FAULTS,
        Event::MINOR_FAULTS,
        Event::CONTEXT_SWITCHES,
    ])
    .sample_size(50)
    .nresamples(1_001)
    .without_plots()
    .warm_up_time(Duration::from_millis(20))
    .measurement_time(Duration::from_millis(200))
}

criterion_group! { name = benches; config = config(); targets = faults }

fn main() -> io::Result<()> {
    if load::is_child() {
        load::compute();
    }
    if env::var_os(FAULTS).is_some() {
        benches();
        return Ok(());
    }
    let is_quick = env::args().any(|argument| argument == "--quick" || argument == "--test");
    let runs = if is_quick { 4 } else { 100 };
    let directory = env::temp_dir().join(format!("rdpmc-gate-{}", std::process::id()));
    let home = directory.join("criterion");
    let run = |faults: &str, baseline: &str| {
        let mut command = Command::new(env::current_exe()?);
        command.args(["--bench", "--save-baseline", baseline]).env(FAULTS, faults).env(HOME, &home);
        match command.stdout(Stdio::null()).stderr(Stdio::null()).status()? {
            status if status.success() => Ok(()),
            status => Err(io::Error::other(format!("the benchmark ended with {status}"))),
        }
    };
    let load = Load::start(6)?;
    let outcome = (0..=runs).try_for_each(|number| run("20", &number.to_string()));
    let outcome = outcome.and_then(|()| run("21", "more"));
    drop(load);
    outcome?;
    println!("equal code beside 6 other programs, each run against the one before:");
    let has_instructions = rdpmc::Counter::open(Event::INSTRUCTIONS).is_ok();
    for (kind, growth) in KINDS {
        let compare = |old: String, new: String| {
            let limits = Limits::new().accept(kind, growth).allow_unstable();
            let limits = if kind == "instructions" || !has_instructions {
                limits
            } else {
                limits.accept("instructions", f64::INFINITY)
            };
            Gate::new(old, new).home(&home).limits(limits).compare()
        };
        let all: Vec<_> =
            (0..runs).map(|number| compare(number.to_string(), (number + 1).to_string())).collect();
        let has = |status: Status| all.iter().filter(|found| found.status() == status).count();
        let false_ones = has(Status::Regressed);
        let is_known = |it: &Compared| {
            let is_known = matches!(it.outcome, Outcome::Worse | Outcome::Better | Outcome::Same);
            is_known && it.figure.as_deref() == Some(kind)
        };
        if !all.iter().flat_map(|found| found.compared()).any(is_known) {
            println!("{kind}: not counted here");
            continue;
        }
        println!("{kind}, {} % accepted: {false_ones} of {runs} runs regressed", growth * 100.0);
        if kind == "page-faults" {
            let found = compare(runs.to_string(), "more".to_owned());
            println!("{kind}, 5 % planted: {:?}", found.status());
            print!("{found}");
        }
    }
    std::fs::remove_dir_all(directory)
}
