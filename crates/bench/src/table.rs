//! The rows as a Markdown table, as CSV and as JSON.

use crate::bench::Bench;
use crate::estimate::Estimate;
use crate::paths::Path;
use crate::row::{Figure, Quantity, Row};
use crate::verdict::{Cause, Verdict};
use rdpmc::Event;
use serde_json::{Map, Value, json};
use std::fmt;

impl fmt::Display for Bench {
    /// Writes the table as Markdown, then what is unstable, and what is missing and why.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.columns();
        let mut lines: Vec<Vec<String>> = vec![Vec::new()];
        let [head, ..] = lines.as_mut_slice() else { return Ok(()) };
        head.extend(columns.iter().map(|column| self.head(column)));
        head.push("per operation".to_owned());
        for row in &self.rows {
            let mut line: Vec<String> =
                columns.iter().map(|column| self.cell(row, column)).collect();
            line.push(escaped(&row.name));
            lines.push(line);
        }
        let width = |place: usize| {
            let cells = lines.iter().filter_map(|line| line.get(place));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(2)
        };
        let widths: Vec<usize> = (0..=columns.len()).map(width).collect();
        for (number, line) in lines.iter().enumerate() {
            for (place, (cell, width)) in line.iter().zip(&widths).enumerate() {
                match place == columns.len() {
                    false => write!(f, "| {cell:>width$} ")?,
                    true => writeln!(f, "| {cell}")?,
                }
            }
            if number == 0 {
                for width in widths.iter().take(columns.len()) {
                    write!(f, "|-{:->width$}:", "")?;
                }
                writeln!(f, "|:-")?;
            }
        }
        self.write_notes(f)
    }
}

/// A column of the table.
enum Column {
    Of(Quantity),
    /// The ratio to the baseline.
    Ratio(Quantity),
}

impl Bench {
    /// Returns the columns for which at least one row has a figure.
    fn columns(&self) -> Vec<Column> {
        let events = self.events.iter().map(|event| Quantity::Event(*event));
        let has = |quantity: Quantity| self.rows.iter().any(|row| row.figure(quantity).is_some());
        let mut columns = Vec::new();
        for quantity in std::iter::once(Quantity::Time).chain(events) {
            let is_instructions = quantity == Quantity::Event(Event::INSTRUCTIONS);
            let ratio = is_instructions.then_some(Quantity::InstructionsPerCycle);
            let shown = std::iter::once(quantity).chain(ratio).filter(|quantity| has(*quantity));
            columns.extend(shown.map(Column::Of));
        }
        columns.extend(self.compared().map(Column::Ratio));
        columns
    }

    fn baseline_row(&self) -> Option<&Row> {
        let name = self.baseline.as_deref()?;
        self.rows.iter().find(|row| row.name == name)
    }

    /// Returns what is compared with the baseline: cycles, or the time if there are none. None without a baseline.
    fn compared(&self) -> Option<Quantity> {
        let cycles = Quantity::Event(Event::CYCLES);
        let row = self.baseline_row()?;
        Some(if row.figure(cycles).is_some() { cycles } else { Quantity::Time })
    }

    /// Returns the ratio of a row's figure to that of the [baseline](Bench::baseline). Its interval contains the true
    /// ratio in at least 90 % of cases. None if one of the two is not known, or if the baseline may be 0.
    pub fn ratio(&self, row: &Row, of: Quantity) -> Option<Figure> {
        row.figure(of)?.ratio_to(self.baseline_row()?.figure(of)?, of)
    }

    /// The name of the ratio to the baseline in CSV and JSON.
    fn ratio_name(&self) -> String {
        format!("{} ratio", self.compared().unwrap_or(Quantity::Time))
    }

    fn head(&self, column: &Column) -> String {
        match column {
            Column::Of(quantity) => quantity.to_string(),
            Column::Ratio(of) => {
                escaped(&format!("{of} / {}", self.baseline.as_deref().unwrap_or_default()))
            }
        }
    }

    fn cell(&self, row: &Row, column: &Column) -> String {
        let figure = match column {
            Column::Of(quantity) => row.figure(*quantity).copied(),
            Column::Ratio(of) => self.ratio(row, *of),
        };
        figure.map_or_else(|| "-".to_owned(), |figure| text_of(&figure))
    }

