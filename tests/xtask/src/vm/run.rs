//! `tests/vm/run`: one machine, or several, two at a time.

use super::Task;
use super::emulators::boot;
use super::guests::{Built, build};
use super::machines::Machine;
use super::results::{Sum, failures, summary};
use super::tiers;
use crate::lock::Lock;
use crate::{Outcome, USAGE, commands};
use std::cmp::Reverse;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

const HELP: &str = "\
Usage: tests/vm/run TARGET [tests]      all scenarios: one line each, then a summary
       tests/vm/run TARGET only NAME    one scenario
       tests/vm/run TARGET examples     the examples that read counters
       tests/vm/run TARGET doctor       the example `doctor`, under each setting that it can report
       tests/vm/run TARGET names        event names, compared with perf's interpretation (x86-64)
       tests/vm/run TARGET cost [PROFILE]
                                        instructions per operation; PROFILE is one of tests/vm/Cargo.toml:
                                        release, two (opt-level 2), small (z) or dev
       tests/vm/run TARGET criterion    criterion with counters and with the clock, and benches/reads.rs
       tests/vm/run TARGET both         costs, then scenarios, in one boot
       tests/vm/run all [tests | cost | both]
                                        the same for all targets, two at a time
       tests/vm/run each both           for those of each change, by .ci/README.md: scenarios, and costs on four of them
       tests/vm/run rest both           for the others: scenarios, and costs
A target is a file in tests/vm/targets. The exit status is 0 if no scenario failed, and the skipped ones are exactly
those that the target lists.";

/// How many of several machines run at the same time.
const AT_A_TIME: usize = 2;

pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let Some((target, task, profile)) = request(arguments) else {
        eprintln!("{HELP}");
        return Ok(USAGE);
    };
    commands::enter_root()?;
    match Set::named(target) {
        Some(set) => several(set, &task, profile, &mut io::stdout()),
        None => one(target, &task, profile),
    }
}

/// Returns the output of `tests/vm/run all cost`, as an error if it fails.
pub(crate) fn all_costs() -> Result<String, String> {
    let mut costs = Vec::new();
    let status = several(Set::All, &Task::Cost, "release", &mut costs)?;
    let costs = String::from_utf8_lossy(&costs).into_owned();
    if status == 0 { Ok(costs) } else { Err(costs) }
}

/// Returns the target, what the guest does there, and the profile of the guest's build.
fn request<'a>(arguments: &[&'a str]) -> Option<(&'a str, Task, &'a str)> {
    let (task, profile) = match arguments {
        [_] | [_, "tests"] => (Task::Tests, "release"),
        [_, "cost"] => (Task::Cost, "release"),
        [_, "cost", profile @ ("release" | "two" | "small" | "dev")] => (Task::Cost, *profile),
        [_, "only", scenario] => (Task::Only((*scenario).to_owned()), "release"),
        [_, "examples"] => (Task::Examples, "release"),
        [_, "doctor"] => (Task::Doctor, "release"),
        [_, "names"] => (Task::Names, "release"),
        [_, "both"] => (Task::Both, "release"),
        [_, "criterion"] => (Task::Criterion, "release"),
        _ => return None,
    };
    let target = *arguments.first()?;
    let is_possible = match Set::named(target) {
        Some(Set::All) => task.has_scenarios() || task.has_costs(),
        Some(_) => task == Task::Both,
        None => true,
    };
    is_possible.then_some((target, task, profile))
}

/// Machines that run together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Set {
    All,
    /// Those of each change.
    Each,
    /// The others.
    Rest,
}

impl Set {
    fn named(target: &str) -> Option<Set> {
        match target {
            "all" => Some(Set::All),
            "each" => Some(Set::Each),
            "rest" => Some(Set::Rest),
            _ => None,
        }
    }
}

fn load(target: &str, profile: &str) -> Result<Machine, String> {
    let mut machine = Machine::load(target)?;
    // The limits on costs hold for the builds for speed only.
    if matches!(profile, "small" | "dev") {
        machine.facts.insert(0, "limits=none".to_owned());
    }
    Ok(machine)
}

/// Prepares the Debian. Returns the lock of all runs. Several machines have it for themselves, and runs of one machine share it.
fn prepare(is_for_several: bool) -> Result<Lock, String> {
    commands::succeed(&mut commands::script("prepare"), "the Debian cannot be prepared")?;
    let path = commands::machines_directory().join("run.lock");
    let waiting = || eprintln!("tests/vm/run: waiting for another run");
    if is_for_several { Lock::take(&path, waiting) } else { Lock::share(&path, waiting) }
}

/// Takes the lock of a target, which has one image and one log. Different targets boot side by side.
fn lock(machine: &Machine) -> Result<Lock, String> {
    Lock::take(&commands::machines_directory().join(format!("{}.lock", machine.name)), || {})
}

fn one(target: &str, task: &Task, profile: &str) -> Outcome {
    let machine = load(target, profile)?;
    if *task == Task::Cost && !machine.has_costs() {
        return Err("costs are measured on targets with one processor".to_owned());
    }
    let runs = prepare(false)?;
    let lock = lock(&machine)?;
    build(&machine, task, profile, &lock, &mut Built::new())?;
    drop(runs);
    boot(&machine, task, &lock, &mut io::stdout())
}

