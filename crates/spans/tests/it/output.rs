//! Tables, traces and files.

use crate::recording::{start, turn};
use rdpmc_spans::{Settings, Storage, span};

/// Threads and sites with the same names are told apart while the threads live, and threads are added up when they have
/// ended.
#[test]
fn names_that_are_not_unique() {
    let _turn = turn();
    let mut spans = Settings::new().start().unwrap();
    let barrier = std::sync::Barrier::new(3);
    std::thread::scope(|scope| {
        let spawn = |_| {
            let thread = std::thread::Builder::new().name("a worker".into());
            let record = || {
                drop(span!("twice"));
                drop(span!("twice"));
                drop(span!("once"));
                barrier.wait();
                barrier.wait();
            };
            thread.spawn_scoped(scope, record).unwrap()
        };
        let threads: Vec<_> = (0..2).map(spawn).collect();
        barrier.wait();
        let report = spans.report();
        let table = report.to_string();
        for row in &report.rows {
            let span = match row.name {
                "twice" => format!(" twice ({}:{}) ", file!(), row.site.line()),
                _ => " once ".to_string(),
            };
            let thread = format!("a worker ({})", row.thread.unwrap());
            let line = table.lines().filter(|line| line.contains(&thread) && line.contains(&span));
            assert_eq!(line.count(), 1, "{table}");
        }
        assert_eq!(report.rows.len(), 6);
        assert_eq!(report.all.iter().map(|row| row.count).collect::<Vec<_>>(), [2; 3], "{report}");
        barrier.wait();
        // The end of the scope does not wait for what threads leave.
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let mut lines = Vec::new();
    spans.view().write_json_lines(&mut lines).unwrap();
    let lines: std::collections::HashSet<String> = String::from_utf8(lines)
        .unwrap()
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            format!("{} {} {}", line["thread_number"], line["file"], line["line"])
        })
        .collect();
    assert_eq!(lines.len(), 6);
    let report = spans.report();
    assert_eq!(report.rows.iter().map(|row| row.count).collect::<Vec<_>>(), [2; 3], "{report}");
    assert_eq!((report.threads.len(), report.threads[0].ended), (1, 2));
}

/// Names with quotes, backslashes and control characters, in the trace, in the lines and in the table.
#[test]
fn any_name() {
    const NAME: &str = "a \"name\"\\ with\ncontrol\u{1} characters | and ü";
    let _turn = turn();
    let mut spans = start();
    let thread = std::thread::Builder::new().name("a \"thread\"\t".into());
    let thread = thread.spawn(|| {
        for _ in 0..3 {
            let _span = span!(NAME);
            drop(span!("inner"));
        }
    });
    thread.unwrap().join().unwrap();
    let mut trace = Vec::new();
    spans.view().write_trace(&mut trace).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    let found = of("X");
    assert_eq!(found.len(), 6);
    assert_eq!(found.iter().filter(|event| event["name"] == NAME).count(), 3);
    assert!(of("M").iter().any(|event| event["args"]["name"] == "a \"thread\"\t"));
    for event in found {
        let [at, lasted] = ["ts", "dur"].map(|key| event[key].as_f64().unwrap());
        assert!(at >= 0.0 && lasted >= 0.0, "{event}");
        assert!(event["args"]["flags"].is_array());
    }
    let mut lines = Vec::new();
    spans.view().write_json_lines(&mut lines).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    assert_eq!(lines.lines().count(), 6);
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["parent"].is_null(), line["name"] == NAME);
    }
    let table = spans.report().to_string();
    assert!(table.contains(r#"a "name"\\ with\ncontrol\u{1} characters \| and ü"#), "{table}");
}

/// A disk that is full is an error, and the recording goes on.
#[test]
fn a_full_disk() {
    let _turn = turn();
    let mut spans = start();
    (0..1_000).for_each(|_| drop(span!("a span")));
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let error = spans.view().write_trace(&full).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert!(spans.view().write_json_lines(&full).is_err());
    drop(span!("a span"));
    let mut lines = Vec::new();
    spans.view().write_json_lines(&mut lines).unwrap();
    assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), 1_001);
}

/// Only so many records are kept for traces. The report has all.
#[test]
fn records_that_are_not_kept() {
    let _turn = turn();
    let mut spans = Settings::new().keep(10).start().unwrap();
    (0..20).for_each(|_| drop(span!("early")));
    (0..10).for_each(|_| drop(span!("late")));
    let mut trace = Vec::new();
    spans.view().write_trace(&mut trace).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
    assert_eq!(trace["otherData"]["not_kept"], 20);
    let kept = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X");
    let kept: Vec<_> = kept.map(|event| event["name"].as_str().unwrap()).collect();
    assert_eq!(kept, ["late"; 10]);
    let counts: Vec<u64> = spans.report().rows.iter().map(|row| row.count).collect();
    assert_eq!(counts, [20, 10]);
    spans.take();
    assert_eq!(spans.report().rows.len(), 0);
}

