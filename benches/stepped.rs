//! Stepped instructions: are they the same each time, is one instruction more found, and what does callgrind say?
//!
//! `cargo bench -p rdpmc-benches --bench stepped` measures six pieces of code in 101 processes beside other load, and compares each
//! process with the one before. Then it plants one instruction in a thousand, 20 times. `-- --quick` takes three processes. Where
//! counters count, it does the same with these.
#![allow(missing_docs)]
#![allow(unsafe_code)]

use rdpmc::Event;
use rdpmc_bench::{Bench, Limits, Status};
use rdpmc_gate::{STEPPED_INSTRUCTIONS, Side, bench_json, compare};
use rdpmc_testing::load::{self, Load};
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, io};

/// The variable with what a child does: `equal` and `more` save their results in the file of the second variable. A number runs
/// the code of this place as often as the second variable says, for callgrind.
const TASK: &str = "RDPMC_BENCHES_STEPPED";
const ARGUMENT: &str = "RDPMC_BENCHES_STEPPED_ARGUMENT";

type Code = fn();

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
        Ok(place) => {
            let (_, code) = CODES.get(place.parse::<usize>()?).ok_or("no such code")?;
            (0..argument.parse::<u64>()?).for_each(|_| code());
            return Ok(());
        }
        Err(_) => {}
    }
    let is_quick = env::args().any(|argument| argument == "--quick" || argument == "--test");
    let (runs, planted) = if is_quick { (1, 1) } else { (100, 20) };
    let directory = env::temp_dir().join(format!("rdpmc-stepped-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let run = |task: &str, name: &str| -> io::Result<Side> {
        let path = directory.join(name);
        let mut child = Command::new(env::current_exe()?);
        let status = child.env(TASK, task).env(ARGUMENT, &path).stdout(Stdio::null()).status()?;
        match status.success() {
            true => Ok(bench_json::load(&path)),
            false => Err(io::Error::other(format!("a child ended with {status}"))),
        }
    };
    let load = Load::start(3)?;
    let begun = Instant::now();
    let first = run("equal", "0")?;
    let one = begun.elapsed();
    let is_stepped = first.rows.iter().any(|row| row.figure(STEPPED_INSTRUCTIONS).is_some());
    let figure = if is_stepped { STEPPED_INSTRUCTIONS } else { "instructions" };
    let (mut differences, mut alarms, mut found, mut before) = (0, 0, 0, first);
    for number in 1..=runs {
        let this = run("equal", &number.to_string())?;
        let values = |side: &Side| -> Vec<Option<f64>> {
            side.rows.iter().map(|row| Some(row.figure(figure)?.value)).collect()
        };
        let (was, is) = (values(&before), values(&this));
        differences += was.iter().zip(&is).filter(|(was, is)| was.is_none() || was != is).count();
        alarms += usize::from(compare(&before, &this, &Limits::new()).status() != Status::Passed);
        before = this;
    }
    for number in 0..planted {
        let more = run("more", &format!("more-{number}"))?;
        let comparison = compare(&before, &more, &Limits::new());
        found += usize::from(comparison.status() == Status::Regressed);
        if number == 0 {
            print!("{comparison}");
        }
    }
    drop(load);
    println!(
        "{figure} of six pieces of code, in {runs} processes beside 3 other programs: {differences} differences"
    );
    println!("equal code, each process against the one before: {alarms} of {runs} do not pass");
    println!("one instruction more in 1,000: found in {found} of {planted}");

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
