//! The targets: shell files in `tests/vm/targets`, which set variables.

use crate::commands;
use std::fs;
use std::str::FromStr;

/// Prints the variables of a target, each list after its length.
const PRINT: &str = r#"
set -euo pipefail
vm=$1 own_emulator='' peers='' device_tree='' processors=1
. "$vm/targets/$2"
printf '%s\0' "$triple" "$kernel" "$kernel_arguments" "$own_emulator" "$peers" "$device_tree" "$processors" \
  ${#emulator[@]} "${emulator[@]}" ${#facts[@]} "${facts[@]}" ${#skips[@]} "${skips[@]}"
"#;

#[derive(PartialEq, Eq, Debug)]
pub(super) struct Machine {
    pub(super) name: String,
    pub(super) triple: String,
    pub(super) kernel: String,
    pub(super) kernel_arguments: String,
    /// The directory with the `build` of an emulator of our own.
    pub(super) own_emulator: Option<String>,
    /// Whether other libraries are measured there.
    pub(super) peers: bool,
    /// The script that makes the device tree.
    pub(super) device_tree: Option<String>,
    pub(super) processors: u32,
    /// The emulator and the arguments that make it this machine.
    pub(super) emulator: Vec<String>,
    /// What scenarios cannot find out.
    pub(super) facts: Vec<String>,
    /// The scenarios that are skipped.
    pub(super) skips: Vec<String>,
}

impl Machine {
    pub(super) fn load(name: &str) -> Result<Machine, String> {
        let vm = commands::root().join("tests/vm");
        if !vm.join("targets").join(name).is_file() {
            return Err(format!("no target {name}: there are {}", names()?.join(" ")));
        }
        let mut bash = commands::program("bash");
        let variables = commands::text(bash.args(["-c", PRINT, "bash"]).arg(vm).arg(name));
        let parse = |variables: String| Machine::parse(name, &variables);
        variables
            .ok()
            .and_then(parse)
            .ok_or_else(|| format!("tests/vm/targets/{name} cannot be loaded"))
    }

    fn parse(name: &str, variables: &str) -> Option<Machine> {
        let mut values = variables.split('\0').map(str::to_owned);
        let machine = Machine {
            name: name.to_owned(),
            triple: values.next()?,
            kernel: values.next()?,
            kernel_arguments: values.next()?,
            own_emulator: values.next().filter(|value| !value.is_empty()),
            peers: !values.next()?.is_empty(),
            device_tree: values.next().filter(|value| !value.is_empty()),
            processors: number(values.next())?,
            emulator: list(&mut values)?,
            facts: list(&mut values)?,
            skips: list(&mut values)?,
        };
        // The rest after the last value's end.
        (values.next()?.is_empty() && values.next().is_none()).then_some(machine)
    }

    /// Whether costs can be measured. The emulator adds the instructions of all processors to each one's count.
    pub(super) fn has_costs(&self) -> bool {
        self.processors == 1
    }

    /// The length of the long run. Most machines with a longer one take more time.
    pub(super) fn reads(&self) -> u64 {
        let reads = self.facts.iter().find_map(|fact| fact.strip_prefix("reads="));
        reads.and_then(|reads| reads.parse().ok()).unwrap_or(0)
    }

    /// Whether it is for top-down alone. Its costs are those of the other machines.
    pub(super) fn is_for_topdown(&self) -> bool {
        self.facts.iter().any(|fact| fact.starts_with("slots="))
    }

    pub(super) fn reads_from_user_space(&self) -> bool {
        !self.facts.iter().any(|fact| fact == "user_access=none")
    }
}

fn number<T: FromStr>(value: Option<String>) -> Option<T> {
    value?.parse().ok()
}

fn list(values: &mut impl Iterator<Item = String>) -> Option<Vec<String>> {
    let length: usize = number(values.next())?;
    let list: Vec<String> = values.take(length).collect();
    (list.len() == length).then_some(list)
}

/// Returns the names of all targets, in order.
pub(super) fn names() -> Result<Vec<String>, String> {
    let failure = |error| format!("tests/vm/targets: {error}");
    let mut names = Vec::new();
    for entry in fs::read_dir(commands::root().join("tests/vm/targets")).map_err(failure)? {
        names.push(entry.map_err(failure)?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn variables_and_lists() {
        let variables = "triple\0kernel\0console=ttyS0 quiet\0\0yes\0big-little\x002\x002\0qemu\0-M virt\x001\0attr=136\x000\0";
        let machine = Machine::parse("name", variables).unwrap();
        assert_eq!(machine.kernel_arguments, "console=ttyS0 quiet");
        assert_eq!((machine.own_emulator.as_deref(), machine.peers), (None, true));
        assert_eq!(machine.device_tree.as_deref(), Some("big-little"));
        assert_eq!(machine.emulator, ["qemu", "-M virt"]);
        assert_eq!(machine.facts, ["attr=136"]);
        assert!(machine.skips.is_empty() && machine.processors == 2);
        assert_eq!(Machine::parse("name", variables.trim_end_matches("0\0")), None);
        assert_eq!(Machine::parse("name", &format!("{variables}more\0")), None);
    }

    #[test]
    fn each_target_loads() {
        for name in names().unwrap() {
            let machine = Machine::load(&name).unwrap();
            assert_eq!(machine.device_tree.is_some(), machine.processors == 2, "{name}");
        }
        let why = Machine::load("none").unwrap_err();
        assert!(why.starts_with("no target none: there are aarch64 aarch64-5.10 "), "{why}");
    }

    /// The machines of each architecture that make all long walks have all shares of some number: 1/3, 2/3 and 3/3, for example.
    #[test]
    fn no_share_is_missing() {
        let mut shares: BTreeMap<String, Vec<(usize, usize)>> = BTreeMap::new();
        for name in names().unwrap() {
            let machine = Machine::load(&name).unwrap();
            let fact =
                |prefix: &str| machine.facts.iter().find_map(|fact| fact.strip_prefix(prefix));
            // They run other scenarios, or leave some of the walks out.
            let others =
                ["pmu=", "user_access=", "core_types=", "faults=", "slots=", "clock=kernel"];
            if others.iter().all(|prefix| fact(prefix).is_none()) {
                let (number, of) = fact("share=").unwrap_or("1/1").split_once('/').unwrap();
                let share = (number.parse().unwrap(), of.parse().unwrap());
                shares.entry(machine.triple.clone()).or_default().push(share);
            }
        }
        assert_eq!(shares.len(), 3, "{shares:?}");
        for (triple, shares) in shares {
            let is_whole = |of: usize| (1..=of).all(|number| shares.contains(&(number, of)));
            assert!(shares.iter().any(|(_, of)| is_whole(*of)), "{triple}: {shares:?}");
        }
    }
}
