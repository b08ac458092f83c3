//! One row against another, sample by sample.

use crate::judging::estimate::{Estimate, LEAST_ERROR, Turns};
use crate::judging::row::{Figure, Quantity};
use crate::judging::verdict::{Cause, Verdict};
use crate::sampling::sample::{Sample, Shape};
use rdpmc::Event;
use rdpmc_report::gate::cells::{escaped, exact, upwards, with_error};
use rdpmc_report::gate::{Interval, MIN_VALUES, median, slices};
use std::cmp::Ordering;
use std::fmt;

/// A row compared with another, from [`Results::comparisons`](crate::Results::comparisons). `Display` says in words which one
/// is faster.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RowComparison {
    /// The row's name.
    pub row: String,
    /// The name of the row that it is compared with.
    pub against: String,
    /// The differences of the quantities that both have: the time first.
    pub differences: Vec<Difference>,
    /// The place of the row, because names may not be unique.
    pub(crate) place: usize,
    /// The ratios of pairs of samples, of cycles and of the time if both rows have them.
    pub(crate) ratios: Vec<(Quantity, Vec<f64>)>,
}

/// How a quantity of a row differs from that of another, for one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// What is compared.
    pub quantity: Quantity,
    /// The row's figure minus the other's.
    ///
    /// For time and cycles, it is computed from the ratio. For other quantities, it is the difference of the figures.
    pub difference: Estimate,
    /// The row's figure divided by the other's. None if that may be 0.
    ///
    /// For time and cycles, this is the median of the ratios of samples of the same pass. Its interval is the range of the
    /// eight slices' medians, or with six processes and more, that of the sign test on the processes' medians. What disturbs both
    /// samples cancels. So the interval is narrower than those of the figures.
    pub ratio: Option<Estimate>,
    /// How far the difference can be trusted: exact if both figures are. Unstable if the ratio's error is larger than the
    /// [target](crate::Bench::target), or if one of the figures is unstable for a cause that does not disturb both in the same way.
    pub verdict: Verdict,
}

impl RowComparison {
    /// Returns the difference of a quantity. None if one of the rows does not have it.
    pub fn difference(&self, of: Quantity) -> Option<&Difference> {
        self.differences.iter().find(|difference| difference.quantity == of)
    }

    /// Returns the ratio of this row to the other row for each pair of samples, in sampling order, and the quantity, which is that of
    /// [`speed`](RowComparison::speed). Paired samples come from the same pass or the nearest one. A ratio may be negative or not finite,
    /// if a sample costs less than the loop around the code.
    ///
    /// None if the rows have no speed. None for [`ComparedPrograms`](crate::ComparedPrograms), because its samples come from several
    /// processes.
    pub fn ratios(&self) -> Option<(Quantity, &[f64])> {
        let quantity = self.speed()?.quantity;
        let found = self.ratios.iter().find(|(known, _)| *known == quantity);
        found.map(|(quantity, ratios)| (*quantity, ratios.as_slice()))
    }

    /// Returns the ratios as differences in percent.
    pub(crate) fn percents(&self) -> Option<(Quantity, Vec<f64>)> {
        let (quantity, ratios) = self.ratios()?;
        Some((quantity, ratios.iter().map(|ratio| (ratio - 1.0) * 100.0).collect()))
    }

    /// Returns this comparison, with differences that are unstable if the error of their ratio is larger than the target.
    pub(crate) fn held_to(self, target: f64) -> RowComparison {
        let differences = self.differences.iter().map(|it| it.held_to(target)).collect();
        RowComparison { differences, ..self }
    }

    /// Returns the difference of the cycles, or of the time if the cycles are not known or may be 0.
    pub fn speed(&self) -> Option<&Difference> {
        let cycles = self.difference(Quantity::Event(Event::CYCLES));
        let time = self.difference(Quantity::Time);
        let has_ratio = |it: &&Difference| it.ratio.is_some();
        cycles.filter(has_ratio).or(time).or(cycles)
    }
}

impl Difference {
    fn held_to(self, target: f64) -> Difference {
        let is_wide = |ratio: Estimate| ratio.error() > target * ratio.value.abs();
        match self.verdict {
            Verdict::Stable if is_speed(self.quantity) && self.ratio.is_some_and(is_wide) => {
                Difference { verdict: Verdict::Unstable(Cause::Varies), ..self }
            }
            _ => self,
        }
    }

    /// Whether the row has more than the other: `Greater`, or `Less`. `Equal` if the interval contains 0, so that there may be no
    /// difference.
    pub fn direction(&self) -> Ordering {
        match self.difference {
            Estimate { low, .. } if low > 0.0 => Ordering::Greater,
            Estimate { high, .. } if high < 0.0 => Ordering::Less,
            _ => Ordering::Equal,
        }
    }
}

