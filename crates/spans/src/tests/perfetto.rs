//! Perfetto's format, decoded, against the lines of JSON of the same records.

use crate::batch::SlowKeeper;
use crate::output::{PerfettoTrace, json};
use crate::session::Slow;
use crate::tests::game::{Game, Nest, Random, batch};
use rdpmc_testing::skips;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::time::Instant;

/// A field of a message: its number, and a number or bytes.
enum Of<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for place in 0.. {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(first & 0x7f) << (7 * place);
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Of<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let of = match tag & 7 {
            0 => Of::Number(varint(&mut bytes)),
            1 => {
                let (value, rest) = bytes.split_first_chunk::<8>().unwrap();
                bytes = rest;
                Of::Number(u64::from_le_bytes(*value))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Of::Bytes(value)
            }
            of => panic!("a field of type {of}"),
        };
        fields.push((tag >> 3, of));
    }
    fields
}

fn number(message: &[(u64, Of<'_>)], field: u64) -> Option<u64> {
    let found = message.iter().find(|(known, _)| *known == field);
    found.and_then(|(_, of)| if let Of::Number(number) = of { Some(*number) } else { None })
}

fn all<'a>(message: &[(u64, Of<'a>)], field: u64) -> Vec<&'a [u8]> {
    let found = message.iter().filter(|(known, _)| *known == field);
    found
        .filter_map(|(_, of)| if let Of::Bytes(bytes) = of { Some(*bytes) } else { None })
        .collect()
}

