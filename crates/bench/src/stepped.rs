//! The instructions of a run, counted by single-stepping where no counter counts them.

use crate::code::Loops;
use crate::estimate::Estimate;
use crate::spent::{Moment, Spent};
use crate::verdict::{Cause, Verdict};
use rdpmc_gate::median;
use rdpmc_step::{StepError, VARIABLE};
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

/// The lengths of the loops, in multiples of a number of turns. The differences between any two of them have to agree. So code that
/// takes a longer path in each third to eighteenth run (or tenth, if there is time for few runs) cannot do so in step with them.
const LENGTHS: [u64; 4] = [1, 2, 2, 5];
/// The runs in all loops.
const RUNS: u64 = 10;
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
    let spent = Spent::new();
    let count =
        |code: &mut dyn Loops, limit, run: &dyn Fn(&mut dyn Loops)| count(code, limit, run, &spent);
    // What a first run does only once is done. Nothing is counted twice: the first loop also links functions.
    count(code, PILOT, &|code| code.nothing(1))?;
    let steps = count(code, PILOT, &|code| code.nothing(1))?.max(1);
    let step = in_turn(rdpmc_step::seconds_per_step, &spent)?;
    let steps_left = || (time.saturating_sub(spent.time()).as_secs_f64() / step) as u64;
    let multiple = code.multiple().max(1);
    let before = spent.time();
    let pass = count(code, steps_left(), &|code| code.work(multiple))?;
    // A repetition of a `rep` instruction takes as long as an instruction, and does not count.
    let pass = pass.max((spent.time().saturating_sub(before).as_secs_f64() / step) as u64);
    // With two turns, code that takes two paths in turn takes both in each loop.
    let needed = |turns: u64| RUNS * (pass + steps).saturating_mul(turns) / multiple;
    let turns = if multiple == 1 && needed(2) <= steps_left() { 2 } else { multiple };
    let needed = needed(turns);
    if needed > steps_left() {
        let needed = Some(spent.time() + Duration::from_secs_f64(needed as f64 * step * 1.5));
        return Err(NoFigure::TooLong { steps: (time.as_secs_f64() / step) as u64, needed });
    }
    // The limit ends code whose runs become longer.
    let limit = || (4 * needed).min(steps_left()).max(PILOT);
    let mut loops = Vec::new();
    for length in LENGTHS {
        let turns = length * turns;
        let work = count(code, limit(), &|code| code.work(turns))?;
        let nothing = count(code, limit(), &|code| code.nothing(turns))?;
        loops.push((turns, work as f64 - nothing as f64));
    }
    Ok(judged(&per_run(&loops), target))
}

/// Returns the instructions of a run by each two loops of different lengths. If these disagree, also by each loop alone, where
/// the cost of the loop's call is within the figure: a rare path makes some differences too small and none too large.
fn per_run(loops: &[(u64, f64)]) -> Vec<f64> {
    let mut all = Vec::new();
    for (place, (turns, instructions)) in loops.iter().enumerate() {
        for (more_turns, more) in loops.iter().skip(place + 1) {
            if more_turns > turns {
                all.push((more - instructions) / (more_turns - turns) as f64);
            }
        }
    }
    if all.windows(2).any(|pair| pair.first() != pair.last()) {
        all.extend(loops.iter().map(|(turns, instructions)| instructions / *turns as f64));
    }
    all
}

/// Counts the instructions of a loop. All loops are called from here.
#[inline(never)]
fn count(
    code: &mut dyn Loops,
    limit: u64,
    run: &dyn Fn(&mut dyn Loops),
    spent: &Spent,
) -> Result<u64, StepError> {
    code.prepare();
    in_turn(|| rdpmc_step::count(limit, || run(&mut *code)), spent)
}

