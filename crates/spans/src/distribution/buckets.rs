//! The buckets of a histogram of all 64-bit values.

/// The bits of a value that its bucket keeps, below the highest: an error of less than 1/128.
const BITS: u32 = 7;
/// The number of buckets.
pub(crate) const BUCKETS: usize = ((u64::BITS - BITS + 1) as usize) << BITS;

/// Returns the number of a value's bucket. The buckets are those of HdrHistogram: values below 256 have one each, and
/// there are 128 from each further power of two to the next.
#[inline(always)]
pub(crate) fn bucket(value: u64) -> usize {
    let shift = (u64::BITS - BITS).saturating_sub((value | 1).leading_zeros());
    match shift {
        0 => value as usize,
        // The highest bit is in the number of the power.
        _ => ((shift as usize) << BITS) + (value >> (shift - 1)) as usize - (1 << BITS),
    }
}

/// Returns the lowest and the highest value of a bucket.
pub(crate) fn values(bucket: usize) -> [u64; 2] {
    let (power, low) = (bucket >> BITS, (bucket & ((1 << BITS) - 1)) as u64);
    match power {
        0 => [low, low],
        _ => {
            let shift = (power - 1) as u32;
            let lowest = (low | 1 << BITS) << shift;
            [lowest, lowest + ((1 << shift) - 1)]
        }
    }
}
