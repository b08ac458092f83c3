//! A comparison as text, and as Markdown for a comment on a pull request.

use crate::cells::{LARGE, inert, plain};
use crate::comparison::{Compared, Comparison, Outcome, Status, Values};
use std::fmt;

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for compared in &self.compared {
            writeln!(f, "{}", Line(compared))?;
        }
        for obstacle in self.obstacles.iter().chain(&self.reasons) {
            writeln!(f, "{}.", plain(obstacle))?;
        }
        writeln!(f, "{}", self.summary(plain))
    }
}

/// What happened to a figure, in a line.
struct Line<'a>(&'a Compared);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Compared { row, figure, values, outcome, is_gated } = self.0;
        f.write_str(&plain(row))?;
        if let Some(figure) = figure {
            write!(f, ", {}", plain(figure))?;
        }
        if let Some(Values { was, is, change }) = values {
            write!(f, ": {}, was {} ({change})", number(*is), number(*was))?;
        }
        write!(f, ": {}", plain(&words(outcome, *is_gated)))
    }
}

fn words(outcome: &Outcome, is_gated: bool) -> String {
    match (outcome, is_gated) {
        (Outcome::Worse, true) => "regression".into(),
        (Outcome::Worse, false) => "more, not gated".into(),
        (Outcome::Better, true) => "improvement".into(),
        (Outcome::Better, false) => "less, not gated".into(),
        (Outcome::Same, _) => "no change".into(),
        (Outcome::Unstable, _) => "too unstable to compare".into(),
        (Outcome::Missing(why), _) => why.clone(),
        (Outcome::NotComparable(why), _) => format!("not compared: {why}"),
    }
}

impl Comparison {
    /// Returns how many figures are worse, better, accepted as unstable, and not compared.
    fn summary(&self, name: fn(&str) -> String) -> String {
        let of = |outcome: Outcome| self.count(|it| it.is_gated && it.outcome == outcome);
        let (worse, better) = (of(Outcome::Worse), of(Outcome::Better));
        let open = self.count(|it| self.is_open(it)) + self.obstacles.len();
        let unstable = self.accepted_as_unstable();
        if self.comparisons() + unstable == 0 {
            return format!(
                "Nothing was compared between {} and {}.",
                name(&self.labels[0]),
                name(&self.labels[1])
            );
        }
        let mut text = format!(
            "Figures compared: {}. Regressions: {worse}. Improvements: {better}.",
            self.comparisons()
        );
        if unstable > 0 {
            text += &format!(" Accepted as unstable: {unstable}.");
        }
        if open > 0 {
            text += &format!(" Not compared: {open}.");
        }
        text
    }

    /// Returns the comparison as Markdown: a table of what changed or could not be compared, the worst first. Unchanged figures
    /// are folded.
    pub fn markdown(&self) -> String {
        let rank = |compared: &Compared| match (&compared.outcome, compared.is_gated) {
            (Outcome::Worse, true) => 0,
            (Outcome::NotComparable(_) | Outcome::Missing(_) | Outcome::Unstable, true) => 1,
            (Outcome::Better, true) => 2,
            (_, false) => 3,
            (Outcome::Same, true) => 4,
        };
        let growth = |compared: &Compared| match &compared.values {
            Some(Values { was, is, .. }) => (is - was) / was.abs(),
            None => 0.0,
        };
        let mut all: Vec<&Compared> = self.compared.iter().collect();
        all.sort_by(|one, two| rank(one).cmp(&rank(two)).then(growth(two).total_cmp(&growth(one))));
        let (same, changed): (Vec<&Compared>, Vec<&Compared>) =
            all.into_iter().partition(|it| rank(it) == 4);

        let outcome = match self.status() {
            Status::Passed => "No regression",
            Status::Regressed => "Regression",
            Status::Incomplete => "Not all could be compared",
        };
        let mut text = format!("**{outcome}.** {}\n", self.summary(inert));
        if !changed.is_empty() {
            text += &format!("\n{}", table(&changed));
        }
        for obstacle in self.obstacles.iter().chain(&self.reasons) {
            text += &format!("\n{}\n", inert(obstacle));
        }
        if !same.is_empty() {
            text += &format!(
                "\n<details><summary>{} unchanged</summary>\n\n{}\n</details>\n",
                same.len(),
                table(&same)
            );
        }
        text
    }
}

fn table(rows: &[&Compared]) -> String {
    let mut text = "| benchmark | figure | was | is | change | |\n|:-|:-|-:|-:|-:|:-|\n".to_owned();
    for Compared { row, figure, values, outcome, is_gated } in rows {
        let (was, is, change) = match values {
            Some(Values { was, is, change }) => (number(*was), number(*is), change.as_str()),
            None => Default::default(),
        };
        let figure = figure.as_deref().map(inert).unwrap_or_default();
        let has_names = matches!(outcome, Outcome::Missing(_) | Outcome::NotComparable(_));
        let outcome = words(outcome, *is_gated);
        let outcome = if has_names { inert(&outcome) } else { outcome };
        text += &format!("| {} | {figure} | {was} | {is} | {change} | {outcome} |\n", inert(row));
    }
    text
}

/// Returns a count with as many digits as a change of one thousandth needs.
fn number(value: f64) -> String {
    match value.abs() {
        large if (1e6..LARGE).contains(&large) => format!("{value:.0}"),
        some if (1.0..1e6).contains(&some) => format!("{value:.3}"),
        0.0 => "0".into(),
        _ => format!("{value:.3e}"),
    }
}

#[cfg(test)]
#[path = "tests/report.rs"]
mod tests;
