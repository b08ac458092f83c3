//! One line about the spans of a name.

use crate::batch::Batch;
use crate::cause::Usual;
use crate::distribution::Distribution;
use crate::output::slow_line;
use crate::units;

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
    if count == 0 {
        return format!("{shown}: no spans");
    }
    let quantile = |q| times.quantile(q).map_or_else(|| "-".to_string(), units::time);
    let mut line = format!(
        "{shown}: {count}, 50 % {}, 99 % {}, maximum {}",
        quantile(0.5),
        quantile(0.99),
        quantile(1.0)
    );
    let mut slow = batch.slow.iter().filter(|tree| tree.root.raw.site.name() == name);
    if let Some(slowest) = slow.next() {
        let usual = Usual::new(batch);
        // With histograms, the slowest span that ended beside a `take` may be of another interval than its time.
        let is_maximum =
            times.max().is_some_and(|max| usual.time(&slowest.root) >= max - max / 128);
        let which = if is_maximum { "" } else { "the slowest that is kept: " };
        line += &format!(" ({which}{})", slow_line::line(&usual, slowest));
    }
    line
}
