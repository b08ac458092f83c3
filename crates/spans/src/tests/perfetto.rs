//! Perfetto's format, decoded, against the lines of JSON of the same records.

use crate::batch::SlowKeeper;
use crate::output::perfetto::Missing;
use crate::output::{PerfettoTrace, json};
use crate::record::Flags;
use crate::session::Slow;
use crate::tests::decoded::{Decoded, Event};
use crate::tests::game::{Game, Nest, Random, batch};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::time::Instant;

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
        trace.add(&batch, batch.records.iter(), Missing::default()).unwrap();
        // As each call does that comes a tenth of a second after the last one.
        trace.flush().unwrap();
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

/// As `is_whole` of `rdpmc-testing`, which the package does not have.
fn is_whole(test: &str) -> bool {
    let is_whole = std::env::var_os("RDPMC_WHOLE").is_some_and(|value| value == "1");
    let walk = if is_whole { "whole" } else { "short, RDPMC_WHOLE=1 makes the whole one" };
    let line = format!("\nwalk of {test}: {walk}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    is_whole
}

/// Spans beside a slow one that were written before have no flow, rather than one with a single end.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn flows_of_several_calls() {
    let mut game = Game::new();
    let mut records = Vec::new();
    (0..60).for_each(|_| game.frame(&mut records));
    records.sort_by_key(|kept| kept.raw.ticks[1]);
    let mut keeper = SlowKeeper::new(Slow { slowest: 5, ..Slow::default() }.into());
    let mut trace = PerfettoTrace::new(Vec::new());
    for some in records.chunks(7) {
        let mut batch = batch(some.to_vec());
        batch.records.iter().for_each(|kept| keeper.see(kept, &batch.time));
        keeper.end_collect(&batch.records.iter().cloned().collect::<Vec<_>>());
        batch.slow = keeper.view().0;
        trace.add(&batch, batch.records.iter(), Missing::default()).unwrap();
    }
    let decoded = Decoded::decode(&trace.finish().unwrap());
    let mut flows: HashMap<u64, usize> = HashMap::new();
    decoded
        .events
        .iter()
        .flat_map(|event| &event.flows)
        .for_each(|flow| *flows.entry(*flow).or_default() += 1);
    assert!(flows.values().all(|ends| *ends == 2), "{flows:?}");
}

/// A million records of two threads: the trace has the same spans and counts as the lines of JSON, at 20 bytes a record at most.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn a_million_records() {
    let mut expected = Vec::new();
    let frames = if is_whole("a_million_records") { 49_200 } else { 4_920 };
    let hashes = |batch: &crate::batch::Batch| expected.extend(lines(batch).iter().map(hash));
    let (records, written) = write(frames, true, hashes);
    assert!(written.bytes <= 21 * records, "{} bytes for {records} records", written.bytes);
    let decoded = Decoded::decode(&written.kept.unwrap());
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
#[cfg_attr(miri, ignore = "takes minutes")]
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
            trace.add(&batch, batch.records.iter(), Missing::default()).unwrap();
        }
        let trace = trace.finish().unwrap();
        let mut found = Vec::new();
        Decoded::decode(&trace).spans(|mut span, around| {
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
        // The counters are those of spans that no other is around, from their beginning to their end.
        let decoded = Decoded::decode(&trace);
        let (mut depth, mut changes) = (0, Vec::new());
        for Event { kind, ns, .. } in &decoded.events {
            match kind {
                1 => depth += 1,
                2 => depth -= 1,
                4 => changes.push((*ns, depth)),
                _ => {}
            }
        }
        assert_eq!(depth, 0);
        assert!(changes.iter().all(|(_, depth)| *depth == 0), "seed {seed}: {changes:?}");
        assert_eq!(changes.len() % 2, 0);
    }
}

