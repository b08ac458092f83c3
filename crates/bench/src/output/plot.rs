//! The distributions of the samples, as text for a terminal.

use crate::judging::verdict::with_digits;
use crate::output::bins::Bins;
use crate::output::results::Results;
use rdpmc_report::gate::cells::plain;

/// The width of a distribution.
const RANGES: usize = 40;
/// The heights of a column.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

impl Results {
    /// Returns the distributions of the samples as text for a terminal. Each row has a line for its times. Further lines show its
    /// [paths](crate::Row::paths), if there are several, and its differences from the compared row.
    ///
    /// ```text
    /// old          17.18 ns |▅█▁  ▁▁ ▁▁▁▁▁ ▁▁▁  ▁   ▁ ▁ ▁     ▁      | 28.64 ns, median 17.60 ns, 1 outside, from 17.18 ns to 32.28 ns
    /// new          13.35 ns |▄▆██▄▃▁  ▁   ▁▁▁▁▁  ▁▁▁▁▁▁▁ ▁▁▁ ▁▁▁▁   ▁| 16.70 ns, median 13.68 ns
    ///   - old, ns  -57.62 % |▁     ▁   ▁▁ ▁▁▁▁▁▁▁  ▁  ▁█▁ ▁▁▁▁▁▁▁▁▁ ▁| -4.47 %, median -22.34 %
    /// ```
    ///
    /// Each line has its own range of values, which is beside it. Needs UTF-8.
    pub fn plot(&self) -> String {
        let mut lines: Vec<(String, String)> = Vec::new();
        for (place, row) in self.rows.iter().enumerate() {
            let name = plain(&row.name);
            let times = line(row.times(), |ns| format!("{} ns", with_digits(ns)));
            lines.push((name.clone(), times.unwrap_or_else(|| "not measured".into())));
            for path in row.paths().iter().filter(|_| row.takes_several_paths()) {
                let bar: String =
                    std::iter::repeat_n('█', (path.share * RANGES as f64).round() as usize)
                        .collect();
                let path =
                    format!("{} instructions: {:.0} %", path.instructions, path.share * 100.0);
                lines.push((String::new(), format!("|{bar:RANGES$}| {path}")));
            }
            let Some(comparison) = self.comparison_of(place) else { continue };
            let Some((quantity, percents)) = comparison.percents() else { continue };
            let name = format!("  - {}, {quantity}", plain(&comparison.against));
            let differences = line(&percents, |percent| format!("{percent:+.2} %"));
            lines.extend(differences.map(|line| (name, line)));
        }
        let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let before = |line: &str| line.chars().take_while(|char| *char != '|').count();
        let indent = lines.iter().map(|(_, line)| before(line)).max().unwrap_or(0);
        let lines = lines.iter().map(|(name, line)| {
            let space = indent - before(line);
            format!("{name:width$}  {:space$}{line}\n", "")
        });
        lines.collect()
    }
}

/// Returns a distribution, with its ends and its median as `written`. None without values.
fn line(values: &[f64], written: fn(f64) -> String) -> Option<String> {
    let bins = Bins::from_values(values, RANGES)?;
    let most = bins.counts.iter().copied().max().unwrap_or(0).max(1);
    // What is there is visible.
    let column = |count: &usize| BLOCKS.get((count * 8).div_ceil(most)).copied().unwrap_or(' ');
    let columns: String = bins.counts.iter().map(column).collect();
    let [low, high, median] = [bins.low, bins.high(), bins.median].map(written);
    let outside = match (bins.outside, bins.ends.map(written)) {
        (0, _) => String::new(),
        (outside, [min, max]) => format!(", {outside} outside, from {min} to {max}"),
    };
    Some(format!("{low} |{columns}| {high}, median {median}{outside}"))
}