impl fmt::Display for RowComparison {
    /// Writes, for example, "29.2 ± 0.1 % faster than old, 10 instructions fewer".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let other = escaped(&self.against);
        match self.speed().and_then(|speed| Some((speed, speed.ratio?))) {
            Some((speed, ratio)) => {
                let percent = |ratio: f64| (ratio - 1.0) * 100.0;
                let by = Estimate {
                    value: percent(ratio.value),
                    low: percent(ratio.low),
                    high: percent(ratio.high),
                };
                let is_exact = speed.verdict == Verdict::Exact;
                let amount = match speed.verdict {
                    Verdict::Exact => exact(by.value.abs()),
                    Verdict::Stable | Verdict::Range => range(&by),
                    Verdict::Unstable(_) => format!("{} ?", range(&by)),
                };
                match speed.direction() {
                    // The other one may be close to nothing.
                    Ordering::Greater
                        if ratio.value >= 10.0 && ratio.error() > ratio.value / 2.0 =>
                    {
                        write!(f, "more than {:.0} times as slow as {other}", ratio.low.max(1.0))?;
                    }
                    // Percents would have many digits.
                    Ordering::Greater if ratio.value >= 10.0 => {
                        let times = with_error(ratio.value, ratio.error());
                        let doubt =
                            if matches!(speed.verdict, Verdict::Unstable(_)) { " ?" } else { "" };
                        write!(f, "{times}{doubt} times as slow as {other}")?;
                    }
                    Ordering::Greater => write!(f, "{amount} % slower than {other}")?,
                    Ordering::Less => write!(f, "{amount} % faster than {other}")?,
                    Ordering::Equal if is_exact => write!(f, "exactly as fast as {other}")?,
                    Ordering::Equal => {
                        let bound = by.low.abs().max(by.high.abs());
                        let doubt = if speed.verdict == Verdict::Stable { "" } else { " ?" };
                        write!(f, "as fast as {other}, within {} %{doubt}", upwards(bound))?;
                    }
                }
            }
            None if self.differences.is_empty() => write!(f, "not compared with {other}")?,
            None => write!(f, "not compared with {other}: too few samples, or too short")?,
        }
        let counted = self.difference(Quantity::Event(Event::INSTRUCTIONS));
        let instructions = counted.or(self.difference(Quantity::SteppedInstructions));
        match instructions {
            Some(Difference { difference, verdict: Verdict::Exact, .. }) => {
                let count = exact(difference.value.abs());
                let word = if count == "1" { "instruction" } else { "instructions" };
                match difference.value {
                    more if more > 0.0 => write!(f, ", {count} {word} more"),
                    0.0 => write!(f, ", as many instructions"),
                    _ => write!(f, ", {count} {word} fewer"),
                }
            }
            _ => Ok(()),
        }
    }
}

/// A percentage, without its sign, and its error. If ± would have 0 as well, the ends of the interval.
fn range(percent: &Estimate) -> String {
    let [low, high] = [percent.low.abs(), percent.high.abs()];
    match percent.error() < percent.value.abs() {
        true => with_error(percent.value.abs(), percent.error()),
        false => format!("{} to {}", upwards(low.min(high)), upwards(low.max(high))),
    }
}

/// A figure, and for time and cycles what it is of: the cost of an operation in each sample, for each process.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) figure: Figure,
    pub(crate) costs: Vec<Vec<Cost>>,
}

/// The pass of a sample, and the cost of an operation in it.
pub(crate) type Cost = (u32, f64);

/// Whether samples of this quantity are compared one by one.
pub(crate) fn is_speed(quantity: Quantity) -> bool {
    matches!(quantity, Quantity::Time | Quantity::Event(Event::CYCLES))
}

/// Returns the cost of an operation in each sample, in `unit`s, without what the loop's own instructions and the fence add
/// to a run. What the loop adds follows from each slice on its own, so the slices show how well it is known.
pub(crate) fn costs(
    samples: &[&Sample],
    place: usize,
    shape: &Shape,
    fence: f64,
    unit: f64,
) -> Vec<Cost> {
    let Some(turns) = Turns::from_samples(samples, place, shape) else { return Vec::new() };
    let of_slice = |slice: &[&Sample]| {
        let rest = turns.overhead(slice) + fence;
        let cost = |sample: &&Sample| (sample.pass, (turns.turn(sample) - rest) * unit);
        slice.iter().map(cost).collect::<Vec<Cost>>()
    };
    slices(samples).flat_map(of_slice).collect()
}

