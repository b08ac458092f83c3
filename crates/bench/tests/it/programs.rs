//! Two programs whose rows are measured in turns: copies of this one, which measure what their names say.

use crate::memory::Memory;
use rdpmc::Event;
use rdpmc_bench::{Bench, Limits, Programs, Status};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The test that is a program to compare.
const PROGRAM: &str = "programs::a_program_to_compare";

/// Set by `rdpmc-bench compare`.
const LEADER: &str = "RDPMC_BENCH_LEADER";

/// Measures what the name of its file says. Does nothing in this process.
#[test]
fn a_program_to_compare() {
    if std::env::var_os(LEADER).is_none() {
        return;
    }
    let path = std::env::current_exe().unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let measured = |rows: &[(&str, usize)]| {
        let memory = Memory::new();
        let mut bench = Bench::with_events(&[Event::PAGE_FAULTS]).unwrap();
        bench.time_per_row(Duration::from_millis(5));
        for (row, pages) in rows {
            bench.row(*row).throughput(move || memory.fault(*pages));
        }
        bench
            .row("fenced")
            .latency(|| (0..100).fold(0, |sum: u64, n| std::hint::black_box(sum + n)));
        bench.run()
    };
    match name {
        "five" | "five by command" => drop(measured(&[("faults", 5), ("others", 3)])),
        "one row less" => drop(measured(&[("faults", 4)])),
        "runs twice" | "runs twice here" | "runs twice as another" | "runs twice by a script" => {
            measured(&[("faults", 4)]);
            measured(&[("others", 3)]);
        }
        "two of a name" => drop(measured(&[("faults", 4), ("faults", 5)])),
        "panics later" => {
            measured(&[("faults", 4), ("others", 3)]);
            panic!("as it should");
        }
        "no inputs" | "no inputs either" => {
            let mut bench = Bench::with_events::<Event>(&[]).unwrap();
            bench.time_per_row(Duration::from_millis(5));
            bench.row("others").throughput(|| std::hint::black_box(7));
            bench.row("faults").inputs([0; 0]).throughput(|number| *number);
            bench.run();
        }
        "fewer results" => sent(&["[[]]"]),
        "no figures" => sent(&["[[],[]]"]),
        "measures nothing" => {}
        "starts another" => {
            let mut bench = Bench::with_events::<Event>(&[]).unwrap();
            bench.time_per_row(Duration::from_millis(5));
            let mut is_first = true;
            bench.row("others").throughput(|| {
                if std::mem::take(&mut is_first) {
                    start_another();
                }
            });
            bench.run();
            // Between two runs, and after the last one.
            start_another();
            measured(&[("faults", 4)]);
            start_another();
        }
        "starts another before" => {
            start_another();
            measured(&[("faults", 4)]);
        }
        _ if name.starts_with("status ") => {
            measured(&[("faults", 4)]);
            std::process::exit(name.split(' ').nth(1).unwrap().parse().unwrap());
        }
        "panics" => {
            let mut bench = Bench::with_events::<Event>(&[]).unwrap();
            bench.row("faults").throughput(|| panic!("as it should"));
            bench.run();
        }
        _ => {
            // In another order.
            let results = measured(&[("others", 3), ("faults", 4)]);
            assert_eq!(results.rows().len(), 3);
            assert!(results.row("faults").unwrap().samples() >= 8);
        }
    }
}

/// Starts a program that measures twice, from one that measures.
fn start_another() {
    let path = std::env::current_exe().unwrap().with_file_name("runs twice as another");
    let mut command = Command::new(path);
    let status = command.args(["--exact", PROGRAM]).status().unwrap();
    assert!(status.success(), "{status}");
}

/// Connects as a program with two rows, wants no samples, and sends these lines.
fn sent(lines: &[&str]) {
    let mut leader = UnixStream::connect(std::env::var_os(LEADER).unwrap()).unwrap();
    let hello = r#"{"version":2,"names":["others","faults"]}"#;
    let lines = [&[hello], lines].concat().join("\n");
    leader.write_all(format!("{lines}\n").as_bytes()).unwrap();
    // Until the leader has read them.
    let _ = std::io::copy(&mut leader, &mut std::io::sink());
}

/// Returns a copy of this program with that name.
fn program(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join(name);
    // A link: a file that was written just now may be busy.
    let _ = std::fs::remove_file(&path);
    std::fs::hard_link(std::env::current_exe().unwrap(), &path).unwrap();
    path
}

fn limits() -> Limits {
    Limits::new().accept("page-faults", 0.01).accept("ns", 1e6).allow_unstable()
}

/// The command, which ends with the outcome.
fn command(arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rdpmc-bench"));
    let output = command.args(arguments).output().unwrap();
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), printed)
}

