//! Distributions and their buckets.

use crate::distribution::{Distribution, DistributionError, bucket, values};

/// Values around each power of two, and some between.
fn some_values() -> impl Iterator<Item = u64> {
    let around =
        |power: u32| (-3_i64..=3).map(move |more| (1_u64 << power).wrapping_add_signed(more));
    // Miri takes a thousand times as long.
    let between = (0..if cfg!(miri) { 50 } else { 10_000_u64 })
        .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (n % 64));
    (0..64).flat_map(around).chain(between).chain([0, u64::MAX])
}

#[test]
fn every_value_is_in_its_bucket() {
    for value in some_values() {
        let [lowest, highest] = values(bucket(value));
        assert!((lowest..=highest).contains(&value), "{value}: {lowest}..={highest}");
        assert!(highest - lowest <= value / 128, "{value}: {lowest}..={highest}");
    }
}

#[test]
fn buckets_follow_each_other() {
    let last = bucket(u64::MAX);
    for number in 0..last {
        assert_eq!(values(number)[1] + 1, values(number + 1)[0], "after bucket {number}");
    }
    assert_eq!(values(last)[1], u64::MAX);
}

#[test]
fn quantiles_are_those_of_a_sorted_list() {
    let mut all: Vec<u64> = some_values().collect();
    let mut distribution = Distribution::default();
    all.iter().for_each(|value| distribution.record(*value));
    all.sort_unstable();
    for q in [0.0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0] {
        let rank = ((q * all.len() as f64).ceil() as usize).clamp(1, all.len());
        let (expected, found) = (all[rank - 1], distribution.quantile(q).unwrap());
        assert_eq!(bucket(expected), bucket(found), "{q}: {expected}, {found}");
        assert!(found >= expected);
    }
    assert_eq!(distribution.max(), Some(u64::MAX));
    assert_eq!(Distribution::default().quantile(0.5), None);
    assert_eq!(distribution.quantile(1.1), None);
}

/// A distribution is what was recorded before and after.
#[test]
fn sums_and_differences() {
    let all: Vec<u64> = some_values().collect();
    let of = |values: &[u64]| {
        let mut distribution = Distribution::default();
        values.iter().for_each(|value| distribution.record(*value));
        distribution
    };
    let listed =
        |of: &Distribution| of.iter().map(|(values, count)| (values[0], count)).collect::<Vec<_>>();
    // Miri takes a thousand times as long, and makes the first cut only.
    let cuts = [77, 0, 1, all.len() / 2, all.len()];
    for cut in &cuts[..if cfg!(miri) { 1 } else { cuts.len() }] {
        let (before, after) = all.split_at(*cut);
        let (mut sum, mut rest) = (of(before), of(&all));
        sum.merge(&of(after)).unwrap();
        assert_eq!(listed(&sum), listed(&of(&all)));
        assert_eq!((sum.count(), sum.max()), (all.len() as u64, Some(u64::MAX)));
        rest.subtract(&of(before)).unwrap();
        assert_eq!(listed(&rest), listed(&of(after)));
        assert_eq!(rest.count(), after.len() as u64);
        // The maximum is that of its bucket.
        let max = after.iter().max().map(|max| bucket(*max));
        assert_eq!(rest.max().map(bucket), max);
    }
    let mut some = of(&[1, 2, 3]);
    assert_eq!(some.subtract(&of(&[4])), Err(DistributionError::NotContained));
    assert_eq!(some.subtract(&of(&[2, 2])), Err(DistributionError::NotContained));
    assert_eq!(listed(&some), [(1, 1), (2, 1), (3, 1)], "nothing is removed");
    assert_eq!(some.count_above(1), 2);
}
