//! Time conversion, distances and scaling, compared with naive arithmetic in 128 bits.
#![allow(clippy::unwrap_used)]

use crate::counter::reading::scale;
use crate::kernel::conversion::Conversion;
use crate::region::distance;

/// A counter of `width` bits read as two's complement, ignoring the bits above: the model of the assembly's sign
/// extension. None for a width of 0 or above 64.
pub(super) fn sign_extend(register: u64, width: u16) -> Option<i64> {
    match width {
        1..=64 => {
            let shift = 64 - u32::from(width);
            Some((register << shift) as i64 >> shift)
        }
        _ => None,
    }
}

/// The nanoseconds of `count` ticks from 0: the header's formula in 128 bits.
fn header(count: u64, mult: u64, shift: u16) -> u128 {
    let (count, mult) = (u128::from(count), u128::from(mult));
    let quotient = count >> shift;
    let remainder = count & ((1u128 << shift) - 1);
    quotient * mult + ((remainder * mult) >> shift)
}

/// A mask of the lowest `bits` bits.
fn mask(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

properties! {
    20_000 cases:

    #[test]
    fn sign_extension_is_the_value_modulo_the_width(register: u64, width in 1u16..=64) {
        let modulus = 1i128 << width;
        let low = i128::from(register) % modulus;
        let oracle = if low >= modulus / 2 { low - modulus } else { low };
        assert_eq!(sign_extend(register, width).map(i128::from), Some(oracle));
    }

    #[test]
    fn a_counter_that_started_negative_counts_on_through_zero(
        start: u64, events: u64, width in 1u16..=64,
    ) {
        // The kernel starts the register at a negative value and keeps its negation in `offset`. The sum is exact
        // while fewer events happen than the width can represent.
        let span = 1i128 << (width - 1);
        let start = -(i128::from(start) % span) - 1;
        let events = i128::from(events) % (span - start);
        let register = (start + events) as u64;
        let read = sign_extend(register, width).map(i128::from);
        assert_eq!(read.map(|value| value - start), Some(events));
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
        assert_eq!(found.map(u128::from), Some(events));
    }

    #[test]
    fn a_time_is_the_headers_formula(ticks: u64, mult: u32, zero: u64, shift in 0u16..=63) {
        let oracle = (u128::from(zero) + header(ticks, mult.into(), shift)) as u64;
        let conversion = Conversion::new(mult.into(), shift, zero).unwrap();
        assert_eq!(conversion.ticks_to_ns(ticks), oracle);
    }

    #[test]
    fn a_narrow_counter_goes_on_where_it_wraps(
        cycles in 0u64..1 << 62, passed in 0u64..1 << 63, bits in 1u32..=64, mult in 1u32..,
        shift in 0u16..=63,
    ) {
        let mask = mask(bits);
        let passed = passed & mask;
        let truth = cycles + passed;
        let whole = Conversion::new(mult.into(), shift, 0).unwrap();
        let narrow = whole.narrow(cycles, mask);
        // The counter shows only the low bits. The bits above may be anything.
        assert_eq!(narrow.ticks_to_ns(truth & mask), whole.ticks_to_ns(truth));
        assert_eq!(narrow.ticks_to_ns(truth), whole.ticks_to_ns(truth));
        // A difference of two counts is right across the wrap, too.
        let distance = (truth & mask).wrapping_sub(cycles & mask);
        assert_eq!(narrow.delta_ns(distance), whole.delta_ns(passed));
    }

    #[test]
    fn ticks_of_before_are_before(
        now in 0u64..1 << 62, passed: u64, since: u64, bits in 8u32..=63, mult in 1u32.., zero: u64,
        shift in 0u16..=63,
    ) {
        // The counter has wrapped several times before `now`, and the page does not report how often. The kernel last
        // updated the page `since` ticks ago. Ticks may be up to half a wrap old.
        let mask = mask(bits);
        let known = now.saturating_sub(since & mask >> 1);
        let turns = known & !mask;
        let then = now.saturating_sub(passed & mask >> 1);
        let conversion = Conversion::new(mult.into(), shift, zero).unwrap();
        let around = conversion.narrow(known - turns, mask).around(now & mask);
        // The count may be negative.
        let count = i128::from(then) - i128::from(turns);
        let truth = zero.wrapping_add(((count * i128::from(mult)) >> shift) as u64);
        let off = around.ticks_to_ns(then & mask).wrapping_sub(truth) as i64;
        assert!(off == 0 || off.abs() == 1 && bits < shift.into(), "{off}");
    }

    #[test]
    fn ticks_of_64_bits_are_what_they_are(ticks: u64, now: u64, cycles: u64, mult: u32, zero: u64) {
        let conversion = Conversion::new(mult.into(), 20, zero).unwrap();
        let around = conversion.narrow(cycles, u64::MAX).around(now);
        assert_eq!(around.ticks_to_ns(ticks), conversion.ticks_to_ns(ticks));
    }

    #[test]
    fn there_and_back_is_the_first_tick_of_the_same_nanosecond(
        ticks: u64, mult in 1u32.., zero: u64, shift in 0u16..=63,
    ) {
        let conversion = Conversion::new(mult.into(), shift, zero).unwrap();
        let ticks = ticks >> 33u16.saturating_sub(shift); // the time fits in 63 bits
        let full = header(ticks, mult.into(), shift);
        let ns = conversion.ticks_to_ns(ticks);
        let back = conversion.ns_to_ticks(ns);
        assert!(back <= ticks);
        assert_eq!(header(back, mult.into(), shift), full);
        if back > 0 {
            assert!(header(back - 1, mult.into(), shift) < full);
        }
    }

    #[test]
    fn a_time_there_and_back_is_less_than_a_tick_later(
        since_zero: u64, mult in 1u32.., zero: u64, shift in 0u16..=63,
    ) {
        let conversion = Conversion::new(mult.into(), shift, zero).unwrap();
        // So that the ticks fit in 64 bits.
        let since_zero = since_zero >> u32::from(shift).saturating_sub(mult.ilog2()).max(1);
        let ns = zero.wrapping_add(since_zero);
        let ticks = (u128::from(since_zero) << shift).div_ceil(u128::from(mult));
        assert_eq!(u128::from(conversion.ns_to_ticks(ns)), ticks);
        let later = conversion.ticks_to_ns(ticks as u64).wrapping_sub(ns);
        assert!(later == 0 || u128::from(later) << shift < u128::from(mult));
    }

    #[test]
    fn a_narrow_counter_there_and_back(
        cycles in 0u64..1 << 31, passed: u64, bits in 8u32..=31, mult in 1u32..1 << 31,
        shift in 0u16..=63,
    ) {
        let mask = mask(bits);
        let conversion = Conversion::new(mult.into(), shift, 0).unwrap().narrow(cycles, mask);
        let ticks = cycles.wrapping_add(passed & mask) & mask;
        let ns = conversion.ticks_to_ns(ticks);
        let back = conversion.ns_to_ticks(ns);
        assert!(back <= mask);
        if ns > i64::MAX as u64 {
            continue;
        }
        // The first tick of the nanosecond in which the count was `cycles` may precede `cycles`.
        if ns > conversion.ticks_to_ns(cycles & mask) {
            assert_eq!(conversion.ticks_to_ns(back), ns);
        }
    }

    #[test]
    fn a_distance_in_time_is_the_128_bit_product(ticks: u64, mult: u32, zero: u64, shift in 0u16..=63) {
        let oracle = u64::try_from(header(ticks, mult.into(), shift)).unwrap_or(u64::MAX);
        let conversion = Conversion::new(mult.into(), shift, zero).unwrap();
        assert_eq!(conversion.delta_ns(ticks), oracle);
    }

    #[test]
    fn a_line_is_its_conversion_below_its_limit(
        ticks: u64, mult: u32, zero: u64, shift in 0u16..=63, bits in 1u32..=64, cycles: u64,
    ) {
        let mask = mask(bits);
        let conversion = Conversion::new(mult.into(), shift, zero).unwrap();
        let line = conversion.line();
        assert_eq!(line.limit, if shift <= 32 { u64::MAX } else { 0 });
        if ticks < line.limit {
            assert_eq!(line.ns(ticks), conversion.ticks_to_ns(ticks));
        }
        // From `cycles` on, for a narrow counter that has not wrapped yet.
        let cycles = cycles & mask;
        let conversion = conversion.narrow(cycles, mask);
        let line = conversion.line();
        assert_eq!(line.limit, if shift <= 32 { mask.saturating_add(1) } else { 0 });
        let ticks = cycles.saturating_add(ticks & mask) & mask;
        if cycles <= ticks && ticks < line.limit {
            assert_eq!(line.ns(ticks), conversion.ticks_to_ns(ticks));
        }
        // Below `cycles` the time is unspecified, but not after the time at `cycles`.
        let fits = u64::try_from(header(cycles, mult.into(), shift)).is_ok();
        if ticks < cycles && ticks < line.limit && zero == 0 && fits {
            assert!(line.ns(ticks) <= conversion.ticks_to_ns(cycles));
        }
    }

    #[test]
    fn a_line_needs_all_bits_of_the_count(cycles: u64, mask: u64, mult: u32, shift in 0u16..=32) {
        let line = Conversion::new(mult.into(), shift, 0).unwrap().narrow(cycles, mask).line();
        let is_contiguous = mask.trailing_ones() + mask.leading_zeros() == 64;
        assert_eq!(line.limit > 0, is_contiguous && cycles <= mask);
    }

    #[test]
    fn no_conversion_panics(
        ticks: u64, mult: u64, zero: u64, shift: u16, cycles: u64, mask: u64, now: u64,
    ) {
        let conversion = Conversion::new(mult, shift, zero);
        assert_eq!(conversion.is_some(), shift <= 63);
        if let Some(conversion) = conversion {
            let conversion = conversion.narrow(cycles, mask);
            for conversion in [conversion, conversion.around(now)] {
                conversion.ticks_to_ns(ticks);
                conversion.ns_to_ticks(ticks);
                conversion.delta_ns(ticks);
                conversion.line().below(now).ns(ticks);
            }
        }
    }

    #[test]
    fn scaling_is_the_128_bit_quotient(value: u64, enabled: u64, running: u64) {
        let oracle = match running {
            0 => None,
            // Some kernels report a running time above the enabled time.
            _ if enabled < running => Some(value),
            _ => u64::try_from(u128::from(value) * u128::from(enabled) / u128::from(running)).ok(),
        };
        assert_eq!(scale(value, enabled, running), oracle);
    }

    #[test]
    fn what_always_ran_is_left_alone(value: u64, time in 1u64..) {
        assert_eq!(scale(value, time, time), Some(value));
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
    assert_eq!(Conversion::new(0, 0, 0).unwrap().ns_to_ticks(7), 0);
    let from_seven = Conversion::new(1, 1, 7).unwrap();
    assert_eq!([0, 6, 7, 8].map(|ns| from_seven.ns_to_ticks(ns)), [0, 0, 0, 2]);
    assert_eq!(from_seven.ns_to_ticks(7 + (1 << 63) - 1), u64::MAX - 1);
    let slow = Conversion::new(1, 63, 0).unwrap();
    assert_eq!(slow.ns_to_ticks(2), u64::MAX);
    assert_eq!(slow.narrow(0, 0xff).ns_to_ticks(2), 0xff);
    assert_eq!(Conversion::standing_still(7).ticks_to_ns(u64::MAX), 7);
    assert_eq!(Conversion::of_nanoseconds(7).ticks_to_ns(3), 10);
    assert_eq!(Conversion::of_nanoseconds(7).ns_to_ticks(10), 3);
    assert_eq!(Conversion::of_rate(3 << 32, 5, 100).ticks_to_ns(6), 103);
    assert_eq!(distance(1, 2, 0), None);
    assert_eq!(distance(1, 2, 65), None);
    assert_eq!(scale(5, 7, 0), None);
    assert_eq!(scale(0, 0, 0), None);
    assert_eq!(scale(u64::MAX, u64::MAX, 1), None);
    assert_eq!(scale(u64::MAX, u64::MAX, u64::MAX), Some(u64::MAX));
}
