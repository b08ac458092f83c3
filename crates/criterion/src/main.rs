//! Compares two saved baselines. The exit status says what changed.

#![forbid(unsafe_code)]

use rdpmc_criterion::Gate;
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
    let gate = match gate(std::env::args().skip(1)) {
        Ok(Some(gate)) => gate,
        Ok(None) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprint!("{why}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let comparison = gate.compare();
    print!("{comparison}");
    comparison.report()
}

/// Returns the gate of these arguments. None to print the usage.
fn gate(mut arguments: impl Iterator<Item = String>) -> Result<Option<Gate>, String> {
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
        gate = match event.split_once('=') {
            None => gate.event(&event, None),
            Some((event, percent)) => match percent.trim_end_matches('%').parse::<f64>() {
                Ok(percent) if percent >= 0.0 => gate.event(event, percent / 100.0),
                _ => return Err(format!("{percent} is not a percentage")),
            },
        };
    }
    Ok(Some(home.into_iter().fold(gate, Gate::home)))
}
