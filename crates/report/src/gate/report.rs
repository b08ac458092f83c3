//! A comparison as text, and as Markdown for a comment on a pull request.

use crate::gate::cells::{LARGE, inert, plain, with_error};
use crate::gate::comparison::{Compared, Comparison, Outcome, Status, Values};
use crate::gate::functions::text_of;
use crate::gate::limits::Limits;
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
        let Compared { row, figure, values, outcome, is_gated, doubt, functions } = self.0;
        f.write_str(&plain(row))?;
        if let Some(figure) = figure {
            write!(f, ", {}", plain(figure))?;
        }
        if let Some(values) = values {
            let [was, is] = values.texts();
            write!(f, ": {is}, was {was} ({})", values.written_change())?;
        }
        write!(f, ": {}", plain(&words(outcome, *is_gated)))?;
        let is_same = *outcome == Outcome::Same;
        if is_same && values.as_ref().is_some_and(|values| !values.are_equal()) {
            f.write_str(", the intervals overlap")?;
        }
        doubt.iter().try_for_each(|doubt| write!(f, ": {}", plain(doubt)))?;
        match functions.as_slice() {
            [] => Ok(()),
            functions => write!(f, ". {}", text_of(functions, plain)),
        }
    }
}

fn words(outcome: &Outcome, is_gated: bool) -> String {
    match (outcome, is_gated) {
        (Outcome::Worse, true) => "regression".into(),
        (Outcome::Worse, false) => "more, not gated".into(),
        (Outcome::Better, true) => "improvement".into(),
        (Outcome::Better, false) => "less, not gated".into(),
        (Outcome::WithinLimit, _) => "within the limit".into(),
        (Outcome::Same, _) => "no change".into(),
        (Outcome::LeftOut(why), _) => format!("on neither side, and not gated: {why}"),
        (Outcome::Unstable, _) => "too unstable to compare".into(),
        (Outcome::Missing(why), _) => why.clone(),
        (Outcome::NotComparable(why), _) => format!("not compared: {why}"),
    }
}

impl Values {
    /// Whether both numbers are equal as they are printed.
    fn are_equal(&self) -> bool {
        let [was, is] = self.texts();
        was == is
    }

    /// Returns the change: in percent, and the difference of counts that are known to the unit.
    fn written_change(&self) -> String {
        let is_whole = [self.was, self.is].iter().all(|value| value.fract() == 0.0);
        match self.is - self.was {
            more if is_whole && more != 0.0 && self.errors == [0.0; 2] => {
                format!("{more:+}, {}", self.change)
            }
            _ => self.change.clone(),
        }
    }

    /// Returns both numbers, with the digits that their errors allow.
    fn texts(&self) -> [String; 2] {
        let Values { was, is, errors: [of_was, of_is], .. } = self;
        [(*was, *of_was), (*is, *of_is)].map(|(value, error)| {
            // Reading the counters adds such an error, which the digits do not show.
            let is_invisible =
                error < 0.000_5 && error <= Limits::usual("instructions") * value.abs();
            if is_invisible { number(value) } else { with_error(value, error) }
        })
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
    /// are folded. It has less than 60,000 characters, because a comment on GitHub can have 65,536. If there is more, it says how much.
    pub fn markdown(&self) -> String {
        const LIMIT: usize = 60_000;
        /// The rows of both tables have this, and what cannot be compared as a whole has the rest.
        const FOR_TABLES: usize = 45_000;
        let rank = |compared: &Compared| match (&compared.outcome, compared.is_gated) {
            (Outcome::Worse, true) => 0,
            (Outcome::NotComparable(_) | Outcome::Missing(_) | Outcome::Unstable, true) => 1,
            (Outcome::Better, true) => 2,
            (Outcome::LeftOut(_), _) | (Outcome::Same | Outcome::WithinLimit, true) => 4,
            (_, false) => 3,
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
            text += &format!("\n{}", table(&changed, FOR_TABLES, ""));
        }
        let reasons: Vec<String> = self
            .obstacles
            .iter()
            .chain(&self.reasons)
            .map(|reason| format!("\n{}\n", short(reason)))
            .collect();
        let for_reasons = LIMIT - FOR_TABLES / 10;
        let fits = |text: &str, more: &str| text.len() + more.len() < for_reasons;
        let mut left = reasons.len();
        for reason in &reasons {
            if !fits(&text, reason) {
                break;
            }
            text += reason;
            left -= 1;
        }
        if left > 0 {
            text += &format!("\nand {left} more reasons.\n");
        }
        if !same.is_empty() {
            let room = for_reasons.saturating_sub(text.len());
            text += &format!(
                "\n<details><summary>{} unchanged</summary>\n\n{}\n</details>\n",
                same.len(),
                table(&same, room, " unchanged")
            );
        }
        text
    }
}

/// Returns a name as code, cut if it is long: one name may not take the room of all others.
fn short(name: &str) -> String {
    const MOST: usize = 200;
    match name.char_indices().nth(MOST) {
        Some((end, _)) => inert(&format!("{}…", name.get(..end).unwrap_or_default())),
        None => inert(name),
    }
}

/// Returns a table of at most this number of bytes, and one line. `what` is what the rows are.
fn table(rows: &[&Compared], most: usize, what: &str) -> String {
    let mut text = "| benchmark | figure | was | is | change | |\n|:-|:-|-:|-:|-:|:-|\n".to_owned();
    let mut length = text.len();
    for (place, Compared { row, figure, values, outcome, is_gated, doubt, functions }) in
        rows.iter().enumerate()
    {
        let (was, is, change) = match values {
            Some(values) => {
                let [was, is] = values.texts();
                (was, is, values.written_change())
            }
            None => Default::default(),
        };
        let figure = figure.as_deref().map(inert).unwrap_or_default();
        let has_names = matches!(
            outcome,
            Outcome::Missing(_) | Outcome::NotComparable(_) | Outcome::LeftOut(_)
        );
        let outcome = words(outcome, *is_gated);
        let mut outcome = if has_names { inert(&outcome) } else { outcome };
        if let Some(doubt) = doubt {
            outcome += &format!(": {}", inert(doubt));
        }
        if !functions.is_empty() {
            outcome += &format!(". {}", text_of(functions, short));
        }
        let line = format!("| {} | {figure} | {was} | {is} | {change} | {outcome} |\n", short(row));
        length += line.len();
        if length > most {
            text += &format!("\nand {} more{what}.\n", rows.len() - place);
            break;
        }
        text += &line;
    }
    text
}

/// Returns a count with as many digits as a change of one thousandth needs.
fn number(value: f64) -> String {
    match value.abs() {
        large if (1e6..LARGE).contains(&large) => format!("{value:.0}"),
        some if (1.0..1e6).contains(&some) && some.fract() == 0.0 => format!("{value:.0}"),
        some if (1.0..1e6).contains(&some) => format!("{value:.3}"),
        0.0 => "0".into(),
        _ => format!("{value:.3e}"),
    }
}

#[cfg(test)]
#[path = "tests/report.rs"]
mod tests;
