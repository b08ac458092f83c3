//! The change of a count between two results, and the verdict on it.

use crate::results::{Counted, FEWEST, Interval, Results};
use std::fmt;

/// What happened to a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It grew.
    Regressed,
    /// It shrank.
    Improved,
    /// The intervals are apart, by less than the threshold.
    WithinThreshold,
    /// The intervals overlap.
    Unchanged,
    /// There are too few samples to tell a change from noise.
    Uncertain,
}

/// The change of a count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) verdict: Verdict,
    /// The relative change, and its interval. Its ends are those of the two intervals that are furthest apart. None if
    /// the count was 0.
    relative: Option<Interval>,
}

/// The most instructions that are left of the cost of reading in a sample, after its minimum was subtracted. The number of
/// iterations in a sample depends on time, so the share of these in an iteration differs between runs.
const EDGES: f64 = 16.0;

/// The relative change of a count that is not more than noise, if nobody says otherwise.
///
/// Instructions and branches of equal code are equal. Interrupts may add one each, which is one in a million. Other counts
/// depend on more than the code: for these, it is criterion's threshold.
pub(crate) fn usual_threshold(event: &str) -> f64 {
    if repeats(event) { 1e-5 } else { 0.01 }
}

/// Whether the count is equal for equal code and data.
pub(crate) fn repeats(event: &str) -> bool {
    ["instructions", "branches"].contains(&event)
}

impl Change {
    /// Compares two results of an event. Changes by less than the relative threshold are noise.
    pub(crate) fn between(
        (before, old): (&Results, &Counted),
        (after, new): (&Results, &Counted),
        threshold: f64,
    ) -> Change {
        let (was, is) = (old.per_iteration, new.per_iteration);
        let edges = match repeats(&new.event) {
            true => EDGES / typical_iterations(before).min(typical_iterations(after)),
            false => 0.0,
        };
        let least = threshold * was.median + edges;
        // The range of a few samples may be narrow by chance.
        let samples = before.iterations.len().min(after.iterations.len());
        let ranges = (was.high - was.low) + (is.high - is.low);
        let more = is.median - was.median;
        let is_certain = samples >= FEWEST
            || (samples >= 2 && repeats(&new.event) && more.abs() > 10.0 * ranges);
        let verdict = match (is.low > was.high, is.high < was.low) {
            (true, _) if more > least => Verdict::Regressed,
            (_, true) if -more > least => Verdict::Improved,
            (false, false) => Verdict::Unchanged,
            _ => Verdict::WithinThreshold,
        };
        let is_change = matches!(verdict, Verdict::Regressed | Verdict::Improved);
        let verdict = if is_change && !is_certain { Verdict::Uncertain } else { verdict };
        let ratio = |is: f64, was: f64| is / was - 1.0;
        let relative = match (was.high, is.high) {
            (0.0, 0.0) => Some(Interval { low: 0.0, median: 0.0, high: 0.0 }),
            // The interval may begin at 0 while the median does not.
            _ => (was.median > 0.0).then(|| Interval {
                low: ratio(is.low, was.high),
                median: ratio(is.median, was.median),
                high: ratio(is.high, was.low),
            }),
        };
        Change { verdict, relative }
    }

    /// Returns the relative change of the medians. None if the count was 0.
    pub(crate) fn median(&self) -> Option<f64> {
        self.relative.map(|relative| relative.median)
    }
}

/// Returns the median number of iterations in a sample.
fn typical_iterations(results: &Results) -> f64 {
    Interval::of(results.iterations.clone()).median.max(1.0)
}

impl fmt::Display for Change {
    /// Writes the change in criterion's form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.relative {
            Some(Interval { low, median, high }) => {
                write!(f, "[{} {} {}]", Percent(low), Percent(median), Percent(high))
            }
            None => f.write_str("from 0"),
        }
    }
}