    fn write_notes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = || self.rows.iter().flat_map(|row| &row.figures);
        let is = |verdict: fn(&Verdict) -> bool| figures().any(|figure| verdict(&figure.verdict));
        let mut legend = Vec::new();
        if is(|verdict| *verdict != Verdict::Exact) {
            legend.push("± is the 95 % interval of the median (90 % for ratios).");
        }
        if is(|verdict| *verdict == Verdict::Exact) {
            legend.push("Figures without ± are exact.");
        }
        if is(|verdict| matches!(verdict, Verdict::Unstable(_))) {
            legend.push("Figures with ? are unstable:");
        }
        if !legend.is_empty() {
            writeln!(f, "\n{}", legend.join(" "))?;
        }
        for row in &self.rows {
            let mut causes: Vec<(Cause, Vec<String>)> = Vec::new();
            for figure in &row.figures {
                let Verdict::Unstable(cause) = figure.verdict else { continue };
                let name = figure.quantity.to_string();
                match causes.iter_mut().find(|(known, _)| *known == cause) {
                    Some((_, names)) => names.push(name),
                    None => causes.push((cause, vec![name])),
                }
            }
            for (cause, names) in causes {
                writeln!(f, "- {}: {}: {cause}.", escaped(&row.name), names.join(", "))?;
            }
        }
        let aside = self.rows.iter().filter(|row| row.set_aside > 0);
        let aside: Vec<String> = aside
            .map(|row| format!("{} of {} ({})", row.set_aside, row.pairs, escaped(&row.name)))
            .collect();
        if !aside.is_empty() {
            let rows = aside.join(", ");
            writeln!(f, "\nPairs set aside for interrupts or context switches: {rows}.")?;
        }
        for row in &self.rows {
            let name = escaped(&row.name);
            if row.paths.are_several {
                write!(f, "\n{name}: several paths.")?;
                for path in row.paths.found.iter().take(4) {
                    let percent = path.share * 100.0;
                    write!(
                        f,
                        " {percent:.0} % of the runs take {} instructions.",
                        path.instructions
                    )?;
                }
                writeln!(f)?;
            }
            for note in &row.notes {
                writeln!(f, "\n{name}: {note}.")?;
            }
        }
        if let (Some(name), None) = (&self.baseline, self.baseline_row()) {
            writeln!(f, "\nNothing is compared: no row has the name {}.", escaped(name))?;
        }
        let mut sentences: Vec<(String, Vec<String>)> = Vec::new();
        for missing in &self.missing {
            let event = missing.name.clone();
            let why = missing.why.replacen(&event, "this", 1);
            match sentences.iter_mut().find(|(known, _)| *known == why) {
                Some((_, events)) => events.push(event),
                None => sentences.push((why, vec![event])),
            }
        }
        for (why, events) in sentences {
            writeln!(f, "\nNot counted: {}: {why}.", events.join(", "))?;
        }
        Ok(())
    }

    /// Returns the figures as CSV: a line for each figure of each row. An interval that is not known has empty ends.
    pub fn csv(&self) -> String {
        let mut csv = "row,quantity,value,low,high,verdict\n".to_owned();
        for row in &self.rows {
            let name = row.name.replace('"', "\"\"");
            let ratio = self.compared().and_then(|of| self.ratio(row, of));
            let ratio = ratio.map(|ratio| (self.ratio_name(), ratio));
            let figures = row.figures.iter().map(|figure| (figure.quantity.to_string(), *figure));
            for (quantity, figure) in figures.chain(ratio) {
                let Estimate { value, low, high } = figure.estimate;
                let end = |end: f64| if end.is_finite() { end.to_string() } else { String::new() };
                let verdict = word(&figure.verdict);
                csv += &format!(
                    "\"{name}\",\"{quantity}\",{value},{},{},{verdict}\n",
                    end(low),
                    end(high)
                );
            }
        }
        csv
    }

    /// Returns the processor, the rows with their figures, and what is missing, as JSON. This is what
    /// [`save`](Bench::save) writes.
    pub fn json(&self) -> String {
        let missing: Map<String, Value> = self
            .missing
            .iter()
            .map(|missing| (missing.name.clone(), missing.why.as_str().into()))
            .collect();
        let rows: Vec<Value> = self.rows.iter().map(|row| self.json_of(row)).collect();
        let all = json!({
            "version": 1,
            "processor": self.processor,
            "baseline": self.baseline,
            "rows": rows,
            "missing": missing,
        });
        format!("{all:#}\n")
    }
}

