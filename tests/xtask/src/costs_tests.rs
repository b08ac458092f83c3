#![allow(clippy::unwrap_used)]

use super::*;

/// Costs of all columns and of the targets that must equal them.
fn measured(cost_on: impl Fn(&str) -> u32) -> String {
    let mut targets = COLUMNS.to_vec();
    targets.extend(EQUAL.iter().flat_map(|(_, others)| others.iter().copied()));
    let mut measured = "some other line\n".to_owned();
    for target in targets {
        measured += &format!("{target}: cost peer:std:Instant::now 90\n");
        measured += &format!("{target}: cost read_user {}\n", cost_on(target));
    }
    measured + "aarch64: cost large_group3 42\n"
}

#[test]
fn rows_have_a_cell_for_each_column() {
    let measured = measured(|target| if target == "riscv64" { 20 } else { 15 });
    let rows = Costs::parse(&measured).rows();
    let rows: Vec<&str> = rows.lines().skip(2).collect();
    assert_eq!(
        rows,
        [
            "| `Counter::read_user` | 15 | 15 | 15 | 20 |",
            "| `Group::<3>::read_user`, from a large function | | 42 | | |",
            "| std: `Instant::now` | 90 | 90 | 90 | 90 |",
        ]
    );
}

#[test]
fn targets_that_must_be_equal_are_compared() {
    let equal = measured(|_| 15).replace("aarch64: cost large_group3 42\n", "");
    assert_eq!(Costs::parse(&equal).check(true), Ok(()));
    let other = measured(|target| if target == "x86_64-amd" { 16 } else { 15 });
    let why = Costs::parse(&other).check(true).unwrap_err();
    assert!(why.ends_with("\nread_user: 15 on x86_64-intel, 16 on x86_64-amd"), "{why}");
    let missing = measured(|_| 15);
    let why = Costs::parse(&missing).check(true).unwrap_err();
    assert!(why.ends_with("\nlarge_group3: 42 on aarch64, none on aarch64-6.1"), "{why}");
    let why = Costs::parse("aarch64: cost peer:std:Instant::now 90\n").check(true).unwrap_err();
    assert_eq!(why, "no costs of x86_64-intel");
}

/// Another machine stands for a column whose own was not measured.
#[test]
fn some_targets_are_enough_for_a_column_each() {
    let on = |target: &str, cost: u32| format!("{target}: cost read_user {cost}\n");
    let narrow = on("aarch64-v8.0", 15) + &on("riscv64", 20);
    let some = narrow.clone() + &on("x86_64-amd", 15) + &on("aarch64-7", 14);
    let costs = Costs::parse(&some);
    assert_eq!(costs.check(false), Ok(()));
    assert!(costs.check(true).is_err());
    assert!(costs.rows().ends_with("| `Counter::read_user` | 15 | 14 | 15 | 20 |\n"));
    let sentence =
        "15 instructions on x86-64, 14 on arm64 (15 with 32-bit counters), 20 on riscv64";
    assert_eq!(costs.sentence("read_user"), sentence);
    let other = some + &on("x86_64-intel-7", 16);
    assert!(Costs::parse(&other).check(false).is_err());
    assert_eq!(Costs::parse(&narrow).check(false), Err("no costs of x86_64-intel".to_owned()));
}

#[test]
fn labels() {
    for (name, expected) in [
        ("read_user", "`Counter::read_user`"),
        ("ordered_read_user", "`Counter::read_user`, ordered"),
        ("large_group3", "`Group::<3>::read_user`, from a large function"),
        ("ordered_snapshot4", "`Group::<4>::snapshot`, ordered"),
        ("snapshot", "`Counter::snapshot`"),
        ("group4_region_last", "and seen by its last"),
        ("ordered_clock_now", "`Clock::now`, ordered"),
        ("span", "a span, time only"),
        ("span2", "a span with 2 counters"),
        ("lap2", "a lap with 2 counters"),
        ("peer:quanta:Clock::now", "quanta: `Clock::now`"),
        ("peer:libc:read(2)", "libc: `read(2)`, and a system call"),
    ] {
        assert_eq!(label(name), expected);
    }
}

#[test]
fn rows_are_written_between_the_marks() {
    let document = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
    let expected = format!("before\n{BEGIN}\nnew\n{END}\nafter\n");
    assert_eq!(insert(&document, "new\n").unwrap(), expected);
    assert!(insert(&format!("{END}\n{BEGIN}\n"), "new\n").is_err());
    assert!(insert(&document.repeat(2), "new\n").is_err());
}
