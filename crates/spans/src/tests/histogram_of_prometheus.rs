//! The histograms that Prometheus scrapes.

use crate::distribution::Distribution;
use crate::output::prometheus::{Buckets, add_times, limits};
use rdpmc::clock::Conversion;

fn below_each_limit(times: &Distribution) -> Vec<u64> {
    let mut buckets: Buckets = [0; 122];
    // A tick is a nanosecond.
    add_times(&mut buckets, times, Conversion::through((0, 0), (1 << 40, 1 << 40)).unwrap());
    let mut sum = 0;
    let below = buckets.iter().map(|count| {
        sum += count;
        sum
    });
    below.collect()
}

/// A value is below its limit, and above the one before it, but for 1/128.
#[test]
fn every_value_has_its_limit() {
    for value in (0..2_000).chain((0..64).map(|power| 1 << power)).chain([u64::MAX]) {
        let mut times = Distribution::default();
        times.record(value);
        let place = below_each_limit(&times).iter().position(|count| *count == 1).unwrap();
        let limit = limits().get(place).copied().unwrap_or(u64::MAX);
        let before = place.checked_sub(1).map_or(0, |before| limits()[before]);
        assert!(value <= limit || value - limit < limit / 128, "{value}: {before} to {limit}");
        assert!(value == 0 || value > before, "{value}: {before} to {limit}");
    }
    let each_is_a_quarter_more = limits().windows(2).all(|pair| pair[1] - pair[0] <= pair[0] / 4);
    assert!(each_is_a_quarter_more);
    assert_eq!([limits()[0], limits()[120]], [16, 1 << 34]);
}

/// While the maximum grows through each bucket, no count falls.
#[test]
fn no_count_falls() {
    let mut times = Distribution::default();
    let mut before = below_each_limit(&times);
    for value in (16_000..70_000).step_by(if cfg!(miri) { 101 } else { 7 }) {
        times.record(value);
        let now = below_each_limit(&times);
        assert!(before.iter().zip(&now).all(|(before, now)| before <= now), "{value}");
        before = now;
    }
}
