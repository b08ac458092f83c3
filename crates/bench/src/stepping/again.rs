//! The instructions of the same rows in other processes of this program.
//!
//! `Bench::run` starts the program again. It comes to `run`, steps the rows, and ends there. Only the first call does so: what the program does
//! between two calls, such as writing a file, would be done again.

use crate::arguments::is_of_program;
use crate::judging::estimate::Estimate;
use crate::stepping::stepped::Counted;
use rdpmc_step::processes::{NoAnswer, Question, Wanted, asked, end_if_stray};
use serde_json::{Value, json};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The word that a question begins with.
const WORD: &str = "rdpmc-bench";

/// The number of calls of `run` in this process.
static CALLS: AtomicU32 = AtomicU32::new(0);

/// A call of `run`.
pub(crate) struct Call {
    /// How many came before it.
    number: u32,
    /// What this process was asked, if another one started it.
    question: Option<Question>,
}

impl Call {
    /// Begins a call. Ends a process that was started to answer, and is not asked any more.
    pub(crate) fn new() -> Call {
        end_if_stray();
        Call { number: CALLS.fetch_add(1, Relaxed), question: asked(WORD) }
    }

    /// Whether another process asks.
    pub(crate) fn is_asked(&self) -> bool {
        self.question.is_some()
    }

    /// Leaves the heap as in no other process.
    pub(crate) fn use_heap(&self) {
        self.question.iter().for_each(Question::use_heap);
    }

    /// Ends this process with an answer, if it was asked.
    pub(crate) fn answer(&self, names: &[&str], rows: &[Row]) {
        if let Some(question) = &self.question {
            let rows: Vec<Value> = rows.iter().map(to_json).collect();
            question.answer(&json!({ "names": names, "rows": rows }).to_string());
        }
    }

    /// Returns why other processes cannot be asked. None if they can.
    pub(crate) fn why_alone(&self) -> Option<&'static str> {
        match () {
            () if !is_of_program() => Some(
                "`run` is in a test, or not on the main thread, so this program cannot be started again for it",
            ),
            () if self.number > 0 => Some(
                "this program has called `run` before, and what it does in between would be done again. Call it once",
            ),
            () => None,
        }
    }

    /// Whether the row of this place is to be stepped: by a process that was asked, those that the one that asks has stepped.
    pub(crate) fn steps(&self, row: usize) -> bool {
        let rows = self.question.as_ref().and_then(|question| question.words().next());
        rows.is_none_or(|rows| rows.as_bytes().get(row) != Some(&b'0'))
    }

    /// Counts those rows in other processes that this one has `stepped`. Returns what they counted, and why some did not.
    pub(crate) fn ask(
        &self,
        names: &[&str],
        stepped: impl Iterator<Item = bool>,
        processes: u32,
        time: Duration,
    ) -> (Vec<Vec<Row>>, Option<String>) {
        let time = time.saturating_mul(u32::try_from(names.len()).unwrap_or(u32::MAX));
        let wanted: String = stepped.map(|is_stepped| if is_stepped { '1' } else { '0' }).collect();
        let question = format!("{WORD} {wanted}");
        let arguments = std::env::args_os().skip(1).collect();
        let processes = Wanted { question: &question, number: processes, arguments, time };
        let mut counted = vec![Vec::new(); names.len()];
        let mut why_not = None;
        for answer in processes.ask() {
            let found = answer.map_err(|why: NoAnswer| why.to_string());
            match found.and_then(|answer| rows(&answer, names)) {
                Ok(rows) => {
                    for (counted, row) in counted.iter_mut().zip(rows) {
                        counted.push(row);
                    }
                }
                Err(why) => why_not = Some(why),
            }
        }
        (counted, why_not)
    }
}

/// What a process counted of a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) stepped: Option<Counted>,
    /// By counters: those of the figures that are equal for equal code.
    pub(crate) counts: Vec<(String, Estimate)>,
}

fn to_json(row: &Row) -> Value {
    let stepped = row.stepped.as_ref().map(|Counted { runs, slack, stepped, places }| {
        json!({ "runs": runs, "slack": slack, "stepped": stepped, "places": places })
    });
    let count = |(name, it): &(String, Estimate)| json!([name, it.low, it.value, it.high]);
    json!({ "stepped": stepped, "counts": row.counts.iter().map(count).collect::<Vec<_>>() })
}

/// Reads an answer: what was counted of each row.
fn rows(answer: &str, names: &[&str]) -> Result<Vec<Row>, String> {
    let json: Value = serde_json::from_str(answer).unwrap_or_default();
    let list = |name: &str| json.get(name).and_then(Value::as_array).into_iter().flatten();
    let their_names: Vec<&str> = list("names").filter_map(Value::as_str).collect();
    if their_names != names || list("rows").count() != names.len() {
        return Err("this program was started again and had other rows here".into());
    }
    Ok(list("rows").map(of_json).collect())
}

fn of_json(row: &Value) -> Row {
    let stepped = || {
        let row = row.get("stepped")?;
        let runs = row.get("runs")?.as_array()?.iter().map(Value::as_f64);
        let runs: Vec<f64> = runs.collect::<Option<_>>()?;
        let (slack, stepped) = (row.get("slack")?.as_f64()?, row.get("stepped")?.as_u64()?);
        let places = row.get("places").and_then(Value::as_str).map(str::to_owned);
        Some(Counted { runs, slack, stepped, places })
    };
    let count = |count: &Value| {
        let number = |place: usize| count.get(place)?.as_f64();
        let estimate = Estimate { low: number(1)?, value: number(2)?, high: number(3)? };
        Some((count.get(0)?.as_str()?.to_owned(), estimate))
    };
    let counts = row.get("counts").and_then(Value::as_array).into_iter().flatten();
    Row { stepped: stepped(), counts: counts.filter_map(count).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let counted = Counted {
            runs: vec![1.0 / 3.0, 620.0],
            slack: 0.5,
            stepped: 11,
            places: Some("split,3;2f,10:-2,ff:7".to_owned()),
        };
        let estimate = Estimate { low: 6.5, value: 7.0, high: 7.25 };
        let stepped = Row { stepped: Some(counted), counts: Vec::new() };
        let counted = Row { stepped: None, counts: vec![("branches".into(), estimate)] };
        let all = [stepped, counted].map(|row| (to_json(&row), row));
        let json: Vec<&Value> = all.iter().map(|(json, _)| json).collect();
        let answer = json!({ "names": ["a", "b"], "rows": json }).to_string();
        let expected = all.iter().map(|(_, row)| row.clone()).collect();
        assert_eq!(rows(&answer, &["a", "b"]), Ok(expected));
        for other in [&["a"][..], &["b", "a"], &[]] {
            assert!(rows(&answer, other).is_err());
        }
        assert!(rows("", &["a"]).is_err() && rows("{}", &["a"]).is_err());
    }
}