fn text(message: &[(u64, Of<'_>)], field: u64) -> String {
    all(message, field)
        .first()
        .map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
        .unwrap_or_default()
}

/// What a sequence has interned, and its time.
#[derive(Default)]
struct Sequence {
    names: HashMap<(u64, u64), String>,
    lines: HashMap<u64, (String, u64)>,
    track: u64,
    is_of_differences: bool,
    now: u64,
}

/// An event of a track: when, which one, and what it has.
struct Event {
    ns: u64,
    kind: u64,
    track: u64,
    /// What a span's beginning has, as JSON. The text takes less memory than its values.
    span: Option<Box<str>>,
    flows: Vec<u64>,
    value: f64,
}

/// A trace as Perfetto's trace processor reads it.
#[derive(Default)]
struct Decoded {
    sequences: HashMap<u64, Sequence>,
    /// The names of tracks, and their parents.
    tracks: HashMap<u64, (String, u64)>,
    events: Vec<Event>,
}

impl Decoded {
    fn of(trace: &[u8]) -> Decoded {
        let mut decoded = Decoded::default();
        decoded.packets(trace);
        // The sort is stable, as the trace processor's.
        decoded.events.sort_by_key(|event| event.ns);
        decoded
    }

    fn packets(&mut self, trace: &[u8]) {
        for (field, of) in fields(trace) {
            let Of::Bytes(packet) = of else { panic!("a packet is no message") };
            assert_eq!(field, 1);
            let packet = fields(packet);
            for compressed in all(&packet, 50) {
                let inner = miniz_oxide::inflate::decompress_to_vec_zlib(compressed).unwrap();
                self.packets(&inner);
            }
            let Some(id) = number(&packet, 10) else { continue };
            self.packet(id, &packet);
        }
    }

    fn packet(&mut self, id: u64, packet: &[(u64, Of<'_>)]) {
        let sequence = self.sequences.entry(id).or_default();
        if number(packet, 13) == Some(1) {
            *sequence = Sequence::default();
        }
        for defaults in all(packet, 59).into_iter().map(fields) {
            sequence.is_of_differences = number(&defaults, 58) == Some(64);
            let event = all(&defaults, 11).first().map(|event| fields(event));
            sequence.track = event.and_then(|event| number(&event, 11)).unwrap();
        }
        for interned in all(packet, 12).into_iter().map(fields) {
            for kind in [2, 3, 29] {
                for entry in all(&interned, kind).into_iter().map(fields) {
                    sequence.names.insert((kind, number(&entry, 1).unwrap()), text(&entry, 2));
                }
            }
            for entry in all(&interned, 4).into_iter().map(fields) {
                let line = (text(&entry, 2), number(&entry, 4).unwrap());
                sequence.lines.insert(number(&entry, 1).unwrap(), line);
            }
        }
        for track in all(packet, 60).into_iter().map(fields) {
            let thread = all(&track, 4).first().map(|thread| text(&fields(thread), 5));
            let of = (thread.unwrap_or_else(|| text(&track, 2)), number(&track, 5).unwrap_or(0));
            self.tracks.insert(number(&track, 1).unwrap(), of);
        }
        for event in all(packet, 11).into_iter().map(fields) {
            let timestamp = number(packet, 8).unwrap();
            sequence.now =
                if sequence.is_of_differences { sequence.now + timestamp } else { timestamp };
            let mut span = json!({});
            let kind = number(&event, 9).unwrap();
            if let Some(name) = number(&event, 10) {
                let (file, line) = &sequence.lines[&number(&event, 34).unwrap()];
                span = json!({ "name": sequence.names[&(2, name)], "file": file, "line": line });
            }
            for argument in all(&event, 4).into_iter().map(fields) {
                let name = match number(&argument, 1) {
                    Some(name) => sequence.names[&(3, name)].clone(),
                    None => text(&argument, 10),
                };
                span[name] = match (number(&argument, 3), number(&argument, 17)) {
                    (Some(count), _) => count.into(),
                    (_, Some(flags)) => {
                        sequence.names[&(29, flags)].split(", ").collect::<Vec<_>>().into()
                    }
                    _ => text(&argument, 6).into(),
                };
            }
            let flows = event.iter().filter(|(field, _)| *field == 47);
            self.events.push(Event {
                ns: sequence.now,
                kind,
                track: number(&event, 11).unwrap_or(sequence.track),
                span: (kind == 1).then(|| span.to_string().into()),
                flows: flows
                    .map(|(_, of)| if let Of::Number(flow) = of { *flow } else { 0 })
                    .collect(),
                value: number(&event, 44).map_or(0.0, f64::from_bits),
            });
        }
    }

    /// Calls `each` with every span as a line of JSON, with the name of its thread, and with the name of the span around it on its
    /// track.
    fn spans(&self, mut each: impl FnMut(Value, Option<&str>)) {
        let mut open: HashMap<u64, Vec<(u64, &str)>> = HashMap::new();
        for event in &self.events {
            let stack = open.entry(event.track).or_default();
            match (event.kind, &event.span) {
                (1, Some(span)) => stack.push((event.ns, span)),
                (2, _) => {
                    let (start, span) = stack.pop().unwrap();
                    let mut span: Value = serde_json::from_str(span).unwrap();
                    let (name, parent) = &self.tracks[&event.track];
                    // A track of late spans is below that of the thread.
                    let thread = self.tracks.get(parent).filter(|_| *parent != 1);
                    span["thread"] = thread.map_or(name, |(name, _)| name).as_str().into();
                    (span["start_ns"], span["ns"]) = (start.into(), (event.ns - start).into());
                    each(span, stack.last().map(|(_, around)| *around));
                }
                _ => {}
            }
        }
        assert!(open.values().all(Vec::is_empty));
    }
}

/// The lines of JSON with what a trace has.
fn lines(batch: &crate::batch::Batch) -> Vec<Value> {
    let mut lines = Vec::new();
    json::write_lines(batch, &mut lines).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let lines = lines.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let fields = line.as_object_mut().unwrap();
        fields.remove("thread_number");
        fields.retain(|_, value| !value.is_null() && *value != json!([]));
        line
    });
    lines.collect()
}

/// A number for a line, to compare millions of them in any order.
fn hash(line: &Value) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    line.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Counts what is written, and keeps it or not.
struct Written {
    bytes: u64,
    kept: Option<Vec<u8>>,
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes += bytes.len() as u64;
        self.kept.iter_mut().for_each(|kept| kept.extend_from_slice(bytes));
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes this many frames, in calls of six frames each: a tenth of a second. Returns the number of records, and what is written.
fn write(frames: u64, keeps: bool, mut see: impl FnMut(&crate::batch::Batch)) -> (u64, Written) {
    let mut game = Game::new();
    let mut trace = PerfettoTrace::new(Written { bytes: 0, kept: keeps.then(Vec::new) });
    let (mut records, mut time) = (0, std::time::Duration::ZERO);
    for _ in 0..frames / 6 {
        let mut fresh = Vec::new();
        (0..6).for_each(|_| game.frame(&mut fresh));
        fresh.sort_by_key(|kept| kept.raw.ticks[1]);
        records += fresh.len() as u64;
        let batch = batch(fresh);
        see(&batch);
        let begun = Instant::now();
        trace.write_batch(&batch, batch.records.iter()).unwrap();
        time += begun.elapsed();
    }
    let written = trace.finish().unwrap();
    println!(
        "{records} records: {:.1} bytes a record, {:.2} million records a second",
        written.bytes as f64 / records as f64,
        records as f64 / 1e6 / time.as_secs_f64()
    );
    (records, written)
}

/// A million records of two threads: the trace has the same spans and counts as the lines of JSON, at 20 bytes a record at most.
#[test]
fn a_million_records() {
    let mut expected = Vec::new();
    let frames = if skips::is_whole("a_million_records") { 49_200 } else { 4_920 };
    let hashes = |batch: &crate::batch::Batch| expected.extend(lines(batch).iter().map(hash));
    let (records, written) = write(frames, true, hashes);
    assert!(written.bytes <= 20 * records, "{} bytes for {records} records", written.bytes);
    let decoded = Decoded::of(&written.kept.unwrap());
    let (mut found, mut outermost) = (Vec::new(), 0);
    decoded.spans(|mut span, around| {
        if let Some(around) = around {
            let around: Value = serde_json::from_str(around).unwrap();
            span["parent"] = around["name"].clone();
        }
        outermost += u64::from(around.is_none());
        found.push(hash(&span));
    });
    expected.sort_unstable();
    found.sort_unstable();
    assert!(found == expected, "{} spans, {} records", found.len(), expected.len());
    assert_eq!(outermost, frames + frames / 2);
    // A track of each thread, with instructions per cycle while a frame runs, and 0 between frames.
    let tracks = decoded.tracks.values().map(|(name, _)| name.as_str());
    assert_eq!(tracks.filter(|name| *name == "IPC").count(), 2);
    let values: Vec<f64> =
        decoded.events.iter().filter(|it| it.kind == 4).map(|it| it.value).collect();
    let (zeros, rates): (Vec<f64>, Vec<f64>) = values.into_iter().partition(|value| *value == 0.0);
    assert_eq!(
        (zeros.len() as u64, rates.len() as u64),
        (frames + frames / 2, frames + frames / 2)
    );
    assert!(rates.iter().all(|rate| (0.01..4.0).contains(rate)));
}

/// Random trees of spans and laps, most of which begin and end in the same ticks, written in calls of any size. All are in the trace,
/// and each is in the span that was around it.
#[test]
fn any_nesting() {
    for seed in 1..60 {
        let mut random = Random(seed * 7_919);
        let mut nest = Nest::new(seed % 3 == 0);
        for _ in 0..random.below(40) {
            nest.tree(&mut random, 1);
        }
        let (mut trace, mut expected) = (PerfettoTrace::new(Vec::new()), Vec::new());
        // That laps are around spans shows at the end of the first one.
        let first_lap = nest.records.iter().position(|kept| kept.raw.is_lap());
        let mut size = first_lap.map_or(0, |lap| lap + 1);
        let mut records = nest.records.into_iter().peekable();
        while records.peek().is_some() {
            let batch = batch(records.by_ref().take(size).collect());
            size = random.below(30) as usize;
            expected.extend(lines(&batch));
            trace.write_batch(&batch, batch.records.iter()).unwrap();
        }
        let trace = trace.finish().unwrap();
        let mut found = Vec::new();
        Decoded::of(&trace).spans(|mut span, around| {
            if let Some(around) = around {
                let around: Value = serde_json::from_str(around).unwrap();
                span["parent"] = around["name"].clone();
            }
            found.push(span.to_string());
        });
        let mut expected: Vec<String> = expected.iter().map(Value::to_string).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "seed {seed}");
    }
}

/// A span that never seems to end does not make the others wait, and has a track of its own. So do spans that end out of order.
#[test]
fn spans_that_come_late() {
    let mut game = Game::new();
    let mut records = Vec::new();
    (0..3_000).for_each(|_| game.frame(&mut records));
    records.sort_by_key(|kept| kept.raw.ticks[1]);
    for kept in records.iter_mut().filter(|kept| kept.thread.number == 1) {
        kept.raw.depth += 1;
    }
    let end = records.last().unwrap().raw.ticks[1];
    let around = game.around([0, end], 1);
    // Two that overlap: the first one ended after the second one began.
    let overlapping = [game.around([end, end + 20], 1), game.around([end + 10, end + 30], 1)];
    let mut trace = PerfettoTrace::new(Vec::new());
    let mut most = 0;
    let all: Vec<_> = records.into_iter().chain([around]).chain(overlapping).collect();
    for some in all.chunks(500) {
        trace.write_batch(&batch(Vec::new()), some.iter()).unwrap();
        most = most.max(trace.waiting());
    }
    assert!((16_000..17_000).contains(&most), "{most}");
    let decoded = Decoded::of(&trace.finish().unwrap());
    let (mut found, mut alone) = (Vec::new(), 0);
    decoded.spans(|span, around| {
        alone += u64::from(around.is_none());
        found.push(hash(&span));
    });
    let mut expected: Vec<u64> = Vec::new();
    for mut line in lines(&batch(all)) {
        line.as_object_mut().unwrap().remove("parent");
        expected.push(hash(&line));
    }
    found.sort_unstable();
    expected.sort_unstable();
    assert!(found == expected);
    // The frames, the worker's jobs, and the three. Frames were cut by no call.
    assert_eq!(alone, 3_000 + 1_500 + 3);
    let late =
        decoded.tracks.values().filter(|(name, _)| name == "spans around others, or out of order");
    assert_eq!(late.count(), 1);
}

/// After an error, nothing is added to a trace that lacks a part.
#[test]
fn a_disk_that_is_full() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let some = bytes.len().min(self.0);
            self.0 -= some;
            if some == 0 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(some) }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut game = Game::new();
    let mut trace = PerfettoTrace::new(Full(100_000));
    let mut errors = Vec::new();
    for _ in 0..100 {
        let mut records = Vec::new();
        (0..100).for_each(|_| game.frame(&mut records));
        let batch = batch(records);
        errors.extend(trace.write_batch(&batch, batch.records.iter()).err().map(|why| why.kind()));
    }
    let [first, others @ ..] = errors.as_slice() else { panic!("no error") };
    assert_eq!(*first, std::io::ErrorKind::StorageFull);
    assert!(!others.is_empty() && others.iter().all(|kind| *kind == std::io::ErrorKind::Other));
    assert!(trace.waiting() < 16_384);
    assert_eq!(trace.finish().err().map(|why| why.kind()), Some(std::io::ErrorKind::Other));
}