fn samples(interval: &rdpmc_spans::Interval) -> Vec<(String, f64)> {
    let mut text = Vec::new();
    interval.write_prometheus(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let samples = samples.map(|line| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        (series.to_string(), value.parse().unwrap())
    });
    samples.collect()
}

/// Series of Prometheus are unique, keep their labels when threads come and end, and never fall.
#[test]
fn series_are_stable() {
    let _turn = turn();
    for storage in [Storage::Ring { records: 1 << 10 }, Storage::Histograms] {
        let mut spans = Settings::new().storage(storage).start().unwrap();
        let mut before: Vec<(String, f64)> = Vec::new();
        for round in 1..=3 {
            let begin = |name: Option<&str>| {
                let thread = std::thread::Builder::new();
                let thread =
                    name.map_or(thread, |name| std::thread::Builder::new().name(name.into()));
                let record = || {
                    drop(span!("work"));
                    drop(span!("work"));
                };
                thread.spawn(record).unwrap()
            };
            drop(span!("work"));
            let threads = [Some("a worker"), Some("a worker"), None, None].map(begin);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            let now = samples(&spans.view());
            let names: std::collections::HashSet<_> = now.iter().map(|(name, _)| name).collect();
            assert_eq!(names.len(), now.len(), "{now:?}");
            for (series, value) in &before {
                let found = now.iter().find(|(name, _)| name == series);
                let is_sum = !series.contains("quantile");
                assert!(found.is_some_and(|(_, now)| !is_sum || now >= value), "{series}: {now:?}");
            }
            assert!(round == 1 || before.len() == now.len(), "{before:?}, then {now:?}");
            let of = |thread: &str| {
                let labels = format!("{{thread=\"{thread}\",span=\"work\",file=\"");
                let start = format!("rdpmc_span_seconds_count{labels}");
                let counts = now.iter().filter(|(name, _)| name.starts_with(&start));
                counts.map(|(_, count)| *count as u64).collect::<Vec<_>>()
            };
            // Of two lines of one file, so that a series keeps its labels when a line moves.
            assert_eq!(of("a worker"), [4 * round]);
            assert_eq!(of("unnamed threads"), [4 * round]);
            before = now;
        }
        assert!(before.iter().any(|sample| *sample == ("rdpmc_spans_lost_total".into(), 0.0)));
        assert!(before.iter().any(|sample| *sample == ("rdpmc_spans_dropped_total".into(), 0.0)));
    }
}

