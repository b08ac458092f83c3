//! `rdpmc-bench` against known truths: chains of known latency, equal code, a planted difference, rare events, and the share
//! of intervals that hold the median of all results. All of it beside other load.
//!
//! `cargo bench -p rdpmc-benches --bench truth` takes ten minutes, and fails if a goal is missed. With `-- --quick`, it takes a few
//! samples of each, which no goal can be held to.
#![allow(missing_docs)]
#![allow(unsafe_code, reason = "page faults on purpose")]

use rdpmc::Event;
use rdpmc_bench::{Bench, Figure, Limits, Outcome, Programs, Quantity, Results, Verdict};
use rdpmc_testing::chains::{additions, multiplications};
use rdpmc_testing::load::{self, Load};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The variable that tells a child process what to do.
const PART: &str = "RDPMC_BENCHES_PART";
/// The argument of the two builds.
const BUILDS: &str = "--builds";
/// The programs that run beside the measurement.
const LOAD: usize = 6;

fn main() -> io::Result<()> {
    if load::is_child() {
        load::compute();
    }
    let is_build = std::env::args().any(|argument| argument == BUILDS);
    let part =
        std::env::var(PART).unwrap_or(if is_build { "builds".into() } else { String::new() });
    match part.as_str() {
        "" => return report(),
        "chains" => print(&measured(chains)),
        "codes" => print(&measured(codes)),
        "many rows" => print(&measured(many_rows)),
        "equal" => print_ratios(&measured(equal)),
        "planted" => print_ratios(&measured(planted)),
        "rare" => print(&measured(rare)),
        "builds" => drop(measured(builds)),
        _ => return Err(io::Error::other("no such part")),
    }
    Ok(())
}

