//! The instructions of a run, as several processes have counted them by single-stepping.

use crate::gate::figure::Certainty;
use crate::gate::median::{Interval, MIN_VALUES, median};

/// Part of the reason why a benchmark has no figure: a run takes longer than it may be stepped.
pub const TOO_LONG: &str = "instructions for which there is time";

/// What one process counted of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Process {
    /// The instructions of a run: the least, the median and the most.
    pub run: Interval,
    /// How much of them may be the cost of the loop around it. 0 if that was subtracted.
    pub slack: f64,
}

impl Process {
    /// Returns the interval of these counts. None without any.
    pub fn from_runs(runs: &[f64], slack: f64) -> Option<Process> {
        let low = runs.iter().copied().fold(f64::INFINITY, f64::min);
        let high = runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let median = median(runs.iter().copied())?;
        Some(Process { run: Interval { low, median, high }, slack })
    }

    /// Joins what this process and others have counted. The result is exact, with equal ends, if all of them agree.
    ///
    /// The processes are a sample of all that there could be. So a range is wider than what they counted: by half of it on each side, and by
    /// ten times of it if they are few.
    pub fn joined(&self, others: &[Process]) -> Interval {
        // A process that took fewer runs may have the cost of the loop in its figure.
        let agrees = |other: &&Process| {
            other.slack > 0.0
                && (other.run.median - self.run.median).abs() <= other.slack + self.slack
        };
        let all: Vec<&Process> =
            std::iter::once(self).chain(others.iter().filter(|other| !agrees(other))).collect();
        let low = all.iter().map(|it| it.run.low).fold(f64::INFINITY, f64::min);
        let high = all.iter().map(|it| it.run.high).fold(f64::NEG_INFINITY, f64::max);
        let value = median(all.iter().map(|it| it.run.median)).unwrap_or(low);
        let wider = if others.len() + 1 >= MIN_VALUES { 0.5 } else { 10.0 };
        let margin = (high - low) * wider + self.slack;
        // A count below zero is the error of a difference. Without one, no run has less than no instruction.
        let low = if low < 0.0 { low - margin } else { (low - margin).max(0.0) };
        Interval { low, median: value, high: high + margin }
    }
}

/// Returns how far a joined interval can be trusted: however wide it is, it has what the processes counted.
pub fn certainty(joined: &Interval) -> Certainty {
    match joined.high - joined.low {
        0.0 if joined.median >= 0.0 => Certainty::Exact,
        // No run has less than no instruction.
        _ if joined.high <= 0.0 => Certainty::Unstable,
        _ => Certainty::Stable,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn process(runs: &[f64]) -> Process {
        Process::from_runs(runs, 0.0).unwrap()
    }

    fn judged(own: &[f64], others: &[f64]) -> (f64, f64, f64, Certainty) {
        let others: Vec<Process> = others.iter().map(|other| process(&[*other])).collect();
        let joined = process(own).joined(&others);
        (joined.low, joined.median, joined.high, certainty(&joined))
    }

    #[test]
    fn only_equal_counts_are_exact() {
        use Certainty::{Exact, Stable, Unstable};
        assert_eq!(judged(&[301.0; 3], &[]), (301.0, 301.0, 301.0, Exact));
        assert_eq!(judged(&[301.0; 3], &[301.0; 7]), (301.0, 301.0, 301.0, Exact));
        assert_eq!(judged(&[0.0], &[0.0; 7]).3, Exact);
        assert_eq!(judged(&[301.0, 303.0, 301.0], &[301.0; 7]), (300.0, 301.0, 304.0, Stable));
        assert_eq!(judged(&[301.0, 303.0, 301.0], &[]), (281.0, 301.0, 323.0, Stable));
        // One process of six is different. There may be others, that differ more.
        let six = [620.0, 629.0, 620.0, 620.0, 620.0];
        assert_eq!(judged(&[620.0; 3], &six), (615.5, 620.0, 633.5, Stable));
        assert_eq!(judged(&[9.0; 3], &[9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 100.0]).3, Stable);
        assert_eq!(judged(&[-1.0; 3], &[-1.0; 7]).3, Unstable);
        // The margin does not go below zero, unless counts do.
        assert_eq!(judged(&[6.0, 409.0, 6.0], &[6.0; 7]), (0.0, 6.0, 610.5, Stable));
        assert_eq!(judged(&[-1.0, 1.0, 0.0], &[0.0; 7]), (-2.0, 0.0, 2.0, Stable));
    }

    /// A process that had time for one run has the cost of the loop in its figure, and no other difference.
    #[test]
    fn a_single_run_agrees_within_its_slack() {
        let single = |run: f64| Process { slack: 16.0, ..process(&[run]) };
        let of = |own: Process, others: &[Process]| {
            let joined = own.joined(others);
            (joined.low, joined.high)
        };
        assert_eq!(
            of(process(&[9_000.0; 3]), &[single(9_004.0), single(8_990.0)]),
            (9_000.0, 9_000.0)
        );
        assert_eq!(of(process(&[9_000.0; 3]), &[single(9_100.0); 5]), (8_950.0, 9_150.0));
        assert_eq!(of(single(9_004.0), &[single(9_004.0), single(9_010.0)]), (8_988.0, 9_020.0));
    }

    /// Equal programs whose counts are random: the share of comparisons in which the later one is apart.
    #[test]
    fn equal_programs_are_apart_in_few_of_a_million_comparisons() {
        let mut random = 1_u64;
        let mut below = |limit: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % limit
        };
        // Evenly distributed, two values, two of which one is rare, and a long tail.
        let mut kinds: [Box<dyn FnMut() -> f64>; 4] = {
            let mut seeds = [0_u64; 4];
            seeds.iter_mut().for_each(|seed| *seed = below(u64::MAX) | 1);
            let next = |mut state: u64| {
                move || {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    (state >> 11) as f64 / (1_u64 << 53) as f64
                }
            };
            let [mut even, mut two, mut rare, mut tail] = seeds.map(next);
            [
                Box::new(move || 1_000.0 + (even() * 50.0).floor()),
                Box::new(move || if two() < 0.5 { 620.0 } else { 629.0 }),
                Box::new(move || if rare() < 0.9 { 620.0 } else { 629.0 }),
                Box::new(move || 500.0 + (10.0 / (1e-3 + tail())).floor()),
            ]
        };
        for (kind, draw) in kinds.iter_mut().enumerate() {
            let mut joined = || {
                let all: Vec<Process> = (0..8).map(|_| process(&[draw()])).collect();
                all.first().unwrap().joined(all.get(1..).unwrap())
            };
            let apart = (0..100_000).filter(|_| joined().high < joined().low).count();
            assert!(apart <= 4, "{kind}: {apart} of 100,000");
        }
    }
}
