//! The log of HdrHistogram, read back by its own crate.

use crate::recording::turn;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use rdpmc_spans::{Settings, Storage, record, span};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Two intervals of one log: counts, percentiles and times are those of the reports.
#[test]
fn intervals_of_a_log() {
    let _turn = turn();
    for storage in [Storage::Ring { records: 1 << 14 }, Storage::Histograms] {
        let (begin, first) = (Instant::now(), SystemTime::now());
        let mut spans = Settings::new().storage(storage).start().unwrap();
        let (mut log, mut reports) = (Vec::new(), Vec::new());
        for interval in 1..3_u64 {
            for value in 0..1_000 * interval {
                record!("a queue, long", Duration::from_nanos(value * value));
                drop(span!("span"));
            }
            std::thread::scope(|scope| {
                scope.spawn(|| drop(span!("on two threads")));
            });
            drop(span!("on two threads"));
            std::thread::sleep(Duration::from_millis(20));
            let interval = spans.take();
            interval.write_hdr_log(&mut log).unwrap();
            reports.push(interval.report());
        }
        let (mut starts, mut lengths, mut lines) = (Vec::new(), Duration::ZERO, 0);
        for entry in IntervalLogIterator::new(&log) {
            let LogEntry::Interval(line) = entry.unwrap() else { panic!("a line of another kind") };
            let report = &reports[lines / 3];
            lines += 1;
            let tag = line.tag().unwrap();
            let name = if tag.as_str() == "a_queue__long" { "a queue, long" } else { tag.as_str() };
            let name = if name == "on_two_threads" { "on two threads" } else { name };
            let rows: Vec<_> = report.rows.iter().filter(|row| row.name == name).collect();
            let bytes = base64(line.encoded_histogram());
            let histogram: hdrhistogram::Histogram<u64> =
                Deserializer::new().deserialize(&mut &*bytes).unwrap();
            assert_eq!(histogram.len(), rows.iter().map(|row| row.count).sum::<u64>(), "{name}");
            if let [row] = rows[..] {
                for (quantile, value) in [(0.5, row.time.p50), (0.99, row.time.p99)] {
                    let found = histogram.value_at_quantile(quantile);
                    assert!(
                        found.abs_diff(value) <= value / 900 + 1,
                        "{name}: {found}, not {value}"
                    );
                }
            }
            starts.push(line.start_timestamp());
            lengths += line.duration() / 3;
        }
        assert_eq!(lines, 6);
        assert!(starts.is_sorted() && starts[0] == starts[2] && starts[3] > starts[0]);
        let since = first.duration_since(UNIX_EPOCH).unwrap();
        // The log has milliseconds.
        assert!(starts[0] + Duration::from_millis(2) >= since);
        assert!(lengths <= begin.elapsed() + Duration::from_millis(2));
        assert!(lengths + Duration::from_millis(2) >= Duration::from_millis(40));
    }
}

/// Decodes text of base 64, with the usual alphabet.
fn base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter(|byte| *byte != b'=');
    let digits = digits.map(|byte| ALPHABET.iter().position(|of| *of == byte).unwrap() as u32);
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for digit in digits {
        bits = bits << 6 | digit;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}
