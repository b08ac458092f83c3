//! The table in docs/costs.md, from the costs measured in the emulated machines.

use crate::{Outcome, USAGE, commands, vm};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const HELP: &str = "\
Usage: tests/vm/table [FILE]          writes the table in docs/costs.md
       tests/vm/table check [FILE]    fails if docs/costs.md differs
       tests/vm/table check-some FILE the same, for the output of fewer machines: one for each column
FILE is the output of `tests/vm/run all cost`. Without FILE, the program runs that command.";

/// The columns' targets.
const COLUMNS: [&str; 4] = ["x86_64-intel", "aarch64", "aarch64-v8.0", "riscv64"];
/// Targets that must have the costs of a column's target.
const EQUAL: &[(&str, &[&str])] = &[
    (
        "x86_64-intel",
        &[
            "x86_64-intel-5.10",
            "x86_64-intel-6.1",
            "x86_64-intel-7",
            "x86_64-intel-hidden",
            "x86_64-amd",
            "x86_64-amd-5.10",
            "x86_64-amd-7",
        ],
    ),
    ("aarch64", &["aarch64-6.1", "aarch64-7"]),
    ("riscv64", &["riscv64-7"]),
];
const BEGIN: &str = "<!-- written by tests/vm/table -->";
const END: &str = "<!-- to here -->";

pub(crate) fn table(arguments: &[&str]) -> Outcome {
    let (check, has_all, file) = match arguments {
        [] => (false, true, None),
        ["check"] => (true, true, None),
        ["check", file] => (true, true, Some(file)),
        ["check-some", file] => (true, false, Some(file)),
        [file] => (false, true, Some(file)),
        _ => {
            eprintln!("{HELP}");
            return Ok(USAGE);
        }
    };
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let measured = file.map(|file| read(file)).transpose()?;
    commands::enter_root()?;
    let measured = match measured {
        Some(measured) => measured,
        None => vm::all_costs()?,
    };
    let costs = Costs::parse(&measured);
    costs.check(has_all)?;
    let document = Path::new("docs/costs.md");
    let written = insert(&read("docs/costs.md")?, &costs.rows())?;
    if check {
        check_rustdoc(&costs, &read)?;
        let difference = commands::difference(document, &written)?;
        if !difference.is_empty() {
            eprint!("{difference}");
            return Err(
                "docs/costs.md differs from what was measured: run tests/vm/table".to_owned()
            );
        }
    } else {
        // A reader of the document sees the old one or the new one.
        let new = Path::new("docs/costs.md.new");
        fs::write(new, written)
            .and_then(|()| fs::rename(new, document))
            .map_err(|error| format!("docs/costs.md: {error}"))?;
    }
    Ok(0)
}

/// The costs that the rustdoc of a file states.
const IN_RUSTDOC: [(&str, &str); 6] = [
    ("read_user", "src/counter/counter.rs"),
    ("reading", "src/counter/counter.rs"),
    ("group4", "src/counter/group.rs"),
    ("snapshot4", "src/counter/group.rs"),
    ("region", "src/region/mod.rs"),
    ("clock_now", "src/clock/mod.rs"),
];

/// Fails if the rustdoc states other costs than those measured.
fn check_rustdoc(
    costs: &Costs<'_>,
    read: &dyn Fn(&str) -> Result<String, String>,
) -> Result<(), String> {
    for (name, file) in IN_RUSTDOC {
        let sentence = costs.sentence(name);
        // A sentence may go over several lines of a comment.
        let text = read(file)?;
        let words = text.split_whitespace().filter(|word| !word.starts_with("//"));
        if !words.collect::<Vec<_>>().join(" ").contains(&sentence) {
            return Err(format!("{file} does not state the cost of {name}: {sentence}"));
        }
    }
    Ok(())
}

struct Cost<'a> {
    target: &'a str,
    name: &'a str,
    instructions: &'a str,
}

struct Costs<'a>(Vec<Cost<'a>>);

impl<'a> Costs<'a> {
    /// Takes the lines `TARGET: cost NAME INSTRUCTIONS` and leaves out others.
    fn parse(measured: &'a str) -> Costs<'a> {
        let parse_line = |line: &'a str| {
            let (target, cost) = line.split_once(": cost ")?;
            let mut words = cost.split_whitespace();
            Some(Cost { target, name: words.next()?, instructions: words.next()? })
        };
        Costs(measured.lines().filter_map(parse_line).collect())
    }

