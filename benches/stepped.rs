//! Stepped instructions: are they the same each time, is one instruction more found, and what does callgrind say?
//!
//! `cargo bench -p rdpmc-benches --bench stepped` measures 30 pieces of code that allocate, format, hash, sort, copy and read the environment,
//! in 46 fresh runs of a program beside other load, and compares each run with each later one: 1,035 comparisons. Then it plants one
//! instruction in a thousand, 100 times. `-- --quick` takes three runs and plants one instruction. Where counters count, it does the same with
//! these.
#![allow(missing_docs)]
#![allow(unsafe_code)]

use rdpmc::Event;
use rdpmc_bench::{Bench, Limits, Status};
use rdpmc_report::gate::functions::Functions;
use rdpmc_report::gate::{Certainty, Row, STEPPED_INSTRUCTIONS, Side, bench_json, compare};
use rdpmc_step::functions::{Loaded, Names, Split};
use rdpmc_step::{Addresses, Tally};
use rdpmc_testing::load::{self, Load};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};
use std::{env, io};

/// The variable with what a child does: `equal` and `more` save their results in the file of the second variable. A number runs
/// the code of this place as often as the second variable says, for callgrind.
const TASK: &str = "RDPMC_BENCHES_STEPPED";
const ARGUMENT: &str = "RDPMC_BENCHES_STEPPED_ARGUMENT";

type Code = fn();

