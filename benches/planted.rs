//! Planted differences between two pieces of code, by `rdpmc-bench` and other tools: which tool says the right thing?
//!
//! `cargo bench -p rdpmc-benches --bench planted` measures twelve pairs in ten processes of each tool, beside two other programs, and takes
//! eleven minutes. The pieces are chains of multiplications and additions that wait for one another, so their difference is known.
//! `-- --quick` takes one process of each tool, and little time.
#![allow(missing_docs)]

mod others;

use criterion::Criterion;
use rdpmc_bench::{Bench, Quantity, Verdict};
use rdpmc_testing::chains::{additions, multiplications};
use rdpmc_testing::load::{self, Load};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, io};

/// The variable that names the tool to a child process.
const TOOL: &str = "RDPMC_BENCHES_PLANTED";
const QUICK: &str = "RDPMC_BENCHES_QUICK";
const TOOLS: [&str; 4] = ["rdpmc-bench", "criterion", "divan", "nanobench's method"];
/// The first tools print an interval of the difference: this many of them.
const WITH_INTERVAL: usize = 2;

/// Calls a macro with the name of each pair: how often both chains are repeated, and the multiplications and additions of the old and of the
/// new one. The number in a name is that of cycles, if a multiplication takes 3. At 3.7 GHz, a run takes 5 ns, 100 ns or 20 µs.
macro_rules! for_each_pair {
    ($call:ident) => {
        $call!(short_equal, 1, (6, 0), (6, 0));
        $call!(short_1_more, 1, (6, 0), (6, 1));
        $call!(short_2_more, 1, (6, 0), (6, 2));
        $call!(short_3_less, 1, (7, 0), (6, 0));
        $call!(middle_equal, 1, (128, 0), (128, 0));
        $call!(middle_2_more, 1, (128, 0), (128, 2));
        $call!(middle_4_less, 1, (128, 4), (128, 0));
        $call!(middle_8_more, 1, (128, 0), (128, 8));
        $call!(long_equal, 25, (1000, 0), (1000, 0));
        $call!(long_15_more, 25, (1000, 0), (1000, 15));
        $call!(long_30_less, 25, (1000, 30), (1000, 0));
        $call!(long_600_more, 25, (1000, 0), (1200, 0));
    };
}

/// Returns code whose runs wait for one another.
fn chain<const MULTIPLICATIONS: usize, const ADDITIONS: usize>(
    times: u32,
) -> impl FnMut() -> u64 + Copy {
    let (mut last, times) = (3, black_box(times));
    move || {
        for _ in 0..times {
            last = additions::<ADDITIONS>(multiplications::<MULTIPLICATIONS>(last));
        }
        last
    }
}

/// A pair, and its difference in percent of the old code.
struct Pair {
    name: &'static str,
    percent: f64,
}

/// Returns the pairs. An addition takes one cycle, and a multiplication a whole number, which is measured.
fn pairs() -> Vec<Pair> {
    let least = |code: &dyn Fn() -> u64| {
        let time = || {
            let begun = Instant::now();
            black_box((0..20).fold(0, |_, _| black_box(code())));
            begun.elapsed().as_secs_f64()
        };
        (0..200).map(|_| time()).fold(f64::INFINITY, f64::min)
    };
    let multiplication = least(&|| multiplications::<1000>(black_box(3)));
    let each = (multiplication / least(&|| additions::<1000>(black_box(3)))).round();
    println!("A multiplication takes {each} cycles.");
    let mut pairs = Vec::new();
    macro_rules! pair {
        ($name:ident, $times:literal, ($old:literal, $added:literal), ($new:literal, $more:literal)) => {
            let old = f64::from($old) * each + f64::from($added);
            let new = f64::from($new) * each + f64::from($more);
            pairs.push(Pair { name: stringify!($name), percent: (new / old - 1.0) * 100.0 });
        };
    }
    for_each_pair!(pair);
    pairs
}

/// divan finds its functions by this attribute, and runs them in the order of their names.
mod for_divan {
    macro_rules! with_divan {
        ($name:ident, $times:literal, ($old:literal, $added:literal), ($new:literal, $more:literal)) => {
            mod $name {
                #[divan::bench]
                fn first(bencher: divan::Bencher<'_, '_>) {
                    bencher.bench_local(super::super::chain::<$old, $added>($times));
                }

                #[divan::bench]
                fn second(bencher: divan::Bencher<'_, '_>) {
                    bencher.bench_local(super::super::chain::<$new, $more>($times));
                }
            }
        };
    }
    for_each_pair!(with_divan);
}

