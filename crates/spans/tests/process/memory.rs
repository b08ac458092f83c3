//! The memory of programs that run all day.

use crate::recording::turn;
use rdpmc_spans::{Settings, Storage, span};
use rdpmc_testing::skips;

/// Returns the resident memory in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Pools of short threads, of a few names, that nobody collects.
#[test]
fn ten_thousand_short_threads() {
    let all = if skips::is_whole("ten_thousand_short_threads") { 10_000 } else { 2_000 };
    let _turn = turn();
    for storage in [Storage::Ring { records: 1 << 10 }, Storage::Histograms] {
        let mut spans = Settings::new().storage(storage).start().unwrap();
        let run = |threads: std::ops::Range<u64>| {
            for number in threads {
                let thread = std::thread::Builder::new().name(format!("pool {}", number % 100));
                let work = || (0..10).for_each(|_| drop(span!("work")));
                thread.spawn(work).unwrap().join().unwrap();
            }
        };
        // The first ones fill the place for ended threads.
        run(0..all / 4);
        let before = resident();
        run(all / 4..all);
        let after = resident();
        println!("{storage:?}: {before} KiB after {} threads, {after} KiB after {all}", all / 4);
        assert!(after < before + 8 * 1_024, "{before} KiB, {after} KiB");
        let interval = spans.take();
        let report = interval.report();
        assert_eq!(report.rows.iter().map(|row| row.count).sum::<u64>(), 10 * all);
        assert_eq!(report.threads.iter().map(|thread| thread.ended).sum::<u64>(), all);
        assert!(report.threads.len() <= 65, "{} names", report.threads.len());
        assert_eq!(
            (report.lost, report.threads.iter().map(|thread| thread.dropped).sum()),
            (0, 0_u64)
        );
        if storage != Storage::Histograms {
            assert_eq!(interval.records().count() as u64 + interval.not_kept(), 10 * all);
        }
    }
}

/// A hundred million spans, in both sinks. Ten million in the short walk.
#[test]
fn a_hundred_million_spans() {
    let spans_of_each = match skips::is_whole("a_hundred_million_spans") {
        true => 50_000_000,
        false => 5_000_000,
    };
    let rounds = spans_of_each / 10_000;
    let _turn = turn();
    for storage in [Storage::Ring { records: 1 << 14 }, Storage::Histograms] {
        let mut spans = Settings::new().storage(storage).keep(100_000).slowest(4).start().unwrap();
        let mut measured = Vec::new();
        for round in 0..rounds {
            for _ in 0..5_000 {
                let _outer = span!("outer");
                drop(span!("inner"));
            }
            spans.collect();
            if round % (rounds / 5) == rounds / 10 {
                measured.push(resident());
            }
        }
        println!("{storage:?}: {measured:?} KiB");
        let (first, last) = (measured[0], measured[measured.len() - 1]);
        assert!(last < first + 8 * 1_024, "{measured:?}");
        let report = spans.report();
        assert_eq!(report.rows.iter().map(|row| row.count).sum::<u64>(), spans_of_each);
    }
}
