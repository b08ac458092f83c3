//! A trace as Perfetto's trace processor reads it: packets in the order of the file, events in the order of time, and slices that nest.

use serde_json::{Value, json};
use std::collections::HashMap;

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
pub(crate) struct Event {
    pub(crate) ns: u64,
    pub(crate) kind: u64,
    pub(crate) track: u64,
    /// What a span's beginning has, as JSON. The text takes less memory than its values.
    pub(crate) span: Option<Box<str>>,
    pub(crate) flows: Vec<u64>,
    pub(crate) value: f64,
}

/// A trace as Perfetto's trace processor reads it.
#[derive(Default)]
pub(crate) struct Decoded {
    sequences: HashMap<u64, Sequence>,
    /// The names of tracks, and their parents.
    pub(crate) tracks: HashMap<u64, (String, u64)>,
    /// The process and thread IDs of threads' tracks.
    pub(crate) threads: HashMap<u64, [u64; 2]>,
    pub(crate) events: Vec<Event>,
}

impl Decoded {
    pub(crate) fn decode(trace: &[u8]) -> Decoded {
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
            if let Some(thread) = all(&track, 4).first().map(|thread| fields(thread)) {
                let ids = [1, 2].map(|field| number(&thread, field).unwrap());
                self.threads.insert(number(&track, 1).unwrap(), ids);
            }
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
            if !all(&event, 23).is_empty() {
                span["name"] = text(&event, 23).into();
            }
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
                span: (kind != 4).then(|| span.to_string().into()),
                flows: flows
                    .map(|(_, of)| if let Of::Number(flow) = of { *flow } else { 0 })
                    .collect(),
                value: number(&event, 44).map_or(0.0, f64::from_bits),
            });
        }
    }

    /// Calls `each` with every span as a line of JSON, with the name of its thread, and with the name of the span around it on its
    /// track.
    pub(crate) fn spans(&self, mut each: impl FnMut(Value, Option<&str>)) {
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
