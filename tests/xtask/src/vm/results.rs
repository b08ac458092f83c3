//! What a machine printed: the scenarios that passed, failed and were skipped.

use super::Task;
use super::machines::Machine;
use std::collections::BTreeSet;

/// The text on a machine's console.
#[derive(Default)]
pub(super) struct Console(String);

impl Console {
    pub(super) fn add(&mut self, line: &[u8]) {
        self.0 += &String::from_utf8_lossy(line);
    }

    /// Returns the guest program's exit status, None if it did not end by itself.
    pub(super) fn guest_status(&self) -> Option<u8> {
        self.0.lines().find_map(|line| line.strip_prefix("guest status ")?.parse().ok())
    }

    /// Checks that exactly the scenarios were skipped that the target lists.
    pub(super) fn check_skips(&self, machine: &Machine, task: &Task) -> Result<(), String> {
        let mut expected: BTreeSet<&str> = machine.skips.iter().map(String::as_str).collect();
        match task {
            Task::Tests | Task::Both => {}
            Task::Only(scenario) => {
                if !self.scenarios().any(|(name, _)| name == scenario) {
                    return Err(format!("there is no scenario {scenario}"));
                }
                expected.retain(|name| name == scenario);
            }
            _ => return Ok(()),
        }
        let skipped = self.scenarios().filter(|(_, result)| result.starts_with("... skipped "));
        let skipped: BTreeSet<&str> = skipped.map(|(name, _)| name).collect();
        if skipped == expected {
            return Ok(());
        }
        let name = &machine.name;
        let mut message =
            format!("{name} skipped other scenarios than tests/vm/targets/{name} expects:");
        for missing in &expected - &skipped {
            message += &format!("\n< {missing} was not skipped");
        }
        for unexpected in &skipped - &expected {
            message += &format!("\n> {unexpected} was skipped");
        }
        Err(message)
    }

    /// Returns the names of the scenarios, and what follows them on their lines.
    fn scenarios(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(' '))
    }
}

/// Numbers of scenarios.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct Sum {
    pub(super) passed: u32,
    pub(super) failed: u32,
    pub(super) skipped: u32,
}

impl Sum {
    pub(super) fn add(&mut self, other: &Sum) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// Returns a machine's last line, for example `vm aarch64: 93 passed, 0 failed, 4 skipped`, and its numbers.
pub(super) fn summary<'a>(name: &str, output: &'a str) -> Option<(&'a str, Sum)> {
    output.lines().find_map(|line| {
        let results = line.strip_prefix("vm ")?.strip_prefix(name)?.strip_prefix(": ")?;
        let numbers = results.split(", ").map(|result| result.split(' ').next()?.parse().ok());
        let mut numbers = numbers.map(|number: Option<u32>| number.unwrap_or(0));
        let (passed, failed) = (numbers.next()?, numbers.next()?);
        Some((line, Sum { passed, failed, skipped: numbers.next()? }))
    })
}

/// Returns the lines of failed scenarios. If there are none, the last line of a machine that did not finish says why.
pub(super) fn failures(name: &str, output: &str) -> String {
    let mut lines: Vec<&str> =
        output.lines().filter(|line| line.contains(" ... FAILED ")).collect();
    if lines.is_empty() {
        lines.extend(output.lines().last());
    }
    let shortened = |line: &&str| line.chars().take(1000).collect::<String>();
    lines.iter().map(|line| format!("{name}: {}\n", shortened(line))).collect()
}

#[cfg(test)]
#[path = "results_tests.rs"]
mod tests;
