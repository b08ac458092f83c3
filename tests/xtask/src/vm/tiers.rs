//! Which machines run for each change: the second table of `.ci/README.md`.

use crate::commands;
use std::fs;

/// A row of the table.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Tier {
    pub(super) machine: String,
    /// Whether `.ci/run` has it. `.ci/whole` has all.
    pub(super) is_for_each_change: bool,
    /// Whether `.ci/run` measures costs there.
    pub(super) has_costs: bool,
}

pub(super) fn load() -> Result<Vec<Tier>, String> {
    let path = commands::root().join(".ci/README.md");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&text)
}

/// Takes the rows `| NAME | TIER | ...` after the heading of the table of machines.
fn parse(text: &str) -> Result<Vec<Tier>, String> {
    let rows = text.lines().skip_while(|line| !line.starts_with("| machine | tier |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let tier = |line: &str| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let machine = cells.next()?.trim_matches('`').to_owned();
        let (is_for_each_change, has_costs) = match cells.next()? {
            "each change, with costs" => (true, true),
            "each change" => (true, false),
            "whole" => (false, false),
            _ => return None,
        };
        Some(Tier { machine, is_for_each_change, has_costs })
    };
    rows.map(|line| tier(line).ok_or_else(|| format!(".ci/README.md: no tier in {line}"))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::vm::machines;
    use std::collections::BTreeSet;

    #[test]
    fn rows_of_machines() {
        let text = "| part | lane |\n|---|---|\n| `a` | b |\n\n| machine | tier | shows |\n|---|---|---|\n\
            | `one` | each change, with costs | x |\n| `two` | whole | y |\n\n| `three` | whole | z |\n";
        let rows = parse(text).unwrap();
        let of = |machine: &str, is_for_each_change, has_costs| Tier {
            machine: machine.to_owned(),
            is_for_each_change,
            has_costs,
        };
        assert_eq!(rows, [of("one", true, true), of("two", false, false)]);
        let why = parse(&text.replace("| whole | y", "| weekly | y")).unwrap_err();
        assert_eq!(why, ".ci/README.md: no tier in | `two` | weekly | y |");
    }

    /// The table has all machines, and one with costs for each column of docs/costs.md.
    #[test]
    fn all_machines_have_a_tier() {
        let rows = load().unwrap();
        let listed: Vec<&str> = rows.iter().map(|row| row.machine.as_str()).collect();
        let unique: BTreeSet<&str> = listed.iter().copied().collect();
        assert_eq!(listed.len(), unique.len(), "{listed:?}");
        assert_eq!(unique.into_iter().collect::<Vec<_>>(), machines::names().unwrap());
        assert_eq!(rows.iter().filter(|row| row.has_costs).count(), 4);
    }
}
