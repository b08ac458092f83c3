//! One row against another, sample by sample.

use crate::estimate::{Estimate, FEWEST, PLACEMENT, Turns, median, slices};
use crate::row::{Figure, Quantity, Row};
use crate::sample::Sample;
use crate::table::{escaped, exact, upwards, with_error};
use crate::verdict::Verdict;
use rdpmc::Event;
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
}

/// How a quantity of a row differs from that of another, for one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// What is compared.
    pub quantity: Quantity,
    /// The row's figure minus the other's.
    ///
    /// Of time and cycles, this is the median of the differences of samples that were taken one after the other, and its
    /// interval is the range of the eight slices' medians. What disturbs both samples is not part of it. So it is narrower
    /// than the figures' own intervals. The difference of other quantities is that of their figures.
    pub difference: Estimate,
    /// The row's figure divided by the other's. None if that may be 0.
    pub ratio: Option<Estimate>,
    /// Whether both figures are exact.
    pub is_exact: bool,
}

impl RowComparison {
    /// Returns the difference of a quantity. None if one of the rows does not have it.
    pub fn difference(&self, of: Quantity) -> Option<&Difference> {
        self.differences.iter().find(|difference| difference.quantity == of)
    }

    /// Returns the difference of the cycles, or of the time if the cycles are not known.
    pub fn speed(&self) -> Option<&Difference> {
        self.difference(Quantity::Event(Event::CYCLES)).or(self.difference(Quantity::Time))
    }
}

impl Difference {
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
                let amount = match speed.is_exact {
                    true => exact(by.value.abs()),
                    false => with_error(by.value.abs(), by.error()),
                };
                match speed.direction() {
                    Ordering::Greater => write!(f, "{amount} % slower than {other}")?,
                    Ordering::Less => write!(f, "{amount} % faster than {other}")?,
                    Ordering::Equal => {
                        let bound = by.low.abs().max(by.high.abs());
                        write!(f, "as fast as {other}, within {} %", upwards(bound))?;
                    }
                }
            }
            None => write!(f, "not compared with {other}: too few samples, or too short")?,
        }
        let instructions = self.difference(Quantity::Event(Event::INSTRUCTIONS));
        match instructions {
            Some(Difference { difference, is_exact: true, .. }) => {
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

/// What is compared of one row: its figures, and the samples of one set of events.
pub(crate) struct Side<'a> {
    pub(crate) row: &'a Row,
    pub(crate) kept: &'a [&'a Sample],
    pub(crate) operations: u64,
    /// What the fence adds to a run, of a value of the set.
    pub(crate) fence: f64,
}

/// Compares a quantity, which is the value `place` of the samples, in `unit`s. None if one of the rows does not have it.
pub(crate) fn difference(
    row: &Side<'_>,
    other: &Side<'_>,
    quantity: Quantity,
    place: usize,
    unit: f64,
) -> Option<Difference> {
    let (of_row, of_other) = (row.row.figure(quantity)?, other.row.figure(quantity)?);
    let is_exact = [of_row, of_other].iter().all(|figure| figure.verdict == Verdict::Exact);
    let is_speed = matches!(quantity, Quantity::Time | Quantity::Event(Event::CYCLES));
    if is_exact || !is_speed {
        return Some(of_figures(of_row, of_other, is_exact));
    }
    let scale = |side: &Side<'_>| unit / side.operations.max(1) as f64;
    let (turns, others) = (Turns::of(row.kept, place)?, Turns::of(other.kept, place)?);
    // What is not part of the figures.
    let rest =
        |side: &Side<'_>, turns: &Turns| (turns.overhead(side.kept) + side.fence) * scale(side);
    let apart = rest(row, &turns) - rest(other, &others);
    let pairs = paired(row.kept, other.kept);
    if pairs.len() < FEWEST {
        return None;
    }
    let centre = |pairs: &[(&Sample, &Sample)]| {
        let each = |(one, two): &(&Sample, &Sample)| {
            turns.turn(one) * scale(row) - others.turn(two) * scale(other)
        };
        Some(median(pairs.iter().map(each))? - apart)
    };
    let value = centre(&pairs)?;
    let difference = Estimate::of_slices(value, slices(&pairs).filter_map(centre));
    let was = of_other.estimate.value;
    // Two rows of equal code have their data at different addresses.
    let difference = difference.widened(PLACEMENT * was.abs());
    let to_ratio = |difference: f64| 1.0 + difference / was;
    let ratio = (of_other.estimate.low > 0.0).then(|| Estimate {
        value: to_ratio(difference.value),
        low: to_ratio(difference.low),
        high: to_ratio(difference.high),
    });
    Some(Difference { quantity, difference, ratio, is_exact })
}

fn of_figures(row: &Figure, other: &Figure, is_exact: bool) -> Difference {
    let difference = row.estimate.less(&other.estimate);
    let ratio = row.estimate.ratio_to(&other.estimate);
    Difference { quantity: row.quantity, difference, ratio, is_exact }
}

/// Returns the samples that both rows took in one pass. Both are in the order of the passes.
fn paired<'a>(row: &[&'a Sample], other: &[&'a Sample]) -> Vec<(&'a Sample, &'a Sample)> {
    let mut others = other.iter().copied().peekable();
    let mut pairs = Vec::new();
    for sample in row {
        while others.next_if(|other| other.pass < sample.pass).is_some() {}
        if let Some(other) = others.next_if(|other| other.pass == sample.pass) {
            pairs.push((*sample, other));
        }
    }
    pairs
}