    fn of(&self, target: &str, name: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|cost| cost.target == target && cost.name == name);
        found.map(|cost| cost.instructions)
    }

    /// Returns the target that stands for a column: its own, or another that must have the same costs, if only that was measured.
    fn target_of(&self, column: &'a str) -> &'a str {
        let equals = EQUAL.iter().filter(|(shown, _)| *shown == column);
        let mut targets = equals.flat_map(|(_, others)| others.iter().copied());
        let is_measured = |target: &str| !self.ours(target).is_empty();
        match is_measured(column) {
            true => column,
            false => targets.find(|target| is_measured(target)).unwrap_or(column),
        }
    }

    /// Returns the names of the library's own costs on a target.
    fn ours(&self, target: &str) -> BTreeSet<&'a str> {
        let ours = self.0.iter().filter(|cost| cost.target == target && !is_peers(cost.name));
        ours.map(|cost| cost.name).collect()
    }

    /// Returns the words for a cost, as rustdoc has them.
    fn sentence(&self, name: &str) -> String {
        let [x86_64, arm64, narrow, riscv64] =
            COLUMNS.map(|column| self.of(self.target_of(column), name).unwrap_or("none"));
        // The clock has no width of counters.
        let narrow = match name {
            "clock_now" => String::new(),
            _ => format!(" ({narrow} with 32-bit counters)"),
        };
        format!("{x86_64} instructions on x86-64, {arm64} on arm64{narrow}, {riscv64} on riscv64")
    }

    /// Fails if a column has no costs, or if a target differs from the column that stands for it.
    fn check(&self, has_all: bool) -> Result<(), String> {
        for column in COLUMNS {
            if self.ours(self.target_of(column)).is_empty() {
                return Err(format!("no costs of {column}"));
            }
        }
        for (shown, others) in EQUAL {
            let shown = &self.target_of(shown);
            for other in *others {
                if !has_all && self.ours(other).is_empty() {
                    continue;
                }
                let names = &self.ours(shown) | &self.ours(other);
                let mut differences = String::new();
                for name in names {
                    let costs =
                        [shown, other].map(|target| self.of(target, name).unwrap_or("none"));
                    if costs[0] != costs[1] {
                        differences +=
                            &format!("\n{name}: {} on {shown}, {} on {other}", costs[0], costs[1]);
                    }
                }
                if !differences.is_empty() {
                    return Err(format!(
                        "{other} costs differ from those of {shown}:{differences}"
                    ));
                }
            }
        }
        Ok(())
    }

    fn rows(&self) -> String {
        let mut rows = "\
| | x86-64 | arm64, 64-bit counters | arm64, 32-bit counters | riscv64 |
|---|---:|---:|---:|---:|
"
        .to_owned();
        let mut names: Vec<&str> = Vec::new();
        let targets = COLUMNS.map(|column| self.target_of(column));
        for target in targets {
            for cost in self.0.iter().filter(|cost| cost.target == target) {
                if !names.contains(&cost.name) {
                    names.push(cost.name);
                }
            }
        }
        // The library's operations first. The sort keeps the order of equal ones.
        names.sort_by_key(|name| is_peers(name));
        for name in names {
            rows += &format!("| {} |", label(name));
            for target in targets {
                match self.of(target, name) {
                    Some(instructions) => rows += &format!(" {instructions} |"),
                    None => rows += " |",
                }
            }
            rows += "\n";
        }
        rows
    }
}

/// Whether a cost is one of another library.
fn is_peers(name: &str) -> bool {
    name.starts_with("peer:")
}

/// Returns the words for the name of a cost.
fn label(name: &str) -> String {
    let unordered = name.strip_prefix("ordered_");
    let large = name.strip_prefix("large_");
    let operation = unordered.unwrap_or(name);
    let operation = operation.strip_prefix("large_").unwrap_or(operation);
    let number = |prefix: &str| operation.strip_prefix(prefix).filter(|rest| is_number(rest));
    let mut label = if let Some(peer) = operation.strip_prefix("peer:") {
        let (library, function) = peer.split_once(':').unwrap_or((peer, peer));
        let makes_a_call = matches!(function, "read" | "read(2)");
        let call = if makes_a_call { ", and a system call" } else { "" };
        format!("{library}: `{function}`{call}")
    } else if let Some(size) = number("group") {
        format!("`Group::<{size}>::read_user`")
    } else if let Some(size) = number("snapshot") {
        format!("`Group::<{size}>::snapshot`")
    } else if let Some(counters) = number("span") {
        format!("a span with {counters} counters")
    } else if let Some(counters) = number("lap") {
        format!("a lap with {counters} counters")
    } else if let Some(function) = operation.strip_prefix("clock_") {
        format!("`Clock::{function}`")
    } else {
        match operation {
            "region" => "inside an empty region".to_owned(),
            "group4_region" => {
                "inside an empty region of four, seen by its first counter".to_owned()
            }
            "group4_region_last" => "and seen by its last".to_owned(),
            "span" => "a span, time only".to_owned(),
            "span_off" => "a span that is off".to_owned(),
            "reading" => "`Counter::reading`, with enabled and running time".to_owned(),
            function => format!("`Counter::{function}`"),
        }
    };
    if unordered.is_some() {
        label += ", ordered";
    }
    if large.is_some() {
        label += ", from a large function";
    }
    label
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the document with other rows between the marks.
fn insert(document: &str, rows: &str) -> Result<String, String> {
    let marks: Vec<&str> = document.lines().filter(|line| [BEGIN, END].contains(line)).collect();
    if marks != [BEGIN, END] {
        return Err(format!("docs/costs.md needs these two lines, once: {BEGIN} {END}"));
    }
    let mut written = String::new();
    let mut is_inside = false;
    for line in document.lines() {
        is_inside &= line != END;
        if !is_inside {
            written += line;
            written += "\n";
        }
        if line == BEGIN {
            written += rows;
            is_inside = true;
        }
    }
    Ok(written)
}

#[cfg(test)]
#[path = "costs_tests.rs"]
mod tests;
