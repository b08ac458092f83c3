//! One line about the spans of a name.

use crate::batch::Batch;
use crate::distribution::Distribution;
use crate::output::{cause, units};

/// Returns the line: see `Interval::line`.
pub(crate) fn line(batch: &Batch, name: &str) -> String {
    let (mut times, mut count) = (Distribution::default(), 0);
    for thread in &batch.threads {
        for stats in thread.sites.iter().filter(|stats| stats.site.name() == name) {
            let of = stats
                .times
                .clone()
                .of_ticks(thread.meta.has_tick_counter(), batch.time.conversion(&thread.meta));
            // A thread with another clock is in the number alone.
            times.merge(&of).unwrap_or_default();
            count += stats.count;
        }
    }
    let shown = units::cell(name);
    let quantile = |q| times.quantile(q).map_or_else(|| "-".to_string(), units::time);
    let mut line = format!(
        "{shown}: {count}, 50 % {}, 99 % {}, maximum {}",
        quantile(0.5),
        quantile(0.99),
        quantile(1.0)
    );
    if let Some(slowest) = batch.slow.iter().find(|tree| tree.root.raw.site.name() == name) {
        line += &format!(" ({})", cause::line(batch, slowest));
    }
    line
}
