//! Times that begin on another thread, beside HdrHistogram.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::panic)]

use hdrhistogram::Histogram;
use rdpmc::Clock;
use rdpmc_spans::{Moment, Row, Settings, Storage, record, span};
use rdpmc_testing::recording::turn;
use std::sync::mpsc::channel;

const BOTH: [Storage; 2] = [Storage::Ring { records: 1 << 16 }, Storage::Histograms];

fn row_of(rows: &[Row], name: &str) -> Row {
    rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name}: {rows:?}")).clone()
}

/// Tick to trade, from another thread's clock to this one's: percentiles, mean, sum and maximum are those of an HdrHistogram
/// that is kept beside it.
#[test]
fn the_percentiles_of_a_histogram_beside_it() {
    const TICKS: u64 = 20_000;
    let _turn = turn();
    for storage in BOTH {
        let settings = Settings::new().events(&["cycles"]).storage(storage);
        let mut spans = settings.keep(0).start().unwrap();
        let (feed, ticks) = channel::<u64>();
        let mut beside = Histogram::<u64>::new_with_bounds(1, 1 << 40, 3).unwrap();
        let (mut sum, clock) = (0_u128, Clock::open().unwrap());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let clock = Clock::open().unwrap();
                for tick in 0..TICKS {
                    feed.send(clock.ticks()).unwrap();
                    // Queues of many lengths.
                    (0..tick % 977 * 10).for_each(|_| std::hint::spin_loop());
                }
            });
            for sent in ticks {
                let _tick = span!("tick");
                let traded = clock.ticks();
                record!("tick to trade", Moment::from_ticks(sent)..Moment::from_ticks(traded));
                // A tick of another thread may be later, if the CPUs' counters differ.
                let ns = clock.duration(traded.saturating_sub(sent)).as_nanos();
                beside.record(u64::try_from(ns).unwrap()).unwrap();
                sum += ns;
            }
        });
        let report = spans.report();
        let row = row_of(&report.rows, "tick to trade");
        assert_eq!((row.count, row.distribution.count()), (TICKS, TICKS), "{storage:?}: {report}");
        let found = [row.time.p50, row.time.p99, row.time.p999, row.time.p9999, row.time.max];
        for (quantile, found) in [0.5, 0.99, 0.999, 0.9999, 1.0].into_iter().zip(found) {
            let expected = beside.value_at_quantile(quantile);
            // The buckets of both, and a conversion of the clock that is later: some parts per million.
            let most = expected / 128 + expected / 1_000 + expected / 10_000 + 2;
            let difference = found.abs_diff(expected);
            assert!(difference <= most, "{storage:?}, {quantile}: {found}, not {expected}");
        }
        let total = row.total.as_nanos();
        assert!(total.abs_diff(sum) <= sum / 1_000 + u128::from(TICKS), "{total}, not {sum}");
        assert_eq!(row.mean().as_nanos(), total / u128::from(TICKS));
        // The span around it has its own time and nothing of the other.
        let tick = row_of(&report.rows, "tick");
        assert_eq!((tick.count, tick.own, tick.out_of_order), (TICKS, tick.total, 0), "{report}");
        assert!(row.is_recorded_time && row.counts.is_empty() && row.not_counted == 0, "{report}");
        assert_eq!((row.disturbed, row.waited, row.own), (None, None, row.total));
        assert_eq!(report.lost, 0, "{report}");
        println!("{storage:?}: {:?} beside {:?}", row.time.p99, beside.value_at_quantile(0.99));
    }
}
