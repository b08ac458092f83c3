//! The arguments of a program that measures. This program is one, if a variable is set. Otherwise it tests that program.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]
#![allow(unsafe_code, reason = "a program that removes environment variables")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[path = "it/skips.rs"]
mod skips;

use rdpmc_bench::{Bench, Limits};

use std::env;
use std::ffi::OsString;
use std::hint::black_box;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

/// The variable of a program that measures. Its value is what the program does.
const ROLE: &str = "RDPMC_TEST_ARGUMENTS";
/// The variable of the process in which a program measures that starts itself.
const INNER: &str = "RDPMC_TEST_ARGUMENTS_INNER";
/// The variable with the directory for files.
const DIRECTORY: &str = "RDPMC_TEST_ARGUMENTS_DIRECTORY";

fn main() {
    if let Ok(role) = env::var(ROLE) {
        return program(&role);
    }
    let arguments: Vec<String> = env::args().skip(1).collect();
    let filters = || arguments.iter().filter(|argument| !argument.starts_with('-'));
    let tests = [
        ("rows_are_listed", rows_are_listed as fn()),
        ("rows_are_chosen", rows_are_chosen),
        ("results_have_other_formats", results_have_other_formats),
        ("each_row_runs_once", each_row_runs_once),
        ("wrong_arguments_say_so", wrong_arguments_say_so),
        ("nextest_runs_each_row", nextest_runs_each_row),
        ("instructions_are_counted_in_other_processes", other_processes),
        ("the_first_run_is_stepped_in_other_processes", a_later_run),
        ("no_process_starts_others", no_process_starts_others),
    ];
    for (name, test) in tests {
        let is_chosen = filters().count() == 0 || filters().any(|filter| name.contains(filter));
        match arguments.iter().any(|argument| argument == "--list") {
            true if arguments.iter().all(|argument| argument != "--ignored") => {
                println!("{name}: test");
            }
            false if is_chosen => {
                test();
                println!("test {name} ... ok");
            }
            _ => {}
        }
    }
}

/// A program as users write it.
fn program(role: &str) {
    let directory = PathBuf::from(env::var_os(DIRECTORY).unwrap_or_default());
    let mut bench = Bench::new().unwrap();
    bench.time_per_row(Duration::from_millis(2)).time_to_step(Duration::from_secs(20));
    match role {
        "ignores" => {
            bench.ignore_arguments();
            bench.row("one").throughput(|| black_box(1));
        }
        // The count is that of the process: its address, its environment, and its number.
        "differs" => {
            let number = std::process::id() as usize % 64;
            bench.row("by process").throughput(move || sum(black_box(100 + number)));
            bench.row("constant").throughput(|| sum(black_box(100)));
        }
        "twice" => {
            bench.row("early").throughput(|| sum(black_box(10)));
            let early = bench.run();
            early.save(directory.join("early.json")).unwrap();
            assert!(early.row("early").unwrap().time().is_some());
            add_line(&directory.join("between"), "once");
            bench = Bench::new().unwrap();
            bench.time_per_row(Duration::from_millis(2)).time_to_step(Duration::from_secs(20));
            bench.row("late").throughput(|| sum(black_box(20)));
        }
        // It does not come to `run` again.
        "locks" => {
            std::fs::create_dir(directory.join("lock")).expect("another process has the lock");
            bench.row("one").throughput(|| sum(black_box(10)));
        }
        "removes variables" | "starts itself" => {
            add_line(&directory.join("starts"), role);
            if role == "starts itself" && env::var_os(INNER).is_none() {
                let status = Command::new(env::current_exe().unwrap()).env(INNER, "1").status();
                return assert!(status.unwrap().success());
            }
            let is_ours = |name: &OsString| [ROLE, DIRECTORY, INNER].iter().any(|it| name == it);
            for (name, _) in env::vars_os().filter(|(name, _)| !is_ours(name)) {
                // SAFETY: this process has one thread.
                unsafe { env::remove_var(name) };
            }
            bench.row("one").throughput(|| sum(black_box(10)));
        }
        "panics" => {
            bench.row("first").throughput(|| assert!(black_box(false), "as it should"));
            bench.row("second").throughput(|| black_box(2));
        }
        _ => {
            let mut runs = 0;
            bench.row("parse ten digits").throughput(move || {
                runs += 1;
                if role_is("once") {
                    assert_eq!(runs, 1, "it ran before");
                }
                black_box("4294967295").parse::<u32>()
            });
            bench.row("parse three digits").throughput(|| black_box("429").parse::<u32>());
            bench.row("two\nlines").throughput(|| black_box(2));
        }
    }
    let results = bench.run();
    if role == "gate" {
        let comparison = results.check("no such file", &Limits::new());
        std::process::exit(i32::from(comparison.status().code()));
    }
    results.save(directory.join("by itself.json")).unwrap();
    println!("{results}");
}

