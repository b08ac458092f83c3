use super::*;
use crate::gate::functions::Functions;

fn figure(name: &str, value: f64, error: f64, certainty: Certainty) -> Figure {
    let (low, high) = (value - error, value + error);
    Figure { name: name.into(), value, low, high, certainty, slack: 0.0, doubt: None }
}

fn row(name: &str, figures: Vec<Figure>) -> Row {
    let processor = Some("one".to_owned());
    Row {
        key: name.into(),
        name: name.into(),
        figures,
        program: "parsing".into(),
        processor,
        ..Row::default()
    }
}

fn side(label: &str, rows: Vec<Row>) -> Side {
    Side { label: label.into(), rows, obstacles: Vec::new() }
}

fn exact(name: &str, value: f64) -> Figure {
    figure(name, value, 0.0, Certainty::Exact)
}

/// Compares the rows, and returns the exit status.
fn status(old: &[Row], new: &[Row], limits: &Limits) -> u8 {
    let comparison = compare(&side("old", old.to_vec()), &side("new", new.to_vec()), limits);
    comparison.status().code()
}

fn of_figures(was: &Figure, is: &Figure, limits: &Limits) -> u8 {
    status(&[row("f", vec![was.clone()])], &[row("f", vec![is.clone()])], limits)
}

#[test]
fn exact_figures_are_compared_to_the_unit() {
    let of = |was, is, limits: &Limits| {
        of_figures(&exact("instructions", was), &exact("instructions", is), limits)
    };
    let usual = Limits::new();
    assert_eq!(of(1e3, 1e3, &usual), 0);
    assert_eq!(of(1e3, 1_001.0, &usual), 1);
    assert_eq!(of(2e9, 2e9 + 1.0, &usual), 1);
    assert_eq!(of(1e3, 999.0, &usual), 0, "an improvement passes");
    assert_eq!(of(1e3, 1_001.0, &Limits::new().accept("instructions", 0.01)), 0);
    assert_eq!(of(1e3, 1_001.0, &Limits::new().accept("instructions", f64::NAN)), 1);
    assert_eq!(of(1e3, 1e3, &Limits::new().accept("cycles", 0.01)), 3, "no cycles");
    let without =
        [Row { without_counters: Some("no PMU".into()), ..row("f", vec![exact("ns", 5.0)]) }];
    let limits = Limits::new().accept("ns", 0.1).accept("page-faults", 0.0);
    assert_eq!(status(&without, &without, &limits), 3, "no page faults");
}

#[test]
fn values_and_their_change_have_names() {
    let [old, new] = [25.0, 26.0].map(|value| row("f", vec![exact("instructions", value)]));
    let comparison = compare(&side("old", vec![old]), &side("new", vec![new]), &Limits::new());
    let values = comparison.compared().first().and_then(|it| it.values.as_ref());
    let found = values.map(|Values { was, is, change, .. }| (*was, *is, change.as_str()));
    assert_eq!(found, Some((25.0, 26.0, "+4.0000%")));
}

#[test]
fn intervals_decide_otherwise() {
    let of = |was, is, limits: &Limits| {
        let of = |value| figure("cycles", value, 2.0, Certainty::Stable);
        of_figures(&of(was), &of(is), limits)
    };
    let none = Limits::new().accept("cycles", 0.0);
    assert_eq!(of(100.0, 103.0, &none), 0);
    assert_eq!(of(100.0, 105.0, &none), 1);
    assert_eq!(of(100.0, 95.0, &none), 0);
    assert_eq!(of(100.0, 105.0, &Limits::new().accept("cycles", 0.05)), 0);
    // By default, cycles are no reason, so nothing is compared.
    assert_eq!(of(100.0, 105.0, &Limits::new()), 3);
}

