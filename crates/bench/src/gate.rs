//! Saved results, and the comparison with them.

use crate::bench::Bench;
use crate::table::word;
use crate::verdict::{Cause, Verdict};
use rdpmc::Event;
use serde_json::Value;
use std::fmt;
use std::path::Path;
use std::process::{ExitCode, Termination};

impl Bench {
    /// Writes the results to a file, as JSON, for [`check`](Bench::check).
    ///
    /// # Errors
    /// Those of writing the file.
    pub fn save(&self, path: impl AsRef<Path>) -> std::io::Result<()> {
        std::fs::write(path, self.json())
    }

    /// Compares the results with those of a file that [`save`](Bench::save) wrote.
    ///
    /// `tolerance` is the growth to accept, relative to the saved figure: 0.0 for none, 0.01 for 1 %. NaN and negative
    /// numbers accept none.
    /// - Instructions that are exact in both results are compared to the instruction.
    /// - Other instructions, and cycles, have changed if their intervals are apart.
    /// - The time and other events are not compared, because they depend on more than the code.
    ///
    /// ```no_run
    /// use rdpmc_bench::{Bench, Comparison};
    ///
    /// fn main() -> Comparison {
    ///     let mut bench = Bench::new().expect("Linux");
    ///     bench.row("parse").latency(|| std::hint::black_box("12345").parse::<u32>());
    ///     let comparison = bench.check("baseline.json", 0.0);
    ///     println!("{comparison}");
    ///     comparison // the exit status
    /// }
    /// ```
    pub fn check(&self, path: impl AsRef<Path>, tolerance: f64) -> Comparison {
        let path = path.as_ref();
        let saved = std::fs::read_to_string(path).map_err(|why| why.to_string());
        let saved = saved.and_then(|text| {
            serde_json::from_str::<Value>(&text).map_err(|why| format!("it is not JSON: {why}"))
        });
        match saved {
            Err(why) => Comparison::impossible(format!(
                "{} cannot be read: {why}. Write it with `save`",
                path.display()
            )),
            Ok(saved) => self.compare(&saved, tolerance),
        }
    }

    fn compare(&self, saved: &Value, tolerance: f64) -> Comparison {
        if saved.get("version").and_then(Value::as_u64) != Some(1) {
            return Comparison::impossible("the file is not of this version. Save it again".into());
        }
        let processor = saved.get("processor").and_then(Value::as_str);
        match (processor, self.processor.as_deref()) {
            (Some(saved), Some(this)) if saved == this => {}
            (Some(saved), Some(this)) => {
                return Comparison::impossible(format!(
                    "the saved results are of another processor ({saved}) than this one ({this}). Save results on this one"
                ));
            }
            _ => {
                return Comparison::impossible(
                    "the processor is not known, so it may be another. Check on a machine whose /proc/cpuinfo names it".into(),
                );
            }
        }
        let now: Value = serde_json::from_str(&self.json()).unwrap_or_default();
        match (rows(saved), rows(&now)) {
            (Ok(saved), Ok(now)) => compare(&saved, &now, tolerance),
            (Err(why), _) => {
                Comparison::impossible(format!("in the saved results, {why}. Save them again"))
            }
            (_, Err(why)) => Comparison::impossible(format!("in the results, {why}")),
        }
    }
}

/// What is compared.
const COMPARED: [Event; 2] = [Event::INSTRUCTIONS, Event::CYCLES];

fn compare(saved: &[SavedRow<'_>], now: &[SavedRow<'_>], tolerance: f64) -> Comparison {
    let counted =
        |rows: &[SavedRow<'_>]| rows.iter().any(|row| row.figures.iter().any(Option::is_some));
    let obstacle = match (counted(saved), counted(now)) {
        (true, true) => None,
        (true, false) => Some(
            "the saved results have counts, and here nothing can be counted. Check on a machine with a PMU, or see \
             `rdpmc::diagnose`",
        ),
        (false, true) => Some("the saved results have no counts. Save results on this machine"),
        (false, false) => Some(
            "neither the saved results nor these have counts. Save and check on a machine with a PMU",
        ),
    };
    if let Some(why) = obstacle {
        return Comparison::impossible(why.into());
    }
    let mut changes = Vec::new();
    for row in now {
        let Some(before) = saved.iter().find(|known| known.name == row.name) else {
            changes.push(Change::of(row.name, None, Kind::Appeared));
            continue;
        };
        for (event, (before, now)) in COMPARED.iter().zip(before.figures.iter().zip(&row.figures)) {
            let kind = match (before, now) {
                (Some(before), Some(now)) => compared(before, now, tolerance),
                (None, Some(_)) => Kind::Appeared,
                (Some(_), None) => Kind::Disappeared,
                (None, None) => continue,
            };
            changes.push(Change::of(row.name, Some(*event), kind));
        }
    }
    for row in saved {
        if !now.iter().any(|known| known.name == row.name) {
            changes.push(Change::of(row.name, None, Kind::Disappeared));
        }
    }
    Comparison { changes, obstacle: None }
}

/// A row as it is saved.
struct SavedRow<'a> {
    name: &'a str,
    /// One for each of [`COMPARED`].
    figures: [Option<Saved>; 2],
}