fn add_line(path: &std::path::Path, line: &str) {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn role_is(role: &str) -> bool {
    env::var(ROLE).is_ok_and(|is| is == role)
}

fn sum(count: usize) -> usize {
    (0..count).fold(0, |sum, n| black_box(sum + n))
}

/// Runs the program as a user does, without cargo.
fn run(role: &str, arguments: &[&str]) -> Output {
    run_in(role, arguments, &env::temp_dir())
}

fn run_in(role: &str, arguments: &[&str], directory: &std::path::Path) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(arguments).env(ROLE, role).env(DIRECTORY, directory);
    command.env_remove("CARGO_MANIFEST_DIR").env_remove("NEXTEST").output().unwrap()
}

#[track_caller]
fn said(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}

/// A directory that is removed in the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = env::temp_dir().join(format!("rdpmc-arguments-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn json(&self, file: &str) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.0.join(file)).unwrap()).unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn rows_are_listed() {
    let list = |arguments: &[&str]| said(&run("", arguments)).to_owned();
    let all = "parse ten digits: benchmark\nparse three digits: benchmark\ntwo lines: benchmark\n";
    assert_eq!(list(&["--list", "--format", "terse"]), all);
    assert_eq!(list(&["--list"]), format!("{all}\n0 tests, 3 benchmarks\n"));
    assert_eq!(list(&["--list", "--format", "terse", "--ignored"]), "");
    assert_eq!(
        list(&["--list", "--format=terse", "two lines", "--exact"]),
        "two lines: benchmark\n"
    );
    assert!(list(&["--help"]).contains("Usage: PROGRAM [OPTIONS] [FILTER...]"));
}

fn rows_are_chosen() {
    let measured = |arguments: &[&str]| {
        let output = run("", arguments);
        let table = said(&output).to_owned();
        let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
        let name = |line: &str| line.rsplit('|').next().unwrap_or_default().trim().to_owned();
        rows.map(name).collect::<Vec<String>>()
    };
    assert_eq!(measured(&[]), ["parse ten digits", "parse three digits", "two lines"]);
    assert_eq!(measured(&["--bench", "three"]), ["parse three digits"]);
    assert_eq!(measured(&["--exact", "two lines"]), ["two lines"]);
    assert_eq!(measured(&["--skip", "parse"]), ["two lines"]);
    assert!(measured(&["--ignored"]).is_empty() && measured(&["nothing"]).is_empty());
    // The program has arguments of its own.
    let output = run("ignores", &["--slower", "nothing"]);
    assert!(said(&output).contains("| one\n"), "{output:?}");
}

fn results_have_other_formats() {
    let directory = Directory::new("formats");
    let path = directory.0.join("saved.json");
    let save = ["--save", path.to_str().unwrap(), "three"];
    let output = run_in("", &save, &directory.0);
    assert!(said(&output).contains("parse three digits"));
    assert_eq!(directory.json("saved.json")["rows"][0]["name"], "parse three digits");
    assert_eq!(directory.json("saved.json"), directory.json("by itself.json"));
    let format = |format: &str| said(&run("", &["--format", format, "three"])).to_owned();
    assert!(
        format("csv")
            .starts_with("row,quantity,value,low,high,verdict\n\"parse three digits\",\"ns\",")
    );
    let json = |format: &str| -> serde_json::Value { serde_json::from_str(format).unwrap() };
    assert_eq!(json(&format("json"))["rows"][0]["name"], "parse three digits");
    // Which figures can be trusted is the machine's doing: they alone are in these.
    assert!(json(&format("bencher")).is_object());
    assert!(json(&format("github-action-benchmark")).is_array());
    // It cannot be written.
    let nowhere = directory.0.join("nowhere/saved.json");
    let output = run("", &["--json", nowhere.to_str().unwrap(), "three"]);
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{why}");
    assert!(why.contains("there is no directory ") && why.contains("/nowhere. Make it"), "{why}");
}

fn each_row_runs_once() {
    let directory = Directory::new("once");
    let output = run_in("once", &["--test"], &directory.0);
    let lines =
        "test parse ten digits ... ok\ntest parse three digits ... ok\ntest two lines ... ok\n";
    assert_eq!(said(&output).trim_end(), lines.trim_end());
    assert!(!directory.0.join("by itself.json").exists(), "nothing was measured");
    assert_eq!(said(&run("once", &["--test", "ten"])).trim_end(), "test parse ten digits ... ok");
    // cargo or nextest starts it as a test, unless it says that it is a benchmark.
    let by = |variable: &str, arguments: &[&str]| {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(arguments).env(ROLE, "").env(DIRECTORY, &directory.0);
        command.env_remove("CARGO_MANIFEST_DIR").env_remove("NEXTEST").env(variable, "1");
        said(&command.output().unwrap()).to_owned()
    };
    for variable in ["CARGO_MANIFEST_DIR", "NEXTEST"] {
        assert_eq!(by(variable, &["two"]).trim_end(), "test two lines ... ok");
        assert!(by(variable, &["two", "--bench"]).contains("| two lines\n"));
    }
    // A gate has nothing to compare. A panic fails, and the other row runs.
    assert_eq!(run("gate", &["--test"]).status.code(), Some(0));
    assert_eq!(run("gate", &[]).status.code(), Some(3));
    let output = run("panics", &["--test"]);
    let lines = "test first ... FAILED: as it should\ntest second ... ok\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), lines);
    assert_eq!(output.status.code(), Some(101));
}