#[test]
fn unstable_figures_are_never_a_regression() {
    let stable = exact("instructions", 1_000.0);
    for unstable in [
        figure("instructions", 5_000.0, f64::INFINITY, Certainty::Unstable),
        figure("instructions", 5_000.0, 1.0, Certainty::Unstable),
    ] {
        for (was, is) in [(&stable, &unstable), (&unstable, &stable), (&unstable, &unstable)] {
            assert_eq!(of_figures(was, is, &Limits::new()), 3);
            assert_eq!(of_figures(was, is, &Limits::new().allow_unstable()), 0);
            // Those that are missing are not accepted with them.
            let [f, g] = [row("f", vec![was.clone()]), row("g", vec![is.clone()])];
            let one = &[row("f", vec![is.clone()])];
            assert_eq!(status(&[f, g], one, &Limits::new().allow_unstable()), 3);
            let both =
                |figure: &Figure| [row("f", vec![figure.clone()]), row("g", vec![stable.clone()])];
            assert_eq!(status(&both(was), &both(is), &Limits::new()), 3);
            assert_eq!(status(&both(was), &both(is), &Limits::new().allow_unstable()), 0);
        }
    }
}

#[test]
fn what_is_missing_is_never_a_pass_unless_asked_for() {
    let f = row("f", vec![exact("instructions", 7.0)]);
    let g = row("g", vec![exact("instructions", 7.0)]);
    let (one, both) = ([f.clone()], [f.clone(), g]);
    let no_figures = [f.clone(), row("g", Vec::new())];
    let more_figures = [row("f", vec![exact("instructions", 7.0), exact("branches", 2.0)])];
    // Whether a limit names it or not.
    let more_events = [row("f", vec![exact("instructions", 7.0), exact("cycles", 2.0)])];
    for (old, new) in [
        (&one[..], &both[..]),
        (&both, &one),
        (&no_figures, &both),
        (&both, &no_figures),
        (&one, &more_figures),
        (&more_figures, &one),
        (&one, &more_events),
        (&more_events, &one),
    ] {
        assert_eq!(status(old, new, &Limits::new()), 3, "{old:?} {new:?}");
        assert_eq!(status(old, new, &Limits::new().allow_missing()), 0, "{old:?} {new:?}");
    }
    // Without figures on both sides, nothing can be said of it.
    assert_eq!(status(&no_figures, &no_figures, &Limits::new().allow_missing()), 3);
    assert_eq!(status(&[], &[], &Limits::new().allow_missing()), 3);
    // A figure without a limit is accepted as missing, but not in place of those that are compared.
    let [of_time, more_of_time] =
        [vec![exact("ns", 1.0)], vec![exact("ns", 1.0), exact("cycles", 2.0)]]
            .map(|figures| [row("g", figures)]);
    assert_eq!(status(&of_time, &more_of_time, &Limits::new().allow_missing()), 3);
    // A regression comes before what is missing.
    let worse = [row("f", vec![exact("instructions", 8.0)])];
    assert_eq!(status(&both, &worse, &Limits::new()), 1);
}

#[test]
fn what_is_missing_on_both_sides_is_no_pass() {
    let (instructions, time) = (exact("instructions", 7.0), exact("ns", 5.0));
    let faults = exact("page-faults", 2.0);
    let of_f = vec![instructions.clone(), time.clone(), faults];
    let rows = |of_g: &[Figure]| [row("f", of_f.clone()), row("g", of_g.to_vec())];
    let [no_faults, no_counts] = [rows(&[instructions, time.clone()]), rows(&[time])];
    let with = |name| Limits::new().accept(name, 0.01).accept(name, 0.1);
    for (rows, limits, figure) in [
        (&no_faults, with("page-faults"), "page-faults"),
        (&no_counts, Limits::new(), "instructions"),
        (&no_counts, with("ns"), "instructions"),
    ] {
        let sides = ["old", "new"].map(|label| side(label, rows.to_vec()));
        let comparison = compare(&sides[0], &sides[1], &limits);
        let line = format!("g, {figure}: in neither old nor new\n");
        assert_eq!(comparison.to_string().matches(&line).count(), 1, "{comparison}");
        assert_eq!(comparison.status(), Status::Incomplete, "{comparison}");
        assert_eq!(status(rows, rows, &limits.allow_missing()), 0, "{comparison}");
    }
    assert_eq!(status(&no_faults, &no_faults, &Limits::new()), 0, "nobody asks for page faults");
    // One line is enough for a name that no benchmark has.
    let sides = ["old", "new"].map(|label| side(label, no_faults.to_vec()));
    let comparison = compare(&sides[0], &sides[1], &with("page-fault")).to_string();
    assert_eq!(comparison.matches("page-fault.").count(), 1, "{comparison}");
    // A benchmark without instructions is compared by others if no benchmark has them.
    let of_time = [row("g", vec![exact("ns", 5.0)])];
    assert_eq!(status(&of_time, &of_time, &with("ns")), 0);
}

