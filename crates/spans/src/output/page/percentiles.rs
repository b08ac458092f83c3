//! How the times of each span are distributed.

use super::name_of;
use crate::distribution::Distribution;
use crate::output::{Report, Row};
use crate::units;
use rdpmc_report::page::{Axis, Chart, Page, Table};

/// The maximum number of rows in the common chart.
const TOGETHER: usize = 6;
/// Each percentile's label, with `n`: one in `n` values exceeds it.
const PERCENTILES: [(&str, u64); 6] = [
    ("50 %", 2),
    ("90 %", 10),
    ("99 %", 100),
    ("99.9 %", 1_000),
    ("99.99 %", 10_000),
    ("99.999 %", 100_000),
];
/// The curve's points for each further nine of the quantile.
const POINTS: u32 = 24;

/// Adds a chart of the rows with the most time, and a chart and a table for each row.
pub(super) fn add(page: &mut Page, report: &Report) {
    let rows: Vec<&Row> = report.rows.iter().chain(&report.all).collect();
    let mut most: Vec<&Row> = report.rows.iter().collect();
    most.sort_by_key(|row| std::cmp::Reverse(row.total));
    let mut together = chart("Percentiles of the spans with the most time");
    for (color, row) in most.iter().take(TOGETHER).enumerate() {
        together.line(color, &name_of(report, row), curve(&row.distribution));
    }
    page.push(&together);
    for row in rows {
        let name = name_of(report, row);
        let mut alone = chart(&format!("Percentiles of {name}"));
        alone.line(0, "", curve(&row.distribution));
        let mut table = Table::new([("percentile", false), ("time", true), ("spans above", true)]);
        for (percent, of) in PERCENTILES.into_iter().filter(|(_, of)| row.count >= *of) {
            if let Some(time) = row.distribution.quantile(1.0 - 1.0 / of as f64) {
                let above = row.distribution.count_above(time).to_string();
                table.row([percent.into(), units::time(time), above]);
            }
        }
        table.row(["maximum".into(), units::time(row.time.max), "0".into()]);
        let all = units::number_of(row.count, "span");
        let summary = format!("{name}: {all}, median {}", units::time(row.time.p50));
        page.folded(&summary, &[&alone, &table]);
    }
}

fn chart(title: &str) -> Chart {
    let time = Axis::log("time").whole().written(|ns| units::time(ns as u64));
    Chart::new(title, Axis::quantiles("percentile"), time)
}

/// Returns quantiles and their times. The last quantile is the one that only the maximum exceeds.
fn curve(times: &Distribution) -> Vec<(f64, f64)> {
    let last = 1.0 - 0.5 / times.count().max(1) as f64;
    let quantiles =
        (0..=12 * POINTS).map(|point| 1.0 - 10_f64.powf(-f64::from(point) / f64::from(POINTS)));
    let quantiles = quantiles.take_while(|quantile| *quantile < last).chain([last]);
    quantiles.filter_map(|quantile| Some((quantile, times.quantile(quantile)? as f64))).collect()
}
