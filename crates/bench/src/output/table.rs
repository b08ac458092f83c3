//! The rows as a Markdown table, as CSV and as JSON.

use crate::arguments::Format;
use crate::judging::comparison::RowComparison;
use crate::judging::estimate::Estimate;
use crate::judging::fence::Fence;
use crate::judging::row::{Figure, Quantity, Row};
use crate::judging::slow::Slow;
use crate::judging::topdown::QUANTITIES;
use crate::judging::verdict::{Cause, Verdict, with_digits};
use crate::output::results::Results;
use crate::sampling::paths::Path;
use rdpmc::{Event, Scope};
use rdpmc_report::gate::bench_json::{self, VERSION};
use rdpmc_report::gate::cells::{escaped, exact, plain, with_error};
use rdpmc_report::gate::functions::{Function, Functions, OWN, SYMBOLS, sum};
use rdpmc_report::gate::{SCOPE_PROCESS, SCOPE_THREAD, SPEC_LOCK_MAP};
use serde_json::{Map, Value, json};
use std::fmt;

impl fmt::Display for Results {
    /// Writes the table as Markdown, then what is unstable, and what is missing and why. If the program has the argument `--format`, writes that
    /// format. Nothing if no row was measured.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.format {
            _ if self.rows.is_empty() || !self.are_kept => return Ok(()),
            Format::Table => {}
            Format::Csv => return f.write_str(&self.csv()),
            Format::Json => return f.write_str(&self.json()),
            Format::Dashboard(format) => {
                let json: Value = serde_json::from_str(&self.json()).unwrap_or_default();
                let rows = bench_json::rows(&json).unwrap_or_default();
                return f.write_str(&format.text(&rows));
            }
        }
        write_table(f, &self.table(escaped))?;
        self.write_notes(f)?;
        self.write_functions(f)
    }
}

/// Writes lines of cells as a Markdown table. The first line is the head. The last column is the only one on the left.
pub(crate) fn write_table(f: &mut impl fmt::Write, lines: &[impl AsRef<[String]>]) -> fmt::Result {
    let lines: Vec<&[String]> = lines.iter().map(AsRef::as_ref).collect();
    let last = lines.iter().map(|line| line.len()).max().unwrap_or(0).saturating_sub(1);
    let width = |place: usize| {
        let cells = lines.iter().filter_map(|line| line.get(place));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(2)
    };
    let widths: Vec<usize> = (0..last).map(width).collect();
    for (number, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(&widths) {
            write!(f, "| {cell:>width$} ")?;
        }
        writeln!(f, "| {}", line.get(last).map_or("", String::as_str))?;
        if number == 0 {
            for width in &widths {
                write!(f, "|-{:->width$}:", "")?;
            }
            writeln!(f, "|:-")?;
        }
    }
    Ok(())
}

/// How many functions of a row are printed. The page has all.
const SHOWN_FUNCTIONS: usize = 20;

/// A column of the table.
enum Column {
    Of(Quantity),
    /// How many runs were stepped.
    SteppedRuns,
    /// The comparison with another row.
    Comparison,
}

impl Results {
    /// Returns the lines of the table, the head first. The last cell of each is the name, as it is `written`.
    pub(crate) fn table(&self, written: fn(&str) -> String) -> Vec<Vec<String>> {
        let columns = self.columns();
        let mut head: Vec<String> = columns.iter().map(|column| self.head(column)).collect();
        head.push("per operation".to_owned());
        let line = |(place, row): (usize, &Row)| {
            let cells = columns.iter().map(|column| self.cell(place, row, column));
            cells.chain([written(&row.name)]).collect()
        };
        std::iter::once(head).chain(self.rows.iter().enumerate().map(line)).collect()
    }

    /// Returns what is below the table.
    pub(crate) fn notes(&self) -> String {
        let mut notes = String::new();
        // Writing to a string does not fail.
        let _ = self.write_notes(&mut notes);
        notes
    }