/// Compares the quantities that both rows have.
pub(crate) fn differences(row: &[Measured], other: &[Measured]) -> Vec<Difference> {
    let both = row.iter().filter_map(|row| {
        let quantity = row.figure.quantity;
        Some((row, other.iter().find(|other| other.figure.quantity == quantity)?))
    });
    both.filter_map(|(row, other)| difference(row, other)).collect()
}

/// Returns the ratios of paired samples, for each quantity whose samples are compared.
pub(crate) fn ratios(row: &[Measured], other: &[Measured]) -> Vec<(Quantity, Vec<f64>)> {
    let both = row.iter().filter_map(|row| {
        let quantity = row.figure.quantity;
        let other = other.iter().find(|other| other.figure.quantity == quantity)?;
        Some((quantity, paired(row.costs.first()?, other.costs.first()?)))
    });
    both.filter(|(quantity, _)| is_speed(*quantity)).collect()
}

/// None if too few samples of a time or of cycles belong together.
fn difference(row: &Measured, other: &Measured) -> Option<Difference> {
    let quantity = row.figure.quantity;
    let verdict = verdict(&row.figure, &other.figure);
    let was = &other.figure.estimate;
    let difference = row.figure.estimate.less(was);
    if verdict == Verdict::Exact || !is_speed(quantity) {
        let ratio = row.figure.estimate.ratio_to(was);
        return Some(Difference { quantity, difference, ratio, verdict });
    }
    let pairs = |(row, other): (&Vec<Cost>, &Vec<Cost>)| paired(row, other);
    let processes: Vec<Vec<f64>> = row.costs.iter().zip(&other.costs).map(pairs).collect();
    let all = processes.concat();
    if all.len() < MIN_VALUES {
        return None;
    }
    let centre = |ratios: &[f64]| median(ratios.iter().copied());
    let value = centre(&all)?;
    let ratio = match processes.len() {
        // Each process places its memory elsewhere, so the medians of enough processes are independent.
        MIN_VALUES.. => {
            let medians: Vec<f64> = processes.iter().filter_map(|it| centre(it)).collect();
            let Interval { low, median, high } = Interval::from_values(&medians);
            Estimate { value: median, low, high }
        }
        _ => Estimate::of_slices(value, slices(&all).filter_map(centre)),
    };
    // Two rows of equal code have their data at different addresses.
    let ratio = ratio.widened(LEAST_ERROR);
    if was.low <= 0.0 || !value.is_finite() {
        return Some(Difference { quantity, difference, ratio: None, verdict });
    }
    let to_difference = |ratio: f64| (ratio - 1.0) * was.value;
    let difference = Estimate {
        value: to_difference(ratio.value),
        low: to_difference(ratio.low),
        high: to_difference(ratio.high),
    };
    Some(Difference { quantity, difference, ratio: Some(ratio), verdict })
}

/// A cost that varies, and another frequency, are the same for both rows.
fn verdict(row: &Figure, other: &Figure) -> Verdict {
    let without_common_causes = |figure: &Figure| match figure.verdict {
        Verdict::Unstable(Cause::Varies | Cause::Frequency { .. }) => Verdict::Stable,
        verdict => verdict,
    };
    let is_speed = is_speed(row.quantity);
    let of =
        |figure: &Figure| if is_speed { without_common_causes(figure) } else { figure.verdict };
    of(row).and(of(other))
}

/// Returns the ratio of the costs for each sample of the row with fewer samples, and the sample of the other row that was taken in
/// the same pass or in the nearest one. Both are in the order of the passes.
fn paired(row: &[Cost], other: &[Cost]) -> Vec<f64> {
    let is_shorter = row.len() <= other.len();
    let (few, many) = if is_shorter { (row, other) } else { (other, row) };
    let mut rest = many.iter().peekable();
    let mut pairs = Vec::with_capacity(few.len());
    for (pass, cost) in few {
        let Some(mut found) = rest.next() else { break };
        while let Some(next) =
            rest.next_if(|(next, _)| next.abs_diff(*pass) <= found.0.abs_diff(*pass))
        {
            found = next;
        }
        pairs.push(if is_shorter { cost / found.1 } else { found.1 / cost });
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_one_pass_are_compared() {
        let row = [(0, 5.0), (2, 6.0), (3, 8.0), (9, 9.0)];
        let other = [(0, 1.0), (1, 7.0), (2, 2.0), (3, 4.0), (4, 7.0), (8, 3.0), (11, 7.0)];
        assert_eq!(paired(&row, &other), [5.0, 3.0, 2.0, 3.0]);
        assert_eq!(paired(&other, &row), [0.2, 2.0 / 6.0, 0.5, 3.0 / 9.0]);
        assert!(paired(&row, &[]).is_empty());
        // No sample is in two pairs.
        assert_eq!(paired(&[(5, 1.0), (5, 1.0)], &[(5, 2.0)]).len(), 1);
    }
}