/// What callgrind counts as well.
const CODES: [(&str, Code); 5] = [
    ("parse ten digits", || {
        let _ = black_box(black_box("4294967295").parse::<u64>());
    }),
    ("sort eight numbers", || {
        let mut numbers = black_box([3, 1, 4, 1, 5, 9, 2, 6]);
        numbers.sort_unstable();
        black_box(numbers);
    }),
    ("three rounds of a hash", || {
        let round = |number: u64, _| (number ^ number >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        black_box((0..3).fold(black_box(1), round));
    }),
    ("format a float", || drop(black_box(black_box(1234.5678).to_string()))),
    ("sum of 300 numbers", || {
        black_box((0..300).fold(0, |sum, n| black_box(sum + n)));
    }),
];

/// Code whose instructions may depend on addresses, the heap, the environment or random numbers.
fn rows_of_all_kinds(bench: &mut Bench<'_>) {
    const TEXT: &str = "the quick brown fox jumps over the lazy dog";
    fn numbers(count: u64) -> Vec<u64> {
        (0..count).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
    }
    let hundred = numbers(100);
    let words: Vec<String> =
        hundred.iter().take(20).map(|number| format!("word {number}")).collect();
    let map: HashMap<u64, u64> = hundred.iter().map(|number| (*number, 1)).collect();
    let bytes = vec![7_u8; 8_192];
    let shown = (1, "two", Some(3.5), [4; 4]);
    let of = hundred.clone();
    bench.row("clone 100 numbers").throughput(move || of.clone());
    bench.row("box").throughput(|| Box::new(black_box(7)));
    bench.row("zeroed 100").throughput(|| vec![0_u64; black_box(100)]);
    bench.row("zeroed 100,000").throughput(|| vec![0_u8; black_box(100_000)]);
    bench.row("grow a vector").throughput(|| {
        (0..black_box(50)).fold(Vec::new(), |mut all, n| {
            all.push(n);
            all
        })
    });
    bench
        .row("vectors in a vector")
        .throughput(|| (0..10).map(|n| vec![n; black_box(n)]).collect::<Vec<_>>());
    bench
        .row("tree of 20")
        .throughput(|| (0..black_box(20)).map(|n| (n, n)).collect::<BTreeMap<_, _>>());
    bench
        .row("map of 20")
        .throughput(|| (0..black_box(20)).map(|n| (n, n)).collect::<HashMap<_, _>>());
    let keys: Vec<u64> = hundred.iter().take(10).copied().collect();
    bench
        .row("look up in a map")
        .throughput(move || keys.iter().filter_map(|key| map.get(key)).sum::<u64>());
    bench.row("queue").throughput(|| (0..black_box(20)).collect::<VecDeque<u64>>());
    bench.row("shared").throughput(|| Rc::new(black_box([7_u64; 4])).clone());
    bench.row("format a number").throughput(|| black_box(123_456_789_u64).to_string());
    bench.row("format a float").throughput(|| black_box(1234.5678).to_string());
    bench.row("format for debugging").throughput(move || format!("{shown:?}"));
    bench
        .row("format hexadecimal")
        .throughput(|| format!("{:#x} {:>10}", black_box(48_879), black_box(7)));
    bench.row("parse a float").throughput(|| black_box("3.14159265").parse::<f64>());
    bench.row("hash a text").throughput(|| {
        let mut hasher = DefaultHasher::new();
        black_box(TEXT).hash(&mut hasher);
        hasher.finish()
    });
    let state = RandomState::new();
    bench.row("hash with a random seed").throughput(move || state.hash_one(black_box(TEXT)));
    let of = hundred.clone();
    bench.row("sort 100 numbers").throughput(move || {
        let mut all = of.clone();
        all.sort_unstable();
        all
    });
    let of = words.clone();
    bench.row("sort 20 texts").throughput(move || {
        let mut all: Vec<&str> = of.iter().map(String::as_str).collect();
        all.sort();
        all.len()
    });
    bench.row("find in a text").throughput(|| black_box(TEXT).find("lazy"));
    let of = vec![7_u8; 100];
    bench.row("copy 100 bytes").throughput(move || black_box(&of).to_vec());
    let of = bytes.clone();
    bench.row("copy 8,192 bytes").throughput(move || black_box(&of).to_vec());
    let mut of = bytes;
    bench.row("move within").throughput(move || black_box(&mut of).copy_within(3..4_000, 17));
    bench.row("join texts").throughput(move || words.join(", "));
    bench.row("upper case").throughput(|| black_box(TEXT).to_uppercase());
    bench.row("a path").throughput(|| Path::new(black_box("/usr")).join("lib").join("x"));
    bench.row("env::var_os").throughput(|| env::var_os(black_box("PATH")));
    bench.row("env::temp_dir").throughput(env::temp_dir);
    bench.row("current directory").throughput(|| env::current_dir().is_ok());
}

/// 998 instructions and the call.
fn a_thousand() {
    rdpmc_testing::kernels::countdown(black_box(499));
}

fn one_more() {
    a_thousand();
    // SAFETY: does nothing.
    unsafe { std::arch::asm!("nop") };
}

fn measure(planted: bool, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut bench = Bench::with_events(&[Event::INSTRUCTIONS])?;
    bench.time_per_row(Duration::from_millis(5)).time_to_step(Duration::from_secs(5));
    for (name, code) in CODES {
        bench.row(name).throughput(code);
    }
    bench.row("a thousand instructions").throughput(if planted { one_more } else { a_thousand });
    Ok(bench.run().save(path)?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if load::is_child() {
        load::compute();
    }
    let argument = env::var(ARGUMENT).unwrap_or_default();
    match env::var(TASK).as_deref() {
        Ok("equal") => return measure(false, argument.as_ref()),
        Ok("more") => return measure(true, argument.as_ref()),
        Ok("all kinds") => {
            let mut bench = Bench::with_events(&[Event::INSTRUCTIONS])?;
            bench.time_per_row(Duration::from_millis(5));
            rows_of_all_kinds(&mut bench);
            return Ok(bench.run().save(argument)?);
        }
        Ok(place) => {
            let (_, code) = CODES.get(place.parse::<usize>()?).ok_or("no such code")?;
            (0..argument.parse::<u64>()?).for_each(|_| code());
            return Ok(());
        }
        Err(_) => {}
    }
    let is_quick = env::args().any(|argument| argument == "--quick" || argument == "--test");
    let (runs, planted) = if is_quick { (3, 1) } else { (46, 100) };
    let directory = env::temp_dir().join(format!("rdpmc-stepped-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let run = |task: &str, name: &str| -> io::Result<Side> {
        let path = directory.join(name);
        let mut child = Command::new(env::current_exe()?);
        // As cargo does. Without it, a program with cargo's name and variables runs each row once.
        child.arg("--bench").env(TASK, task).env(ARGUMENT, &path);
        let status = child.stdout(Stdio::null()).status()?;
        let side = bench_json::load(&path);
        match side.obstacles.first() {
            None if status.success() => Ok(side),
            Some(why) => Err(io::Error::other(why.clone())),
            None => Err(io::Error::other(format!("a child ended with {status}"))),
        }
    };
    let load = Load::start(2)?;
    let all: Vec<Side> = (0..runs)
        .map(|number| run("all kinds", &format!("all-{number}")))
        .collect::<io::Result<_>>()?;
    let begun = Instant::now();
    let before = run("equal", "equal")?;
    let one = begun.elapsed();
    let is_stepped = before.rows.iter().any(|row| row.figure(STEPPED_INSTRUCTIONS).is_some());
    let figure = if is_stepped { STEPPED_INSTRUCTIONS } else { "instructions" };
    let (mut comparisons, mut alarms, mut incomplete) = (0, 0, 0);
    for (number, old) in all.iter().enumerate() {
        for new in all.iter().skip(number + 1) {
            let comparison = compare(old, new, &Limits::new());
            comparisons += 1;
            match comparison.status() {
                Status::Passed => continue,
                Status::Regressed => alarms += 1,
                _ => incomplete += 1,
            }
            if alarms + incomplete == 1 {
                print!("{comparison}");
            }
        }
    }
    let mut found = 0;
    for number in 0..planted {
        let more = run("more", &format!("more-{number}"))?;
        let comparison = compare(&before, &more, &Limits::new());
        found += usize::from(comparison.status() == Status::Regressed);
        if number == 0 {
            print!("{comparison}");
        }
    }
    drop(load);
    let figures = || all.iter().flat_map(|side| &side.rows).filter_map(|row| row.figure(figure));
    let exact = figures().filter(|it| it.certainty == Certainty::Exact).count();
    let rows = all.iter().map(|side| side.rows.len()).sum::<usize>();
    println!(
        "{figure} of 30 pieces of code, in {runs} runs of a program beside 2 others: {} figures of {rows}, {exact} of them exact",
        figures().count()
    );
    println!(
        "equal programs: status 1 in {alarms} and status 3 in {incomplete} of {comparisons} comparisons"
    );
    println!("one instruction more in 1,000: found in {found} of {planted}");
    print_functions(&all);
    print_price_of_addresses()?;

    println!("\n| {figure} | callgrind | per operation\n|---:|---:|:-");
    let mut by_callgrind = Duration::ZERO;
    for (place, (name, _)) in CODES.iter().enumerate() {
        let ours =
            before.rows.iter().find(|row| row.name == *name).and_then(|row| row.figure(figure));
        let ours = ours.map_or_else(|| "-".to_owned(), |figure| figure.value.to_string());
        let begun = Instant::now();
        let theirs = callgrind(place, &directory)?;
        by_callgrind += begun.elapsed();
        let theirs = theirs.map_or_else(|| "not installed".to_owned(), |count| count.to_string());
        println!("| {ours} | {theirs} | {name}");
    }
    println!("| {:.1} s | {:.1} s | for all", one.as_secs_f64(), by_callgrind.as_secs_f64());
    Ok(std::fs::remove_dir_all(directory)?)
}

/// Prints whether the functions of exact figures have their sum, and whether they differ between equal programs.
fn print_functions(all: &[Side]) {
    let (mut sums, mut wrong, mut pairs, mut differ) = (0, 0, 0, 0);
    let exact = |row: &Row| {
        let figure = row.figure(STEPPED_INSTRUCTIONS)?;
        let is_exact = figure.certainty == Certainty::Exact;
        Some((row.functions.clone()?, figure.value)).filter(|_| is_exact)
    };
    let by_name = |side: &Side| -> BTreeMap<String, (Functions, f64)> {
        side.rows.iter().filter_map(|row| Some((row.name.clone(), exact(row)?))).collect()
    };
    let all: Vec<_> = all.iter().map(by_name).collect();
    for (functions, value) in all.iter().flat_map(BTreeMap::values) {
        sums += 1;
        wrong += usize::from(functions.total() != *value);
    }
    for (number, old) in all.iter().enumerate() {
        for new in all.iter().skip(number + 1) {
            for (name, (was, _)) in old {
                let Some((is, _)) = new.get(name) else { continue };
                pairs += 1;
                differ += usize::from(!was.changes(is).is_empty());
            }
        }
    }
    println!("functions of exact figures: {wrong} of {sums} sums are not the figure");
    println!("functions of equal programs: {differ} of {pairs} rows differ");
}

/// Prints how much longer steps take that keep their addresses, side by side.
fn print_price_of_addresses() -> Result<(), Box<dyn std::error::Error>> {
    const LIMIT: u64 = 200_000;
    let sort = || {
        let mut numbers: Vec<u64> = (0..400).map(|number| number * 7_919 % 1_009).collect();
        black_box(&mut numbers).sort_unstable();
    };
    let mut addresses = Addresses::with_capacity(LIMIT as usize)?;
    let mut ratios = Vec::new();
    // What happens only once comes first.
    if rdpmc_step::count(LIMIT, sort).is_err() {
        println!("no steps here that keep their addresses");
        return Ok(());
    }
    for _ in 0..15 {
        let begun = Instant::now();
        rdpmc_step::count(LIMIT, sort)?;
        let without = begun.elapsed();
        addresses.clear();
        let begun = Instant::now();
        let count = rdpmc_step::count_into(LIMIT, &mut addresses, sort)?;
        let with = begun.elapsed();
        assert_eq!(addresses.as_slice().len() as u64, count);
        ratios.push(with.as_secs_f64() / without.as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    let begun = Instant::now();
    let all = 0..addresses.as_slice().len();
    let tally = Tally::new(&mut addresses, &[(1, all)]).ok_or("no memory for a tally")?;
    let split = Split::new(&tally, 1, &Loaded::now());
    let functions = split.functions(&mut Names::new()).len();
    let names = begun.elapsed();
    let [least, .., most] = ratios.as_slice() else { return Ok(()) };
    println!(
        "steps that keep their addresses: {:.3} of the time of others (median of {}; {least:.3} to {most:.3}). Names of {functions} functions: {:.1} ms",
        ratios.get(ratios.len() / 2).unwrap_or(least),
        ratios.len(),
        names.as_secs_f64() * 1e3
    );
    Ok(())
}

/// Returns the instructions of a run by callgrind: the difference of 200 and 100 runs, with what calls them. None without
/// valgrind.
fn callgrind(place: usize, directory: &Path) -> Result<Option<f64>, Box<dyn std::error::Error>> {
    let collected = |runs: u64| -> Result<Option<f64>, Box<dyn std::error::Error>> {
        let mut valgrind = Command::new("valgrind");
        valgrind.arg("--tool=callgrind").arg("--callgrind-out-file=/dev/null");
        valgrind.arg(env::current_exe()?).current_dir(directory);
        valgrind.env(TASK, place.to_string()).env(ARGUMENT, runs.to_string());
        let Ok(output) = valgrind.output() else { return Ok(None) };
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let count = text.lines().find_map(|line| line.split_once("Collected : "));
        Ok(count.and_then(|(_, count)| count.trim().parse().ok()))
    };
    let (few, many) = (collected(100)?, collected(200)?);
    Ok(few.zip(many).map(|(few, many)| (many - few) / 100.0))
}
