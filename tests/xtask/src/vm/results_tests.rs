#![allow(clippy::unwrap_used)]

use super::*;

const PRINTED: &str = "\
test no_pmu ... skipped (this machine has a PMU)
test width_and_sign ... ok (12 ms)
test switched_off ... FAILED (reads 1)
vm name: 90 passed, 1 failed, 2 skipped
guest status 1
";

fn console() -> Console {
    let mut console = Console::default();
    console.add(PRINTED.as_bytes());
    console
}

fn machine(skips: &[&str]) -> Machine {
    Machine {
        name: "name".into(),
        triple: String::new(),
        kernel: String::new(),
        kernel_arguments: String::new(),
        own_emulator: None,
        peers: false,
        device_tree: None,
        processors: 1,
        emulator: Vec::new(),
        facts: Vec::new(),
        skips: skips.iter().map(|&skip| skip.to_owned()).collect(),
    }
}

#[test]
fn exactly_the_listed_scenarios_are_skipped() {
    assert_eq!(console().check_skips(&machine(&["no_pmu"]), &Task::Tests), Ok(()));
    let why = console().check_skips(&machine(&["switched_off"]), &Task::Tests).unwrap_err();
    let expected = "name skipped other scenarios than tests/vm/targets/name expects:
< switched_off was not skipped
> no_pmu was skipped";
    assert_eq!(why, expected);
    assert_eq!(console().check_skips(&machine(&[]), &Task::Doctor), Ok(()));
}

#[test]
fn one_scenario() {
    let only = |scenario: &str, skips: &[&str]| {
        console().check_skips(&machine(skips), &Task::Only(scenario.to_owned()))
    };
    assert_eq!(only("no_pmu", &["no_pmu", "another"]), Ok(()));
    assert_eq!(only("width_and_sign", &["no_pmu"]).unwrap_err().lines().count(), 2);
    assert_eq!(only("width", &[]), Err("there is no scenario width".to_owned()));
}

#[test]
fn statuses_and_sums() {
    assert_eq!(console().guest_status(), Some(1));
    assert_eq!(Console::default().guest_status(), None);
    let (line, sum) = summary("name", PRINTED).unwrap();
    assert_eq!(line, "vm name: 90 passed, 1 failed, 2 skipped");
    assert_eq!(sum, Sum { passed: 90, failed: 1, skipped: 2 });
    assert_eq!(summary("nam", PRINTED), None);
}

#[test]
fn failures_name_their_machine() {
    assert_eq!(failures("name", PRINTED), "name: test switched_off ... FAILED (reads 1)\n");
    assert_eq!(failures("name", "one\nthe guest hangs\n"), "name: the guest hangs\n");
    assert_eq!(failures("name", ""), "");
}