/// Laps of a loop inside the laps of another one, with and without calls in between. Only the first lap, which nothing announces, may
/// be on a track of its own.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn laps_in_laps() {
    for is_cut in [false, true] {
        let mut game = Game::new();
        let mut trace = PerfettoTrace::new(Vec::new());
        let lap = |game: &mut Game, ticks: [u64; 2]| {
            let mut kept = game.around(ticks, 1);
            kept.raw.flags = kept.raw.flags.union(Flags::LAP);
            kept
        };
        for round in 0..50 {
            let start = round * 1_000;
            let inner =
                [[start, start + 20], [start + 20, start + 40]].map(|ticks| lap(&mut game, ticks));
            let outer = lap(&mut game, [start, start + 1_000]);
            let calls = match is_cut {
                true => vec![inner.to_vec(), vec![outer]],
                false => vec![inner.into_iter().chain([outer]).collect()],
            };
            for records in calls {
                let batch = batch(records);
                trace.add(&batch, batch.records.iter(), Missing::default()).unwrap();
            }
        }
        let decoded = Decoded::decode(&trace.finish().unwrap());
        let (mut inside, mut all) = (0, 0);
        decoded.spans(|_, around| {
            inside += u64::from(around.is_some());
            all += 1;
        });
        // With calls in between, inner laps pass for outermost ones.
        let expected = if is_cut { 0 } else { 100 };
        assert_eq!((all, inside), (150, expected));
    }
}

/// Spans inside laps that last longer than a call are in them, but for the first.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn laps_longer_than_a_call() {
    let mut game = Game::new();
    let mut trace = PerfettoTrace::new(Vec::new());
    for round in 0..50 {
        let start = round * 1_000;
        let mut lap = game.around([start, start + 1_000], 1);
        lap.raw.flags = lap.raw.flags.union(Flags::LAP);
        for kept in [game.around([start + 10, start + 20], 1), lap] {
            let batch = batch(vec![kept]);
            trace.add(&batch, batch.records.iter(), Missing::default()).unwrap();
        }
    }
    let mut inside = 0;
    Decoded::decode(&trace.finish().unwrap())
        .spans(|_, around| inside += u64::from(around.is_some()));
    assert_eq!(inside, 49);
}

/// A thread that has ended leaves nothing, also if the span around its last ones was never recorded.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn threads_that_end() {
    let mut game = Game::new();
    let mut trace = PerfettoTrace::new(Vec::new());
    for number in 3..2_000 {
        let mut kept = game.around([number, number + 5], 2);
        kept.thread = game.thread(number as u32);
        let batch = batch(vec![kept]);
        trace.add(&batch, batch.records.iter(), Missing::default()).unwrap();
        assert!(trace.waiting() <= 1);
    }
    let mut spans = 0;
    Decoded::decode(&trace.finish().unwrap()).spans(|_, _| spans += 1);
    assert_eq!(spans, 1_997);
}

/// A trace that ends after any packet can be read: spans that had not ended are open.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn a_trace_that_is_cut() {
    let mut game = Game::new();
    let mut trace = PerfettoTrace::new(Vec::new());
    let mut ends = Vec::new();
    let frames = if is_whole("a_trace_that_is_cut") { 300 } else { 50 };
    for _ in 0..20 {
        let mut records = Vec::new();
        (0..frames).for_each(|_| game.frame(&mut records));
        let batch = batch(records);
        trace.add(&batch, batch.records.iter(), Missing::default()).unwrap();
        trace.flush().unwrap();
        ends.push(trace.written().unwrap().len());
    }
    let whole = trace.finish().unwrap();
    for (calls, end) in ends.into_iter().enumerate() {
        let decoded = Decoded::decode(&whole[..end]);
        let begun = decoded.events.iter().filter(|event| event.kind == 1).count();
        assert_eq!(begun, (calls + 1) * (frames * 20 + frames / 2), "all spans are flushed");
    }
}

/// A call that comes a while after the last one writes all that it got, and so does dropping the trace: a program that ends then lacks
/// nothing.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn a_trace_without_an_end() {
    let begun =
        |bytes: &[u8]| Decoded::decode(bytes).events.iter().filter(|event| event.kind == 1).count();
    let mut game = Game::new();
    let mut next = || {
        let mut records = Vec::new();
        (0..2).for_each(|_| game.frame(&mut records));
        batch(records)
    };
    let mut written = Vec::new();
    let mut trace = PerfettoTrace::new(&mut written);
    for call in 1..=3 {
        std::thread::sleep(crate::output::perfetto::PERIOD);
        let batch = next();
        trace.add(&batch, batch.records.iter(), Missing::default()).unwrap();
        assert_eq!(begun(trace.written().unwrap()), call * 41);
    }
    let batch = next();
    trace.add(&batch, batch.records.iter(), Missing::default()).unwrap();
    drop(trace);
    assert_eq!(begun(&written), 4 * 41);
}