/// The clock is calibrated anew while nothing is recorded: sums stay as they are.
#[test]
fn sums_do_not_fall() {
    let _turn = turn();
    let mut spans = Settings::new().start().unwrap();
    {
        let _span = span!("long");
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    let first = samples(&spans.view());
    for _ in 0..20 {
        std::thread::sleep(std::time::Duration::from_millis(11));
        let now = samples(&spans.view());
        let sums = |of: &[(String, f64)]| {
            let sums = of.iter().filter(|(series, _)| !series.contains("quantile"));
            sums.cloned().collect::<Vec<_>>()
        };
        assert_eq!(sums(&now), sums(&first));
    }
}

/// Threads beyond the names that are kept are one row, and unnamed threads another.
#[test]
fn many_names() {
    let _turn = turn();
    let mut spans = Settings::new().start().unwrap();
    let record = |name: Option<String>| {
        let thread = std::thread::Builder::new();
        let thread = name.map_or(thread, |name| std::thread::Builder::new().name(name));
        thread.spawn(|| drop(span!("work"))).unwrap().join().unwrap();
    };
    (0..64).for_each(|number| record(Some(format!("name {number}"))));
    for name in [None, Some("late"), None, Some("later")] {
        record(name.map(str::to_string));
    }
    let interval = spans.view();
    let report = interval.report();
    let of = |name: &str| {
        let mut rows = report.rows.iter();
        rows.find(|row| row.thread_name == name).map(|row| row.count)
    };
    assert_eq!([of("unnamed threads"), of("threads of other names")], [Some(2), Some(2)]);
    let of = |name: &str| {
        let start = format!("rdpmc_span_seconds_count{{thread=\"{name}\"");
        let all = samples(&interval);
        all.iter().find(|(series, _)| series.starts_with(&start)).map(|(_, count)| *count)
    };
    assert_eq!([of("unnamed threads"), of("threads of other names")], [Some(2.0), Some(2.0)]);
}

/// Unnamed threads are one row when they have ended, so that they do not use up the names that are kept.
#[test]
fn many_unnamed_threads() {
    let _turn = turn();
    let mut spans = Settings::new().start().unwrap();
    for _ in 0..200 {
        std::thread::spawn(|| drop(span!("work"))).join().unwrap();
    }
    let named = std::thread::Builder::new().name("a name".into());
    named.spawn(|| drop(span!("work"))).unwrap().join().unwrap();
    let report = spans.report();
    let rows: Vec<_> =
        report.rows.iter().map(|row| (row.thread_name.as_str(), row.count)).collect();
    assert_eq!(rows, [("unnamed threads", 200), ("a name", 1)], "{report}");
}

/// Threads that save to one path do not write into each other's file, and a link's target is replaced, not the link.
#[test]
fn saves_to_one_path() {
    let _turn = turn();
    let mut spans = start();
    (0..2_000).for_each(|_| drop(span!("a span")));
    let first = spans.view();
    (0..5_000).for_each(|_| drop(span!("another")));
    let second = spans.view();
    let folder = std::env::temp_dir().join(format!("rdpmc-spans-saves-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let (path, link) = (folder.join("trace.json"), folder.join("link.json"));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    std::fs::write(&path, "").unwrap();
    for _ in 0..20 {
        std::thread::scope(|scope| {
            scope.spawn(|| first.save_trace(&path).unwrap());
            scope.spawn(|| second.save_trace(&link).unwrap());
        });
        let trace = std::fs::read(&path).unwrap();
        let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
        let spans = trace["traceEvents"].as_array().unwrap();
        let spans = spans.iter().filter(|event| event["ph"] == "X").count();
        assert!([2_000, 7_000].contains(&spans), "{spans}");
    }
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
    // What a link leads to need not be there.
    std::fs::remove_file(&path).unwrap();
    first.save_trace(&link).unwrap();
    assert!(std::fs::symlink_metadata(&path).unwrap().is_file());
    // An open file of this process is written to, as /dev/stdout would be.
    let log = folder.join("log");
    std::fs::write(&log, "earlier\n").unwrap();
    let open = std::fs::File::options().append(true).open(&log).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&open);
    for name in ["/dev/fd", "/proc/self/fd"] {
        first.save_trace(format!("{name}/{number}")).unwrap();
    }
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.starts_with("earlier\n") && text.matches("traceEvents").count() == 2);
    // A name of the greatest length.
    let long = folder.join("x".repeat(255));
    first.save_trace(&long).unwrap();
    assert!(first.save_trace(&folder).is_err(), "a folder");
    first.save_trace("/dev/null").unwrap();
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Readers that take numbers for floating point would change large ones: they are strings. The parts of a cause are fields.
#[test]
fn large_numbers_and_causes_in_json() {
    let _turn = turn();
    let mut spans = Settings::new().causes().slowest(1).start().unwrap();
    const EXACT: u64 = 1 << 53;
    for number in [0, EXACT - 1, EXACT, u64::MAX] {
        let _span = span!("order", number);
        if number == 0 {
            let _inner = span!("inner");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    let interval = spans.take();
    let mut lines = Vec::new();
    interval.write_json_lines(&mut lines).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let numbers: Vec<serde_json::Value> =
        lines.filter(|line| line["name"] == "order").map(|line| line["number"].clone()).collect();
    let max = u64::MAX.to_string();
    assert_eq!(
        numbers,
        [0.into(), (EXACT - 1).into(), EXACT.to_string().into(), max.into()]
            as [serde_json::Value; 4]
    );
    let mut report = Vec::new();
    interval.write_json(&mut report).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let slow = &report["slowest"][0];
    assert_eq!((&slow["name"], &slow["number"]), (&"order".into(), &0.into()), "{slow}");
    assert_eq!(slow["place"]["name"], "inner", "{slow}");
    assert_eq!(slow["line"], interval.report().slowest()[0].as_str(), "{slow}");
    if interval.threads()[0].knows_causes {
        // Beside load, it gets its CPU late after the sleep.
        let reasons = slow["reasons"].as_array().unwrap();
        let is_of_the_sleep = |reason: &&serde_json::Value| {
            reason["what"] == "waited" || reason["what"] == "woken late"
        };
        let of_the_sleep = reasons.iter().filter(is_of_the_sleep);
        let ns: u64 = of_the_sleep.map(|reason| reason["ns"].as_u64().unwrap()).sum();
        assert!(ns >= 19_000_000, "{slow}");
    }
}
