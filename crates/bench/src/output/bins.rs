//! A histogram with bins of equal width.

/// A histogram. Outliers are counted as outside, because they would squeeze all other values into one bin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bins {
    pub(crate) low: f64,
    pub(crate) width: f64,
    pub(crate) counts: Vec<usize>,
    pub(crate) median: f64,
    /// The number of values below the first range and above the last one.
    pub(crate) outside: usize,
    /// The smallest and the largest value.
    pub(crate) ends: [f64; 2],
}

impl Bins {
    /// Returns the ranges of these values. None without values.
    pub(crate) fn from_values(values: &[f64], ranges: usize) -> Option<Bins> {
        let mut sorted: Vec<f64> =
            values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let quantile =
            |share: f64| sorted.get(((sorted.len() - 1) as f64 * share) as usize).copied();
        let (min, max) = (sorted.first().copied()?, sorted.last().copied()?);
        let [few, median, most] = [quantile(0.1)?, quantile(0.5)?, quantile(0.9)?];
        // Four times the distance from the median to the 10th or 90th percentile, whichever is farther.
        let far = (most - median).max(median - few) * 4.0;
        let (low, high) = (min.max(median - far), max.min(median + far));
        // The factor keeps the maximum in the last bin despite rounding errors.
        let width = (high - low) / ranges.max(1) as f64 * (1.0 + 1e-9);
        let mut counts = vec![0; ranges.max(1)];
        let mut outside = 0;
        for value in sorted {
            // Without a width, only equal values are in a range: the first one.
            let place = if width > 0.0 { (value - low) / width } else { 0.0 };
            let is_inside = place >= 0.0 && (width > 0.0 || value == low);
            match counts.get_mut(place as usize).filter(|_| is_inside) {
                Some(count) => *count += 1,
                None => outside += 1,
            }
        }
        Some(Bins { low, width, counts, median, outside, ends: [min, max] })
    }

    /// Whether a value is in a range.
    pub(crate) fn contain(&self, value: f64) -> bool {
        (self.low..=self.high()).contains(&value)
    }

    /// Returns the end of the last range.
    pub(crate) fn high(&self) -> f64 {
        self.low + self.width * self.counts.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_range_or_outside() {
        let of =
            |values: &[f64]| Bins::from_values(values, 4).map(|bins| (bins.counts, bins.outside));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[f64::NAN]), None);
        assert_eq!(of(&[7.0, 7.0]), Some((vec![2, 0, 0, 0], 0)));
        assert_eq!(of(&[0.0, 1.0, 2.0, 3.0, 4.0]), Some((vec![2, 1, 1, 1], 0)));
        let mut values: Vec<f64> = (0..100).map(f64::from).collect();
        values.push(1e12);
        values.push(-1e12);
        let (counts, outside) = of(&values).unwrap_or_default();
        assert_eq!((counts.iter().sum::<usize>(), outside), (100, 2));
        assert_eq!(
            of(&[5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 9.0, 1.0]),
            Some((vec![10, 0, 0, 0], 2))
        );
        let mut values = vec![5.0; 20];
        values.extend([5.7, 9.0]);
        assert_eq!(of(&values), Some((vec![20, 0, 0, 0], 2)));
    }
}