/// What a trace lacks is told where it is missing, and once.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn missing_records() {
    let mut game = Game::new();
    let mut trace = PerfettoTrace::new(Vec::new());
    for dropped in [0, 7, 7, 0] {
        let mut records = Vec::new();
        game.frame(&mut records);
        let batch = batch(records);
        let missing = Missing { dropped, ..Missing::default() };
        trace.add(&batch, batch.records.iter(), missing).unwrap();
    }
    let decoded = Decoded::decode(&trace.finish().unwrap());
    let instants = decoded.events.iter().filter(|event| event.kind == 3).skip(1);
    let texts: Vec<&str> = instants.filter_map(|event| event.span.as_deref()).collect();
    assert_eq!(texts, ["{\"dropped\":\"7\",\"name\":\"records are missing\"}"; 2]);
    let before = Missing { not_kept: 3, dropped: 1, lost: 9 };
    let since = Missing { not_kept: 5, dropped: 1, lost: 0 }.since(before);
    assert_eq!([since.not_kept, since.dropped, since.lost], [2, 0, 0]);
}

/// A span that never seems to end does not make the others wait, and has a track of its own. So do spans that end out of order.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
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
        trace.add(&batch(Vec::new()), some.iter(), Missing::default()).unwrap();
        most = most.max(trace.waiting());
    }
    assert!((16_000..17_000).contains(&most), "{most}");
    let decoded = Decoded::decode(&trace.finish().unwrap());
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
#[cfg_attr(miri, ignore = "takes minutes")]
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
        errors.extend(
            trace.add(&batch, batch.records.iter(), Missing::default()).err().map(|why| why.kind()),
        );
    }
    let [first, others @ ..] = errors.as_slice() else { panic!("no error") };
    assert_eq!(*first, std::io::ErrorKind::StorageFull);
    assert!(!others.is_empty() && others.iter().all(|kind| *kind == std::io::ErrorKind::Other));
    assert!(trace.waiting() < 16_384);
    assert_eq!(trace.finish().err().map(|why| why.kind()), Some(std::io::ErrorKind::Other));
}

/// A slow frame has its cause, and a flow to each span of another thread that overlaps it.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn flows_of_slow_spans() {
    let mut game = Game::new();
    let mut records = Vec::new();
    (0..60).for_each(|_| game.frame(&mut records));
    let mut keeper = SlowKeeper::new(Slow { slowest: 2, ..Slow::default() }.into());
    let whole = batch(records);
    whole.records.iter().for_each(|kept| keeper.see(kept, &whole.time));
    keeper.end_collect(&whole.records.iter().cloned().collect::<Vec<_>>());
    let whole = crate::batch::Batch { slow: keeper.view().0, ..whole };
    let mut trace = PerfettoTrace::new(Vec::new());
    trace.add(&whole, whole.records.iter(), Missing::default()).unwrap();
    let decoded = Decoded::decode(&trace.finish().unwrap());
    let number = |event: &Event| {
        let span: Value = serde_json::from_str(event.span.as_ref()?).ok()?;
        span["cause"].is_string().then(|| span["number"].as_u64())?
    };
    let mut slow: Vec<u64> = decoded.events.iter().filter_map(number).collect();
    let mut expected: Vec<u64> = whole.slow.iter().filter_map(|tree| tree.root.number()).collect();
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
    // In kilobytes.
    let memory = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak.unwrap().split_whitespace().next().unwrap().parse().unwrap()
    };
    let before = memory();
    let (records, written) = write(86_400 * 60, false, |_| {});
    println!(
        "a day: {records} records in {:.2} GB. The peak of memory was {before} kB before, and {} kB after",
        written.bytes as f64 / 1e9,
        memory()
    );
    assert!(memory() < before + 8_192);
    assert!(written.bytes <= 21 * records);
}