fn with_rdpmc_bench() {
    // The time is compared, so nothing else is measured.
    let mut bench = match Bench::with_events::<rdpmc::Event>(&[]) {
        Ok(bench) => bench,
        Err(why) => return eprintln!("{why}"),
    };
    bench.ignore_arguments();
    macro_rules! measure {
        ($name:ident, $times:literal, ($old:literal, $added:literal), ($new:literal, $more:literal)) => {
            let old = concat!(stringify!($name), ", old");
            // The runs of a chain wait for one another, so this is the time of a chain.
            bench.row(old).throughput(chain::<$old, $added>($times));
            bench.row(stringify!($name)).against(old).throughput(chain::<$new, $more>($times));
        };
    }
    for_each_pair!(measure);
    for comparison in bench.run().comparisons() {
        let time = comparison.difference(Quantity::Time);
        let known = time.filter(|time| !matches!(time.verdict, Verdict::Unstable(_)));
        if let Some(ratio) = known.and_then(|time| time.ratio) {
            let percent = |ratio: f64| (ratio - 1.0) * 100.0;
            let (low, high) = (percent(ratio.low), percent(ratio.high));
            println!("{} {low} {} {high}", comparison.row, percent(ratio.value));
        }
    }
}

/// The old code is criterion's baseline, as it is for two builds. criterion prints the change.
fn with_criterion() {
    let (warm_up, measurement) = match env::var_os(QUICK) {
        Some(_) => (Duration::from_millis(50), Duration::from_millis(50)),
        None => (Duration::from_millis(300), Duration::from_secs(1)),
    };
    let settings = || {
        let criterion = Criterion::default().without_plots();
        criterion.warm_up_time(warm_up).measurement_time(measurement)
    };
    let mut first = settings().save_baseline("old".to_owned());
    let mut second = settings().retain_baseline("old".to_owned(), true);
    macro_rules! measure {
        ($name:ident, $times:literal, ($old:literal, $added:literal), ($new:literal, $more:literal)) => {
            first.bench_function(stringify!($name), |bencher| {
                bencher.iter(chain::<$old, $added>($times));
            });
            second.bench_function(stringify!($name), |bencher| {
                bencher.iter(chain::<$new, $more>($times));
            });
        };
    }
    for_each_pair!(measure);
}

fn with_nanobench() {
    macro_rules! measure {
        ($name:ident, $times:literal, ($old:literal, $added:literal), ($new:literal, $more:literal)) => {
            println!("{}", stringify!($name));
            others::with_nanobench("first", chain::<$old, $added>($times));
            others::with_nanobench("second", chain::<$new, $more>($times));
        };
    }
    for_each_pair!(measure);
}

/// A difference in percent of the old code, as a tool found it.
#[derive(Clone, Copy)]
struct Found {
    percent: f64,
    interval: Option<(f64, f64)>,
}

impl Found {
    /// Whether the interval says that there is a difference, and which code is faster, or that there is none.
    fn is_right(&self, truth: f64) -> bool {
        let sign = |(low, high): (f64, f64)| match () {
            () if low > 0.0 => 1,
            () if high < 0.0 => -1,
            () => 0,
        };
        self.interval.is_some_and(|interval| sign(interval) == sign((truth, truth)))
    }

    fn is_near(&self, truth: f64) -> bool {
        let enough = if truth == 0.0 { 0.25 } else { truth.abs() / 2.0 };
        (self.percent - truth).abs() <= enough
    }

    fn holds(&self, truth: f64) -> bool {
        self.interval.is_some_and(|(low, high)| low <= truth && truth <= high)
    }
}

/// Returns what a tool has printed of each pair.
fn found(tool: &str, printed: &str) -> BTreeMap<String, Found> {
    let mut all = BTreeMap::new();
    let (mut pair, mut old) = (String::new(), None);
    for line in printed.lines() {
        // divan draws a tree.
        let line = line.trim_start_matches(['├', '╰', '│', '─', ' ']);
        if tool == "rdpmc-bench" {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default().to_owned();
            let numbers: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
            if let [low, percent, high] = *numbers {
                all.insert(name, Found { percent, interval: Some((low, high)) });
            }
        } else if tool == "criterion" {
            // NAME    time: [...], and on the next line: change: [-1.0% +0.5% +1.0%] (p = 0.03 < 0.05)
            if let Some((name, _)) = line.split_once("time:") {
                name.trim().clone_into(&mut pair);
            } else if let Some((_, change)) = line.split_once("change: [") {
                let number =
                    |word: &str| word.trim_end_matches(['%', ']']).replace('\u{2212}', "-");
                let words = change.split(' ').take(3);
                let numbers: Vec<f64> =
                    words.filter_map(|word| number(word).parse().ok()).collect();
                if let [low, percent, high] = *numbers {
                    all.insert(pair.clone(), Found { percent, interval: Some((low, high)) });
                }
            }
        } else if let Some((name, ns)) = others::result(tool, line) {
            match name.as_str() {
                "first" => old = Some(ns),
                _ => {
                    let percent = old.map(|old| (ns / old - 1.0) * 100.0);
                    let found = percent.map(|percent| Found { percent, interval: None });
                    all.extend(found.map(|found| (pair.clone(), found)));
                }
            }
        } else {
            // The name of a pair is a line of its own.
            line.split(' ').next().unwrap_or_default().clone_into(&mut pair);
        }
    }
    all
}

