//! Compares two programs that measure with `rdpmc-bench`. The exit status says whether the new one is worse.

#![forbid(unsafe_code)]

use rdpmc_bench::Status;
#[cfg(unix)]
use rdpmc_bench::{Limits, Programs};
#[cfg(unix)]
use std::ffi::OsString;
#[cfg(unix)]
use std::io::{ErrorKind, stdout};
use std::io::{Write, stderr};
use std::process::ExitCode;

#[cfg(unix)]
const USAGE: &str = "\
Runs two builds of a benchmark as one experiment. Both measure with `Bench::run` of `rdpmc-bench`.
Their rows are measured in turns.

Usage: rdpmc-bench compare [OPTIONS] OLD NEW [-- ARGUMENTS]

  OLD, NEW                 two programs. `cargo bench --no-run` prints the path of the one that it builds
  ARGUMENTS                what both programs get

  --processes NUMBER       start each program NUMBER times (default: 8). Each process places its memory elsewhere.
                           The intervals of fewer than six processes do not cover the placement
  --accept FIGURE=PERCENT  compare FIGURE (page-faults, ...), and accept growth of up to PERCENT
  --allow-missing          accept rows and figures that only one program has
  --allow-unstable         accept figures that are too unstable to compare
  --markdown               print a comment for a pull request: the worst first, unchanged figures folded

Instructions and branches may not grow, if both figures are exact, or by 0.001 %. The time and the cycles may grow by
1 %. Another limit replaces it: `--accept ns=0.5%`. Other figures are compared only if they are named.

The programs run in the current directory. `cargo bench` runs them in that of the package. Their standard output is
discarded. A script may start the program that measures. Programs that this one starts measure alone, and are not
compared. A program may end with status 0, or with 1 or 3 by a gate of its own.

It waits until both programs have ended. Names of rows must be unique.

Exit status: 0 nothing is worse, 1 regression, 2 wrong arguments, 3 not all could be compared.
";

#[cfg(not(unix))]
fn main() -> ExitCode {
    let _ = writeln!(stderr(), "rdpmc-bench: compare needs Unix sockets.");
    ExitCode::from(Status::USAGE)
}

#[cfg(unix)]
fn main() -> ExitCode {
    let (said, status) = match Arguments::parse(std::env::args_os().skip(1)) {
        Ok(Some(arguments)) => match arguments.programs.compare(&arguments.limits) {
            Ok(compared) => {
                let comparison = compared.comparison();
                let said = match arguments.is_markdown {
                    true => comparison.markdown(),
                    false => format!("{compared}\n{comparison}"),
                };
                (said, comparison.status().code())
            }
            Err(why) => {
                let _ = writeln!(stderr(), "rdpmc-bench: {why}.");
                return ExitCode::from(Status::Incomplete.code());
            }
        },
        Ok(None) => (USAGE.to_owned(), 0),
        Err(why) => {
            let _ = write!(stderr(), "rdpmc-bench: {why}.\n\n{USAGE}");
            return ExitCode::from(Status::USAGE);
        }
    };
    let written = stdout().write_all(said.as_bytes()).and_then(|()| stdout().flush());
    match written {
        // Whoever closed a pipe has read enough.
        Err(why) if why.kind() != ErrorKind::BrokenPipe => {
            let _ = writeln!(stderr(), "rdpmc-bench: cannot write the result: {why}.");
            ExitCode::from(if status == 0 { Status::Incomplete.code() } else { status })
        }
        _ => ExitCode::from(status),
    }
}

#[cfg(unix)]
struct Arguments {
    programs: Programs,
    limits: Limits,
    is_markdown: bool,
}

#[cfg(unix)]
impl Arguments {
    /// Reads the arguments. None to print the usage.
    fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Option<Arguments>, String> {
        match arguments.next().as_deref().and_then(|first| first.to_str()) {
            Some("compare") => {}
            Some("--help" | "-h") => return Ok(None),
            None => return Err("a command is missing".into()),
            Some(other) => return Err(format!("{other} is not a command")),
        }
        let (mut paths, mut limits, mut is_markdown) = (Vec::new(), Limits::new(), false);
        let (mut processes, mut passed) = (8, Vec::new());
        while let Some(argument) = arguments.next() {
            let text = argument.to_str().unwrap_or_default();
            if text == "--" {
                passed = arguments.collect();
                break;
            }
            if !text.starts_with('-') {
                paths.push(argument);
                continue;
            }
            let (name, given) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (text, None),
            };
            if given.is_some() && !matches!(name, "--accept" | "--processes") {
                return Err(format!("{name} takes no value, or is not an option"));
            }
            let mut value = || {
                let next = || arguments.next()?.into_string().ok();
                given.clone().or_else(next).ok_or(format!("{name} needs a value"))
            };
            match name {
                "--help" | "-h" => return Ok(None),
                "--processes" => match value()?.parse() {
                    Ok(number @ 1..=10_000) => processes = number,
                    _ => return Err("--processes needs a number from 1 to 10000".into()),
                },
                "--accept" => limits = limits.accept_argument(&value()?)?,
                "--allow-missing" => limits = limits.allow_missing(),
                "--allow-unstable" => limits = limits.allow_unstable(),
                "--markdown" => is_markdown = true,
                option => return Err(format!("{option} is not an option")),
            }
        }
        let Ok([old, new]) = <[OsString; 2]>::try_from(paths) else {
            return Err("compare needs two programs".into());
        };
        let programs = Programs::new(old, new).processes(processes).arguments(passed);
        Ok(Some(Arguments { programs, limits, is_markdown }))
    }
}