/// A figure as it is saved.
#[derive(Clone, Copy)]
struct Saved {
    value: f64,
    low: f64,
    high: f64,
    is_exact: bool,
    is_unstable: bool,
}

/// Returns the rows. An error if one is damaged, or if two have the same name.
fn rows(results: &Value) -> Result<Vec<SavedRow<'_>>, String> {
    let all = results.get("rows").and_then(Value::as_array).ok_or("there are no rows")?;
    let mut rows: Vec<SavedRow<'_>> = Vec::new();
    for row in all {
        let name = row.get("name").and_then(Value::as_str).ok_or("a row has no name")?;
        if rows.iter().any(|known| known.name == name) {
            return Err(format!("two rows have the name {name}"));
        }
        let figures = row.get("figures").and_then(Value::as_object);
        let figures = figures.ok_or_else(|| format!("{name} has no figures"))?;
        let mut found = [None; 2];
        for (into, event) in found.iter_mut().zip(COMPARED) {
            if let Some(figure) = figures.get(&event.to_string()) {
                let damaged = || format!("{event} of {name} is not a figure");
                *into = Some(self::figure(figure).ok_or_else(damaged)?);
            }
        }
        rows.push(SavedRow { name, figures: found });
    }
    Ok(rows)
}

fn figure(figure: &Value) -> Option<Saved> {
    let number = |name: &str| figure.get(name)?.as_f64();
    // An end that is not known is null.
    let is_null = |name: &str| figure.get(name).is_some_and(Value::is_null);
    let verdict = figure.get("verdict")?.as_str()?;
    let value = number("value")?;
    let is_unstable = verdict == word(&Verdict::Unstable(Cause::Varies));
    let (low, high) = match (number("low"), number("high")) {
        (Some(low), Some(high)) => (low, high),
        _ if is_unstable && is_null("low") && is_null("high") => (f64::NEG_INFINITY, f64::INFINITY),
        _ => return None,
    };
    let is_exact = verdict == word(&Verdict::Exact);
    let is_whole = low <= value && value <= high && (!is_exact || low == high);
    let is_known = is_exact || is_unstable || verdict == word(&Verdict::Stable);
    // A counter that stands still has counted nothing, so there is no interval.
    let counts = figure.get("counts").and_then(Value::as_bool) != Some(false);
    let (low, high) = if counts { (low, high) } else { (f64::NEG_INFINITY, f64::INFINITY) };
    (is_whole && is_known).then_some(Saved { value, low, high, is_exact, is_unstable })
}

fn compared(before: &Saved, now: &Saved, tolerance: f64) -> Kind {
    let (was, is) = (before.value, now.value);
    // Figures are divided by the number of runs: smaller differences are of the division.
    let least = 1e-12 * was.abs();
    let accepted = (tolerance * was.abs()).max(least);
    if before.is_exact && now.is_exact {
        return match is - was {
            more if more > accepted => Kind::More { was, is },
            more if more < -least => Kind::Less { was, is },
            _ => Kind::Same { is },
        };
    }
    if now.low > before.high + accepted {
        Kind::More { was, is }
    } else if now.high < before.low - least {
        Kind::Less { was, is }
    } else if before.is_unstable || now.is_unstable {
        Kind::Uncertain { was, is }
    } else {
        Kind::Same { is }
    }
}

/// What happened to a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// It grew by more than the tolerance: a regression.
    #[non_exhaustive]
    More {
        /// The saved value.
        was: f64,
        /// The value now.
        is: f64,
    },
    /// It shrank.
    #[non_exhaustive]
    Less {
        /// The saved value.
        was: f64,
        /// The value now.
        is: f64,
    },
    /// It did not shrink, and did not grow by more than the tolerance. Figures with intervals count as equal if these
    /// overlap.
    #[non_exhaustive]
    Same {
        /// The value now.
        is: f64,
    },
    /// One of the two is unstable, so a change cannot be excluded.
    #[non_exhaustive]
    Uncertain {
        /// The saved value.
        was: f64,
        /// The value now.
        is: f64,
    },
    /// It is new.
    Appeared,
    /// It was saved, and was not measured now.
    Disappeared,
}

