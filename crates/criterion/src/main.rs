//! Compares two saved baselines. The exit status says what changed.

#![forbid(unsafe_code)]

use rdpmc_criterion::Gate;
use std::ffi::OsString;
use std::io::{Write, stderr, stdout};
use std::process::{ExitCode, Termination};

const USAGE: &str = "\
Compares the counts of two baselines that `cargo bench -- --save-baseline NAME` has saved.

Usage: rdpmc-criterion [OPTIONS] BASELINE [NEW]

  BASELINE               the name of the earlier results
  NEW                    the name of the later results: by default `new`, the last run
  --gate EVENT[=PERCENT] gate on this event as well as on instructions and branches, and accept changes of up to PERCENT
  --home DIRECTORY       criterion's directory (default: CRITERION_HOME, or target/criterion)

Exit status: 0 nothing changed, 1 regression, 2 wrong arguments, 3 improvement, 4 a run had no counters, 5 the runs were on
different processors, 6 something is missing (a benchmark, an event, a baseline).
";

fn main() -> ExitCode {
    let (said, status) = match gate(std::env::args_os().skip(1)) {
        Ok(Some(gate)) => {
            let comparison = gate.compare();
            (comparison.to_string(), comparison.report())
        }
        Ok(None) => (USAGE.to_owned(), ExitCode::SUCCESS),
        Err(why) => {
            let _ = write!(stderr(), "{why}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    // Whoever reads this may have ended. The status remains.
    let _ = stdout().write_all(said.as_bytes());
    status
}

/// Returns the gate of these arguments. None to print the usage.
fn gate(arguments: impl Iterator<Item = OsString>) -> Result<Option<Gate>, String> {
    let text = |argument: OsString| {
        argument.into_string().map_err(|argument| format!("{argument:?} is not UTF-8"))
    };
    let mut arguments = arguments.map(text).collect::<Result<Vec<String>, String>>()?.into_iter();
    let (mut names, mut events, mut home) = (Vec::new(), Vec::new(), None);
    while let Some(argument) = arguments.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) if name.starts_with("--") => {
                (name.to_owned(), Some(value.to_owned()))
            }
            _ => (argument.clone(), None),
        };
        let value = || value.or_else(|| arguments.next()).ok_or(format!("{name} needs a value"));
        match name.as_str() {
            "--help" | "-h" => return Ok(None),
            "--gate" => events.push(value()?),
            "--home" => home = Some(value()?),
            option if option.starts_with('-') => return Err(format!("{option} is not an option")),
            _ => names.push(argument),
        }
    }
    let mut gate = match names.as_slice() {
        [baseline] => Gate::new(baseline, "new"),
        [baseline, new] => Gate::new(baseline, new),
        [] => return Err("the name of a baseline is missing".into()),
        _ => return Err("there are more than two names".into()),
    };
    for event in events {
        // The name of an event may have a `=`, too.
        let (name, percent) = match event.rsplit_once('=') {
            Some((name, percent)) if !percent.contains('/') => (name, Some(percent)),
            _ => (event.as_str(), None),
        };
        let Some(percent) = percent else {
            gate = gate.event(name, None);
            continue;
        };
        gate = match percent.trim_end_matches('%').parse::<f64>() {
            Ok(percent) if percent >= 0.0 => gate.event(name, percent / 100.0),
            _ => return Err(format!("{percent} is not a percentage")),
        };
    }
    Ok(Some(home.into_iter().fold(gate, Gate::home)))
}
