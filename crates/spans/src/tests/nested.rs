//! The subtraction of the cost of spans from the counts.

use crate::collect::{Nested, inside};
use crate::record::{Flags, MAX_EVENTS, Raw, Site};
use crate::sink::Costs;
use crate::tests::game::{Nest, Random};

static SITE: Site = Site::new("a site", file!(), line!());

/// An empty span shows 10 of the first event, an empty lap 5, a first one 3, a number 7, and a span adds 30 to the one around it.
/// The second event's cost varies.
pub(super) fn costs() -> Costs {
    let first = |count| {
        let mut counts = [0; MAX_EVENTS];
        counts[0] = count;
        counts
    };
    Costs {
        span: first(10),
        in_parent: first(30),
        number: first(7),
        lap: first(5),
        first_lap: first(3),
    }
}

fn record(depth: u16, ticks: [u64; 2], count: u64, flags: Flags) -> Raw {
    Raw { site: &SITE, parent: None, ticks, depth, span: 0, counts: [count; MAX_EVENTS], flags }
}

/// Corrects the records in order, and returns the first two counts of each.
fn corrected(records: &[Raw]) -> Vec<[u64; 2]> {
    let (mut nested, costs) = (Nested::default(), costs());
    let each = records.iter().map(|record| {
        let mut record = *record;
        nested.correct(&mut record, false, &costs);
        [record.counts[0], record.counts[1]]
    });
    each.collect()
}

#[test]
fn a_span_costs_what_is_steady() {
    assert_eq!(corrected(&[record(1, [0, 9], 110, Flags::NONE)]), [[100, 110]]);
    assert_eq!(corrected(&[record(1, [0, 9], 3, Flags::NONE)]), [[0, 3]], "never below 0");
    assert_eq!(corrected(&[record(1, [0, 9], 0, Flags::NOT_COUNTED)]), [[0, 0]]);
    let laps = [[0, 9], [9, 10], [11, 12]].map(|ticks| record(1, ticks, 105, Flags::LAP));
    assert_eq!(corrected(&laps), [[102, 105], [100, 105], [102, 105]]);
}

/// Two spans inside one, the second with one inside it, and a lap.
#[test]
fn the_cost_of_spans_inside_a_span_is_subtracted() {
    let records = [
        record(2, [1, 2], 110, Flags::NONE),
        record(3, [4, 5], 110, Flags::NONE),
        record(2, [3, 6], 1_000 + 10 + 30, Flags::NONE),
        record(2, [6, 7], 103, Flags::LAP),
        record(1, [0, 9], 5_000 + 10 + 3 * 30 + 5, Flags::NONE),
        record(1, [10, 11], 110, Flags::NONE), // nothing is left over
    ];
    let first: Vec<u64> = corrected(&records).iter().map(|counts| counts[0]).collect();
    assert_eq!(first, [100, 100, 1_000, 100, 5_000, 100]);
}

/// A number is in the counts of its span, and of the one around it.
#[test]
fn the_cost_of_numbers_is_subtracted() {
    let (mut nested, costs) = (Nested::default(), costs());
    let mut inner = record(2, [1, 2], 100 + 10 + 7, Flags::NONE);
    let mut outer = record(1, [0, 3], 1_000 + 10 + 30 + 7 + 7, Flags::NONE);
    nested.correct(&mut inner, true, &costs);
    nested.correct(&mut outer, true, &costs);
    assert_eq!([inner.counts[0], outer.counts[0]], [100, 1_000]);
}

/// The record of the span around some others was dropped: the next span does not pay for them.
#[test]
fn the_cost_inside_a_dropped_span_is_not_the_next_ones() {
    let records = [
        record(2, [1, 2], 110, Flags::NONE),
        record(2, [11, 12], 110, Flags::NONE),
        record(1, [10, 13], 1_000 + 10 + 30, Flags::NONE),
    ];
    assert_eq!(corrected(&records)[2][0], 1_000);
}

/// Laps inside a span with more spans than are kept one by one.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn laps_around_ten_thousand_spans() {
    let mut records = Vec::new();
    for n in 0..10_000 {
        let start = 10 * n + 1;
        records.push(record(2, [start + 1, start + 2], 10, Flags::NONE));
        records.push(record(2, [start, start + 10], 1_000 + 30 + 5, Flags::LAP));
    }
    records.push(record(1, [0, 200_000], 7 + 10 + 35 * 10_000, Flags::NONE));
    let counts: Vec<u64> = corrected(&records).iter().map(|counts| counts[0]).collect();
    assert!(counts.chunks(2).skip(1).take(9_999).all(|pair| pair == [0, 1_000]), "{counts:?}");
    assert_eq!(counts[20_000], 7);
}

/// The ticks inside a span are those of the spans in it, not of laps, and not of other spans.
#[test]
fn the_ticks_inside_a_span() {
    let mut nested = Nested::default();
    let records = [
        (record(2, [1, 2], 0, Flags::NONE), 0), // the span around it was dropped
        (record(3, [12, 15], 0, Flags::NONE), 0),
        (record(2, [11, 20], 0, Flags::NONE), 3),
        (record(2, [10, 30], 0, Flags::LAP), 0),
        (record(1, [10, 40], 0, Flags::NONE), 9),
    ];
    for (mut record, expected) in records {
        assert_eq!(nested.correct(&mut record, false, &costs()), expected, "{record:?}");
    }
}

/// A span around more spans than are kept one by one.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn a_span_around_a_million_spans() {
    let inner = (0..1_000_000).map(|n| record(2, [n + 1, n + 1], 10, Flags::NONE));
    let outer = record(1, [0, 2_000_000], 7 + 10 + 30 * 1_000_000, Flags::NONE);
    let records: Vec<Raw> = inner.chain([outer]).collect();
    assert_eq!(corrected(&records)[1_000_000][0], 7);
}

/// What is inside a span follows from the order in which spans end: also where the clock stands still for many of them.
#[test]
fn inside_with_a_coarse_clock() {
    for is_of_laps in [false, true] {
        let mut random = Random(88_172_645_463_325_252);
        let mut nest = Nest::new(is_of_laps);
        let mut roots = Vec::new();
        for _ in 0..if cfg!(miri) { 30 } else { 3_000 } {
            let before = nest.records.len();
            nest.tree(&mut random, 1);
            roots.push(before..nest.records.len() - 1);
        }
        let records = &nest.records;
        let mut wrong = 0;
        for expected in roots {
            let found = inside(records[..expected.end].iter().rev(), &records[expected.end]);
            wrong += usize::from(
                found.len() != expected.len()
                    || !found.into_iter().zip(&records[expected]).all(|(a, b)| std::ptr::eq(a, b)),
            );
        }
        assert_eq!(wrong, 0, "of laps: {is_of_laps}");
    }
}