/// One of several machines that has ended.
struct Ended {
    name: String,
    task: Task,
    status: u8,
    /// The file with its console and the message of a failure.
    output: PathBuf,
    seconds: u64,
}

fn several(set: Set, task: &Task, profile: &str, output: &mut dyn Write) -> Outcome {
    let mut machines = Vec::new();
    for tier in tiers::load()? {
        let machine = load(&tier.machine, profile)?;
        let has_costs =
            machine.has_costs() && !machine.is_for_topdown() && machine.reads_from_user_space();
        // What remains for `rest`: machines, and costs of the machines for which `each` leaves them out.
        let has_costs = has_costs && (set != Set::Each || tier.has_costs);
        match (set, tier.is_for_each_change) {
            (Set::All, _) | (Set::Each, true) | (Set::Rest, false) => {}
            (Set::Rest, true) if has_costs && !tier.has_costs => {
                machines.push((machine, Task::Cost));
                continue;
            }
            _ => continue,
        }
        match task {
            Task::Both if !has_costs => machines.push((machine, Task::Tests)),
            Task::Cost if !has_costs => {}
            task => machines.push((machine, task.clone())),
        }
    }
    // Those that take the longest come first, so that no emulator is left alone at the end.
    machines.sort_by_key(|(machine, _)| Reverse(machine.reads()));
    // Until the end, so that other runs wait.
    let _runs = prepare(true)?;
    let (mut locked, mut done) = (Vec::new(), Built::new());
    for (machine, task) in machines {
        let lock = lock(&machine)?;
        build(&machine, &task, profile, &lock, &mut done)?;
        locked.push((machine, task, lock));
    }
    let begun = Instant::now();
    let mut results = Results::default();
    let (sender, ended) = channel();
    let mut running = 0;
    for (machine, task, lock) in locked {
        if running == AT_A_TIME {
            results.take(&ended, output)?;
            running -= 1;
        }
        let sender = sender.clone();
        // If this program ends early, its threads end, and with them their emulators.
        thread::spawn(move || {
            // The receiver is gone only if the program ends.
            let _ = sender.send(boot_into_file(&machine, task, &lock));
            drop(lock);
        });
        running += 1;
    }
    for _ in 0..running {
        results.take(&ended, output)?;
    }
    results.print(task, output).map_err(|error| format!("the results: {error}"))?;
    eprintln!("in {} s after the builds", begun.elapsed().as_secs());
    Ok((results.sum.failed != 0).into())
}

fn boot_into_file(machine: &Machine, task: Task, lock: &Lock) -> Result<Ended, String> {
    let begun = Instant::now();
    let path =
        commands::machines_directory().join(format!("{}.{}.output", machine.name, task.name()));
    let failure = |error| format!("{}: {error}", path.display());
    let mut file = File::create(&path).map_err(failure)?;
    let status = match boot(machine, &task, lock, &mut file) {
        Ok(status) => status,
        Err(message) => {
            writeln!(file, "tests/vm/run: {message}").map_err(failure)?;
            1
        }
    };
    let seconds = begun.elapsed().as_secs();
    Ok(Ended { name: machine.name.clone(), task, status, output: path, seconds })
}

#[derive(Default)]
struct Results {
    sum: Sum,
    /// The failures again for the end, because a log may be shortened.
    failures: String,
}

impl Results {
    /// Waits for a machine and prints its result, or its whole output if it failed.
    fn take(
        &mut self,
        ended: &Receiver<Result<Ended, String>>,
        output: &mut dyn Write,
    ) -> Result<(), String> {
        let ended = ended.recv().map_err(|error| error.to_string())??;
        let name = &ended.name;
        let failure = |error| format!("{name}: {error}");
        let said = fs::read(&ended.output).map_err(failure)?;
        let text = String::from_utf8_lossy(&said);
        let summary = ended.task.has_scenarios().then(|| summary(name, &text)).flatten();
        let mut result = Vec::new();
        if ended.status == 0 {
            if let Some((line, _)) = &summary {
                result.extend(format!("{line} in {} s\n", ended.seconds).bytes());
            }
            let is_cost = |line: &&str| ended.task.has_costs() && line.starts_with("cost");
            for cost in text.lines().filter(is_cost) {
                result.extend(format!("{name}: {cost}\n").bytes());
            }
        } else {
            result.extend(format!("{name}, exit status {}:\n", ended.status).bytes());
            result.extend(&said);
            self.failures += &failures(name, &text);
        }
        output.write_all(&result).and_then(|()| output.flush()).map_err(failure)?;
        let mut sum = summary.map(|(_, sum)| sum).unwrap_or_default();
        // A machine that did not finish, or skipped other scenarios than expected, counts as one failure.
        if ended.status != 0 {
            sum.failed = sum.failed.max(1);
        }
        self.sum.add(&sum);
        Ok(())
    }

    fn print(&self, task: &Task, output: &mut dyn Write) -> io::Result<()> {
        output.write_all(self.failures.as_bytes())?;
        let Sum { passed, failed, skipped } = self.sum;
        if task.has_scenarios() {
            writeln!(output, "vm all: {passed} passed, {failed} failed, {skipped} skipped")
        } else if failed != 0 {
            writeln!(output, "cost failed on {failed} targets")
        } else {
            Ok(())
        }
    }
}