/// A figure of a row, and what happened to it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// The row's name.
    pub row: String,
    /// The event. None for the whole row.
    pub event: Option<Event>,
    /// What happened.
    pub kind: Kind,
}

impl Change {
    fn of(row: &str, event: Option<Event>, kind: Kind) -> Change {
        Change { row: row.to_owned(), event, kind }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { row, event, kind } = self;
        write!(f, "{row}")?;
        if let Some(event) = event {
            write!(f, ", {event}")?;
        }
        let percent = |was: f64, is: f64| (is - was) / was.abs() * 100.0;
        match kind {
            Kind::More { was, is } => {
                write!(f, ": {is:.3}, was {was:.3} ({:+.2} %): more", percent(*was, *is))
            }
            Kind::Less { was, is } => {
                write!(f, ": {is:.3}, was {was:.3} ({:+.2} %): less", percent(*was, *is))
            }
            Kind::Same { is } => write!(f, ": {is:.3}, no regression"),
            Kind::Uncertain { was, is } => {
                write!(f, ": {is:.3}, was {was:.3}: too unstable to tell")
            }
            Kind::Appeared => write!(f, ": new, nothing to compare with"),
            Kind::Disappeared => write!(f, ": was saved, and is missing now"),
        }
    }
}

/// The comparison with saved results, from [`Bench::check`]. As the return value of `main`, it is the exit status:
/// 0 if nothing got worse, 1 for a regression, 2 if something saved could not be compared. Cycles that are unstable are
/// reported and do not change the status.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "the result is lost unless it is printed or returned from main"]
pub struct Comparison {
    changes: Vec<Change>,
    obstacle: Option<String>,
}

impl Comparison {
    fn impossible(why: String) -> Comparison {
        Comparison { changes: Vec::new(), obstacle: Some(why) }
    }

    /// Returns the compared figures.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Returns why nothing could be compared: no counters, another processor, no file.
    pub fn obstacle(&self) -> Option<&str> {
        self.obstacle.as_deref()
    }

    /// Whether a figure grew by more than the tolerance.
    pub fn has_regressed(&self) -> bool {
        self.changes.iter().any(|change| matches!(change.kind, Kind::More { .. }))
    }

    /// Whether every saved row was compared, with its instructions and cycles. False if instructions are too unstable
    /// to compare. Unstable cycles do not matter.
    pub fn is_complete(&self) -> bool {
        let is_lost = |change: &Change| match change.kind {
            Kind::Disappeared => true,
            Kind::Uncertain { .. } => change.event == Some(Event::INSTRUCTIONS),
            _ => false,
        };
        self.obstacle.is_none() && !self.changes.iter().any(is_lost)
    }

    /// Returns the exit status: 1 for a regression, otherwise 2 if something saved could not be compared, otherwise 0.
    pub fn status(&self) -> u8 {
        match (self.has_regressed(), self.is_complete()) {
            (true, _) => 1,
            (false, false) => 2,
            (false, true) => 0,
        }
    }
}

impl Termination for Comparison {
    fn report(self) -> ExitCode {
        ExitCode::from(self.status())
    }
}

