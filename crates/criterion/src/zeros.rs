//! Stand-ins for samples of 0, which criterion refuses to report.

use std::cell::Cell;

/// The largest stand-in for a sample of 0. It is less than one event in all iterations that a benchmark has time for.
/// criterion does not print a report if one of its samples is 0.
pub(crate) const NOTHING: f64 = 1.0 / (1_u64 << 40) as f64;

/// Replaces samples of 0 by values that criterion can report.
///
/// criterion divides by the iteration count, so equal stand-ins would look like a change whenever that count changes.
/// The first one is therefore dominant, so that no difference exceeds noise.
#[derive(Debug, Default)]
pub(crate) struct ZeroGuard {
    had_one: Cell<bool>,
}

impl ZeroGuard {
    /// Returns the sample, or a stand-in if it is 0.
    pub(crate) fn sample(&self, measured: f64) -> f64 {
        if measured > 0.0 {
            return measured;
        }
        if self.had_one.replace(true) { NOTHING * NOTHING } else { NOTHING }
    }

    /// Begins another benchmark with the next sample.
    pub(crate) fn report(&self) {
        self.had_one.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_something_to_criterion() {
        let zeros = ZeroGuard::default();
        let samples = || [0.0, 0.0, 5.0, 0.0].map(|measured| zeros.sample(measured));
        let [first, second, five, last] = samples();
        assert!(0.0 < last && last == second && second < first * 1e-9 && first <= NOTHING);
        assert_eq!(five, 5.0);
        assert_eq!(samples(), [second, second, five, last]);
        zeros.report();
        assert_eq!(samples(), [first, second, five, last]);
    }
}
