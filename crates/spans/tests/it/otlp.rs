//! Slow spans for OpenTelemetry, read back by its own definitions.

use crate::recording::turn;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use rdpmc_spans::{Laps, Moment, Settings, Site, record, span};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn value(span: &Span, key: &str) -> Option<Value> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    found.value.clone()?.value
}

fn text(span: &Span, key: &str) -> String {
    match value(span, key) {
        Some(Value::StringValue(text)) => text,
        other => panic!("{key}: {other:?}"),
    }
}

/// Each slow span is a trace, whose spans have the spans around them as parents.
#[test]
fn traces_of_slow_spans() {
    static LAP: Site = Site::new("lap", file!(), line!());
    let _turn = turn();
    let begin = SystemTime::now();
    let limit = Duration::from_millis(1);
    let settings = Settings::new().slowest(2).slow("answer", limit).causes();
    let mut spans = settings.start().unwrap();
    for frame in 0..10_u64 {
        let _frame = span!("frame", frame);
        let sent = Moment::now();
        {
            let _work = span!("work");
            drop(span!("inner"));
            let mut laps = Laps::start();
            drop(span!("in a lap"));
            laps.next(&LAP);
            if frame > 7 {
                std::thread::sleep(Duration::from_millis(20 + frame));
            }
        }
        if frame == 9 {
            record!("answer", sent.., 99);
        }
    }
    let interval = spans.take();
    let (mut bytes, mut again) = (Vec::new(), Vec::new());
    interval.write_otlp("a game", &mut bytes).unwrap();
    interval.write_otlp("a game", &mut again).unwrap();
    let request = ExportTraceServiceRequest::decode(&*bytes).unwrap();
    let [resource] = &request.resource_spans[..] else { panic!("{request:?}") };
    let service = resource.resource.clone().unwrap().attributes;
    assert_eq!(service[0].key, "service.name");
    assert_eq!(service[0].value.clone().unwrap().value, Some(Value::StringValue("a game".into())));
    let [scope] = &resource.scope_spans[..] else { panic!("{request:?}") };
    assert_eq!(scope.scope.clone().unwrap().name, "rdpmc-spans");

    let by_id: HashMap<&[u8], &Span> =
        scope.spans.iter().map(|span| (&*span.span_id, span)).collect();
    assert_eq!(by_id.len(), scope.spans.len(), "identifiers of spans");
    let traces: HashSet<&[u8]> = scope.spans.iter().map(|span| &*span.trace_id).collect();
    assert_eq!(traces.len(), interval.slowest().len());
    assert!(traces.iter().all(|trace| trace.len() == 16 && trace.iter().any(|byte| *byte > 0)));
    let other = ExportTraceServiceRequest::decode(&*again).unwrap();
    let others = &other.resource_spans[0].scope_spans[0].spans;
    assert!(others.iter().all(|span| !traces.contains(&*span.trace_id)));

    let around = |span: &Span| by_id.get(&*span.parent_span_id).map(|span| span.name.as_str());
    let mut roots = Vec::new();
    for span in &scope.spans {
        let [start, end] = [span.start_time_unix_nano, span.end_time_unix_nano];
        let first = begin.duration_since(UNIX_EPOCH).unwrap() - Duration::from_secs(1);
        assert!(u128::from(start) > first.as_nanos() && start <= end, "{span:?}");
        if let Some(around) = by_id.get(&*span.parent_span_id) {
            assert_eq!(around.trace_id, span.trace_id);
            assert!(around.start_time_unix_nano <= start && end <= around.end_time_unix_nano);
        } else {
            assert!(span.parent_span_id.is_empty());
            let number = value(span, "rdpmc.number");
            roots.push((span.name.clone(), number, text(span, "rdpmc.cause")));
        }
        assert!(text(span, "code.file.path").ends_with("otlp.rs"));
        assert_eq!(text(span, "thread.name"), "otlp::traces_of_slow_spans");
        let expected = match span.name.as_str() {
            "frame" | "answer" => None,
            "work" if around(span) == Some("answer") => Some("answer"),
            "work" => Some("frame"),
            "in a lap" => Some("lap"),
            _ => Some("work"),
        };
        assert_eq!(around(span), expected, "{span:?}");
    }
    let numbers: HashSet<(&str, Option<i64>)> = roots
        .iter()
        .map(|(name, number, _)| match number {
            Some(Value::IntValue(number)) => (name.as_str(), Some(*number)),
            _ => (name.as_str(), None),
        })
        .collect();
    assert!(numbers.contains(&("answer", Some(99))), "{roots:?}");
    assert!(numbers.contains(&("frame", Some(9))), "{roots:?}");
    assert!(roots.iter().all(|(_, _, cause)| cause.contains(" of work were")), "{roots:?}");
    let lengths: Vec<u64> = scope
        .spans
        .iter()
        .filter(|span| span.parent_span_id.is_empty())
        .map(|span| span.end_time_unix_nano - span.start_time_unix_nano)
        .collect();
    assert!(lengths.is_sorted_by(|one, next| one + 1_000_000 >= *next), "the slowest first");
}
