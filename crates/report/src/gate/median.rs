//! The median and its interval.

/// A median and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The upper end.
    pub high: f64,
}

/// The number of values below which no two of them are a 95 % interval of the median.
pub const MIN_VALUES: usize = 6;

/// The number of slices of a measurement. If they are independent, the true median is outside of the range of all eight slices'
/// medians with a probability of 2 / 2^8, less than 1 %. The rest of 5 % is for slices that are not independent.
pub const SLICES: usize = 8;

impl Interval {
    /// Returns the median of the values, in the order in which they were measured, and its interval.
    ///
    /// The interval of the sign test ends at two of the values. It holds for values that are independent, which neighbours in time
    /// are not. So with six values for each of eight slices or more, the interval also has the median of each slice. With fewer
    /// than [`MIN_VALUES`] values, it has all of them, and a lower confidence.
    pub fn from_values(values: &[f64]) -> Interval {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |place: usize| sorted.get(place).copied().unwrap_or(0.0);
        let last = sorted.len().saturating_sub(1);
        let left_out = left_out(sorted.len());
        let median = f64::midpoint(at(last / 2), at(sorted.len() / 2));
        let (mut low, mut high) = (at(left_out), at(last - left_out));
        if values.len() >= SLICES * MIN_VALUES {
            let medians = slices(values).filter_map(|slice| self::median(slice.iter().copied()));
            (low, high) = medians.fold((low, high), |(low, high), it| (low.min(it), high.max(it)));
        }
        Interval { low, median, high }
    }
}

/// Returns how many of `count` sorted values are below the 95 % interval of their median, and above it.
///
/// Each value is below the population's median with probability 1/2. The interval starts at the value with rank `r` if
/// fewer than `r` successes in `count` trials have a probability of at most 2.5 %.
fn left_out(count: usize) -> usize {
    if count > 1_000 {
        // 2^-count is subnormal. The normal approximation differs by less than one rank.
        let count = count as f64;
        return (count / 2.0 - 0.98 * count.sqrt() - 1.0) as usize;
    }
    let (mut exactly, mut at_most) = (0.5_f64.powi(count as i32), 0.0);
    for successes in 0..count {
        at_most += exactly;
        if at_most > 0.025 {
            return successes.saturating_sub(1);
        }
        exactly *= (count - successes) as f64 / (successes + 1) as f64;
    }
    0
}

/// Returns the median. None if there are no values.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some(f64::midpoint(*values.get(last / 2)?, *values.get(values.len() / 2)?))
}

/// Returns the eight slices of all values, in their order. There are fewer if there are fewer values.
pub fn slices<T>(all: &[T]) -> impl Iterator<Item = &[T]> {
    let count = all.len().min(SLICES);
    let end = move |slice: usize| all.len() * slice / count;
    (0..count).filter_map(move |slice| all.get(end(slice)..end(slice + 1)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        // By tables of the sign test, for 2.5 % at each end.
        for (count, out) in
            [(0, 0), (1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (10, 1), (20, 5), (63, 23), (100, 39)]
        {
            assert_eq!(left_out(count), out, "{count}");
        }
        // On both sides of the approximation.
        assert_eq!([left_out(1_000), left_out(1_001)], [468, 468]);
        let of = |values: &[f64]| {
            let Interval { low, median, high } = Interval::from_values(values);
            (low, median, high)
        };
        assert_eq!(of(&[]), (0.0, 0.0, 0.0));
        assert_eq!(of(&[3.0]), (3.0, 3.0, 3.0));
        assert_eq!(of(&[4.0, 1.0]), (1.0, 2.5, 4.0));
        assert_eq!(of(&[9.0, 1.0, 2.0]), (1.0, 2.0, 9.0));
        assert_eq!(of(&[5.0, 1.0, 2.0, 9.0, 3.0, 4.0, 8.0, 6.0, 7.0]), (2.0, 5.0, 8.0));
    }

    /// A neighbour that comes for an eighth of the time moves the interval. Its median hardly moves.
    #[test]
    fn the_interval_has_the_median_of_each_slice() {
        let noise = |n: usize| (n * 7 % 11) as f64 / 100.0;
        let quiet: Vec<f64> = (0..96).map(|n| 10.0 + noise(n)).collect();
        assert!(Interval::from_values(&quiet).high < 10.2);
        let busy = quiet.iter().enumerate();
        let busy: Vec<f64> =
            busy.map(|(n, it)| if (24..36).contains(&n) { it + 5.0 } else { *it }).collect();
        let interval = Interval::from_values(&busy);
        assert!(interval.high > 15.0 && interval.median < 10.2, "{interval:?}");
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([].into_iter()), None);
        assert_eq!(median([5.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([5.0, 1.0, 2.0, 6.0].into_iter()), Some(3.5));
    }

    #[test]
    fn slices_are_all_values_in_order() {
        for count in [1, 6, 7, 8, 9, 100, 4_095] {
            let all: Vec<usize> = (0..count).collect();
            let parts: Vec<&[usize]> = slices(&all).collect();
            assert_eq!(parts.len(), count.min(SLICES));
            assert_eq!(parts.concat(), all);
            let lengths = || parts.iter().map(|part| part.len());
            assert!(lengths().max().unwrap() - lengths().min().unwrap() <= 1);
        }
        assert_eq!(slices::<u8>(&[]).count(), 0);
    }
}
