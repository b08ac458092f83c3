//! What several processes of one program measured of a row, as one result.

use crate::bench::TARGET;
use crate::judging::comparison::Measured;
use crate::judging::estimate::Estimate;
use crate::judging::row::{Figure, Quantity};
use crate::judging::verdict::{Cause, Verdict};
use crate::stepping::stepped::joined_counts;
use rdpmc_report::gate::{Interval, MIN_VALUES, median};

/// Joins what several processes of one program measured of a row.
pub(super) fn joined(processes: &[Vec<Measured>]) -> Vec<Measured> {
    let Some(first) = processes.first() else { return Vec::new() };
    let in_all = |quantity: Quantity| {
        let all =
            processes.iter().map(move |it| it.iter().find(|it| it.figure.quantity == quantity));
        all.collect::<Option<Vec<&Measured>>>()
    };
    // A quantity that one process lacks is left out.
    let all = first
        .iter()
        .filter_map(|measured| Some((measured.figure, in_all(measured.figure.quantity)?)));
    all.filter_map(|(figure, all)| {
        let estimates: Vec<Estimate> = all.iter().map(|it| it.figure.estimate).collect();
        let (estimate, verdict) = match figure.quantity {
            Quantity::SteppedInstructions => joined_counts(&estimates, TARGET)?,
            _ => of_each_process(&estimates)?,
        };
        let are_exact = all.iter().all(|it| it.figure.verdict == Verdict::Exact);
        let verdict = match common_verdict(all.iter().map(|it| it.figure.verdict)) {
            Verdict::Stable if verdict == Verdict::Exact && !are_exact => Verdict::Stable,
            Verdict::Stable => verdict,
            doubt => doubt,
        };
        let costs = all.iter().flat_map(|it| it.costs.iter().cloned()).collect();
        Some(Measured { figure: Figure { estimate, verdict, ..figure }, costs })
    })
    .collect()
}

/// Returns the estimate of [`common_estimate`], and what its width says.
fn of_each_process(processes: &[Estimate]) -> Option<(Estimate, Verdict)> {
    let estimate = common_estimate(processes)?;
    let verdict = if estimate.error() == 0.0 && processes.iter().all(|it| *it == estimate) {
        Verdict::Exact
    } else if estimate.error() > TARGET * estimate.value.abs() {
        Verdict::Unstable(Cause::Varies)
    } else {
        Verdict::Stable
    };
    Some((estimate, verdict))
}

/// Returns the median of the processes, with its interval. None without processes.
///
/// The processes are independent, and each has its own placement of memory. So the interval is that of their results,
/// if they are enough for one. Otherwise it has the intervals of all of them.
fn common_estimate(processes: &[Estimate]) -> Option<Estimate> {
    let values: Vec<f64> = processes.iter().map(|it| it.value).collect();
    if values.len() >= MIN_VALUES {
        let Interval { low, median, high } = Interval::from_values(&values);
        return Some(Estimate { value: median, low, high });
    }
    let value = median(values.into_iter())?;
    let low = processes.iter().fold(value, |low, it| low.min(it.low));
    let high = processes.iter().fold(value, |high, it| high.max(it.high));
    Some(Estimate { value, low, high })
}