fn measured(rows: impl FnOnce(&mut Bench<'_>)) -> Results {
    // The time, and what the kernel counts: that is the same on all machines.
    let mut bench = match Bench::with_events(&[Event::PAGE_FAULTS]) {
        Ok(bench) => bench,
        Err(why) => panic!("{why}"),
    };
    bench.ignore_arguments();
    rows(&mut bench);
    bench.run()
}

/// Prints a line for each figure.
fn print(results: &Results) {
    for row in results.rows() {
        if let (Some(fence), Some(kind)) = (row.fence(), row.name().strip_suffix(": fenced")) {
            println!("{kind}: range\trange\t{}\t0\t0\t", fence.range);
        }
        for Figure { quantity, estimate, verdict, .. } in row.figures() {
            let word = if matches!(verdict, Verdict::Unstable(_)) { "unstable" } else { "stable" };
            let (low, high) = (estimate.low, estimate.high);
            println!("{}\t{quantity}\t{}\t{low}\t{high}\t{word}", row.name(), estimate.value);
        }
    }
}

fn print_ratios(results: &Results) {
    for comparison in results.comparisons() {
        let time = comparison.difference(Quantity::Time);
        if let Some(ratio) = time.and_then(|time| time.ratio) {
            let (low, high) = (ratio.low, ratio.high);
            println!("{}\tratio\t{}\t{low}\t{high}\t", comparison.row, ratio.value);
        }
    }
}

/// Multiplications that wait for one another. Each takes a whole number of cycles, which the row of a thousand tells.
fn chains(bench: &mut Bench<'_>) {
    bench.row("1000").chain(3, multiplications::<1000>);
    macro_rules! rows {
        ($($length:literal),*) => { $(
            bench.row(concat!($length, ", chain")).chain(3, multiplications::<$length>);
            let mut last = 3;
            bench.row(concat!($length, ", throughput")).throughput(move || {
                last = multiplications::<$length>(last);
                last
            });
            bench.row(concat!($length, ", latency")).latency(|| multiplications::<$length>(3));
        )* };
    }
    rows!(1, 2, 4, 8);
    // The first run makes a table, or reads a file.
    for ms in [1, 6, 10, 50, 100, 300] {
        let is_warm = OnceCell::new();
        bench.row(format!("4, cold for {ms} ms")).chain(3, move |number| {
            is_warm.get_or_init(|| std::thread::sleep(Duration::from_millis(ms)));
            multiplications::<4>(number)
        });
    }
    // Other code before the fence: what `chain` says is the truth.
    macro_rules! kinds {
        ($($name:literal, $code:expr);* $(;)?) => { $(
            let code = $code;
            bench.row(concat!($name, ": chain")).chain(3, code);
            bench.row(concat!($name, ": fenced")).latency(move || code(3));
        )* };
    }
    kinds! {
        "10 additions", additions::<10>;
        "8 multiplications of an opaque number", |number| multiplications::<8>(black_box(number));
        "parse", |number: u64| {
            black_box(if number & 1 == 1 { "4294967295" } else { "4294967293" }).parse().unwrap_or(0)
        };
        "text of a number", |number: u64| number.to_string().len() as u64;
    }
}

/// Eight pieces of code.
macro_rules! for_each_code {
    ($call:ident) => {
        $call!("8 multiplications", || multiplications::<8>(black_box(3)));
        $call!("40 multiplications", || multiplications::<40>(black_box(3)));
        $call!("parse", || black_box("4294967295").parse::<u64>());
        $call!("sort", || {
            let mut numbers = black_box([3, 1, 4, 1, 5, 9, 2, 6]);
            numbers.sort_unstable();
            numbers
        });
        $call!("hash", || (0..3).fold(black_box(1), |number: u64, _| {
            (number ^ number >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        }));
        $call!("format", || black_box(1234.5678).to_string());
        $call!("sum", || (0..1_000).fold(0, |sum, n| black_box(sum + n)));
        $call!("search", || black_box([1, 3, 5, 7, 9, 11, 13]).binary_search(&black_box(9)));
    };
}

fn codes(bench: &mut Bench<'_>) {
    macro_rules! row {
        ($name:literal, $code:expr) => {
            bench.row($name).throughput($code);
        };
    }
    for_each_code!(row);
}

/// Many rows of each code in one process.
fn many_rows(bench: &mut Bench<'_>) {
    bench.time_per_row(Duration::from_millis(20));
    for _ in 0..rows_of_a_code() {
        codes(bench);
    }
}

/// Each code against itself.
fn equal(bench: &mut Bench<'_>) {
    macro_rules! row {
        ($name:literal, $code:expr) => {
            let code = $code;
            bench.row(concat!($name, ", a")).throughput(code);
            bench.row(concat!($name, ", b")).against(concat!($name, ", a")).throughput(code);
        };
    }
    for_each_code!(row);
}

/// A difference of 0.2 %, in a second.
fn planted(bench: &mut Bench<'_>) {
    bench.time_per_row(Duration::from_millis(500));
    bench.row("1000").chain(3, multiplications::<1000>);
    bench
        .row("1002")
        .against("1000")
        .chain(3, |number| multiplications::<2>(multiplications::<1000>(number)));
}

/// Each code, and a chain that is longer by 0.2 % in the program whose name ends with `more`.
fn builds(bench: &mut Bench<'_>) {
    bench.time_per_row(Duration::from_millis(20));
    codes(bench);
    let is_more = std::env::current_exe().is_ok_and(|path| path.to_string_lossy().ends_with(MORE));
    match is_more {
        true => bench
            .row("0.2 %")
            .chain(3, |number| multiplications::<2>(multiplications::<1000>(number))),
        false => bench.row("0.2 %").chain(3, multiplications::<1000>),
    }
}

/// The end of the name of the program with the longer chain.
const MORE: &str = "-more";

/// Compares two builds: this program, and a copy with another name.
fn report_builds(times: usize, goals: &mut Goals) -> io::Result<()> {
    let this = std::env::current_exe()?;
    let more = std::env::temp_dir().join(format!("truth-{}{MORE}", std::process::id()));
    std::fs::copy(&this, &more)?;
    // The parts of a program that `Programs` starts are this process's.
    let limits = Limits::new().accept("ns", 0.0).accept("page-faults", 1.0).allow_unstable();
    let programs = Programs::new(&this, &more).arguments([BUILDS]);
    let (mut equal, mut excluded, mut found) = (0, 0, 0);
    for _ in 0..times {
        let compared = programs.compare(&limits).map_err(io::Error::other)?;
        for row in compared.comparison().compared() {
            if row.figure.as_deref() != Some("ns") {
                continue;
            }
            let differs = matches!(row.outcome, Outcome::Worse | Outcome::Better);
            if row.row == "0.2 %" {
                found += usize::from(row.outcome == Outcome::Worse);
            } else {
                equal += 1;
                excluded += usize::from(differs);
            }
        }
    }
    std::fs::remove_file(more)?;
    println!("two builds, equal code: 1 excluded by {}", share(excluded, equal));
    println!("two builds, 0.2 % more: found in {}", share(found, times));
    goals.at_most(5.0, excluded, equal, "two builds, equal code");
    Ok(())
}

const RARE: [(&str, &str, f64); 3] = [
    ("4 faults in 1 of 50 runs", "page-faults", 4.0 / 50.0),
    ("100 faults every 3,001st run", "page-faults", 100.0 / 3_001.0),
    ("1 ms every 20,000th run", "ns", 50.0),
];

fn rare(bench: &mut Bench<'_>) {
    let [(some, ..), (many, ..), (slow, ..)] = RARE;
    let mut random = u64::from(std::process::id()) | 1;
    let mut pages = Pages::new();
    bench.row(some).throughput(move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if (random >> 32) % 50 == 0 {
            pages.fault(4);
        }
    });
    let (mut pages, mut run) = (Pages::new(), 0);
    bench.row(many).throughput(move || {
        run += 1;
        if run % 3_001 == 0 {
            pages.fault(100);
        }
    });
    let mut run = 0;
    bench.row(slow).throughput(move || {
        run += 1;
        if run % 20_000 == 0 {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(1) {}
        }
    });
}

/// Memory that the kernel takes back before it is touched again.
struct Pages {
    memory: *mut libc::c_void,
}

impl Pages {
    const SIZE: usize = 100 << 12;

    fn new() -> Pages {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                Pages::SIZE,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        assert_ne!(memory, libc::MAP_FAILED, "mmap failed");
        // SAFETY: the mapping is this object's.
        unsafe { libc::madvise(memory, Pages::SIZE, libc::MADV_NOHUGEPAGE) };
        Pages { memory }
    }

    /// Touches so many pages, at most 100.
    fn fault(&mut self, count: usize) {
        // SAFETY: within the mapping, which is never unmapped.
        unsafe {
            libc::madvise(self.memory, Pages::SIZE, libc::MADV_DONTNEED);
            for page in 0..count.min(Pages::SIZE >> 12) {
                self.memory.cast::<u8>().add(page << 12).write_volatile(1);
            }
        }
    }
}

fn is_quick() -> bool {
    std::env::args().any(|argument| argument == "--quick" || argument == "--test")
}

fn rows_of_a_code() -> usize {
    if is_quick() { 10 } else { 150 }
}

/// A figure, as a child printed it.
struct Found {
    row: String,
    quantity: String,
    value: f64,
    low: f64,
    high: f64,
    is_stable: bool,
}

impl Found {
    fn holds(&self, truth: f64) -> bool {
        self.low <= truth && truth <= self.high
    }
}

/// Runs a part in this many processes.
fn children(part: &str, count: usize) -> io::Result<Vec<Vec<Found>>> {
    let mut all = Vec::new();
    for _ in 0..count {
        let output = child(part).stderr(Stdio::inherit()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let found: Vec<Found> = text.lines().filter_map(parsed).collect();
        if !output.status.success() || found.is_empty() {
            return Err(io::Error::other(format!("{part}: {}\n{text}", output.status)));
        }
        all.push(found);
    }
    Ok(all)
}

fn child(part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap_or_default());
    command.env(PART, part).args(is_quick().then_some("--quick"));
    command
}

fn parsed(line: &str) -> Option<Found> {
    let mut columns = line.split('\t');
    let (row, quantity) = (columns.next()?.to_owned(), columns.next()?.to_owned());
    let mut number = || columns.next()?.parse::<f64>().ok();
    let (value, low, high) = (number()?, number()?, number()?);
    Some(Found { row, quantity, value, low, high, is_stable: columns.next()? == "stable" })
}

fn report() -> io::Result<()> {
    let times = |full: usize| if is_quick() { 2 } else { full };
    let load = Load::start(LOAD)?;
    println!("beside {LOAD} other programs:");
    let mut goals = Goals::default();
    report_chains(&children("chains", times(10))?, &mut goals);
    report_coverage("processes", &all(children("codes", times(60))?), &mut goals);
    report_coverage("rows of one process", &all(children("many rows", 1)?), &mut goals);
    report_equal(&all(children("equal", times(45))?), &mut goals);
    report_planted(&all(children("planted", times(10))?), &mut goals);
    report_rare(&all(children("rare", times(20))?), &mut goals);
    report_builds(times(5), &mut goals)?;
    drop(load);
    goals.end()
}

fn all(processes: Vec<Vec<Found>>) -> Vec<Found> {
    processes.into_iter().flatten().collect()
}

fn share(of: usize, all: usize) -> String {
    format!("{of} of {all} ({:.1} %)", percent(of, all))
}

fn percent(of: usize, all: usize) -> f64 {
    of as f64 / all.max(1) as f64 * 100.0
}

/// The goals that were missed.
#[derive(Default)]
struct Goals(Vec<String>);

impl Goals {
    fn at_least(&mut self, goal: f64, of: usize, all: usize, what: &str) {
        if percent(of, all) < goal {
            self.0.push(format!("{what}: {}, not {goal} %", share(of, all)));
        }
    }

    fn at_most(&mut self, goal: f64, of: usize, all: usize, what: &str) {
        if percent(of, all) > goal {
            self.0.push(format!("{what}: {}, more than {goal} %", share(of, all)));
        }
    }

    /// A few samples of each, as with `--quick`, say nothing about shares.
    fn end(self) -> io::Result<()> {
        for missed in &self.0 {
            println!("missed: {missed}");
        }
        match self.0.is_empty() || is_quick() {
            true => Ok(()),
            false => Err(io::Error::other("some goals were missed")),
        }
    }
}

fn report_chains(processes: &[Vec<Found>], goals: &mut Goals) {
    report_kinds(processes, goals);
    let (mut right, mut all) = (BTreeMap::new(), BTreeMap::new());
    for process in processes {
        let Some(thousand) = process.iter().find(|found| found.row == "1000") else { continue };
        // A multiplication takes a whole number of cycles: 3 on x86-64, 3 to 5 on arm64. Only the ratio matters.
        let each = thousand.value / 1_000.0;
        for found in process.iter().filter(|found| found.quantity == "ns") {
            let Some((length, way)) = found.row.split_once(", ") else { continue };
            let Ok(length) = length.parse::<f64>() else { continue };
            let truth = length * each;
            // A tenth of a cycle is a thirtieth of a multiplication of three.
            let is_close = (found.value - truth).abs() <= (truth * 0.005).max(each / 30.0);
            *all.entry(way.to_owned()).or_insert(0) += 1;
            *right.entry(way.to_owned()).or_insert(0) +=
                usize::from(is_close || found.holds(truth));
        }
    }
    for (way, all) in all {
        let right = right.get(&way).copied().unwrap_or(0);
        println!("chains of 1, 2, 4, 8 multiplications, {way}: right in {}", share(right, all));
        goals.at_least(95.0, right, all, &format!("chains, {way}"));
    }
}

/// How far `latency` is from `chain`, and whether the range that it states has the difference.
fn report_kinds(processes: &[Vec<Found>], goals: &mut Goals) {
    let mut errors: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let (mut within, mut all) = (0, 0);
    for process in processes {
        let times = || process.iter().filter(|found| found.quantity == "ns");
        for chain in times() {
            let Some(kind) = chain.row.strip_suffix(": chain") else { continue };
            let of = |end: &str| {
                let row = format!("{kind}{end}");
                process.iter().find(|found| found.row == row)
            };
            let Some(fenced) = times().find(|found| found.row == format!("{kind}: fenced")) else {
                continue;
            };
            let error = fenced.value - chain.value;
            errors.entry(kind).or_default().push(error);
            let range = of(": range").map_or(0.0, |range| range.value);
            let noise = (fenced.high - fenced.low + chain.high - chain.low) / 2.0;
            within += usize::from(error.abs() <= range + noise);
            all += 1;
        }
    }
    for (kind, errors) in errors {
        println!("latency less chain: {kind}: {:+.2} ns", median(errors));
    }
    println!("latency less chain: within the stated range in {}", share(within, all));
    goals.at_least(90.0, within, all, "the range of the fence");
}

fn report_coverage(of: &str, found: &[Found], goals: &mut Goals) {
    let mut by_row: BTreeMap<&str, Vec<&Found>> = BTreeMap::new();
    for figure in found.iter().filter(|figure| figure.quantity == "ns") {
        by_row.entry(&figure.row).or_default().push(figure);
    }
    let (mut covered, mut all) = (0, 0);
    for (row, figures) in by_row {
        let truth = median(figures.iter().map(|figure| figure.value).collect());
        let width =
            median(figures.iter().map(|it| (it.high - it.low) / 2.0 / truth * 100.0).collect());
        let holds = figures.iter().filter(|figure| figure.holds(truth)).count();
        println!(
            "{of}: {row}: {truth:.3} ns ± {width:.2} %, held by {}",
            share(holds, figures.len())
        );
        (covered, all) = (covered + holds, all + figures.len());
    }
    println!("{of}: all: the median of all results is held by {}", share(covered, all));
    goals.at_least(90.0, covered, all, of);
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
    f64::midpoint(at(values.len().saturating_sub(1) / 2), at(values.len() / 2))
}

fn report_equal(ratios: &[Found], goals: &mut Goals) {
    let excluded = ratios.iter().filter(|ratio| !ratio.holds(1.0)).count();
    let error = |ratio: &Found| (ratio.value - 1.0).abs() * 100.0;
    let largest = ratios.iter().max_by(|one, two| error(one).total_cmp(&error(two)));
    let largest = largest.map_or_else(String::new, |ratio| {
        let holds =
            if ratio.holds(1.0) { "with 1 in its interval" } else { "without 1 in its interval" };
        format!("{:.2} % ({}, {holds})", error(ratio), ratio.row)
    });
    let width = median(ratios.iter().map(|ratio| (ratio.high - ratio.low) / 2.0 * 100.0).collect());
    let mut by_row: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for ratio in ratios {
        let (excluded, all) = by_row.entry(&ratio.row).or_default();
        (*excluded, *all) = (*excluded + usize::from(!ratio.holds(1.0)), *all + 1);
    }
    for (row, (excluded, all)) in by_row {
        println!("a row against itself: {row}: 1 excluded by {}", share(excluded, all));
    }
    println!(
        "a row against itself: 1 excluded by {}, ± {width:.2} %, largest error {largest}",
        share(excluded, ratios.len())
    );
    goals.at_most(5.0, excluded, ratios.len(), "a row against itself");
}

fn report_planted(ratios: &[Found], goals: &mut Goals) {
    let found = ratios.iter().filter(|ratio| ratio.low > 1.0).count();
    println!("0.2 % more, in a second: found in {}", share(found, ratios.len()));
    goals.at_least(90.0, found, ratios.len(), "0.2 % more");
}

fn report_rare(found: &[Found], goals: &mut Goals) {
    for (row, quantity, truth) in RARE {
        let figures: Vec<&Found> =
            found.iter().filter(|it| it.row == row && it.quantity == quantity).collect();
        let holds = figures.iter().filter(|figure| figure.holds(truth)).count();
        let excused =
            figures.iter().filter(|figure| !figure.holds(truth) && !figure.is_stable).count();
        println!("{row}: {}, and {excused} others are unstable", share(holds, figures.len()));
        goals.at_least(90.0, holds + excused, figures.len(), row);
    }
}
