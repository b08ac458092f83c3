//! Where the instructions of rows are.

use rdpmc::Event;
use rdpmc_bench::{Bench, Limits, Results};
use rdpmc_report::gate::functions::OWN;
use std::hint::black_box;
use std::time::Duration;

#[inline(never)]
fn longer(rounds: u64) -> u64 {
    (0..black_box(rounds)).fold(0, |sum, round| sum ^ black_box(round))
}

#[inline(never)]
fn shorter(rounds: u64) -> u64 {
    black_box(rounds) + 5
}

fn measured(rounds: u64) -> Results {
    let mut bench = Bench::with_events(&[Event::INSTRUCTIONS]).unwrap();
    bench.time_per_row(Duration::from_millis(1)).time_to_step(Duration::from_secs(60));
    bench.processes(1).show_functions();
    bench.row("two").throughput(move || longer(rounds) + shorter(rounds));
    bench.row("three").operations(3).throughput(|| (0..3).map(|_| longer(10)).sum::<u64>());
    bench.row("inputs").inputs([1, 2, 6]).throughput(|rounds: &u64| longer(*rounds));
    bench.run()
}

#[test]
fn functions_have_the_instructions_of_their_row() {
    const TEST: &str = "functions::functions_have_the_instructions_of_their_row";
    if let Some(why) = crate::bench::why_not_stepped() {
        return crate::skips::skip("functions_have_the_instructions_of_their_row", &why);
    }
    if !crate::threads::is_alone(TEST) {
        return;
    }
    let results = measured(10);
    for row in results.rows() {
        let functions = row.functions().expect("they were stepped");
        let figure = row
            .figures()
            .iter()
            .find(|figure| figure.quantity.to_string().ends_with("instructions"));
        let figure = figure.expect("it was stepped").estimate.value;
        assert!((functions.total() - figure).abs() < 1e-9, "{row:?}");
        let has = |name: &str| functions.all.iter().any(|it| it.name.ends_with(name));
        let is_within = |name: &str| {
            functions.all.iter().any(|it| it.within.iter().any(|within| within.ends_with(name)))
        };
        assert!(has("::longer") || is_within("::longer"), "{functions:?}");
    }
    let text = results.to_string();
    assert!(text.contains("function, in two") && text.contains("shorter"), "{text}");
    let page = std::env::temp_dir().join(format!("rdpmc-functions-{}.html", std::process::id()));
    results.save_html(&page).unwrap();
    let html = std::fs::read_to_string(&page).unwrap();
    std::fs::remove_file(&page).unwrap();
    assert!(html.contains("The stepped instructions of an operation, by functions"), "{html}");

    // A later build, whose `longer` has more to do.
    let path = page.with_extension("json");
    results.save(&path).unwrap();
    let more = measured(20);
    let comparison = more.check(&path, &Limits::new());
    std::fs::remove_file(&path).unwrap();
    let changed: Vec<_> =
        comparison.compared().iter().filter(|it| !it.functions.is_empty()).collect();
    let [two] = &changed[..] else { panic!("{comparison}") };
    let values = two.values.as_ref().unwrap();
    let sum: f64 = two.functions.iter().map(|it| it.more).sum();
    assert_eq!((two.row.as_str(), sum), ("two", values.is - values.was));
    assert!(
        two.functions.iter().all(|it| it.name != OWN && !it.name.contains("shorter")),
        "{two:?}"
    );
    // The largest one is named first.
    let first = format!("regression. {} {:+}", two.functions[0].name, two.functions[0].more);
    assert!(comparison.to_string().contains(&first), "{comparison}");
}