impl Bench {
    fn json_of(&self, row: &Row) -> Value {
        let ratio = self.compared().and_then(|of| self.ratio(row, of));
        let ratio = ratio.map(|ratio| (self.ratio_name(), json_of(&ratio)));
        let figures =
            row.figures.iter().map(|figure| (figure.quantity.to_string(), json_of(figure)));
        let figures: Map<String, Value> = figures.chain(ratio).collect();
        let path = |path: &Path| json!({ "instructions": path.instructions, "share": path.share });
        let paths: Vec<Value> = row.paths.found.iter().map(path).collect();
        json!({
            "name": row.name,
            "runs": row.runs,
            "pairs": row.pairs,
            "set_aside": row.set_aside,
            "figures": figures,
            "paths": paths,
            "notes": row.notes,
        })
    }
}

fn json_of(figure: &Figure) -> Value {
    let Estimate { value, low, high } = figure.estimate;
    // An end that is not known becomes null.
    let mut fields =
        json!({ "value": value, "low": low, "high": high, "verdict": word(&figure.verdict) });
    if let (Some(fields), Verdict::Unstable(cause)) = (fields.as_object_mut(), &figure.verdict) {
        fields.insert("cause".to_owned(), cause.to_string().into());
        // The sentence may change. This is for the gate.
        fields.insert("counts".to_owned(), (*cause != Cause::DoesNotCount).into());
    }
    fields
}

/// The verdict in one word.
pub(crate) fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Exact => "exact",
        Verdict::Stable => "stable",
        Verdict::Unstable(_) => "unstable",
    }
}

fn text_of(figure: &Figure) -> String {
    match figure.verdict {
        Verdict::Exact => exact(figure.estimate.value),
        Verdict::Stable => rounded(&figure.estimate),
        Verdict::Unstable(_) => format!("{} ?", rounded(&figure.estimate)),
    }
}

/// A number without an interval: whole, or with up to four significant decimals.
fn exact(value: f64) -> String {
    let text = format!("{value:.*}", decimals(value.fract()).max(4));
    match text.trim_end_matches('0').trim_end_matches('.') {
        "-0" | "" => "0".to_owned(),
        text => text.to_owned(),
    }
}

/// A number and its error, with the decimals that the error allows.
fn rounded(estimate: &Estimate) -> String {
    let error = estimate.error();
    if !error.is_finite() {
        return format!("{:.2}", estimate.value);
    }
    if error == 0.0 {
        return format!("{} ± 0", exact(estimate.value));
    }
    let decimals = decimals(error);
    format!("{:.decimals$} ± {error:.decimals$}", estimate.value)
}

/// How many decimals show one digit of a number below 2.
fn decimals(number: f64) -> usize {
    let number = number.abs();
    (0..8).find(|decimals| number * 10f64.powi(*decimals) >= 0.5).map_or(0, |found| match found {
        0 if number < 2.0 => 1,
        found => found as usize,
    })
}

/// A name in a table: in one line, without the cell's border.
fn escaped(name: &str) -> String {
    let name = name.replace(|c: char| c.is_control(), " ");
    name.replace('\\', "\\\\").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_decimals_that_their_error_allows() {
        let of =
            |value, error| rounded(&Estimate { value, low: value - error, high: value + error });
        assert_eq!(of(300.43, 0.31), "300.4 ± 0.3");
        assert_eq!(of(3.7416, 0.0123), "3.74 ± 0.01");
        assert_eq!(of(0.0004, 0.0001), "0.0004 ± 0.0001");
        assert_eq!(of(-1234.5, 20.0), "-1234 ± 20");
        assert_eq!(of(12.0, 1.25), "12.0 ± 1.2");
        assert_eq!(of(2.0, f64::INFINITY), "2.00");
        assert_eq!(of(2.5, 0.0), "2.5 ± 0");
        assert_eq!(exact(170.0), "170");
        assert_eq!(exact(15.5), "15.5");
        assert_eq!(exact(6.0022), "6.0022");
        assert_eq!(exact(0.000_02), "0.00002");
        assert_eq!(exact(-0.0), "0");
    }

    #[test]
    fn names_stay_in_their_cell() {
        assert_eq!(escaped("a|b\\|c\nd\x1b[31m"), "a\\|b\\\\\\|c d [31m");
    }
}