/// A slow frame has its cause, and a flow to each span of another thread that overlaps it.
#[test]
fn flows_of_slow_spans() {
    let mut game = Game::new();
    let mut records = Vec::new();
    (0..60).for_each(|_| game.frame(&mut records));
    let mut keeper = SlowKeeper::new(Slow { slowest: 2, ..Slow::default() });
    let whole = batch(records);
    whole.records.iter().for_each(|kept| keeper.see(kept, &whole.time));
    keeper.end_collect(&whole.records);
    let whole = crate::batch::Batch { slow: keeper.view().0, ..whole };
    let mut trace = PerfettoTrace::new(Vec::new());
    trace.write_batch(&whole, whole.records.iter()).unwrap();
    let decoded = Decoded::of(&trace.finish().unwrap());
    let number = |event: &Event| {
        let span: Value = serde_json::from_str(event.span.as_ref()?).ok()?;
        span["cause"].is_string().then(|| span["number"].as_u64())?
    };
    let mut slow: Vec<u64> = decoded.events.iter().filter_map(number).collect();
    let mut expected: Vec<u64> = whole.slow.iter().filter_map(|tree| tree.root.number).collect();
    slow.sort_unstable();
    expected.sort_unstable();
    assert_eq!((slow.len(), slow), (2, expected));
    let mut flows: HashMap<u64, Vec<u64>> = HashMap::new();
    for event in &decoded.events {
        event.flows.iter().for_each(|flow| flows.entry(*flow).or_default().push(event.track));
    }
    let beside: usize = whole.slow.iter().map(|tree| tree.beside.len()).sum();
    assert!(beside > 0 && flows.len() == beside, "{beside} {flows:?}");
    assert!(flows.values().all(|tracks| tracks.len() == 2 && tracks[0] != tracks[1]), "{flows:?}");
}

/// A day of a game: 60 frames a second, 20 spans each, two counters.
#[test]
#[ignore = "takes minutes. `cargo test --release -p rdpmc-spans --lib -- --ignored --nocapture a_day`"]
fn a_day_of_a_game() {
    let memory = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak.unwrap().trim().to_owned()
    };
    let before = memory();
    let (records, written) = write(86_400 * 60, false, |_| {});
    println!(
        "a day: {records} records in {:.2} GB. The peak of memory was {before} before, and {} after",
        written.bytes as f64 / 1e9,
        memory()
    );
    assert!(written.bytes <= 20 * records);
}
