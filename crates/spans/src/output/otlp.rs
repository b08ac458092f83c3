//! Slow spans for OpenTelemetry.

use crate::batch::{Batch, Tree};
use crate::cause::{Cause, Usual, nodes};
use crate::collect::Kept;
use crate::output::process_name;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{self, Write};
use std::time::UNIX_EPOCH;

/// Writes the slow spans as a request to export them.
pub(crate) fn write(batch: &Batch, service: &str, mut to: impl Write) -> io::Result<()> {
    let (usual, mut ids) = (Usual::new(batch), Ids::new());
    let spans = batch.slow.iter().flat_map(|tree| trace(&usual, tree, &mut ids)).collect();
    let resource = Resource {
        attributes: vec![
            attribute("service.name", text(service)),
            attribute("process.pid", integer(std::process::id().into())),
            attribute("process.executable.name", text(&process_name())),
        ],
        ..Resource::default()
    };
    let scope = InstrumentationScope {
        name: env!("CARGO_PKG_NAME").into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..InstrumentationScope::default()
    };
    let of_scope = ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() };
    let resource_spans = vec![ResourceSpans {
        resource: Some(resource),
        scope_spans: vec![of_scope],
        ..ResourceSpans::default()
    }];
    to.write_all(&ExportTraceServiceRequest { resource_spans }.encode_to_vec())?;
    to.flush()
}

/// Numbers that no other process has.
struct Ids {
    /// Its keys are random.
    random: RandomState,
    taken: u64,
}

impl Ids {
    fn new() -> Ids {
        Ids { random: RandomState::new(), taken: 0 }
    }

    fn next(&mut self) -> [u8; 8] {
        self.taken += 1;
        // 0 is none.
        self.random.hash_one(self.taken).max(1).to_be_bytes()
    }
}

/// Returns a slow span and those inside as a trace, the slow one first.
fn trace(usual: &Usual<'_>, tree: &Tree, ids: &mut Ids) -> Vec<Span> {
    let trace = [ids.next(), ids.next()].concat();
    let nodes = nodes(&tree.root, tree.inside.iter());
    let mut spans: Vec<Span> =
        nodes.iter().map(|node| span(usual.batch, node.kept, &trace, ids.next())).collect();
    for (node, id) in nodes.iter().zip(spans.clone().into_iter().map(|span| span.span_id)) {
        for place in &node.inside {
            if let Some(inner) = spans.get_mut(*place) {
                inner.parent_span_id.clone_from(&id);
            }
        }
    }
    if let Some(root) = spans.last_mut() {
        let cause = Cause::find(usual, tree).to_string();
        root.attributes.push(attribute("rdpmc.cause", text(&cause)));
    }
    spans.reverse();
    spans
}

fn span(batch: &Batch, kept: &Kept, trace: &[u8], id: [u8; 8]) -> Span {
    let [start_time_unix_nano, end_time_unix_nano] = batch.time.nanoseconds(kept).map(|ns| {
        let since = batch.time.wall(ns).duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    });
    Span {
        trace_id: trace.to_vec(),
        span_id: id.to_vec(),
        name: kept.raw.site.name().into(),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano,
        end_time_unix_nano,
        attributes: attributes(batch, kept),
        ..Span::default()
    }
}

/// Returns what is known of a span: where it is by OpenTelemetry's conventions, and the rest by the names that traces use.
fn attributes(batch: &Batch, kept: &Kept) -> Vec<KeyValue> {
    let site = kept.raw.site;
    let mut all = vec![
        attribute("code.file.path", text(site.file())),
        attribute("code.line.number", integer(site.line().into())),
        attribute("thread.id", integer(kept.thread.kernel_id().into())),
        attribute("thread.name", text(&kept.thread.name)),
    ];
    let mut add = |name: &str, value: Value| all.push(attribute(&format!("rdpmc.{name}"), value));
    if let Some(number) = kept.number() {
        add("number", integer(number));
    }
    if let Some(polls) = kept.polls() {
        let busy = batch.time.conversion(&kept.thread).delta_ns(polls.busy);
        add("polls", integer(polls.times));
        add("busy_ns", integer(busy));
    }
    if kept.raw.is_counted() {
        let counted = &kept.thread.counted;
        let counts = counted.events.iter().zip(kept.raw.counts);
        for (event, count) in counts.skip(counted.events_of_slots()) {
            add(&event.to_string(), integer(count));
        }
    }
    let flags: Vec<AnyValue> =
        kept.raw.flags.names().map(|flag| AnyValue { value: Some(text(flag)) }).collect();
    if !flags.is_empty() {
        add("flags", Value::ArrayValue(ArrayValue { values: flags }));
    }
    all
}

fn attribute(name: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: name.into(), value, ..KeyValue::default() }
}

fn text(text: &str) -> Value {
    Value::StringValue(text.into())
}

/// Returns an integer, which has a sign there. Larger ones are text.
fn integer(number: u64) -> Value {
    i64::try_from(number).map_or_else(|_| text(&number.to_string()), Value::IntValue)
}