    /// Returns the columns for which at least one row has a figure.
    fn columns(&self) -> Vec<Column> {
        let events = self.events.iter().map(|event| Quantity::Event(*event));
        let has = |quantity: Quantity| self.rows.iter().any(|row| row.figure(quantity).is_some());
        let mut columns = Vec::new();
        for quantity in std::iter::once(Quantity::Time).chain(events) {
            let is_instructions = quantity == Quantity::Event(Event::INSTRUCTIONS);
            let others = [Quantity::SteppedInstructions, Quantity::InstructionsPerCycle];
            let others = others.into_iter().filter(|_| is_instructions);
            let shown = std::iter::once(quantity).chain(others).filter(|quantity| has(*quantity));
            for quantity in shown {
                columns.push(Column::Of(quantity));
                columns.extend(
                    (quantity == Quantity::SteppedInstructions).then_some(Column::SteppedRuns),
                );
            }
        }
        columns.extend(QUANTITIES.into_iter().filter(|part| has(*part)).map(Column::Of));
        columns.extend((!self.comparisons.is_empty()).then_some(Column::Comparison));
        columns
    }

    fn head(&self, column: &Column) -> String {
        match column {
            Column::Of(quantity) => quantity.to_string(),
            Column::SteppedRuns => "stepped runs".to_owned(),
            Column::Comparison => "compared".to_owned(),
        }
    }

    fn cell(&self, place: usize, row: &Row, column: &Column) -> String {
        match column {
            Column::Of(quantity) => row.figure(*quantity).map_or_else(|| "-".to_owned(), text_of),
            Column::SteppedRuns => match row.stepped_runs {
                0 => "-".to_owned(),
                runs => runs.to_string(),
            },
            Column::Comparison => {
                self.comparison_of(place).map_or_else(String::new, RowComparison::to_string)
            }
        }
    }

    /// Writes where the instructions of each row are, if that was asked for.
    fn write_functions(&self, f: &mut impl fmt::Write) -> fmt::Result {
        for row in self.rows.iter().filter(|_| self.shows_functions) {
            let name = escaped(&row.name);
            let Some(functions) = &row.functions else {
                let why = row.no_functions.as_deref().unwrap_or("nothing was stepped");
                writeln!(f, "\n{name}: its functions are unknown: {why}.")?;
                continue;
            };
            let head = ["instructions per operation", "share"].map(str::to_owned);
            let head = [&head[..], &[format!("function, in {name}")]].concat();
            let mut lines = vec![head];
            lines.extend(
                functions
                    .cells()
                    .take(SHOWN_FUNCTIONS)
                    .map(|cells| cells.map(|cell| escaped(&cell)).to_vec()),
            );
            writeln!(f)?;
            write_table(f, &lines)?;
            let others = functions.all.get(SHOWN_FUNCTIONS..).unwrap_or_default();
            let mut end = format!("All: {}.", exact(functions.total()));
            if !others.is_empty() {
                let rest = exact(functions.per_operation(sum(others)));
                end = format!("{} more functions: {rest}. {end}", others.len());
            }
            let is_own = |function: &Function| function.name == OWN;
            if functions.source == SYMBOLS && functions.all.iter().any(is_own) {
                end += " With `debug = 1` in `[profile.bench]`, functions that were inlined into the benchmark's own code have their names.";
            }
            writeln!(f, "\n{end}")?;
        }
        Ok(())
    }

