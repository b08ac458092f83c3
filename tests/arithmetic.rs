//! `src/math.rs` against naive arithmetic in 128 bits. The file is compiled into this test, to get at
//! what is not public.
#![allow(missing_docs)]

#[path = "../src/math.rs"]
mod math;

use math::{Conversion, Short, distance, scale, sign_extend};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn sign_extension_is_the_value_modulo_the_width(register: u64, width in 1u16..=64) {
        let modulus = 1i128 << width;
        let low = i128::from(register) % modulus;
        let oracle = if low >= modulus / 2 { low - modulus } else { low };
        prop_assert_eq!(sign_extend(register, width).map(i128::from), Some(oracle));
    }

    #[test]
    fn a_counter_that_started_negative_counts_on_through_zero(
        start in any::<u64>(), events in any::<u64>(), width in 1u16..=64,
    ) {
        // The kernel starts the register at some negative number and keeps its opposite in
        // `offset`: as long as fewer events come than the width can tell, the sum is exact.
        let span = 1i128 << (width - 1);
        let start = -(i128::from(start) % span) - 1;
        let events = i128::from(events) % (span - start);
        let register = (start + events) as u64;
        let read = sign_extend(register, width).map(i128::from);
        prop_assert_eq!(read.map(|value| value - start), Some(events));
    }

    #[test]
    fn a_distance_is_what_was_counted_whatever_lies_above_the_width(
        start: u64, events: u64, above_start: u64, above_end: u64, width in 1u16..=64,
    ) {
        let range = 1u128 << width;
        let (start, events) = (u128::from(start) % range, u128::from(events) % range);
        let end = (start + events) % range;
        let with = |low: u128, above: u64| (low + u128::from(above) * range) as u64;
        let found = distance(with(start, above_start), with(end, above_end), width);
        prop_assert_eq!(found.map(u128::from), Some(events));
    }

    #[test]
    fn elapsed_is_the_headers_formula(
        ticks: u64, mult: u32, offset: u64, shift in 0u16..=63,
    ) {
        let (wide, mult_wide) = (u128::from(ticks), u128::from(mult));
        let quotient = wide >> shift;
        let remainder = wide & ((1u128 << shift) - 1);
        let oracle = u128::from(offset) + quotient * mult_wide + ((remainder * mult_wide) >> shift);
        let conversion = Conversion { shift, mult, offset, short: None };
        prop_assert_eq!(conversion.elapsed(ticks), Some(oracle as u64));
    }

    #[test]
    fn a_short_counter_goes_on_where_it_wraps(
        cycles in 0u64..1 << 62, passed in 0u64..1 << 63, bits in 1u32..=64, mult in 1u32.., shift in 0u16..=63,
    ) {
        let mask = u64::MAX >> (64 - bits);
        let passed = passed & mask;
        let truth = cycles + passed;
        let whole = Conversion { shift, mult, offset: 0, short: None };
        let short = Conversion { short: Some(Short { cycles, mask }), ..whole };
        // The counter shows the low bits only; those above are anything.
        prop_assert_eq!(short.elapsed(truth & mask), whole.elapsed(truth));
        prop_assert_eq!(short.elapsed(truth), whole.elapsed(truth));
    }

    #[test]
    fn no_conversion_panics(
        ticks: u64, mult: u32, offset: u64, shift: u16, cycles: u64, mask: u64,
    ) {
        let conversion = Conversion { shift, mult, offset, short: Some(Short { cycles, mask }) };
        prop_assert_eq!(conversion.elapsed(ticks).is_some(), shift <= 63);
    }

    #[test]
    fn scaling_is_the_128_bit_quotient(value: u64, enabled: u64, running: u64) {
        let oracle = match running {
            0 => None,
            _ => u64::try_from(u128::from(value) * u128::from(enabled) / u128::from(running)).ok(),
        };
        prop_assert_eq!(scale(value, enabled, running), oracle);
    }

    #[test]
    fn what_always_ran_is_left_alone(value: u64, time in 1u64..) {
        prop_assert_eq!(scale(value, time, time), Some(value));
    }
}

#[test]
fn the_edges() {
    for width in 1..=64u16 {
        let sign = 1u64 << (width - 1);
        assert_eq!(sign_extend(sign, width), Some(i64::MIN >> (64 - width)));
        assert_eq!(sign_extend(sign - 1, width), Some((sign - 1) as i64));
        assert_eq!(sign_extend(u64::MAX, width), Some(-1));
    }
    assert_eq!(sign_extend(1, 0), None);
    assert_eq!(sign_extend(1, 65), None);
    assert_eq!(distance(1, 2, 0), None);
    assert_eq!(distance(1, 2, 65), None);
    assert_eq!(scale(5, 7, 0), None);
    assert_eq!(scale(0, 0, 0), None);
    assert_eq!(scale(u64::MAX, u64::MAX, 1), None);
    assert_eq!(scale(u64::MAX, u64::MAX, u64::MAX), Some(u64::MAX));
}