/// A row that was not stepped has its own reason, and no advice on PMUs if others were stepped.
#[test]
fn the_reason_of_a_row_that_was_not_stepped_is_said() {
    let reason =
        |label: &str| format!("No stepped-instructions of g in {label}: it starts a thread.");
    let said = |of_old: Vec<Figure>, of_new: Vec<Figure>, f: Vec<Figure>| {
        let rows = |of_g: Vec<Figure>| {
            let is_stepped = of_g.iter().any(|figure| figure.name == STEPPED_INSTRUCTIONS);
            let all = [row("f", f.clone()), row("g", of_g)];
            all.map(|row| Row {
                without_counters: Some("no PMU".into()),
                not_stepped: (row.name == "g" && !is_stepped).then(|| "it starts a thread".into()),
                ..row
            })
        };
        let sides = [side("old", rows(of_old).to_vec()), side("new", rows(of_new).to_vec())];
        let comparison = compare(&sides[0], &sides[1], &Limits::new());
        assert_eq!(comparison.status(), Status::Incomplete, "{comparison}");
        let text = comparison.to_string();
        let has = |line: &str| text.lines().any(|it| it.starts_with(line));
        (has(&reason("old")), has(&reason("new")), has("old has no counters: no PMU."))
    };
    // Nothing is compared, for another reason.
    let stepped = || Row {
        obstacle: Some("it is stale".into()),
        without_counters: Some("no PMU".into()),
        ..row("f", vec![exact(STEPPED_INSTRUCTIONS, 7.0)])
    };
    let [old, new] = ["old", "new"].map(|label| side(label, vec![stepped()]));
    let comparison = compare(&old, &new, &Limits::new()).to_string();
    assert!(!comparison.contains("no PMU"), "{comparison}");
    let (time, stepped) = (exact("ns", 5.0), exact(STEPPED_INSTRUCTIONS, 7.0));
    let both = vec![time.clone(), stepped.clone()];
    let only_time = vec![time];
    // In the later results only, and in both.
    assert_eq!(said(both.clone(), only_time.clone(), both.clone()), (false, true, false));
    assert_eq!(said(only_time.clone(), only_time.clone(), both), (true, true, false));
    // With nothing to compare but time, the machine has its reason, too.
    assert_eq!(said(only_time.clone(), only_time.clone(), only_time), (true, true, true));
}

