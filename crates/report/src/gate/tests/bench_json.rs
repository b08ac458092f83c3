use super::*;
use crate::gate::{Limits, compare};
use serde_json::json;

fn of(value: f64, error: Option<f64>, verdict: &str) -> Value {
    let [low, high] = [-1.0, 1.0].map(|sign| error.map(|error| value + sign * error));
    json!({ "value": value, "low": low, "high": high, "verdict": verdict })
}

fn file(rows: Value) -> Value {
    json!({ "version": VERSION, "program": "parsing", "processor": "one", "rows": rows })
}

#[test]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
fn what_was_saved_is_read() {
    let figures =
        json!({ "instructions": of(7.0, Some(0.0), "exact"), "ns": of(2.0, None, "unstable") });
    let mut saved = file(json!([{ "name": "f", "figures": figures, "not_stepped": "too long" }]));
    saved["missing"] = json!({ "instructions": "no PMU" });
    let mut rows = rows(&saved).unwrap();
    assert_eq!(rows[0].not_stepped.take().as_deref(), Some("too long"));
    // Files of before the field, and rows that were stepped.
    for others in [
        json!({ "name": "f", "figures": {} }),
        json!({ "name": "f", "figures": {}, "not_stepped": null }),
    ] {
        assert_eq!(super::rows(&file(json!([others]))).unwrap()[0].not_stepped, None);
    }
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((row.program.as_str(), row.processor.as_deref()), ("parsing", Some("one")));
    assert_eq!(row.without_counters.as_deref(), Some("no PMU"));
    assert_eq!(row.figure("instructions").unwrap().certainty, Certainty::Exact);
    assert_eq!(row.figure("ns").unwrap().high, f64::INFINITY);
}

#[test]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
fn whose_counts_they_are() {
    let mut saved = file(json!([{ "name": "f", "figures": {} }]));
    let is_of_process = |saved: &Value| rows(saved).map(|rows| rows[0].is_of_process);
    assert_eq!(is_of_process(&saved), Ok(false));
    for (scope, expected) in [("thread", Ok(false)), ("process", Ok(true))] {
        saved["scope"] = scope.into();
        assert_eq!(is_of_process(&saved), expected);
    }
    for scope in [json!("system"), json!(null), json!(1)] {
        saved["scope"] = scope;
        assert_eq!(is_of_process(&saved), Err("its scope is unknown".into()));
    }
}

/// Neither ratios nor parts of the slots are better if they are smaller.
#[test]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
fn what_is_not_compared() {
    let mut figures = json!({ "instructions": of(7.0, Some(0.0), "exact") });
    for name in PARTS_OF_SLOTS.iter().chain(&["IPC"]) {
        figures[*name] = of(25.0, Some(0.1), "stable");
    }
    let rows = rows(&file(json!([{ "name": "f", "figures": figures }]))).unwrap();
    let names: Vec<&str> = rows[0].figures.iter().map(|figure| figure.name.as_str()).collect();
    assert_eq!(names, ["instructions"]);
}

#[test]
#[allow(clippy::unwrap_used)]
fn damaged_results_say_what_is_wrong() {
    let why = |saved: &Value| rows(saved).unwrap_err();
    assert_eq!(why(&json!({})), "it has no version");
    assert_eq!(why(&json!({ "version": 1 })), "its version is 1, not 2");
    assert_eq!(why(&json!({ "version": 2, "rows": [] })), "it has no program");
    assert_eq!(why(&json!({ "version": 2, "program": "x" })), "it has no rows");
    assert_eq!(why(&file(json!([{ "name": 7 }]))), "a row has no name");
    assert_eq!(why(&file(json!([{ "name": "f" }]))), "f has no figures");
    for figure in [
        of(1.0, None, "exact"),
        of(1.0, Some(1.0), "exact"),
        of(1.0, Some(-1.0), "stable"),
        of(1.0, Some(1.0), "Stable"),
        of(f64::NAN, Some(1.0), "stable"),
        json!("1000"),
        json!(null),
    ] {
        let row = json!({ "name": "f", "figures": { "instructions": figure } });
        assert_eq!(why(&file(json!([row]))), "instructions of f is not a figure");
    }
    let row = json!({ "name": "f", "figures": {} });
    assert_eq!(why(&file(json!([row, row]))), "two rows have the name f (rename one)");
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
#[allow(clippy::unwrap_used)]
fn too_many_rows_are_refused() {
    let of = |count: usize| {
        let row = |number: usize| {
            let instructions = of(number as f64, Some(0.0), "exact");
            json!({ "name": number.to_string(), "figures": { "instructions": instructions } })
        };
        rows(&file((0..count).map(row).collect()))
    };
    let side = |rows| Side { rows, ..Side::default() };
    let most = side(of(MAX_ROWS).unwrap());
    let reversed = side(most.rows.iter().rev().cloned().collect());
    let comparison = compare(&most, &reversed, &Limits::new());
    assert_eq!((comparison.status().code(), comparison.compared().len()), (0, MAX_ROWS));
    assert_eq!(of(MAX_ROWS + 1).unwrap_err(), "it has 10001 rows, and 10000 is the most");
    for name in ["program", "processor"] {
        let mut saved = file(json!([]));
        *saved.get_mut(name).unwrap() = "x".repeat(MAX_NAME_LENGTH + 1).into();
        let why = rows(&saved).unwrap_err();
        assert_eq!(why, "its program, processor, build or reason is longer than 4096 bytes");
    }
}

/// No content of a file leads to a panic, and each has a message with the file's name.
#[test]
#[allow(clippy::unwrap_used)]
fn hostile_files_are_obstacles() {
    let path = std::env::temp_dir().join(format!("rdpmc-gate-hostile-{}.json", std::process::id()));
    let row = json!({ "name": "f", "figures": { "instructions": of(7.0, Some(0.0), "exact") } });
    let whole = file(json!([row])).to_string().into_bytes();
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(load(&path).obstacles, [""; 0]);
    let deep = "[".repeat(100_000).into_bytes();
    let figure = of(8.0, Some(0.0), "exact").to_string();
    let figures = format!("\"figures\":{{\"instructions\":{figure},");
    let twice = String::from_utf8_lossy(&whole).replace("\"figures\":{", &figures).into_bytes();
    assert!(twice.len() > whole.len());
    let mut all = vec![deep, twice, vec![0xff; 100], Vec::new()];
    all.extend((1..whole.len()).map(|length| whole.iter().take(length).copied().collect()));
    for content in all {
        std::fs::write(&path, &content).unwrap();
        let side = load(&path);
        assert!(side.rows.is_empty(), "{content:?}");
        let [why] = side.obstacles.as_slice() else { panic!("{content:?}") };
        assert!(why.starts_with(path.to_str().unwrap()), "{why}");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(load(&path).obstacles.concat().contains(" cannot be read: "));
    assert!(load(&std::env::temp_dir()).obstacles.concat().contains("not a regular file"));
}

#[test]
fn programs_have_a_package_if_it_is_known() {
    for (one, other, is_same) in [
        ("benches", "benches", true),
        ("x/benches", "x/benches", true),
        ("x/benches", "y/benches", false),
        ("x/benches", "benches", true),
        ("benches", "parsing", false),
        ("x/benches", "x/parsing", false),
    ] {
        assert_eq!(is_same_program(one, other), is_same, "{one} {other}");
        assert_eq!(is_same_program(other, one), is_same, "{other} {one}");
    }
    assert!(program().starts_with("rdpmc-report/"), "{}", program());
}