/// Waits for 20 seconds at most while another thread counts. The wait is not part of `spent`.
fn in_turn<T>(
    mut count: impl FnMut() -> Result<T, StepError>,
    spent: &Spent,
) -> Result<T, StepError> {
    const PATIENCE: Duration = Duration::from_secs(20);
    spent.time();
    let begun = Instant::now();
    loop {
        let turn = Moment::now();
        match count() {
            Err(StepError::Busy) if begun.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(1));
            }
            counted => {
                spent.go_on(turn);
                return counted;
            }
        }
    }
}

fn judged(runs: &[f64], target: f64) -> (Estimate, Verdict) {
    let low = runs.iter().copied().fold(f64::INFINITY, f64::min);
    let high = runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let value = median(runs.iter().copied()).unwrap_or(low);
    let estimate = Estimate { value, low, high };
    let verdict = match estimate.error() {
        0.0 if value >= 0.0 => Verdict::Exact,
        error if error <= target * value.abs() => Verdict::Stable,
        _ => Verdict::Unstable(Cause::SeveralPaths),
    };
    (estimate, verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code whose each n-th run takes a longer path, from any run on: exact is only what is right.
    #[test]
    fn a_longer_path_in_each_nth_run() {
        const SHORT: f64 = 15.0;
        const LONGER: f64 = 400.0;
        for turns in 1..=9 {
            for period in 1..=if turns == 1 { RUNS } else { 18 } {
                for first in 0..period {
                    let (mut run, mut loops) = (first, Vec::new());
                    for length in LENGTHS.map(|length| length * turns) {
                        let end = run + length;
                        let slow = end.div_ceil(period) - run.div_ceil(period);
                        loops.push((length, 7.0 + SHORT * length as f64 + LONGER * slow as f64));
                        run = end;
                    }
                    let (estimate, verdict) = judged(&per_run(&loops), 0.01);
                    let mean = SHORT + LONGER / period as f64;
                    let (low, high) = (estimate.low - 1e-9, estimate.high + 1e-9);
                    assert!(low <= mean && mean <= high, "{turns}, {period}: {estimate:?}, {mean}");
                    // Each n-th of n turns, at least.
                    let is_even = turns % period == 0;
                    assert!(
                        !is_even || verdict == Verdict::Exact,
                        "{turns}, {period}: {estimate:?}"
                    );
                    assert!(
                        is_even || verdict != Verdict::Exact,
                        "{turns}, {period}: {estimate:?}"
                    );
                }
            }
        }
    }

    /// While another thread counts, this one waits. The waits are not part of the time for stepping. Another refusal is final.
    #[test]
    fn busy_is_waited_for() {
        let begun = Instant::now();
        let spent = Spent::new();
        // Each count sleeps, too, so its elapsed time counts.
        for _ in 0..2 {
            let mut answers = vec![Ok(7), Err(StepError::Busy), Err(StepError::Busy)];
            let count = || {
                thread::sleep(Duration::from_millis(1));
                answers.pop().unwrap_or(Ok(0))
            };
            assert_eq!(in_turn(count, &spent), Ok(7));
        }
        let time = spent.time();
        let waited = begun.elapsed() - time;
        assert!(time >= Duration::from_millis(2), "{time:?}");
        assert!(waited >= Duration::from_millis(8), "{waited:?}");
        let mut answers = vec![Ok(7), Err(StepError::Disturbed)];
        assert_eq!(in_turn(|| answers.pop().unwrap_or(Ok(0)), &spent), Err(StepError::Disturbed));
    }

    #[test]
    fn only_equal_counts_are_exact() {
        let verdict = |runs: &[f64]| judged(runs, 0.01).1;
        assert_eq!(verdict(&[301.0, 301.0, 301.0]), Verdict::Exact);
        assert_eq!(verdict(&[301.0, 302.0, 301.0]), Verdict::Stable);
        assert_eq!(verdict(&[301.0, 310.0, 301.0]), Verdict::Unstable(Cause::SeveralPaths));
        assert_eq!(judged(&[301.0, 310.0, 302.0], 0.01).0.value, 302.0);
    }
}