/// What a tool got right.
#[derive(Clone, Copy, Default)]
struct Score {
    right: usize,
    near: usize,
    holds: usize,
    all: usize,
}

impl Score {
    fn add(&mut self, found: Option<&Found>, truth: f64) {
        self.all += 1;
        self.right += usize::from(found.is_some_and(|found| found.is_right(truth)));
        self.near += usize::from(found.is_some_and(|found| found.is_near(truth)));
        self.holds += usize::from(found.is_some_and(|found| found.holds(truth)));
    }
}

fn main() -> io::Result<()> {
    if load::is_child() {
        load::compute();
    }
    match env::var(TOOL).as_deref() {
        Ok("rdpmc-bench") => with_rdpmc_bench(),
        Ok("criterion") => with_criterion(),
        Ok("divan") => divan::Divan::default().run_benches(),
        Ok(_) => with_nanobench(),
        Err(_) => {
            let directory = env::temp_dir().join(format!("rdpmc-planted-{}", std::process::id()));
            let compared = compare(&directory);
            let _ = std::fs::remove_dir_all(directory);
            return compared;
        }
    }
    Ok(())
}

/// Runs each tool in turn, some times, and prints how often it was right.
fn compare(directory: &Path) -> io::Result<()> {
    let is_quick = env::args().any(|argument| argument == "--quick" || argument == "--test");
    let runs = if is_quick { 1 } else { 10 };
    let pairs = pairs();
    let mut scores = vec![[Score::default(); TOOLS.len()]; pairs.len()];
    let mut seconds = [0.0; TOOLS.len()];
    let load = Load::start(2)?;
    for _ in 0..runs {
        for (place, (tool, seconds)) in TOOLS.into_iter().zip(&mut seconds).enumerate() {
            let mut command = Command::new(env::current_exe()?);
            command.env(TOOL, tool).env("CRITERION_HOME", directory);
            if is_quick {
                command.env(QUICK, "1");
            }
            let begun = Instant::now();
            let output = command.output()?;
            *seconds += begun.elapsed().as_secs_f64() / f64::from(runs);
            let printed = String::from_utf8_lossy(&output.stdout);
            let found = found(tool, &printed);
            // rdpmc-bench prints no difference that is unstable.
            let least = if tool == "rdpmc-bench" { 1 } else { pairs.len() };
            if !output.status.success() || found.len() < least {
                let errors = String::from_utf8_lossy(&output.stderr);
                return Err(io::Error::other(format!(
                    "{tool}: {} pairs\n{printed}{errors}",
                    found.len()
                )));
            }
            for (pair, scores) in pairs.iter().zip(&mut scores) {
                if let Some(score) = scores.get_mut(place) {
                    score.add(found.get(pair.name), pair.percent);
                }
            }
        }
    }
    drop(load);
    println!(
        "\nright signs, or of tools without an interval: estimates within half of the difference:\n"
    );
    println!("| {} | difference | pair", TOOLS.join(" | "));
    println!("|{}:-", "---:|".repeat(TOOLS.len() + 1));
    for (pair, scores) in pairs.iter().zip(&scores) {
        for (place, score) in scores.iter().enumerate() {
            let count = if place < WITH_INTERVAL { score.right } else { score.near };
            print!("| {count} of {} ", score.all);
        }
        println!("| {:+.2} % | {}", pair.percent, pair.name.replace('_', " "));
    }
    println!(
        "\n| tool | right sign | estimate within half of the difference | interval holds the difference | seconds |"
    );
    println!("|:-|---:|---:|---:|---:|");
    for (place, (tool, seconds)) in TOOLS.into_iter().zip(seconds).enumerate() {
        let sum = |of: fn(&Score) -> usize| {
            scores.iter().filter_map(|tools| tools.get(place)).map(of).sum()
        };
        let all: usize = sum(|score| score.all);
        let share = |count: usize, is_known: bool| match is_known {
            true => format!("{count} of {all}"),
            false => "-".to_owned(),
        };
        let has_interval = place < WITH_INTERVAL;
        println!(
            "| {tool} | {} | {} | {} | {:.1} |",
            share(sum(|score| score.right), has_interval),
            share(sum(|score| score.near), true),
            share(sum(|score| score.holds), has_interval),
            seconds
        );
    }
    Ok(())
}