#[test]
fn results_that_do_not_belong_together_are_not_compared() {
    let f = row("f", vec![exact("instructions", 7.0)]);
    let worse = row("f", vec![exact("instructions", 8.0)]);
    for other in [
        Row { processor: Some("two".into()), ..worse.clone() },
        Row { processor: None, ..worse.clone() },
        Row { program: "printing".into(), ..worse.clone() },
        Row { is_of_process: true, ..worse.clone() },
        Row { obstacle: Some("it is stale".into()), ..worse.clone() },
        row("f", vec![exact("instructions", 7.0), exact("instructions", 8.0)]),
    ] {
        let (f, other) = ([f.clone()], [other]);
        assert_eq!(status(&f, &other, &Limits::new()), 3);
        assert_eq!(status(&other, &f, &Limits::new().allow_missing().allow_unstable()), 3);
    }
    // The CPU counts otherwise on the two sides. If it does on both, that is said.
    let with = |row: &Row, spec_lock_map| Row { spec_lock_map, ..row.clone() };
    let (old, new) = ([with(&f, Some(false))], [with(&worse, Some(true))]);
    assert_eq!(status(&old, &new, &Limits::new()), 3);
    for (old, expected) in [(Some(true), true), (None, true), (Some(false), false)] {
        let new = if old == Some(false) { Some(false) } else { Some(true) };
        let both = compare(
            &side("old", vec![with(&f, old)]),
            &side("new", vec![with(&f, new)]),
            &Limits::new(),
        );
        assert_eq!((both.status().code(), both.to_string().contains(SPEC_LOCK_MAP)), (0, expected));
    }
    let twice = [f.clone(), f.clone()];
    assert_eq!(status(&twice, &twice, &Limits::new()), 3);
    let mut damaged = side("old", vec![f.clone()]);
    damaged.obstacles.push("old is damaged".into());
    assert_eq!(
        compare(&damaged, &side("new", vec![f]), &Limits::new()).status(),
        Status::Incomplete
    );
}

/// Both sides lack the figure because a run is too long to be stepped: a line, and no open end. Any other reason leaves one.
#[test]
fn what_is_too_long_on_both_sides_is_left_out() {
    let of = |why: [&str; 2]| {
        let rows = |why: &str| {
            let short = row("short", vec![exact(STEPPED_INSTRUCTIONS, 25.0)]);
            let long = row("long", vec![figure("ns", 1e6, 1.0, Certainty::Stable)]);
            [short, Row { not_stepped: Some(why.to_owned()), ..long }]
        };
        let [old, new] = why.map(rows);
        let comparison =
            compare(&side("old", old.to_vec()), &side("new", new.to_vec()), &Limits::new());
        (comparison.status().code(), comparison.to_string())
    };
    let too_long = |steps: u64| format!("a run has more than the {steps} {TOO_LONG}");
    let (status, text) = of([&too_long(90_000), &too_long(80_000)]);
    assert_eq!(status, 0, "{text}");
    let line = "long, stepped-instructions: on neither side, and not gated: a run has more than the 80000 instructions";
    assert!(text.contains(line), "{text}");
    for why in [["the code starts a thread", "the code starts a thread"], [&too_long(1), "busy"]] {
        assert_eq!(of(why).0, 3, "{why:?}");
    }
}

#[test]
fn one_benchmark_may_be_missing() {
    let old = [row("a", vec![exact("instructions", 5.0)]), row("b", Vec::new())];
    let new = [old[0].clone()];
    assert_eq!(status(&old, &new, &Limits::new()), 3);
    assert_eq!(status(&old, &new, &Limits::new().allow_missing_of("a")), 3);
    assert_eq!(status(&old, &new, &Limits::new().allow_missing_of("b")), 0);
    assert_eq!(status(&old, &new, &Limits::new().allow_missing()), 0);
}

/// Results of another compiler are compared, and the reader is told.
#[test]
fn another_compiler_is_told() {
    let of = |builds: [Option<&str>; 2]| {
        let built = |build: Option<&str>| {
            let row = row("a", vec![exact("instructions", 5.0)]);
            side("saved", vec![Row { build: build.map(str::to_owned), ..row }])
        };
        let [old, new] = builds.map(built);
        let comparison = compare(&old, &new, &Limits::new());
        assert_eq!(comparison.status().code(), 0);
        comparison.to_string().contains("saved was built by rustc 1, and saved by rustc 2. A change may come from the compiler.")
    };
    assert!(of([Some("rustc 1"), Some("rustc 2")]));
    assert!(!of([Some("rustc 1"), Some("rustc 1")]) && !of([None, Some("rustc 2")]));
}

