//! Loops that took much longer than the others: rare slow runs, which the median does not show.

use crate::judging::estimate::Turns;
use crate::judging::judge::Judged;
use crate::sampling::sample::{Shape, TICKS};

/// A loop is slow if it takes more than this many times what it usually takes.
const SLOW: f64 = 1.5;

/// The slow loops of a row, if they change the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Slow {
    /// How many loops took more than one and a half times as long as usual.
    pub loops: usize,
    /// All loops.
    pub of: usize,
    /// How much longer than usual the slowest of them took, in nanoseconds.
    pub longest: f64,
    /// The mean time of an operation with the slow loops, in nanoseconds.
    pub mean: f64,
}

impl Slow {
    pub(crate) fn scaled(self, factor: f64) -> Slow {
        Slow { mean: self.mean * factor, ..self }
    }
}

/// Slow loops that change the mean by less than this are not worth a line: an interrupt does.
const SHARE: f64 = 0.05;

/// Returns the slow loops. None if there are none, or if the mean with them is close to the time.
pub(crate) fn slow_loops(judged: &Judged<'_>, shape: &Shape) -> Option<Slow> {
    let (estimate, _) = judged.figures.get(TICKS).copied().flatten()?;
    let turns = Turns::from_samples(&judged.kept, TICKS, shape)?;
    let turn = turns.median(&judged.kept)?;
    let (mut loops, mut all, mut runs) = (0, 0, 0);
    let (mut longest, mut sum) = (0.0f64, 0.0);
    for (ticks, of_runs) in judged.whole.iter().flat_map(|sample| sample.loops(TICKS)) {
        let usual = turns.ends + of_runs as f64 * turn;
        let more = ticks as f64 - usual;
        if more > (SLOW - 1.0) * usual && more > shape.step {
            loops += 1;
            longest = longest.max(more);
            sum += more;
        }
        all += 1;
        runs += of_runs;
    }
    let more = sum / runs.max(1) as f64 * shape.ns_per_tick;
    (loops > 0 && more > estimate.value * SHARE).then_some(Slow {
        loops,
        of: all,
        longest: longest * shape.ns_per_tick,
        mean: estimate.value + more,
    })
}
