use crate::gate::figure::{Certainty, Figure, Row, Side};
use crate::gate::{Limits, compare};

fn side(label: &str, rows: &[(&str, &str, f64)]) -> Side {
    let row = |(name, figure, value): &(&str, &str, f64)| {
        let (name, value) = (name.to_string(), *value);
        let certainty = if value.is_nan() { Certainty::Unstable } else { Certainty::Stable };
        let value = if value.is_nan() { 1.0 } else { value };
        let figure = Figure {
            name: figure.to_string(),
            value,
            low: value,
            high: value,
            certainty,
            slack: 0.0,
            doubt: None,
        };
        let processor = Some("one".into());
        Row { key: name.clone(), name, figures: vec![figure], processor, ..Row::default() }
    };
    Side { label: label.into(), rows: rows.iter().map(row).collect(), obstacles: Vec::new() }
}

fn sides() -> [Side; 2] {
    let old = [
        ("same", "instructions", 10.0),
        ("less", "instructions", 2_000_000.0),
        ("more", "instructions", 25.0),
        ("much|more", "instructions", 0.04),
        ("lost", "instructions", 1.0),
        ("busy", "instructions", f64::NAN),
        ("by time", "ns", 7.0),
    ];
    let new = [
        ("same", "instructions", 10.0),
        ("less", "instructions", 1_000_000.0),
        ("more", "instructions", 26.0),
        ("much|more", "instructions", 0.08),
        ("new\n@you", "instructions", 1.0),
        ("busy", "instructions", 1.0),
        ("by time", "ns", 9.0),
    ];
    [side("main", &old), side("pr", &new)]
}

#[test]
fn a_line_for_each_figure() {
    let [old, new] = sides();
    let comparison = compare(&old, &new, &Limits::new().accept("instructions", 0.001));
    assert_eq!(
        comparison.to_string(),
        "\
same, instructions: 10, was 10 (+0.0000%): no change
less, instructions: 1000000, was 2000000 (-1000000, -50.0000%): improvement
more, instructions: 26, was 25 (+1, +4.0000%): regression
much|more, instructions: 8.000e-2, was 4.000e-2 (+100.0%): regression
lost: not in pr
busy, instructions: 1, was 1 (+0.0000%): too unstable to compare
by time, ns: 9, was 7 (+2, +28.5714%): more, not gated
by time, instructions: in neither main nor pr
new @you: not in main
Figures compared: 4. Regressions: 2. Improvements: 1. Not compared: 4.
"
    );
}

#[test]
fn numbers_have_few_digits() {
    for (value, text) in [
        (0.0, "0"),
        (1e-9, "1.000e-9"),
        (0.5, "5.000e-1"),
        (1.5, "1.500"),
        (2e6, "2000000"),
        (1e15, "1.000e15"),
        (-1e308, "-1.000e308"),
    ] {
        assert_eq!(super::number(value), text);
    }
}

#[test]
fn the_summary_counts_what_is_accepted_as_unstable() {
    let [old, new] = sides();
    let said = compare(&old, &new, &Limits::new().allow_unstable()).to_string();
    let summary = "Figures compared: 4. Regressions: 2. Improvements: 1. Accepted as unstable: 1. Not compared: 3.";
    assert_eq!(said.lines().last(), Some(summary));
    let busy = side("main", &[("busy", "instructions", f64::NAN)]);
    let said = compare(&busy, &busy, &Limits::new().allow_unstable()).to_string();
    let summary = "Figures compared: 0. Regressions: 0. Improvements: 0. Accepted as unstable: 1.";
    assert_eq!(said.lines().last(), Some(summary));
}

#[test]
fn the_worst_is_first_in_a_comment() {
    let [mut old, new] = sides();
    old.obstacles.push("main has <no> more".into());
    let comparison = compare(&old, &new, &Limits::new());
    assert_eq!(
        comparison.markdown(),
        "\
**Regression.** Figures compared: 4. Regressions: 2. Improvements: 1. Not compared: 5.

| benchmark | figure | was | is | change | |
|:-|:-|-:|-:|-:|:-|
| `much\\|more` | `instructions` | 4.000e-2 | 8.000e-2 | +100.0% | regression |
| `more` | `instructions` | 25 | 26 | +1, +4.0000% | regression |
| `lost` |  |  |  |  | `not in pr` |
| `busy` | `instructions` | 1 | 1 | +0.0000% | too unstable to compare |
| `by time` | `instructions` |  |  |  | `in neither main nor pr` |
| `new @you` |  |  |  |  | `not in main` |
| `less` | `instructions` | 2000000 | 1000000 | -1000000, -50.0000% | improvement |
| `by time` | `ns` | 7 | 9 | +2, +28.5714% | more, not gated |

`main has <no> more`

<details><summary>1 unchanged</summary>

| benchmark | figure | was | is | change | |
|:-|:-|-:|-:|-:|:-|
| `same` | `instructions` | 10 | 10 | +0.0000% | no change |

</details>
"
    );
}

/// A comment on GitHub can have 65,536 characters.
#[test]
fn a_comment_has_less_than_60_000_characters() {
    let of = |rows: usize, is: f64, reasons: usize| {
        let many = |value: f64| {
            let names: Vec<String> =
                (0..rows).map(|place| format!("benchmark number {place} of many")).collect();
            let rows: Vec<_> =
                names.iter().map(|name| (name.as_str(), "instructions", value)).collect();
            let reason = |place| format!("reason {place} {}", "x".repeat(80));
            Side { obstacles: (0..reasons).map(reason).collect(), ..side("main", &rows) }
        };
        compare(&many(1_000.0), &many(is), &Limits::new()).markdown()
    };
    for rows in [10, 500, 5_000] {
        for (is, reasons) in [(1_000.0, 0), (1_001.0, 0), (999.0, 2_000), (1_000.0, 2_000)] {
            let text = of(rows, is, reasons);
            assert!(
                text.chars().count() < 60_000,
                "{rows} {is} {reasons}: {}",
                text.chars().count()
            );
            // Neither all nor nothing says so.
            let says_so = text.contains("\nand ");
            assert!(says_so || rows <= 500 && reasons == 0, "{rows} {is} {reasons}");
            assert!(!says_so || rows > 10 || reasons > 0, "{rows} {is} {reasons}");
        }
    }
    assert!(of(5_000, 1_000.0, 0).contains(" more unchanged.\n"));
    assert!(of(500, 1_001.0, 0).contains("| 1001 |"));
}