#[test]
fn one_page_fault_more_is_found() {
    let compare = |old: &str, new: &str, limits: Limits| {
        let programs = Programs::new(program(old), program(new)).processes(2);
        let compared = programs.arguments(["--exact", PROGRAM]).compare(&limits).unwrap();
        (compared.comparison().status(), format!("{compared}\n{}", compared.comparison()))
    };
    let (status, text) = compare("four", "four, too", limits());
    assert_eq!(status, Status::Passed, "{text}");
    let (status, text) = compare("four", "five", limits());
    assert_eq!(status, Status::Regressed, "{text}");
    assert!(text.contains("faults, page-faults: 5, was 4 (+1, +25.0000%): regression"), "{text}");
    let head = text.lines().next().unwrap();
    assert!(head.contains("old, ns") && head.ends_with("compared | per operation"), "{text}");
    assert!(text.contains(" old") && text.contains("| fenced\n"), "{text}");
    let (status, text) = compare("five", "four", limits());
    assert_eq!(status, Status::Passed, "{text}");
    // Rows of several runs, and a row that one program does not have.
    let (status, text) = compare("runs twice", "runs twice", limits());
    assert_eq!(status, Status::Passed, "{text}");
    assert!(text.contains("fenced (run 2)"), "{text}");
    let (status, text) = compare("four", "runs twice", limits());
    assert_eq!(status, Status::Incomplete, "{text}");
    assert!(text.contains("fenced (run 2): not in old"), "{text}");
    let (status, text) = compare("four", "one row less", limits());
    assert_eq!(status, Status::Incomplete, "{text}");
    assert!(text.contains("others: not in new"), "{text}");
    let (status, text) = compare("two of a name", "two of a name", limits());
    assert_eq!(status, Status::Incomplete, "{text}");
    assert!(text.contains("two rows have the name faults. Rename one of them"), "{text}");
    let (status, text) = compare("one row less", "four", limits().allow_missing());
    assert_eq!(status, Status::Passed, "{text}");
}

#[test]
fn a_program_that_another_one_starts_measures_alone() {
    program("runs twice as another");
    let compare = |name: &str| {
        let programs = Programs::new(program(name), program(name)).processes(1);
        // `others` does not count page faults.
        let limits = limits().allow_missing();
        programs.arguments(["--exact", PROGRAM]).compare(&limits)
    };
    let compared = compare("starts another").unwrap();
    let text = format!("{compared}\n{}", compared.comparison());
    let names: Vec<&str> = compared.rows().map(|row| row.row.as_str()).collect();
    assert_eq!(names, ["others", "faults", "fenced"], "{text}");
    assert_eq!(compared.comparison().status(), Status::Passed, "{text}");
    let why = compare("starts another before").unwrap_err().to_string();
    assert!(
        why.contains("/starts another before and another program that it starts both measure"),
        "{why}"
    );
}

/// A script starts the program, which runs twice.
#[test]
fn a_program_may_be_started_by_a_script() {
    let twice = program("runs twice by a script").display().to_string();
    let script = format!("'{twice}' --exact {PROGRAM}; exit $?");
    let programs = Programs::new("/bin/sh", "/bin/sh").processes(1).arguments(["-c", &script]);
    let compared = programs.compare(&limits()).unwrap();
    let text = format!("{compared}\n{}", compared.comparison());
    assert_eq!(compared.comparison().status(), Status::Passed, "{text}");
    assert!(text.contains("fenced (run 2)"), "{text}");
}

/// By a gate of the program, or an error of its `main`.
#[test]
fn a_status_that_may_hide_rows_is_reported() {
    let compare = |old: &str, new: &str| {
        let programs = Programs::new(program(old), program(new)).processes(1);
        let programs = programs.arguments(["--exact", PROGRAM]);
        let compared = programs.compare(&limits().allow_missing()).unwrap();
        (compared.comparison().status(), compared.comparison().to_string())
    };
    let rows = "Rows that it did not reach are not compared.";
    // The other program has reached all rows.
    for (old, new) in [("status 0", "status 1"), ("status 1", "status 3"), ("status 3", "status 3")]
    {
        let (status, text) = compare(old, new);
        assert!(status == Status::Passed && !text.contains(rows), "{text}");
    }
    let (status, text) = compare("status 1", "status 1 too");
    assert_eq!(status, Status::Incomplete, "{text}");
    assert!(text.contains(&format!("/status 1 ended with status 1. {rows}")), "{text}");
    assert!(text.contains(&format!("/status 1 too ended with status 1. {rows}")), "{text}");
    // The other one runs twice.
    for name in ["status 1", "status 3"] {
        let (status, text) = compare(name, "runs twice here");
        assert_eq!(status, Status::Incomplete, "{text}");
        assert!(text.contains(&format!("/{name} ended with {name}. {rows}")), "{text}");
        assert!(!text.contains("/runs twice here"), "{text}");
    }
}