/// Returns the doubt that at least half of the processes have. One that few have comes from other programs, not from
/// the code.
fn common_verdict(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let verdicts: Vec<Verdict> = verdicts.collect();
    let is_doubtful =
        |verdict: &&Verdict| matches!(verdict, Verdict::Unstable(cause) if *cause != Cause::Varies);
    let doubts = || verdicts.iter().filter(is_doubtful);
    // That other threads work is the code's doing in each process.
    let lacks_threads =
        |verdict: &&Verdict| matches!(verdict, Verdict::Unstable(Cause::OtherThreads { .. }));
    if let Some(verdict) = verdicts.iter().find(lacks_threads) {
        return *verdict;
    }
    match doubts().next() {
        Some(verdict) if doubts().count() * 2 >= verdicts.len() => *verdict,
        _ => Verdict::Stable,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::sampling::code::Random;

    const DOUBT: Verdict = Verdict::Unstable(Cause::HeavyTail { mean: 2.0 });
    const VARIES: Verdict = Verdict::Unstable(Cause::Varies);

    fn process(value: f64, error: f64, verdict: Verdict) -> Vec<Measured> {
        let estimate = Estimate { value, low: value - error, high: value + error };
        let figure = Figure { quantity: Quantity::Time, estimate, verdict };
        vec![Measured { figure, costs: vec![vec![(0, value)]] }]
    }

    /// Joins processes, each of which has the error 1.
    fn estimate(values: &[f64]) -> Estimate {
        let processes: Vec<_> =
            values.iter().map(|value| process(*value, 1.0, Verdict::Stable)).collect();
        let joined = joined(&processes);
        assert_eq!((joined.len(), joined[0].costs.len()), (1, values.len()));
        joined[0].figure.estimate
    }

    #[test]
    fn the_interval_is_that_of_the_processes() {
        assert!(joined(&[]).is_empty());
        assert_eq!(estimate(&[100.0, 108.0]), Estimate { value: 104.0, low: 99.0, high: 109.0 });
        let few = estimate(&[100.0, 101.0, 102.0, 103.0, 104.0]);
        assert_eq!(few, Estimate { value: 102.0, low: 99.0, high: 105.0 });
        let enough = estimate(&[100.0, 101.0, 102.0, 103.0, 104.0, 105.0]);
        assert_eq!(enough, Estimate { value: 102.5, low: 100.0, high: 105.0 });
        // One in nine is outside.
        let nine = estimate(&[100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 106.0, 107.0, 900.0]);
        assert_eq!(nine, Estimate { value: 104.0, low: 101.0, high: 107.0 });
    }

    #[test]
    fn more_processes_do_not_make_it_wider() {
        let mut random = Random::of_seed(7);
        let mut widths = |processes: usize| {
            let mut width = || {
                // One in ten is slow, as by an unlucky placement.
                let mut value = |_| {
                    100.0 + random.below(1_000) as f64 / 1e3 + 9.0 * (random.below(10) / 9) as f64
                };
                let estimate = estimate(&(0..processes).map(&mut value).collect::<Vec<f64>>());
                estimate.high - estimate.low
            };
            median((0..201).map(|_| width())).unwrap()
        };
        let [eight, twenty, sixty] = [8, 20, 60].map(&mut widths);
        assert!(twenty < eight && sixty < eight, "{eight} {twenty} {sixty}");
    }

    #[test]
    fn a_doubt_of_half_of_the_processes_is_one() {
        let common = |doubtful: usize, all: usize, other: Verdict| {
            common_verdict((0..all).map(|process| if process < doubtful { DOUBT } else { other }))
        };
        assert_eq!(common(3, 8, Verdict::Stable), Verdict::Stable);
        assert_eq!(common(4, 8, Verdict::Stable), DOUBT);
        assert_eq!(common(4, 8, VARIES), DOUBT);
        assert_eq!(common(1, 3, VARIES), Verdict::Stable);
        assert_eq!([common(1, 1, VARIES), common(1, 2, VARIES)], [DOUBT; 2]);
        assert_eq!([common(0, 8, VARIES), common(0, 0, VARIES)], [Verdict::Stable; 2]);
        let others = Verdict::Unstable(Cause::OtherThreads { percent: 60.0, is_stepped: false });
        assert_eq!(common_verdict([Verdict::Exact, others, DOUBT].into_iter()), others);
    }

    #[test]
    fn the_verdict_is_that_of_most_processes() {
        let verdict = |processes: &[Vec<Measured>]| joined(processes)[0].figure.verdict;
        let stable = process(100.0, 0.1, Verdict::Stable);
        assert_eq!(verdict(&[stable.clone(), stable.clone()]), Verdict::Stable);
        assert_eq!(verdict(&[stable.clone(), process(150.0, 0.1, Verdict::Stable)]), VARIES);
        assert_eq!(verdict(&[stable.clone(), process(100.0, 0.1, DOUBT)]), DOUBT);
        let wide = process(100.0, 50.0, VARIES);
        assert_eq!(
            [verdict(std::slice::from_ref(&wide)), verdict(&[wide.clone(), wide.clone()])],
            [VARIES; 2]
        );
        let exact = process(100.0, 0.0, Verdict::Exact);
        assert_eq!(verdict(&[exact.clone(), exact.clone()]), Verdict::Exact);
        assert_eq!(verdict(&[exact.clone(), stable.clone()]), Verdict::Stable);
        // The interval leaves out one in nine. It is a difference all the same.
        let mut nine = vec![exact; 8];
        nine.push(process(101.0, 0.0, Verdict::Exact));
        assert_eq!(verdict(&nine), Verdict::Stable);
        // A quantity that one process lacks is left out.
        assert!(joined(&[stable, Vec::new()]).is_empty());
    }

    #[test]
    fn stepped_instructions_are_a_range_of_any_width() {
        let stepped = |value: f64, error: f64, verdict: Verdict| {
            let mut process = process(value, error, verdict);
            process[0].figure.quantity = Quantity::SteppedInstructions;
            process
        };
        let verdict = |processes: &[Vec<Measured>]| joined(processes)[0].figure.verdict;
        let exact = stepped(100.0, 0.0, Verdict::Exact);
        assert_eq!(verdict(&[exact.clone(), exact.clone()]), Verdict::Exact);
        assert_eq!(
            verdict(&[exact.clone(), stepped(100.02, 0.0, Verdict::Exact)]),
            Verdict::Stable
        );
        assert_eq!(
            verdict(&[exact.clone(), stepped(500.0, 450.0, Verdict::Range)]),
            Verdict::Range
        );
        assert_eq!(verdict(&[exact.clone(), stepped(100.0, 0.0, DOUBT)]), DOUBT);
        assert_eq!(verdict(&[exact.clone(), exact, stepped(100.0, 0.0, DOUBT)]), Verdict::Stable);
    }
}
