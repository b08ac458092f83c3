//! Prints what this machine lets a process count, and the remedies for what it does not.

mod waiting;

use rdpmc_doctor::diagnose;
use std::io::Write as _;
use std::process::ExitCode;
use waiting::Waiting;

const USAGE: &str = "\
rdpmc-doctor: do hardware counters work on this machine, what does a read cost, are the counts right?

usage: rdpmc-doctor [--json]
       rdpmc-doctor events [WORD...]    lists this CPU's events that have all words in name or description

The exit status is
  0  counters are read in user space
  1  counters are read by system call
  2  there are no hardware counters for this process
  3  counters count wrong
 64  the arguments are wrong
of `events`, 0 if one of them can be opened, or 2";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == "events") {
        let words: Vec<_> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
        if let Some(option) = words.iter().find(|word| word.starts_with('-')) {
            eprintln!("rdpmc-doctor: unknown argument {option:?}\n\n{USAGE}");
            return ExitCode::from(64);
        }
        return match rdpmc_doctor::list_events(&words.join(" ")) {
            Ok(list) => {
                print(list.to_string().trim_end());
                let can_count = list.events.iter().any(|(_, why_not)| why_not.is_none());
                ExitCode::from(if can_count { 0 } else { 2 })
            }
            Err(why) => {
                eprintln!("rdpmc-doctor: {why}");
                ExitCode::from(2)
            }
        };
    }
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
    let waiting = Waiting::new("testing the counters");
    let report = diagnose();
    drop(waiting);
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