    fn write_notes(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let figures = || self.rows.iter().flat_map(|row| &row.figures);
        let is = |verdict: fn(&Verdict) -> bool| figures().any(|figure| verdict(&figure.verdict));
        let mut legend = Vec::new();
        if is(|verdict| *verdict != Verdict::Exact) {
            let has_ratio = figures().any(|it| it.quantity == Quantity::InstructionsPerCycle);
            legend.push(match has_ratio {
                true => "± is the 95 % interval (90 % for IPC).",
                false => "± is the 95 % interval.",
            });
        }
        if is(|verdict| *verdict == Verdict::Exact) {
            legend.push("Figures without ± are exact.");
        }
        let is_stepped = figures().any(|it| it.quantity == Quantity::SteppedInstructions);
        if is_stepped {
            legend.push("Stepped instructions are counted by single-stepping, without a PMU.");
            if is(|verdict| *verdict == Verdict::Range) {
                legend.push("Where runs or processes differ, ± has all of them and a margin.");
            }
        }
        if self.scope == Scope::Process {
            legend.push("Counts are those of all threads of the process.");
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
            .map(|row| format!("{} of {} ({})", row.set_aside, row.samples, escaped(&row.name)))
            .collect();
        if !aside.is_empty() {
            let rows = aside.join("; ");
            writeln!(f, "\nSamples set aside for interrupts or context switches: {rows}.")?;
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
            if let Some(slow) = row.slow() {
                let Slow { loops, of, longest, mean } = slow;
                writeln!(
                    f,
                    "\n{name}: {loops} of {of} loops were slow, by up to {:.3} ms. With them, the mean is {} ns.",
                    longest / 1e6,
                    with_digits(*mean)
                )?;
            }
            for note in &row.notes {
                writeln!(f, "\n{name}: {}.", plain(note))?;
            }
        }
        let fenced = self.rows.iter().filter_map(|row| Some((escaped(&row.name), row.fence?)));
        let (rows, fences): (Vec<String>, Vec<Fence>) = fenced.unzip();
        let least = |of: fn(&Fence) -> f64| fences.iter().map(of).fold(f64::INFINITY, f64::min);
        let most = |of: fn(&Fence) -> f64| fences.iter().map(of).fold(0.0, f64::max);
        if !fences.is_empty() {
            let (low, high) = (least(|fence| fence.cost), most(|fence| fence.cost));
            let cost = if high - low < 0.05 {
                format!("{high:.1}")
            } else {
                format!("{low:.1} to {high:.1}")
            };
            writeln!(
                f,
                "\nFenced: {}. About {cost} ns of each operation are subtracted for the fence. After other code it took up to {:.1} ns more or less.",
                rows.join("; "),
                most(|fence| fence.range)
            )?;
        }
        for RowComparison { row, against, .. } in &self.comparisons {
            if self.row(against).is_none() {
                let (row, against) = (escaped(row), escaped(against));
                writeln!(f, "\n{row} is not compared: no row of the name {against} was measured.")?;
            }
        }
        let may_be_twice = |figure: &Figure| {
            let twice = [Event::INSTRUCTIONS, Event::BRANCHES].map(Quantity::Event);
            twice.contains(&figure.quantity)
        };
        if self.spec_lock_map == Some(true) && figures().any(may_be_twice) {
            writeln!(f, "\n{SPEC_LOCK_MAP}.")?;
        }
        let mut sentences: Vec<(String, Vec<String>)> = Vec::new();
        for missing in &self.missing {
            let name = &missing.name;
            // One sentence for all events with this reason.
            let why = format!("{}. {}", missing.why.shared_cause(), missing.why.remedy());
            let event = if name.is_empty() { "\"\"".into() } else { plain(name) };
            let why = plain(&why);
            match sentences.iter_mut().find(|(known, _)| *known == why) {
                Some((_, events)) => events.push(event),
                None => sentences.push((why, vec![event])),
            }
        }
        let instructions = Event::INSTRUCTIONS.to_string();
        for (why, events) in sentences {
            write!(f, "\nNot counted: {}: {why}.", events.join(", "))?;
            if is_stepped && events.contains(&instructions) {
                f.write_str(" Instructions are stepped instead.")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    /// Returns the figures as CSV: a line for each figure of each row, and for each ratio to the row that it is compared with. An interval that is not known has empty ends.
    pub fn csv(&self) -> String {
        let mut csv = "row,quantity,value,low,high,verdict\n".to_owned();
        for (place, row) in self.rows.iter().enumerate() {
            let name = row.name.replace('"', "\"\"");
            let figures = row.figures.iter().map(|figure| {
                (figure.quantity.to_string(), figure.estimate, word(&figure.verdict))
            });
            let differences = self.comparison_of(place).map(|it| it.differences.as_slice());
            let ratios = differences.unwrap_or_default().iter().filter_map(|difference| {
                let name = format!("{} ratio", difference.quantity);
                Some((name, difference.ratio?, word(&difference.verdict)))
            });
            for (quantity, Estimate { value, low, high }, word) in figures.chain(ratios) {
                let end = |end: f64| if end.is_finite() { end.to_string() } else { String::new() };
                csv += &format!(
                    "\"{name}\",\"{quantity}\",{value},{},{},{word}\n",
                    end(low),
                    end(high)
                );
            }
        }
        csv
    }

    /// Returns the processor, the rows with their figures, and what is missing, as JSON. This is what
    /// [`save`](Results::save) writes.
    pub fn json(&self) -> String {
        let missing: Map<String, Value> = self
            .missing
            .iter()
            .map(|missing| (missing.name.clone(), missing.reason().into()))
            .collect();
        let rows: Vec<Value> = self.rows.iter().map(|row| self.row_as_json(row)).collect();
        let comparisons = self.comparisons.iter().map(|it| self.comparison_as_json(it));
        let comparisons: Vec<Value> = comparisons.collect();
        let all = json!({
            "version": VERSION,
            "program": self.program,
            "build": bench_json::build(),
            "processor": self.processor,
            "spec_lock_map": self.spec_lock_map,
            "scope": match self.scope { Scope::Process => SCOPE_PROCESS, _ => SCOPE_THREAD },
            "rows": rows,
            "comparisons": comparisons,
            "missing": missing,
        });
        format!("{all:#}\n")
    }
}

impl Results {
    fn row_as_json(&self, row: &Row) -> Value {
        let figures =
            row.figures.iter().map(|figure| (figure.quantity.to_string(), json_of(figure)));
        let figures: Map<String, Value> = figures.collect();
        let path = |path: &Path| json!({ "instructions": path.instructions, "share": path.share });
        let paths: Vec<Value> = row.paths.found.iter().map(path).collect();
        let slow = row.slow.as_ref().map(|Slow { loops, of, longest, mean }| {
            json!({ "loops": loops, "of": of, "longest_ns": longest, "mean_ns": mean })
        });
        let fence =
            row.fence.map(|Fence { cost, range }| json!({ "cost_ns": cost, "range_ns": range }));
        json!({
            "name": row.name,
            "runs": row.runs,
            "samples": row.samples,
            "set_aside": row.set_aside,
            "slow": slow,
            "fence": fence,
            "figures": figures,
            "paths": paths,
            "notes": row.notes,
            "not_stepped": row.not_stepped,
            "panicked": row.panicked,
            "stepped_runs": row.stepped_runs,
            "functions": row.functions.as_ref().map(Functions::to_json),
        })
    }

    fn comparison_as_json(&self, comparison: &RowComparison) -> Value {
        let ends = |it: &Estimate| json!({ "value": it.value, "low": it.low, "high": it.high });
        let differences = comparison.differences.iter().map(|it| {
            let all = json!({
                "difference": ends(&it.difference),
                "ratio": it.ratio.as_ref().map(ends),
                "verdict": word(&it.verdict),
            });
            (it.quantity.to_string(), all)
        });
        json!({
            "row": comparison.row,
            "against": comparison.against,
            "in_words": comparison.to_string(),
            "differences": differences.collect::<Map<String, Value>>(),
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
    }
    fields
}

/// The verdict in one word.
pub(crate) fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Exact => "exact",
        Verdict::Stable => "stable",
        Verdict::Range => "range",
        Verdict::Unstable(_) => "unstable",
    }
}

pub(crate) fn text_of(figure: &Figure) -> String {
    let estimate = &figure.estimate;
    let is_time = figure.quantity == Quantity::Time;
    let unit = UNITS.iter().find(|(from, ..)| is_time && estimate.value.abs() >= *from);
    let text = match unit {
        Some((_, divisor, name)) => format!("{} {name}", rounded(&estimate.scaled(1.0 / divisor))),
        None if figure.verdict == Verdict::Exact => exact(estimate.value),
        None => rounded(estimate),
    };
    match figure.verdict {
        Verdict::Unstable(_) => format!("{text} ?"),
        _ => text,
    }
}

/// The times from which a cell has a unit of its own, because nanoseconds would have too many digits.
const UNITS: [(f64, f64, &str); 3] = [(1e10, 1e9, "s"), (1e7, 1e6, "ms"), (1e5, 1e3, "µs")];

/// A number and its error, with the decimals that the error allows.
fn rounded(estimate: &Estimate) -> String {
    with_error(estimate.value, estimate.error())
}
