//! Prints what this machine lets a process count, and the remedies for what it does not.

use rdpmc_doctor::diagnose;
use std::io::Write as _;
use std::process::ExitCode;

const USAGE: &str = "\
rdpmc-doctor: do hardware counters work on this machine, what does a read cost, are the counts right?

usage: rdpmc-doctor [--json]

The exit status is
  0  counters are read in user space
  1  counters are read by system call
  2  there are no hardware counters for this process
  3  counters count wrong
 64  the arguments are wrong";

fn main() -> ExitCode {
    let mut as_json = false;
    for argument in std::env::args_os().skip(1) {
        match argument.to_str() {
            Some("--json") => as_json = true,
            Some("--help" | "-h") => {
                print(USAGE);
                return ExitCode::SUCCESS;
            }
            _ => {
                eprintln!("rdpmc-doctor: unknown argument {argument:?}\n\n{USAGE}");
                return ExitCode::from(64);
            }
        }
    }
    // Lets the report read a counter, to check whether the CPU agrees with the settings.
    let contained = rdpmc::contain_faults();
    let report = diagnose();
    let mut text = if as_json { report.to_json() } else { report.to_string() };
    if let (false, Err(why)) = (as_json, contained) {
        text += &format!("\n- faults are not contained: {why}");
    }
    print(&text);
    ExitCode::from(u8::from(report.status()))
}

/// Prints a text. Whoever reads it may have stopped: the exit status tells as much.
fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