#[test]
fn rows_without_figures_are_not_comparable() {
    let compare = |old: &str, new: &str| {
        let programs = Programs::new(program(old), program(new)).processes(1);
        let programs = programs.arguments(["--exact", PROGRAM]);
        let limits = Limits::new().accept("ns", 1e6).allow_unstable().allow_missing();
        let compared = programs.compare(&limits).unwrap();
        (compared.comparison().status(), format!("{compared}\n{}", compared.comparison()))
    };
    let (status, text) = compare("no inputs", "no inputs either");
    assert_eq!(status, Status::Incomplete, "{text}");
    assert!(text.contains("faults: not compared: there are no inputs in old"), "{text}");
    let (status, text) = compare("four without", "no inputs");
    assert_eq!(status, Status::Incomplete, "{text}");
    assert!(text.contains("faults: not compared: there are no inputs in new"), "{text}");
    let (status, text) = compare("four without", "no figures");
    assert_eq!(status, Status::Incomplete, "{text}");
    assert!(
        text.contains("others: not compared: nothing was measured in all processes of new"),
        "{text}"
    );
    let (status, text) = compare("panics", "four again");
    assert_eq!(status, Status::Incomplete, "{text}");
    let line = "faults: not compared: nothing was measured in all processes of old. If its code panicked, the message is above";
    assert!(text.contains(line), "{text}");
}

#[test]
fn programs_that_cannot_be_compared_are_reported() {
    let error = |old: PathBuf, new: PathBuf| {
        let programs = Programs::new(old, new).processes(1);
        let compared = programs.arguments(["--exact", PROGRAM]).compare(&limits());
        let why: Box<dyn std::error::Error + Send + Sync> = Box::new(compared.unwrap_err());
        why.to_string()
    };
    let why = error(program("four again"), program("measures nothing"));
    assert!(
        why.contains("/measures nothing measured nothing, and ended with exit status: 0"),
        "{why}"
    );
    let why = error(program("panics later"), program("four again"));
    assert!(why.contains("/panics later ended with exit status: 101 after some"), "{why}");
    for code in ["2", "42"] {
        let why = error(program("status 0 again"), program(&format!("status {code}")));
        let expected = format!("/status {code} ended with exit status: {code} after some");
        assert!(why.contains(&expected), "{why}");
    }
    let why = error(program("fewer results"), program("four again"));
    assert!(
        why.contains("/fewer results sent the results of 1 instead of 2 pieces of code"),
        "{why}"
    );
    let why = error("/no/such program".into(), program("four again"));
    assert!(why.contains("/no/such program cannot be started: "), "{why}");
    let why = error("/bin/true".into(), "/bin/true".into());
    assert!(why.contains("/bin/true measured nothing"), "{why}");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let help = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rdpmc-bench"));
        command.arg("--help");
        command
    };
    if let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") {
        let output = help().stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.starts_with("rdpmc-bench: cannot write the result: "), "{said}");
    }
    let (reader, closed) = UnixStream::pair().unwrap();
    drop(reader);
    let output = help().stdout(OwnedFd::from(closed)).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

#[test]
fn the_command_checks_its_arguments() {
    let (status, printed) = command(&["compare", "--help"]);
    assert!(status == 0 && printed.contains("Usage: rdpmc-bench compare"), "{printed}");
    for fact in ["in the current directory", "output is\ndiscarded", "fewer than six processes"] {
        assert!(printed.contains(fact), "{printed}");
    }
    for (arguments, why) in [
        (&["contrast"][..], "contrast is not a command"),
        (&["compare", "a"], "compare needs two programs"),
        (&["compare", "a", "b", "c"], "compare needs two programs"),
        (&["compare", "a", "b", "--fast"], "--fast is not an option"),
        (&["compare", "a", "b", "--fast=1"], "--fast takes no value, or is not an option"),
        (&["compare", "a", "b", "--accept"], "--accept needs a value"),
        (&["compare", "a", "b", "--accept", "ns=fast"], "fast is not a percentage"),
        (&["compare", "a", "b", "--processes=0"], "--processes needs a number"),
    ] {
        let (status, printed) = command(arguments);
        assert_eq!(status, 2, "{printed}");
        assert!(printed.starts_with(&format!("rdpmc-bench: {why}")), "{printed}");
    }
    let (status, printed) = command(&["compare", "/bin/true", "/bin/true"]);
    assert_eq!(status, 3, "{printed}");
    // By the command, with a comment as its result.
    let [four, five] =
        ["four by command", "five by command"].map(|name| program(name).display().to_string());
    let arguments =
        ["--processes=1", "--accept=page-faults=1", "--accept", "ns=1000000%", "--markdown"];
    let of = [&["compare", &four, &five][..], &arguments, &["--", "--exact", PROGRAM]];
    let (status, printed) = command(&of.concat());
    assert_eq!(status, 1, "{printed}");
    assert!(printed.starts_with("**Regression.** "), "{printed}");
}