/// A ratio in percent, with its sign.
pub(crate) struct Percent(pub(crate) f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0 * 100.0;
        match percent.abs() {
            // Not of one digit only, in a change of a few instructions.
            some if some < 100.0 => write!(f, "{percent:+.4}%"),
            many if many < 1e6 => write!(f, "{percent:+.1}%"),
            most if most.is_finite() => write!(f, "{percent:+.1e}%"),
            _ => f.write_str("+∞%"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Regressed => "Performance has regressed.",
            Verdict::Improved => "Performance has improved.",
            Verdict::WithinThreshold => "Change within noise threshold.",
            Verdict::Unchanged => "No change in performance detected.",
            Verdict::Uncertain => "Too few samples to tell a change from noise.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(iterations: f64) -> Results {
        Results {
            program: "parsing".into(),
            run: 0,
            processor: None,
            measured: "instructions".into(),
            without_counters: None,
            iterations: vec![iterations; 10],
            values: Vec::new(),
            counters: Vec::new(),
            estimates: 0,
            incomplete: 0,
        }
    }

    fn counted(event: &str, (low, median, high): (f64, f64, f64)) -> Counted {
        let per_iteration = Interval { low, median, high };
        Counted { per_iteration, ..Counted::new(event.into(), event, &[], Vec::new()) }
    }

    fn between(
        event: &str,
        was: (f64, f64, f64),
        is: (f64, f64, f64),
        threshold: f64,
        n: f64,
    ) -> Change {
        let (before, after) = (results(n * 10.0), results(n));
        let [was, is] = [was, is].map(|interval| counted(event, interval));
        Change::between((&before, &was), (&after, &is), threshold)
    }

    #[test]
    fn a_few_samples_are_not_trusted() {
        use Verdict::{Regressed, Uncertain, Unchanged};
        let of = |event: &str, samples: usize, width: f64, is: f64| {
            let few = |n: f64| Results { iterations: vec![n; samples], ..results(n) };
            let [was, is] =
                [100.0, is].map(|median| counted(event, (median - width, median, median + width)));
            Change::between((&few(1e5), &was), (&few(1e6), &is), 0.01).verdict
        };
        assert_eq!(
            [1, 2, 5, 6].map(|samples| of("cycles", samples, 0.0, 106.0)),
            [Uncertain, Uncertain, Uncertain, Regressed]
        );
        // Instructions repeat, so two samples show whether they do here.
        assert_eq!(
            [1, 2].map(|samples| of("instructions", samples, 0.0, 106.0)),
            [Uncertain, Regressed]
        );
        assert_eq!(
            [0.1, 0.2].map(|width| of("instructions", 2, width, 106.0)),
            [Regressed, Uncertain]
        );
        assert_eq!(of("cycles", 1, 0.0, 100.0), Unchanged);
    }

    #[track_caller]
    fn check(
        was: (f64, f64, f64),
        is: (f64, f64, f64),
        threshold: f64,
        verdict: Verdict,
        text: &str,
    ) {
        let change = between("instructions", was, is, threshold, 1e5);
        assert_eq!((change.verdict, change.to_string().as_str()), (verdict, text));
    }

    #[test]
    fn one_instruction_is_found() {
        use Verdict::{Improved, Regressed, Unchanged, WithinThreshold};
        let exact = |value| (value, value, value);
        let one = "[+1.1628% +1.1628% +1.1628%]";
        check(exact(86.0), exact(87.0), 1e-5, Regressed, one);
        check(exact(86.0), exact(87.0), 0.02, WithinThreshold, one);
        check(exact(87.0), exact(86.0), 1e-5, Improved, "[-1.1494% -1.1494% -1.1494%]");
        check(exact(86.0), exact(86.0), 1e-5, Unchanged, "[+0.0000% +0.0000% +0.0000%]");
        check(exact(20_000.0), exact(20_001.0), 1e-5, Regressed, "[+0.0050% +0.0050% +0.0050%]");
        // What reading adds to 100,000 iterations.
        check(exact(1.0), exact(1.000_1), 1e-5, WithinThreshold, "[+0.0100% +0.0100% +0.0100%]");
        // Overlapping intervals are no change, however far the medians are apart.
        check(
            (80.0, 86.0, 90.0),
            (89.0, 95.0, 99.0),
            1e-5,
            Unchanged,
            "[-1.1111% +10.4651% +23.7500%]",
        );
        check(
            (80.0, 86.0, 88.0),
            (89.0, 95.0, 99.0),
            1e-5,
            Regressed,
            "[+1.1364% +10.4651% +23.7500%]",
        );
        check(exact(0.0), exact(0.0), 0.01, Unchanged, "[+0.0000% +0.0000% +0.0000%]");
        check(exact(0.0), exact(2.0), 0.01, Regressed, "from 0");
        check((0.0, 1.0, 2.0), exact(3.0), 0.01, Regressed, "[+50.0000% +200.0% +∞%]");
        check(exact(1e-9), exact(1e6), 0.01, Regressed, "[+1.0e17% +1.0e17% +1.0e17%]");
        // In samples of one iteration, reading may add some instructions, and no page faults.
        let of = |event| between(event, exact(5.0), exact(15.0), 0.0, 1.0).verdict;
        assert_eq!([of("instructions"), of("page-faults")], [WithinThreshold, Regressed]);
        // Samples that are all equal differ if they differ.
        assert_eq!(between("page-faults", exact(5.0), exact(6.0), 0.0, 1.0).verdict, Regressed);
    }
}