fn wrong_arguments_say_so() {
    let output = run("", &["--slower"]);
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{why}");
    let text = "rdpmc-bench: --slower is not an option. `--help` prints the options. If the program has arguments of its own, \
                call `Bench::ignore_arguments`.\n";
    assert_eq!(why, text);
}

/// What nextest does: it lists the rows, lists those that are ignored, and runs each in a process of its own.
fn nextest_runs_each_row() {
    let nextest = |arguments: &[&str]| {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(arguments).env(ROLE, "").env("NEXTEST", "1");
        said(&command.output().unwrap()).to_owned()
    };
    let all = nextest(&["--list", "--format", "terse"]);
    assert_eq!(nextest(&["--list", "--format", "terse", "--ignored"]), "");
    let mut rows = 0;
    for line in all.lines() {
        let name = line.strip_suffix(": benchmark").expect("each line is that of a benchmark");
        let text = nextest(&[name, "--nocapture", "--exact"]);
        assert_eq!(text.trim_end(), format!("test {name} ... ok"));
        rows += 1;
    }
    assert_eq!(rows, 3);
}

/// Whether this machine counts instructions by stepping, and in no other way.
fn steps(test: &str) -> bool {
    let why = match rdpmc::Counter::open(rdpmc::Event::INSTRUCTIONS) {
        Ok(_) => Some("a counter counts instructions here".to_owned()),
        Err(_) => rdpmc_step::count(1_000, || ()).err().map(|why| why.to_string()),
    };
    why.iter().for_each(|why| skips::skip(test, why));
    why.is_none()
}

/// A count that is the same in all runs of a process, and differs between processes, has a range.
fn other_processes() {
    if !steps("instructions_are_counted_in_other_processes") {
        return;
    }
    let directory = Directory::new("others");
    said(&run_in("differs", &[], &directory.0));
    let json = directory.json("by itself.json");
    let figure = |row: usize| json["rows"][row]["figures"]["stepped-instructions"].clone();
    assert_eq!(figure(1)["verdict"], "exact", "{json}");
    let (low, high) = (figure(0)["low"].as_f64().unwrap(), figure(0)["high"].as_f64().unwrap());
    assert!(low < high && figure(0)["verdict"] != "exact", "{json}");
    assert!(json["rows"][1]["stepped_runs"].as_u64().unwrap() >= 8 * 4, "{json}");
    // Nobody else comes to `run`.
    let output = run_in("locks", &[], &directory.0);
    let text = said(&output);
    assert!(text.contains("one: stepped-instructions: it was counted in 1 process, "), "{text}");
    let why = "one: other processes did not count its instructions: this program was started again and ended before this code (exit status: 101).";
    assert!(text.contains(why), "{text}");
}

/// The other processes end in the first call of `run`. What the program does after it is done once.
fn a_later_run() {
    if !steps("the_first_run_is_stepped_in_other_processes") {
        return;
    }
    let directory = Directory::new("later");
    let output = run_in("twice", &[], &directory.0);
    let text = said(&output);
    let (early, late) = (directory.json("early.json"), directory.json("by itself.json"));
    let figure =
        |json: &serde_json::Value| json["rows"][0]["figures"]["stepped-instructions"].clone();
    assert_eq!(figure(&early)["verdict"], "exact", "{early}");
    assert!(early["rows"][0]["stepped_runs"].as_u64().unwrap() >= 8 * 4, "{early}");
    assert_eq!(figure(&late)["verdict"], "unstable", "{late}");
    let why = "late: other processes did not count its instructions: this program has called `run` before";
    assert!(text.contains(why), "{text}");
    assert_eq!(std::fs::read_to_string(directory.0.join("between")).unwrap(), "once\n");
}

/// Programs whose other processes do not come to `run` by themselves: they remove the environment, or measure in a process of their own.
fn no_process_starts_others() {
    for role in ["removes variables", "starts itself"] {
        let directory = Directory::new("generations");
        let output = run_in(role, &[], &directory.0);
        assert!(output.status.success(), "{output:?}");
        let starts = std::fs::read_to_string(directory.0.join("starts")).unwrap().lines().count();
        // This one, seven others, and for each of them the process in which it measures.
        assert!((8..=16).contains(&starts) || starts == 1 && !can_step(), "{role}: {starts}");
    }
    // Nobody waits for this process any more: it neither measures nor saves.
    let directory = Directory::new("stray");
    let mut command = Command::new(env::current_exe().unwrap());
    command.env(ROLE, "").env(DIRECTORY, &directory.0).env("RDPMC_STEP_AGAIN", "1 3 rdpmc-bench 1");
    let output = command.env_remove("CARGO_MANIFEST_DIR").env_remove("NEXTEST").output().unwrap();
    assert_eq!((said(&output), directory.0.join("by itself.json").exists()), ("", false));
}

fn can_step() -> bool {
    rdpmc::Counter::open(rdpmc::Event::INSTRUCTIONS).is_err()
        && rdpmc_step::count(1_000, || ()).is_ok()
}
