//! Traces in Perfetto's format, written while the program runs.

#[path = "../../src/tests/decoded.rs"]
#[allow(dead_code, reason = "flows and counters are tested with known counts")]
pub(crate) mod decoded;

use crate::recording::turn;
use decoded::Decoded;
use rdpmc_spans::{Laps, PerfettoTrace, Settings, Storage, span, stages};
use std::collections::HashMap;
use std::io::ErrorKind;

stages! { enum Stage { Read = "read", Write = "write" } }

/// Threads, spans and laps, while another thread writes the trace: all are there, and the report goes on.
#[test]
fn a_trace_while_the_program_runs() {
    let _turn = turn();
    let mut spans = Settings::new().slowest(2).start().unwrap();
    let mut trace = PerfettoTrace::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for frame in 0..2_000_u64 {
                    let _frame = span!("frame", frame);
                    let mut laps = Laps::start();
                    drop(span!("inner"));
                    laps.next(Stage::Read);
                    laps.next(Stage::Write);
                    std::hint::black_box((0..100_u64).sum::<u64>());
                }
            });
        }
        for _ in 0..50 {
            spans.write_perfetto(&mut trace).unwrap();
            std::thread::yield_now();
        }
    });
    spans.write_perfetto(&mut trace).unwrap();
    let interval = spans.take();
    assert_eq!(interval.records().len(), 0);
    let mut counts: HashMap<String, u64> = HashMap::new();
    let mut numbers = 0;
    let mut parents: HashMap<(String, Option<String>), u64> = HashMap::new();
    let trace = trace.finish().unwrap();
    Decoded::decode(&trace).spans(|span, around| {
        let name = span["name"].as_str().unwrap().to_owned();
        numbers += span["number"].as_u64().unwrap_or(0);
        let around = around.map(|around| {
            let around: serde_json::Value = serde_json::from_str(around).unwrap();
            around["name"].as_str().unwrap().to_owned()
        });
        *counts.entry(name.clone()).or_default() += 1;
        *parents.entry((name, around)).or_default() += 1;
    });
    let expected = ["frame", "inner", "read", "write"].map(|name| (name.to_owned(), 4_000));
    assert_eq!(counts, HashMap::from(expected));
    assert_eq!(numbers, 2 * (0..2_000).sum::<u64>());
    let in_frames = |name: &str| parents.get(&(name.to_owned(), Some("frame".into()))).copied();
    assert_eq!([in_frames("read"), in_frames("write")], [Some(4_000); 2], "{parents:?}");
    assert_eq!(
        parents.get(&("inner".to_owned(), Some("read".into()))),
        Some(&4_000),
        "{parents:?}"
    );
    // The report has them all the same.
    let rows = interval.report().rows;
    assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 16_000);
    assert_eq!(interval.slowest().len(), 2);
}

/// A trace is of one recording, and its records are not lost by an attempt to add them to another.
#[test]
fn another_recording() {
    let _turn = turn();
    let mut spans = Settings::new().start().unwrap();
    drop(span!("one"));
    let mut trace = PerfettoTrace::new(Vec::new());
    spans.write_perfetto(&mut trace).unwrap();
    drop(spans);
    let mut spans = Settings::new().start().unwrap();
    drop(span!("two"));
    let refused = spans.write_perfetto(&mut trace).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    let interval = spans.take();
    assert_eq!(interval.append_perfetto(&mut trace).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(interval.records().len(), 1);
    let mut found = Vec::new();
    Decoded::decode(&trace.finish().unwrap()).spans(|span, _| found.push(span["name"].clone()));
    assert_eq!(found, ["one"]);
}

/// With histograms, the slow spans are all the records that there are.
#[test]
fn slow_spans_of_histograms() {
    let _turn = turn();
    let mut spans = Settings::new().storage(Storage::Histograms).slowest(3).start().unwrap();
    for frame in 0..100 {
        let _frame = span!("frame", frame);
        drop(span!("inner"));
    }
    let interval = spans.take();
    let mut trace = Vec::new();
    interval.write_slow_perfetto(&mut trace).unwrap();
    let mut found = Vec::new();
    Decoded::decode(&trace).spans(|span, around| {
        found.push((span["name"].as_str().unwrap().to_owned(), around.is_some()));
    });
    found.sort();
    let expected = [("frame", false); 3].into_iter().chain([("inner", true); 3]);
    assert_eq!(
        found,
        expected.map(|(name, is_inside)| (name.to_owned(), is_inside)).collect::<Vec<_>>()
    );
}

/// A writer that panics is not called again, when the trace is dropped: that would end the process.
#[test]
fn a_writer_that_panics() {
    struct Panics;
    impl std::io::Write for Panics {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            panic!("as planned");
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let _turn = turn();
    let mut spans = Settings::new().start().unwrap();
    let outer = span!("outer");
    drop(span!("inner"));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut trace = PerfettoTrace::new(Panics);
        spans.write_perfetto(&mut trace).unwrap();
        trace.flush().unwrap();
    }));
    assert!(caught.is_err());
    drop(outer);
    assert_eq!(spans.take().records().count(), 1);
}