impl fmt::Display for Comparison {
    /// Writes a line for each figure, or why nothing could be compared.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.obstacle {
            return write!(f, "Nothing was compared: {why}.");
        }
        for change in &self.changes {
            writeln!(f, "{change}")?;
        }
        f.write_str(match self.status() {
            0 => "No regression.",
            1 => "Regression.",
            _ => "No regression was found, but not all that was saved could be compared.",
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn results(rows: &[(&str, &str, Value)]) -> Value {
        let row = |(name, event, figure): &(&str, &str, Value)| {
            let mut figures = serde_json::Map::new();
            figures.insert((*event).to_owned(), figure.clone());
            serde_json::json!({ "name": name, "figures": figures })
        };
        serde_json::json!({ "rows": rows.iter().map(row).collect::<Vec<Value>>() })
    }

    fn of(value: f64, error: Option<f64>, verdict: &str) -> Value {
        let [low, high] = [-1.0, 1.0].map(|sign| error.map(|error| value + sign * error));
        serde_json::json!({ "value": value, "low": low, "high": high, "verdict": verdict })
    }

    /// Compares one figure with another.
    fn kind(event: &str, before: Value, now: Value, tolerance: f64) -> (Kind, u8) {
        let (before, now) = (results(&[("row", event, before)]), results(&[("row", event, now)]));
        let comparison = compare(&rows(&before).unwrap(), &rows(&now).unwrap(), tolerance);
        (comparison.changes().first().unwrap().kind, comparison.status())
    }

    #[test]
    fn exact_figures_are_compared_to_the_unit() {
        let exact = |value| of(value, Some(0.0), "exact");
        let compared = |was, is, tolerance| kind("instructions", exact(was), exact(is), tolerance);
        assert_eq!(compared(1e3, 1e3, 0.0), (Kind::Same { is: 1e3 }, 0));
        assert_eq!(compared(1e3, 1001.0, 0.0), (Kind::More { was: 1e3, is: 1001.0 }, 1));
        assert_eq!(compared(2e9, 2e9 + 1.0, 0.0), (Kind::More { was: 2e9, is: 2e9 + 1.0 }, 1));
        assert_eq!(compared(1e3, 1001.0, 0.01), (Kind::Same { is: 1001.0 }, 0));
        assert_eq!(compared(1e3, 999.0, 0.01), (Kind::Less { was: 1e3, is: 999.0 }, 0));
        assert_eq!(compared(1e3, 1001.0, f64::NAN).1, 1);
        assert_eq!(compared(1e3, 1001.0, -1.0).1, 1);
    }

    #[test]
    fn intervals_decide_otherwise() {
        let stable = |value| of(value, Some(2.0), "stable");
        let compared = |was, is| kind("cycles", stable(was), stable(is), 0.0);
        assert_eq!(compared(100.0, 103.0), (Kind::Same { is: 103.0 }, 0));
        assert_eq!(compared(100.0, 105.0), (Kind::More { was: 100.0, is: 105.0 }, 1));
        assert_eq!(compared(100.0, 95.0), (Kind::Less { was: 100.0, is: 95.0 }, 0));
        assert_eq!(kind("cycles", stable(100.0), stable(105.0), 0.05).1, 0);
    }

    #[test]
    fn unstable_instructions_do_not_pass() {
        let exact = of(1_000.0, Some(0.0), "exact");
        let mut dead = of(0.0, Some(0.0), "unstable");
        dead["counts"] = false.into();
        for unstable in
            [of(5_000.0, None, "unstable"), of(3_000.0, Some(2_500.0), "unstable"), dead]
        {
            for (before, now) in [(&exact, &unstable), (&unstable, &exact), (&unstable, &unstable)]
            {
                let (kind, status) = kind("instructions", before.clone(), now.clone(), 0.0);
                assert!(matches!(kind, Kind::Uncertain { .. }), "{kind:?}");
                assert_eq!(status, 2);
            }
            assert_eq!(kind("cycles", exact.clone(), unstable, 0.0).1, 0);
        }
        // What is worse beyond all doubt is a regression.
        let worse = of(5_000.0, Some(100.0), "unstable");
        assert_eq!(kind("instructions", exact, worse, 0.0).1, 1);
    }

    #[test]
    fn damaged_results_are_an_obstacle() {
        let why = |row: Value| rows(&serde_json::json!({ "rows": [row] })).err().unwrap();
        assert!(rows(&serde_json::json!({})).is_err());
        assert_eq!(why(serde_json::json!({ "name": 7 })), "a row has no name");
        assert_eq!(why(serde_json::json!({ "name": "f" })), "f has no figures");
        for figure in [
            of(1.0, None, "exact"),
            of(1.0, Some(1.0), "exact"),
            of(1.0, Some(-1.0), "stable"),
            of(1.0, Some(1.0), "Stable"),
            of(f64::NAN, Some(1.0), "stable"),
            serde_json::json!("1000"),
            serde_json::json!(null),
        ] {
            let row = serde_json::json!({ "name": "f", "figures": { "instructions": figure } });
            assert_eq!(why(row), "instructions of f is not a figure");
        }
        let exact = || of(1.0, Some(0.0), "exact");
        let twice = results(&[("f", "cycles", exact()), ("f", "cycles", exact())]);
        assert_eq!(rows(&twice).err().unwrap(), "two rows have the name f");
    }

    #[test]
    fn rows_that_come_and_go_are_reported() {
        let exact = || of(1.0, Some(0.0), "exact");
        let (one, both) = (
            results(&[("f", "cycles", exact())]),
            results(&[("f", "cycles", exact()), ("g", "cycles", exact())]),
        );
        let (one, both) = (rows(&one).unwrap(), rows(&both).unwrap());
        assert_eq!(compare(&one, &both, 0.0).status(), 0);
        let lost = compare(&both, &one, 0.0);
        assert_eq!((lost.status(), lost.has_regressed()), (2, false));
        assert!(lost.to_string().contains("g: was saved, and is missing now"), "{lost}");
    }
}
