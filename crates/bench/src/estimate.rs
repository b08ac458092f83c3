//! The centre of a sample and its confidence interval.

/// A centre and its 95 % confidence interval.
///
/// The centre is the median of the measured pairs. The ends of the interval are two of the pairs, so it needs no
/// assumption about the noise. With fewer than six pairs, the centre is the mean, and the ends are infinite. A ratio,
/// such as instructions per cycle, has an interval of at least 90 %.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Estimate {
    /// The centre.
    pub value: f64,
    /// The lower end of the interval. Negative infinity if there were fewer than six pairs.
    pub low: f64,
    /// The upper end of the interval. Infinity if there were fewer than six pairs.
    pub high: f64,
}

impl Estimate {
    /// Returns the larger distance from the centre to an end of the interval.
    pub fn error(&self) -> f64 {
        (self.value - self.low).max(self.high - self.value)
    }

    /// Returns this estimate in another unit. `factor` is positive.
    pub(crate) fn scaled(self, factor: f64) -> Estimate {
        Estimate { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }

    /// Returns the ratio to another estimate. Its interval contains the ratio of the medians whenever both intervals
    /// contain theirs, so in at least 90 % of cases. None unless the other's interval is above 0.
    pub fn ratio_to(&self, other: &Estimate) -> Option<Estimate> {
        if other.low <= 0.0 {
            return None;
        }
        // A negative number is closer to 0 if it is divided by more.
        let by = |end: f64, for_negative: f64, for_positive: f64| {
            end / if end < 0.0 { for_negative } else { for_positive }
        };
        Some(Estimate {
            value: self.value / other.value,
            low: by(self.low, other.low, other.high),
            high: by(self.high, other.high, other.low),
        })
    }
}

/// The number of values below which no two of them are an interval of 95 %.
pub(crate) const FEWEST: usize = 6;

/// Returns the median of the values and its 95 % interval. Sorts the values. None if there are fewer than [`FEWEST`].
pub(crate) fn median(values: &mut [i64]) -> Option<Estimate> {
    values.sort_unstable();
    let rank = interval_rank(values.len())?;
    let at = |place: usize| values.get(place).map(|value| *value as f64);
    let last = values.len() - 1;
    Some(Estimate {
        value: (at(last / 2)? + at(values.len() / 2)?) / 2.0,
        low: at(rank)?,
        high: at(last - rank)?,
    })
}

/// Returns how many of `count` sorted values to leave out at each end, so that the median of the population is between
/// the two next in at least 95 % of cases. None if there are too few.
///
/// The number of values below the median is binomial with probability 1/2, whatever the distribution.
fn interval_rank(count: usize) -> Option<usize> {
    // The probability of `below` values below the median, as a multiple of that of none: it overflows for no f64.
    let mut probability = 0.5f64.powi(i32::try_from(count).ok()?);
    if probability < f64::MIN_POSITIVE || count < FEWEST {
        // More than a thousand values: the normal approximation is right to a thousandth.
        let below = count as f64 / 2.0 - 1.96 * (count as f64).sqrt() / 2.0;
        return (count >= FEWEST).then(|| (below - 0.5).floor() as usize);
    }
    let mut at_most = 0.0;
    let mut rank = None;
    for below in 0..count {
        at_most += probability;
        if at_most > 0.025 {
            break;
        }
        rank = Some(below);
        probability *= (count - below) as f64 / (below + 1) as f64;
    }
    rank
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_leaves_out_what_tables_say() {
        // Tables of the sign test: for 2.5 % at each end.
        let known =
            [(5, None), (6, Some(0)), (8, Some(0)), (9, Some(1)), (20, Some(5)), (63, Some(23))];
        for (count, rank) in known {
            assert_eq!(interval_rank(count), rank, "{count}");
        }
        // By the normal approximation, compared with the binomial distribution.
        for (count, rank) in [(1_050, 492), (1_072, 503), (100_000, 49_689)] {
            assert_eq!(interval_rank(count), Some(rank), "{count}");
        }
    }

    #[test]
    fn the_median_is_between_its_ends() {
        assert_eq!(median(&mut [1, 2, 3]), None);
        let mut values: Vec<i64> = (0..63).rev().collect();
        assert_eq!(median(&mut values), Some(Estimate { value: 31.0, low: 23.0, high: 39.0 }));
        let mut even = [5, 1, 2, 6, 4, 3];
        let estimate = median(&mut even).unwrap();
        assert_eq!(estimate, Estimate { value: 3.5, low: 1.0, high: 6.0 });
        assert_eq!(estimate.error(), 2.5);
    }

    #[test]
    fn a_ratio_contains_all_ratios() {
        let [of, to] = [(10.0, 9.0, 11.0), (4.0, 2.0, 5.0)].map(|(value, low, high)| Estimate {
            value,
            low,
            high,
        });
        assert_eq!(of.ratio_to(&to), Some(Estimate { value: 2.5, low: 1.8, high: 5.5 }));
        let negative = Estimate { value: -1.0, low: -2.0, high: -0.5 };
        let ratio = negative.ratio_to(&to).unwrap();
        assert_eq!((ratio.low, ratio.high), (-1.0, -0.1));
        assert_eq!(to.ratio_to(&negative), None);
        assert_eq!(of.ratio_to(&Estimate { value: 1.0, low: 0.0, high: 2.0 }), None);
    }
}
