//! The rows of both programs, compared.

use super::joined::joined;
use crate::judging::comparison::{Measured, RowComparison, differences, is_speed};
use crate::judging::estimate::Estimate;
use crate::judging::row::{Figure, Quantity};
use crate::judging::verdict::Verdict;
use crate::output::table::{text_of, write_table};
use rdpmc::Event;
use rdpmc_report::gate::cells::escaped;
use rdpmc_report::gate::{Certainty, Comparison, Limits, Row as SavedRow, Side, compare};
use std::collections::BTreeSet;
use std::fmt;

/// What the two programs are called in tables.
const LABELS: [&str; 2] = ["old", "new"];

/// The relative error above which a ratio is unstable.
const TARGET: f64 = 0.01;

/// What both programs measured.
#[derive(Debug)]
pub(super) struct Rows {
    /// In the order in which they were first seen, with what the old and the new program measured.
    pub(super) all: Vec<(String, [Processes; 2])>,
    pub(super) obstacles: BTreeSet<String>,
}

/// What the processes of a program measured of a row.
#[derive(Debug, Default)]
pub(super) struct Processes {
    measured: Vec<Vec<Measured>>,
    /// Whether there were no inputs in one of them.
    lack_inputs: bool,
}

/// The rows of two programs, compared. `Display` writes a table.
#[derive(Clone, Debug)]
pub struct ComparedPrograms {
    rows: Vec<ComparedRow>,
    comparison: Comparison,
}

#[derive(Clone, Debug)]
struct ComparedRow {
    name: String,
    /// The times or the cycles. None for a program that does not have the row.
    speeds: [Option<Figure>; 2],
    comparison: Option<RowComparison>,
}

impl Rows {
    /// Adds what a process measured of a row. None without inputs.
    pub(super) fn add(&mut self, name: String, side: usize, measured: Option<Vec<Measured>>) {
        if !self.all.iter().any(|(known, _)| *known == name) {
            self.all.push((name.clone(), Default::default()));
        }
        let of_name = self.all.iter_mut().find(|(known, _)| *known == name);
        if let Some(processes) = of_name.and_then(|(_, sides)| sides.get_mut(side)) {
            processes.lack_inputs |= measured.is_none();
            processes.measured.extend(measured);
        }
    }

    pub(super) fn compared(self, limits: &Limits) -> ComparedPrograms {
        let mut sides = LABELS.map(|label| Side { label: label.to_owned(), ..Side::default() });
        if let Some(side) = sides.first_mut() {
            side.obstacles.extend(self.obstacles);
        }
        let (mut rows, mut speeds) = (Vec::new(), Vec::new());
        for (name, processes) in self.all {
            let both = processes.each_ref().map(|processes| joined(&processes.measured));
            let [old, new] = &both;
            let comparison = (!old.is_empty() && !new.is_empty()).then(|| RowComparison {
                ratios: Vec::new(),
                row: name.clone(),
                against: "old".to_owned(),
                differences: differences(new, old),
                place: 0,
            });
            for ((side, measured), processes) in sides.iter_mut().zip(&both).zip(&processes) {
                if !processes.have_row() {
                    continue;
                }
                side.rows.push(SavedRow {
                    obstacle: processes.obstacle(measured, &side.label),
                    key: name.clone(),
                    name: name.clone(),
                    figures: measured.iter().map(saved).collect(),
                    processor: Some(String::new()), // this one
                    ..SavedRow::default()
                });
            }
            // The interval of a ratio is narrower than those of the figures.
            for difference in comparison.iter().flat_map(|it| &it.differences) {
                let name = difference.quantity.to_string();
                speeds.extend(is_speed(difference.quantity).then(|| name.clone()));
                let is_relative =
                    is_speed(difference.quantity) && difference.verdict != Verdict::Exact;
                if let Some(ratio) = difference.ratio.filter(|_| is_relative) {
                    let limit = limits.accepted(&name).unwrap_or(0.01);
                    relate(&mut sides, &name, &ratio, difference.verdict, limit);
                }
            }
            // The gate judges by its limit. The table marks what is wider than the usual target.
            let comparison = comparison.map(|comparison| comparison.held_to(TARGET));
            rows.push(ComparedRow {
                speeds: speeds_of(old, new, comparison.as_ref()),
                name,
                comparison,
            });
        }
        let usual = speeds.into_iter().fold(Limits::new(), |all, name| all.accept(name, 0.01));
        let [old, new] = sides;
        ComparedPrograms { rows, comparison: compare(&old, &new, &usual.then(limits)) }
    }
}

/// Returns the cycles or the times of both programs. That of the new one is the old one times their ratio, which is known better than both.
fn speeds_of(
    old: &[Measured],
    new: &[Measured],
    comparison: Option<&RowComparison>,
) -> [Option<Figure>; 2] {
    let speed = |measured: &[Measured]| {
        let of = |quantity| measured.iter().find(|it| it.figure.quantity == quantity);
        let found = of(Quantity::Event(Event::CYCLES)).or(of(Quantity::Time))?;
        Some(found.figure)
    };
    let (old, new) = (speed(old), speed(new));
    let related = old.zip(new).and_then(|(old, new)| {
        let difference = comparison?.difference(new.quantity)?;
        let ratio = difference.ratio.filter(|_| difference.verdict != Verdict::Exact)?;
        Some(Figure { estimate: ratio.scaled(old.estimate.value), ..new })
    });
    [old, related.or(new)]
}

impl Processes {
    /// Whether the program has this row.
    fn have_row(&self) -> bool {
        self.lack_inputs || !self.measured.is_empty()
    }

