//! Stand-ins for samples that criterion cannot report: those of 0, and those that are all equal.

use std::cell::Cell;

/// The largest stand-in for a sample of 0. It is less than one event in all iterations that a benchmark has time for.
/// criterion does not print a report if one of its samples is 0.
pub(crate) const NOTHING: f64 = 1.0 / (1_u64 << 40) as f64;

/// By how much every second sample is increased. Two equal runs of equal samples have no variance, so Welch's t is not a number,
/// and criterion panics when it plots that. It is far above the rounding of a mean, and far below what is printed.
const SPREAD: f64 = 1e-12;

/// Replaces samples by values that criterion can report.
///
/// criterion divides by the iteration count, so equal stand-ins for 0 would look like a change whenever that count changes.
/// The first one is therefore dominant, so that no difference exceeds noise.
#[derive(Debug, Default)]
pub(crate) struct StandIns {
    had_zero: Cell<bool>,
    is_second: Cell<bool>,
}

impl StandIns {
    /// Returns the sample, or its stand-in.
    pub(crate) fn sample(&self, measured: f64) -> f64 {
        // The last two samples differ in this, because `--quick` saves no others.
        let is_second = self.is_second.replace(!self.is_second.get());
        if measured > 0.0 {
            return if is_second { measured * (1.0 + SPREAD) } else { measured };
        }
        if self.had_zero.replace(true) { NOTHING * NOTHING } else { NOTHING }
    }

    /// Begins another benchmark with the next sample.
    pub(crate) fn report(&self) {
        self.had_zero.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_something_to_criterion() {
        let zeros = StandIns::default();
        let samples = || [0.0, 0.0, 5.0, 0.0].map(|measured| zeros.sample(measured));
        let [first, second, five, last] = samples();
        assert!(0.0 < last && last == second && second < first * 1e-9 && first <= NOTHING);
        assert_eq!(five, 5.0);
        assert_eq!(samples(), [second, second, five, last]);
        zeros.report();
        assert_eq!(samples(), [first, second, five, last]);
    }

    #[test]
    fn equal_samples_vary_by_nothing_that_is_printed() {
        let samples = StandIns::default();
        for count in [1.0, 4.0, 1e12] {
            let [first, second] = [count, count].map(|count| samples.sample(count));
            assert_eq!(first, count);
            assert!(second > count && second <= count * (1.0 + 2e-12), "{second}");
        }
    }
}
