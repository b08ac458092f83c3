//! The change of a figure.

use crate::gate::figure::{Certainty, Figure};
use crate::gate::median::Interval;
use std::fmt;

/// Where a figure went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It grew.
    More,
    /// It shrank.
    Less,
    /// The intervals are apart, by less than the limit.
    WithinLimit,
    /// The intervals overlap, or both figures are exact and equal.
    Same,
    /// One of the figures is unstable.
    Unknown,
}

/// The change of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Where it went.
    pub direction: Direction,
    /// The relative change, and its interval. Its ends are those of the two intervals that are furthest apart. None if
    /// the figure was 0.
    pub relative: Option<Interval>,
}

/// Figures are divided by the number of runs. A smaller relative difference comes from the division.
const DIVISION: f64 = 1e-12;

impl Change {
    /// Compares two figures. `limit` is the relative change to accept.
    pub fn between(was: &Figure, is: &Figure, limit: f64) -> Change {
        let more = is.value - was.value;
        let slack = was.slack.max(is.slack);
        let least = limit.max(DIVISION) * was.value.abs() + slack;
        let is_unstable = [was, is].iter().any(|figure| figure.certainty == Certainty::Unstable);
        let direction = match (is.low > was.high, is.high < was.low) {
            _ if is_unstable => Direction::Unknown,
            (true, _) if more > least => Direction::More,
            (_, true) if -more > least => Direction::Less,
            (false, false) => Direction::Same,
            _ => Direction::WithinLimit,
        };
        let ratio = |is: f64, was: f64| (is - was) / was.abs();
        let relative = match (was.high, is.high) {
            (0.0, 0.0) => Some(Interval { low: 0.0, median: 0.0, high: 0.0 }),
            // The interval may begin at 0 while the median does not.
            _ => (was.value != 0.0).then(|| Interval {
                low: ratio(is.low, was.high),
                median: ratio(is.value, was.value),
                high: ratio(is.high, was.low),
            }),
        };
        Change { direction, relative }
    }

    /// Returns the relative change of the medians in percent, or "from 0".
    pub fn percent(&self) -> String {
        self.relative.map_or("from 0".into(), |relative| Percent(relative.median).to_string())
    }
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
struct Percent(f64);

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

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Less, More, Same, Unknown, WithinLimit};

    fn figure((low, value, high): (f64, f64, f64)) -> Figure {
        Figure {
            name: "x".into(),
            value,
            low,
            high,
            certainty: Certainty::Stable,
            slack: 0.0,
            doubt: None,
        }
    }

    #[track_caller]
    fn check(
        was: (f64, f64, f64),
        is: (f64, f64, f64),
        limit: f64,
        direction: Direction,
        text: &str,
    ) {
        let change = Change::between(&figure(was), &figure(is), limit);
        assert_eq!((change.direction, change.to_string().as_str()), (direction, text));
    }

    #[test]
    fn one_instruction_is_found() {
        let exact = |value| (value, value, value);
        let one = "[+1.1628% +1.1628% +1.1628%]";
        check(exact(86.0), exact(87.0), 1e-5, More, one);
        check(exact(86.0), exact(87.0), 0.02, WithinLimit, one);
        check(exact(87.0), exact(86.0), 1e-5, Less, "[-1.1494% -1.1494% -1.1494%]");
        check(exact(86.0), exact(86.0), 0.0, Same, "[+0.0000% +0.0000% +0.0000%]");
        check(exact(20_000.0), exact(20_001.0), 1e-5, More, "[+0.0050% +0.0050% +0.0050%]");
        check(exact(2e9), exact(2e9 + 1.0), 0.0, More, "[+0.0000% +0.0000% +0.0000%]");
        // Of a division.
        check(
            exact(1.0 / 3.0),
            exact((1.0_f64 / 3.0).next_up()),
            0.0,
            WithinLimit,
            "[+0.0000% +0.0000% +0.0000%]",
        );
        // Overlapping intervals are no change, however far the medians are apart.
        check((80.0, 86.0, 90.0), (89.0, 95.0, 99.0), 1e-5, Same, "[-1.1111% +10.4651% +23.7500%]");
        check((80.0, 86.0, 88.0), (89.0, 95.0, 99.0), 1e-5, More, "[+1.1364% +10.4651% +23.7500%]");
        check(exact(0.0), exact(0.0), 0.01, Same, "[+0.0000% +0.0000% +0.0000%]");
        check(exact(0.0), exact(2.0), 0.01, More, "from 0");
        check((0.0, 1.0, 2.0), exact(3.0), 0.01, More, "[+50.0000% +200.0% +∞%]");
        check(exact(1e-9), exact(1e6), 0.01, More, "[+1.0e17% +1.0e17% +1.0e17%]");
        check(exact(5.0), exact(1e9), f64::INFINITY, WithinLimit, "[+2.0e10% +2.0e10% +2.0e10%]");
    }

    #[test]
    fn slack_and_unstable_figures_are_no_change() {
        let of =
            |certainty, slack, value| Figure { certainty, slack, ..figure((value, value, value)) };
        let direction = |was: &Figure, is: &Figure| Change::between(was, is, 0.0).direction;
        // In samples of one iteration, reading may add some instructions.
        let was = of(Certainty::Stable, 0.0, 5.0);
        assert_eq!(direction(&was, &of(Certainty::Stable, 16.0, 15.0)), WithinLimit);
        assert_eq!(direction(&was, &of(Certainty::Stable, 16.0, 25.0)), More);
        for is in [1.0, 5.0, 500.0] {
            assert_eq!(direction(&was, &of(Certainty::Unstable, 0.0, is)), Unknown);
            assert_eq!(direction(&of(Certainty::Unstable, 0.0, is), &was), Unknown);
        }
    }
}