#[test]
fn doubts_and_changes_within_the_limit_have_words() {
    let doubtful = |value: f64| Figure {
        doubt: Some("the code waits".into()),
        ..figure("instructions", value, 1.0, Certainty::Unstable)
    };
    let of = |was: Figure, is: Figure, limits: &Limits| {
        let [old, new] = [was, is].map(|figure| side("x", vec![row("f", vec![figure])]));
        compare(&old, &new, limits).to_string()
    };
    let text = of(doubtful(25.0), doubtful(2_500.0), &Limits::new());
    assert!(text.contains("too unstable to compare: the code waits\n"), "{text}");
    let stable = |value: f64, error: f64| figure("instructions", value, error, Certainty::Stable);
    let text =
        of(stable(1e3, 0.1), stable(1_005.0, 0.1), &Limits::new().accept("instructions", 0.01));
    assert!(
        text.contains(
            "f, instructions: 1005.0 ± 0.1, was 1000.0 ± 0.1 (+0.5000%): within the limit\n"
        ),
        "{text}"
    );
    // What reading the counters adds is not in the digits.
    let text = of(stable(25.000_03, 0.000_04), stable(26.000_03, 0.000_05), &Limits::new());
    assert!(
        text.contains("f, instructions: 26.000, was 25.000 (+4.0000%): regression\n"),
        "{text}"
    );
    let text = of(stable(0.5, 0.000_4), stable(0.6, 0.000_4), &Limits::new());
    assert!(text.contains("0.6000 ± 0.0004, was 0.5000 ± 0.0004"), "{text}");
}

/// Functions are named where a figure of instructions has changed, once, and only if their names have one source.
#[test]
fn functions_explain_a_change() {
    let functions = |source: &str, count: i64| {
        let all = [(OWN.to_owned(), None, 7), ("parse".to_owned(), None, count)];
        Some(Functions::new(1, source, all.into_iter(), |_| false))
    };
    let of = |figures: [Vec<Figure>; 2], sources: [&str; 2]| {
        let [was, is] = figures;
        let old = Row { functions: functions(sources[0], 5), ..row("f", was) };
        let new = Row { functions: functions(sources[1], 8), ..row("f", is) };
        compare(&side("old", vec![old]), &side("new", vec![new]), &Limits::new())
    };
    let named = |comparison: &Comparison| {
        let changed = comparison.compared().iter().filter(|it| !it.functions.is_empty());
        changed.filter_map(|it| it.figure.clone()).collect::<Vec<String>>()
    };
    let stepped = |value| exact(STEPPED_INSTRUCTIONS, value);
    let counted = |value| exact("instructions", value);
    let symbols = [SYMBOLS; 2];

    let changed = of([vec![stepped(12.0)], vec![stepped(15.0)]], symbols);
    assert_eq!(named(&changed), [STEPPED_INSTRUCTIONS]);
    assert!(changed.to_string().contains("regression. parse +3\n"), "{changed}");
    assert!(!changed.to_string().contains("`debug = 1`"), "the change is in no own code");
    assert_eq!(named(&of([vec![counted(12.0)], vec![counted(15.0)]], symbols)), ["instructions"]);
    let both = |value| vec![counted(value), stepped(value)];
    assert_eq!(named(&of([both(12.0), both(15.0)], symbols)), [STEPPED_INSTRUCTIONS]);

    let unstable = |value| vec![figure(STEPPED_INSTRUCTIONS, value, 0.0, Certainty::Unstable)];
    let wide = |value| vec![figure(STEPPED_INSTRUCTIONS, value, 9.0, Certainty::Stable)];
    for figures in [
        [vec![stepped(12.0)], vec![stepped(12.0)]],
        [unstable(12.0), unstable(15.0)],
        [wide(12.0), wide(15.0)],
    ] {
        assert!(named(&of(figures.clone(), symbols)).is_empty(), "{figures:?}");
    }

    let other = of([vec![stepped(12.0)], vec![stepped(15.0)]], [SYMBOLS, "debug information"]);
    assert!(named(&other).is_empty() && other.status().code() == 1);
    let reason = "Functions are not compared: the earlier names are from symbols, and the later ones from debug information. Build both with one `debug` in the profile.";
    assert!(other.to_string().contains(reason), "{other}");
}
