//! Samples of 0, which criterion refuses to report.

use std::cell::Cell;

/// At most this much is a sample of nothing to criterion, which gives up a report in which one is 0. Less
/// than one event in all iterations that a benchmark has time for.
pub(crate) const NOTHING: f64 = 1.0 / (1_u64 << 40) as f64;

/// Makes samples of nothing into what criterion can report.
///
/// Were they all the same, then for one iteration they would be the less, the more iterations there are, and
/// criterion would see a change for the better or worse where only the time changed. So the first stands
/// out, and is most of what there is to compare: no change is then larger than chance.
#[derive(Debug, Default)]
pub(crate) struct ZeroGuard {
    had_one: Cell<bool>,
}

impl ZeroGuard {
    pub(crate) fn sample(&self, measured: f64) -> f64 {
        if measured > 0.0 {
            return measured;
        }
        if self.had_one.replace(true) { NOTHING * NOTHING } else { NOTHING }
    }

    /// The next sample is of another benchmark.
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
