//! What `Bench::run` does: what the arguments of the program ask for.

use super::progress::Progress;
use super::run;
use crate::arguments::{self, Action, Arguments};
use crate::judging::row::Row;
use crate::output::results::Results;
use crate::plan::Plan;
use crate::sampling::guard::panic_of;
use rdpmc_report::gate::Status;
use rdpmc_report::gate::cells::plain;
use std::io::{Write, stderr, stdout};
use std::path::Path;
use std::process::exit;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// The status of a program that panicked.
const PANICKED: i32 = 101;

pub(crate) fn run(mut plan: Plan<'_>) -> Results {
    let arguments = match plan.reads_arguments && arguments::is_of_program() {
        true => Arguments::of_this_process(),
        false => Ok(Arguments::default()),
    };
    let arguments = arguments.unwrap_or_else(|why| {
        say(&format!(
            "{why}. `--help` prints the options. If the program has arguments of its own, call `Bench::ignore_arguments`"
        ));
        exit(i32::from(Status::USAGE))
    });
    let has_rows = !plan.entries.is_empty();
    plan.entries.retain(|entry| arguments.choose(&entry.name));
    if has_rows && plan.entries.is_empty() && arguments.may_choose() {
        say(
            "no row has such a name. `--list` prints the names. If the program has arguments of its own, call `Bench::ignore_arguments`",
        );
    }
    match arguments.action {
        Action::Help => print_and_end(arguments::HELP),
        Action::List => {
            let lines: Vec<String> = plan
                .entries
                .iter()
                .map(|entry| format!("{}: benchmark\n", plain(&entry.name)))
                .collect();
            let end = match arguments.is_terse {
                true => String::new(),
                false => format!("\n0 tests, {} benchmarks\n", lines.len()),
            };
            print_and_end(&format!("{}{end}", lines.concat()))
        }
        Action::Test => test(plan),
        Action::Measure => {
            plan.shows_functions |= arguments.shows_functions;
            let parent = arguments.save.as_ref().and_then(|path| path.parent());
            let is_there = |parent: &&Path| parent.as_os_str().is_empty() || parent.is_dir();
            if let Some(parent) = parent.filter(|parent| !is_there(parent)) {
                say(&format!(
                    "there is no directory {}. Make it before the results are saved there",
                    parent.display()
                ));
                exit(i32::from(Status::USAGE))
            }
            let results =
                Results { format: arguments.format, ..run::run(plan, &mut Progress::new()) };
            let path = arguments.save.as_ref().filter(|_| !results.rows.is_empty());
            let saved = path.map(|path| (path.display(), save(&results, path)));
            if let Some((path, Err(why))) = saved {
                say(&format!("{path} cannot be written: {why}"));
                exit(i32::from(Status::USAGE))
            }
            results
        }
    }
}

/// Prints a message about the arguments.
fn say(text: &str) {
    let _ = writeln!(stderr(), "rdpmc-bench: {text}.");
}

/// Saves the results of `--save`.
fn save(results: &Results, path: &Path) -> Result<(), String> {
    static IS_SAVED: AtomicBool = AtomicBool::new(false);
    if results.are_kept && IS_SAVED.swap(true, Relaxed) {
        return Err(
            "this program calls `Bench::run` more than once. Call `Results::save` for each".into(),
        );
    }
    let why = |why: std::io::Error| format!("{why}. Its directory must exist and be writable");
    results.save(path).map_err(why)
}

fn print_and_end(text: &str) -> ! {
    let mut output = stdout().lock();
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    exit(0)
}

/// Runs each row once. Ends the program if one panics.
fn test(plan: Plan<'_>) -> Results {
    let (mut rows, mut has_panicked) = (Vec::new(), false);
    for entry in plan.entries {
        let name = entry.name;
        let panic = entry.code.and_then(|mut code| {
            panic_of(|| {
                code.prepare();
                let once = code.multiple();
                code.work(once);
            })
            .err()
        });
        let outcome = match &panic {
            None => "ok".to_owned(),
            Some(message) => format!("FAILED: {}", plain(message)),
        };
        let _ = writeln!(stdout(), "test {} ... {outcome}", plain(&name));
        has_panicked |= panic.is_some();
        rows.push(Row { panicked: panic, ..Row::empty(name) });
    }
    if has_panicked {
        exit(PANICKED);
    }
    let results = Results::new(plan.events, plan.missing, rows, Vec::new(), plan.scope);
    Results { are_kept: false, ..results }
}
