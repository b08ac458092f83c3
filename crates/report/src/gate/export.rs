//! Results as dashboards read them.

use crate::gate::figure::{Certainty, Figure, Row};
use serde_json::{Map, Value, json};
use std::str::FromStr;

/// A dashboard's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The Bencher Metric Format: an object of benchmarks, each an object of measures with a value and an interval. Its name for a time in
    /// nanoseconds is `latency`.
    Bencher,
    /// What github-action-benchmark reads for the tool `customSmallerIsBetter`: a list of figures, each with a name, a unit, a value and a
    /// range.
    GithubActionBenchmark,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Format, String> {
        match name {
            "bencher" => Ok(Format::Bencher),
            "github-action-benchmark" => Ok(Format::GithubActionBenchmark),
            other => {
                Err(format!("{other} is not a format. Use bencher or github-action-benchmark"))
            }
        }
    }
}

impl Format {
    /// Writes all figures that can be trusted.
    pub fn text(self, rows: &[Row]) -> String {
        let trusted = |row: &'_ Row| -> Vec<Figure> {
            let is_trusted = |figure: &&Figure| {
                figure.certainty != Certainty::Unstable
                    && [figure.low, figure.value, figure.high].iter().all(|it| it.is_finite())
            };
            row.figures.iter().filter(is_trusted).cloned().collect()
        };
        let all = match self {
            Format::Bencher => {
                let measure = |figure: &Figure| {
                    let name = if figure.name == "ns" { "latency" } else { &figure.name };
                    let Figure { value, low, high, .. } = figure;
                    let values = json!({ "value": value, "lower_value": low, "upper_value": high });
                    (name.to_owned(), values)
                };
                let row = |row: &Row| {
                    let measures: Map<String, Value> = trusted(row).iter().map(measure).collect();
                    (!measures.is_empty()).then(|| (row.name.clone(), measures.into()))
                };
                Value::Object(rows.iter().filter_map(row).collect())
            }
            Format::GithubActionBenchmark => {
                let figure = |row: &Row, figure: &Figure| {
                    let Figure { name, value, low, high, .. } = figure;
                    let unit = if name == "ns" { "ns/iter" } else { name };
                    let range = (value - low).max(high - value);
                    json!({
                        "name": format!("{}, {name}", row.name),
                        "unit": unit,
                        "value": value,
                        "range": format!("± {range}"),
                    })
                };
                let of =
                    |row: &Row| trusted(row).iter().map(|it| figure(row, it)).collect::<Vec<_>>();
                rows.iter().flat_map(of).collect()
            }
        };
        format!("{all:#}\n")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn dashboards_read_what_they_document() {
        let figure = |name: &str, value: f64, certainty| Figure {
            name: name.into(),
            value,
            low: value - 0.5,
            high: value + 0.25,
            certainty,
            slack: 0.0,
            doubt: None,
        };
        let rows = [
            Row {
                name: "parse".into(),
                figures: vec![
                    figure("ns", 12.0, Certainty::Stable),
                    figure("stepped-instructions", 160.0, Certainty::Exact),
                    figure("page-faults", 1.0, Certainty::Unstable),
                ],
                ..Row::default()
            },
            Row { name: "nothing".into(), ..Row::default() },
        ];
        let of = |name: &str| -> Value {
            serde_json::from_str(&name.parse::<Format>().unwrap().text(&rows)).unwrap()
        };
        assert_eq!(
            of("bencher"),
            json!({ "parse": {
                "latency": { "value": 12.0, "lower_value": 11.5, "upper_value": 12.25 },
                "stepped-instructions": { "value": 160.0, "lower_value": 159.5, "upper_value": 160.25 },
            }})
        );
        assert_eq!(
            of("github-action-benchmark"),
            json!([
                { "name": "parse, ns", "unit": "ns/iter", "value": 12.0, "range": "± 0.5" },
                { "name": "parse, stepped-instructions", "unit": "stepped-instructions", "value": 160.0, "range": "± 0.5" },
            ])
        );
        assert!("libtest".parse::<Format>().is_err());
    }
}
