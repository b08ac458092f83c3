//! The instructions of a run, counted by single-stepping where no counter counts them.

use crate::code::Loops;
use crate::estimate::Estimate;
use crate::verdict::{Cause, Verdict};
use rdpmc_gate::median;
use rdpmc_step::{StepError, VARIABLE};
use std::fmt;
use std::time::{Duration, Instant};

/// Samples that have to agree for an exact figure, and how many are taken if there is time.
const MIN_SAMPLES: usize = 2;
const MAX_SAMPLES: usize = 3;
/// The maximum number of instructions in the first loop, which shows how long a step takes here.
const PILOT: u64 = 1_000;

/// Why there is no figure.
#[derive(Debug)]
pub(crate) enum NoFigure {
    NotStepped(StepError),
    /// The steps for which there was time, and the time that would do, if it is known.
    TooLong {
        steps: u64,
        needed: Option<Duration>,
    },
}

impl From<StepError> for NoFigure {
    fn from(error: StepError) -> NoFigure {
        match error {
            StepError::TooLong { limit, .. } => NoFigure::TooLong { steps: limit, needed: None },
            other => NoFigure::NotStepped(other),
        }
    }
}

impl fmt::Display for NoFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoFigure::NotStepped(why) => why.fmt(f),
            NoFigure::TooLong { steps, needed } => {
                write!(f, "the time is enough for {steps} single steps. ")?;
                match needed {
                    Some(needed) => {
                        write!(f, "Set {VARIABLE} to {}", needed.as_secs_f64().ceil().max(1.0))
                    }
                    None => write!(f, "Raise {VARIABLE}"),
                }?;
                f.write_str(", or give the code less to do")
            }
        }
    }
}

/// Returns the instructions of a run, and how far they can be trusted.
///
/// # Errors
/// Why they could not be counted in this time.
pub(crate) fn instructions(
    code: &mut dyn Loops,
    time: Duration,
    target: f64,
) -> Result<(Estimate, Verdict), NoFigure> {
    let begun = Instant::now();
    // What a first run does only once is done. Nothing is counted twice: the first loop also links functions.
    count(code, PILOT, |code| code.nothing(1))?;
    let pilot = Instant::now();
    let steps = count(code, PILOT, |code| code.nothing(1))?.max(1);
    let step = (pilot.elapsed().as_secs_f64() / steps as f64).max(1e-9);
    let steps_left = || (time.saturating_sub(begun.elapsed()).as_secs_f64() / step) as u64;
    let multiple = code.multiple().max(1);
    let pass = count(code, steps_left(), |code| code.work(multiple))?;
    // Two turns, so that code that takes two paths in turn takes both in each loop.
    let both = |turns: u64| 3 * (pass + steps).saturating_mul(turns / multiple);
    let is_short = both(2) * MAX_SAMPLES as u64 <= steps_left();
    let turns = if multiple == 1 && is_short { 2 } else { multiple };
    let needed = both(turns) * MIN_SAMPLES as u64;
    if needed > steps_left() {
        let needed = Some(begun.elapsed() + Duration::from_secs_f64(needed as f64 * step * 1.5));
        return Err(NoFigure::TooLong { steps: (time.as_secs_f64() / step) as u64, needed });
    }
    // The limit ends code whose runs become longer.
    let limit = 4 * needed.max(PILOT);
    let mut runs = Vec::new();
    while runs.len() < MIN_SAMPLES || (runs.len() < MAX_SAMPLES && both(turns) <= steps_left()) {
        let mut difference = |run: fn(&mut dyn Loops, u64)| -> Result<f64, StepError> {
            let short = count(code, limit, |code| run(code, turns))?;
            let long = count(code, limit, |code| run(code, 2 * turns))?;
            Ok(long as f64 - short as f64)
        };
        let work = difference(|code, turns| code.work(turns))?;
        let nothing = difference(|code, turns| code.nothing(turns))?;
        runs.push((work - nothing) / turns as f64);
    }
    Ok(judged(&runs, target))
}

/// Counts the instructions of a loop. All loops are called from here.
#[inline(never)]
fn count(
    code: &mut dyn Loops,
    limit: u64,
    run: impl FnOnce(&mut dyn Loops),
) -> Result<u64, StepError> {
    code.prepare();
    rdpmc_step::count(limit, || run(code))
}

fn judged(runs: &[f64], target: f64) -> (Estimate, Verdict) {
    let low = runs.iter().copied().fold(f64::INFINITY, f64::min);
    let high = runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let value = median(runs.iter().copied()).unwrap_or(low);
    let estimate = Estimate { value, low, high };
    let verdict = match estimate.error() {
        0.0 => Verdict::Exact,
        error if error <= target * value.abs() => Verdict::Stable,
        _ => Verdict::Unstable(Cause::SeveralPaths),
    };
    (estimate, verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equal_counts_are_exact() {
        let verdict = |runs: &[f64]| judged(runs, 0.01).1;
        assert_eq!(verdict(&[301.0, 301.0, 301.0]), Verdict::Exact);
        assert_eq!(verdict(&[301.0, 302.0, 301.0]), Verdict::Stable);
        assert_eq!(verdict(&[301.0, 310.0, 301.0]), Verdict::Unstable(Cause::SeveralPaths));
        assert_eq!(judged(&[301.0, 310.0, 302.0], 0.01).0.value, 302.0);
    }
}