    /// Returns why the row cannot be compared.
    fn obstacle(&self, joined: &[Measured], label: &str) -> Option<String> {
        match joined {
            _ if self.lack_inputs => Some(format!("there are no inputs in {label}")),
            [] => Some(format!(
                "nothing was measured in all processes of {label}. If its code panicked, the message is above"
            )),
            _ => None,
        }
    }
}

/// Sets a figure of the last row of both sides to 1 times and `ratio` times the old value.
///
/// If the interval has the limit, it is not known which side of it the ratio is on.
fn relate(sides: &mut [Side; 2], name: &str, ratio: &Estimate, verdict: Verdict, limit: f64) {
    let is_undecided = ratio.low <= 1.0 + limit && 1.0 + limit < ratio.high;
    let certainty = if is_undecided { Certainty::Unstable } else { certainty(verdict) };
    let doubt = is_undecided.then(|| {
        let [low, high, limit] = [ratio.low - 1.0, ratio.high - 1.0, limit].map(|it| it * 100.0);
        format!(
            "the change is between {low:+.3} % and {high:+.3} %, and the limit is {limit} %. More processes (`--processes`) make that narrower"
        )
    });
    let [old, new] = sides
        .each_mut()
        .map(|side| side.rows.last_mut()?.figures.iter_mut().find(|figure| figure.name == name));
    if let (Some(old), Some(new)) = (old, new) {
        (old.low, old.high, old.certainty) = (old.value, old.value, certainty);
        (new.value, new.certainty) = (ratio.value * old.value, certainty);
        (new.low, new.high) = (ratio.low * old.value, ratio.high * old.value);
        new.doubt = doubt;
    }
}

fn certainty(verdict: Verdict) -> Certainty {
    match verdict {
        Verdict::Exact => Certainty::Exact,
        Verdict::Stable | Verdict::Range => Certainty::Stable,
        Verdict::Unstable(_) => Certainty::Unstable,
    }
}

fn saved(measured: &Measured) -> rdpmc_report::gate::Figure {
    let Figure { quantity, estimate: Estimate { value, low, high }, verdict } = measured.figure;
    let certainty = certainty(verdict);
    rdpmc_report::gate::Figure {
        name: quantity.to_string(),
        value,
        low,
        high,
        certainty,
        slack: 0.0,
        doubt: None,
    }
}

impl ComparedPrograms {
    /// Returns the comparisons of the rows that both programs have.
    pub fn rows(&self) -> impl Iterator<Item = &RowComparison> {
        self.rows.iter().filter_map(|row| row.comparison.as_ref())
    }

    /// Returns the outcome: its status, the lines for each figure, or a comment for a pull request.
    pub fn comparison(&self) -> &Comparison {
        &self.comparison
    }
}

impl fmt::Display for ComparedPrograms {
    /// Writes a table with a line for each row, in Markdown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = self.rows.iter().flat_map(|row| &row.speeds).flatten().next();
        let unit = unit.map_or("ns".into(), |figure| figure.quantity.to_string());
        let mut lines = vec![[
            format!("old, {unit}"),
            format!("new, {unit}"),
            "compared".into(),
            "per operation".into(),
        ]];
        for ComparedRow { name, speeds, comparison } in &self.rows {
            let [old, new] =
                speeds.each_ref().map(|speed| speed.as_ref().map_or("-".into(), text_of));
            let words = comparison.as_ref().map_or("-".into(), RowComparison::to_string);
            lines.push([old, new, words, escaped(name)]);
        }
        write_table(f, &lines)?;
        writeln!(f, "\n± is the 95 % interval.")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::judging::verdict::Cause;

    fn row(value: f64) -> SavedRow {
        let certainty = Certainty::Stable;
        let (low, high) = (value * 0.9, value * 1.1);
        let figure = rdpmc_report::gate::Figure {
            name: "ns".into(),
            value,
            low,
            high,
            certainty,
            slack: 0.0,
            doubt: None,
        };
        SavedRow { figures: vec![figure], ..SavedRow::default() }
    }

    #[test]
    fn a_ratio_replaces_the_intervals_of_both_figures() {
        let related = |ratio: (f64, f64, f64), verdict| {
            let mut sides = [200.0, 202.0]
                .map(|value| Side { rows: vec![row(7.0), row(value)], ..Side::default() });
            let ratio = Estimate { value: ratio.1, low: ratio.0, high: ratio.2 };
            relate(&mut sides, "ns", &ratio, verdict, 0.01);
            relate(&mut sides, "cycles", &ratio, verdict, 0.01);
            // Of the last row only.
            assert!(sides.iter().all(|side| side.rows[0].figures == row(7.0).figures));
            sides.map(|side| {
                let it = &side.rows[1].figures[0];
                ([it.low, it.value, it.high], it.certainty)
            })
        };
        let [old, new] = related((1.25, 1.5, 2.0), Verdict::Stable);
        assert_eq!(old, ([200.0; 3], Certainty::Stable));
        assert_eq!(new, ([250.0, 300.0, 400.0], Certainty::Stable));
        let certainty = |ratio, verdict| related(ratio, verdict).map(|(_, certainty)| certainty);
        assert_eq!(certainty((0.9, 1.0, 1.01), Verdict::Stable), [Certainty::Stable; 2]);
        // The limit is in the interval.
        assert_eq!(certainty((1.0, 1.5, 2.0), Verdict::Stable), [Certainty::Unstable; 2]);
        assert_eq!(certainty((0.9, 1.0, 1.02), Verdict::Stable), [Certainty::Unstable; 2]);
        let doubt = Verdict::Unstable(Cause::Unreadable);
        assert_eq!(certainty((1.25, 1.5, 2.0), doubt), [Certainty::Unstable; 2]);
    }
}
