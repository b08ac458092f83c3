//! `rdpmc-bench` beside other tools: their results for seven functions, how far ten results are apart, and the time
//! that they take. Each result comes from a process of its own.
//!
//! `cargo bench -p rdpmc-benches --bench tools` takes eight minutes, nearly all of them criterion's. With `-- --quick`, each
//! tool runs twice and criterion takes less time than it would by itself.
#![allow(missing_docs)]

mod others;

use criterion::Criterion;
use rdpmc_bench::Bench;
use rdpmc_testing::chains::multiplications;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

/// The variable that names the tool to a child process.
const TOOL: &str = "RDPMC_BENCHES_TOOL";
const QUICK: &str = "RDPMC_BENCHES_QUICK";
const TOOLS: [&str; 4] = ["rdpmc-bench", "criterion", "divan", "nanobench's method"];

/// The functions. All tools measure them in a loop, that is, their throughput. The runs of a chain wait for one another, so its time
/// is known: that of its multiplications.
mod functions {
    use super::{black_box, multiplications};

    pub(crate) fn parse() -> impl FnMut() -> u64 {
        || black_box("4294967295").parse().unwrap_or(0)
    }

    pub(crate) fn sort_eight() -> impl FnMut() -> [u64; 8] {
        || {
            let mut numbers = black_box([3, 1, 4, 1, 5, 9, 2, 6]);
            numbers.sort_unstable();
            numbers
        }
    }

    pub(crate) fn hash() -> impl FnMut() -> u64 {
        || {
            (0..3).fold(black_box(1), |number: u64, _| {
                (number ^ number >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            })
        }
    }

    pub(crate) fn format() -> impl FnMut() -> String {
        || black_box(1234.5678).to_string()
    }

    pub(crate) fn sum_of_1000() -> impl FnMut() -> u64 {
        || (0..1_000).fold(0, |sum, n| black_box(sum + n))
    }

    pub(crate) fn chain_of_1() -> impl FnMut() -> u64 {
        let mut last = 3;
        move || {
            last = multiplications::<1>(last);
            last
        }
    }

    pub(crate) fn chain_of_8() -> impl FnMut() -> u64 {
        let mut last = 3;
        move || {
            last = multiplications::<8>(last);
            last
        }
    }
}

/// The functions with a known time, and their multiplications.
const CHAINS: [(&str, f64); 2] = [("chain_of_1", 1.0), ("chain_of_8", 8.0)];
const FUNCTIONS: usize = 7;

/// Returns the least time of a multiplication in ns, of 200 chains of a thousand.
fn multiplication() -> f64 {
    let each = (0..200).map(|_| {
        let start = Instant::now();
        let last = (0..20).fold(3, |last, _| multiplications::<1000>(last));
        black_box(last);
        start.elapsed().as_nanos() as f64 / 20_000.0
    });
    each.fold(f64::INFINITY, f64::min)
}

/// Calls a macro with each function.
macro_rules! for_each_function {
    ($call:ident) => {
        $call!(parse);
        $call!(sort_eight);
        $call!(hash);
        $call!(format);
        $call!(sum_of_1000);
        $call!(chain_of_1);
        $call!(chain_of_8);
    };
}

/// divan finds its functions by this attribute.
mod for_divan {
    macro_rules! with_divan {
        ($name:ident) => {
            #[divan::bench]
            fn $name(bencher: divan::Bencher<'_, '_>) {
                bencher.bench_local(super::functions::$name());
            }
        };
    }
    for_each_function!(with_divan);
}

fn main() -> io::Result<()> {
    match std::env::var(TOOL).as_deref() {
        Ok("rdpmc-bench") => with_rdpmc_bench(),
        Ok("criterion") => with_criterion(),
        Ok("divan") => divan::Divan::default().run_benches(),
        Ok(_) => with_nanobench(),
        Err(_) => return compare(),
    }
    Ok(())
}

fn with_rdpmc_bench() {
    // The time is compared, so nothing else is measured.
    let Ok(mut bench) = Bench::with_events::<rdpmc::Event>(&[]) else { return };
    bench.ignore_arguments();
    macro_rules! measure {
        ($name:ident) => {
            bench.row(stringify!($name)).throughput(functions::$name());
        };
    }
    for_each_function!(measure);
    for row in bench.run().rows() {
        if let Some(time) = row.time() {
            println!("{} {} ns", row.name(), time.estimate.value);
        }
    }
}

fn with_criterion() {
    let mut criterion = Criterion::default().without_plots();
    if std::env::var_os(QUICK).is_some() {
        let (warm_up, measurement) = (Duration::from_millis(100), Duration::from_millis(200));
        criterion = criterion.warm_up_time(warm_up).measurement_time(measurement).sample_size(10);
    }
    macro_rules! measure {
        ($name:ident) => {
            criterion.bench_function(stringify!($name), |bencher| bencher.iter(functions::$name()));
        };
    }
    for_each_function!(measure);
}

fn with_nanobench() {
    macro_rules! measure {
        ($name:ident) => {
            others::with_nanobench(stringify!($name), functions::$name());
        };
    }
    for_each_function!(measure);
}

/// Runs each tool in turn, some times, and prints the results.
fn compare() -> io::Result<()> {
    let is_quick = std::env::args().any(|argument| argument == "--quick" || argument == "--test");
    let runs = if is_quick { 2 } else { 10 };
    let program = std::env::current_exe()?;
    let mut results: BTreeMap<(String, &str), Vec<f64>> = BTreeMap::new();
    let mut seconds = [0.0; TOOLS.len()];
    let mut each = f64::INFINITY;
    for _ in 0..runs {
        each = each.min(multiplication());
        for (tool, seconds) in TOOLS.into_iter().zip(&mut seconds) {
            let mut command = Command::new(&program);
            command.env(TOOL, tool);
            if is_quick {
                command.env(QUICK, "1");
            }
            let begun = Instant::now();
            let output = command.output()?;
            *seconds += begun.elapsed().as_secs_f64() / f64::from(runs);
            let printed = String::from_utf8_lossy(&output.stdout);
            let mut found = 0;
            for line in printed.lines() {
                if let Some((name, ns)) = others::result(tool, line) {
                    results.entry((name, tool)).or_default().push(ns);
                    found += 1;
                }
            }
            if found != FUNCTIONS || !output.status.success() {
                let errors = String::from_utf8_lossy(&output.stderr);
                return Err(io::Error::other(format!(
                    "{tool}: {found} results\n{printed}{errors}"
                )));
            }
        }
    }
    println!("\nns, the median of {runs} runs, and how far they are apart in percent:\n");
    println!("| {} | truth | function", TOOLS.join(" | "));
    println!("|{}:-", "----:|".repeat(TOOLS.len() + 1));
    let functions: std::collections::BTreeSet<&String> =
        results.keys().map(|(name, _)| name).collect();
    for function in functions {
        for tool in TOOLS {
            let mut all = results.get(&(function.clone(), tool)).cloned().unwrap_or_default();
            all.sort_by(f64::total_cmp);
            if let (Some(least), Some(middle), Some(most)) =
                (all.first(), all.get(all.len() / 2), all.last())
            {
                print!("| {middle:.2}, {:.1} % ", (most - least) / middle * 100.0);
            }
        }
        match CHAINS.iter().find(|(name, _)| name == function) {
            Some((_, length)) => println!("| {:.2} | {function}", length * each),
            None => println!("| | {function}"),
        }
    }
    for seconds in seconds {
        print!("| {seconds:.2} s ");
    }
    println!("| | for all");
    Ok(())
}
