//! The instructions of a run, counted by single-stepping where no counter counts them.

use crate::judging::estimate::Estimate;
use crate::judging::verdict::{Cause, Verdict};
use crate::sampling::code::Loops;
use crate::stepping::by_function::{IS_KEPT, Recorded};
use rdpmc_report::gate::stepped::{Process, TOO_LONG, certainty};
use rdpmc_report::gate::{Certainty, Interval, median};
use rdpmc_step::{Addresses, Spent, StepError, Tally, VARIABLE};
use std::fmt;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

/// The lengths of the loops, in multiples of a number of turns. The differences between any two of them have to agree. So code that
/// takes a longer path in each third to eighteenth run (or tenth, if there is time for few runs) cannot do so in step with them.
const LENGTHS: [u64; 4] = [1, 2, 2, 5];
/// What there is time for if runs are longer: the best of these. The last one has no difference, so the cost of the loop's call is within the
/// figure.
const FEWER: [&[u64]; 3] = [&[1, 2, 2], &[1, 2], &[1]];
/// Short code has one more loop of up to this number of turns, in a part of the time. So a path that it takes in one of so many runs is seen.
const LONG: u64 = 320;
const PART_FOR_LONG: u32 = 8;
const MAX_FOR_LONG: Duration = Duration::from_millis(125);
/// Another process has this part of the time, or takes one run. Code of which it can take twice as many runs in a quarter of that does so.
const PART_OF_PROCESS: u32 = 4;
const OF_PROCESS: [u64; 2] = [1, 2];
/// The maximum number of instructions in the first loop, which shows how long a step takes here.
const PILOT: u64 = 1_000;
/// The instructions of the loop's call, at most.
const ENDS: f64 = 16.0;

/// Why there is no figure.
#[derive(Debug)]
pub(crate) enum NoFigure {
    NotStepped(StepError),
    /// The steps for which there was time.
    TooLong {
        steps: u64,
    },
}

impl From<StepError> for NoFigure {
    fn from(error: StepError) -> NoFigure {
        match error {
            StepError::TooLong { limit, .. } => NoFigure::TooLong { steps: limit },
            other => NoFigure::NotStepped(other),
        }
    }
}

impl fmt::Display for NoFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoFigure::NotStepped(why) => why.fmt(f),
            NoFigure::TooLong { steps } => write!(
                f,
                "a run has more than the {steps} {TOO_LONG}. Raise {VARIABLE}, or give the code less to do"
            ),
        }
    }
}

/// What one process counted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counted {
    /// The instructions of a run, by each two loops.
    pub(crate) runs: Vec<f64>,
    /// How much of them may be the cost of the loop's call.
    pub(crate) slack: f64,
    /// The number of runs that were stepped.
    pub(crate) stepped: u64,
    /// Where the instructions are, as text. None if that is not known.
    pub(crate) places: Option<String>,
}

/// Counts the rows of a process, one after the other.
pub(crate) struct Stepper {
    /// For each row.
    time: Duration,
    /// Whether this process was started by another one, to count as well.
    pub(crate) is_other: bool,
    /// The time of a step in seconds, once it is known.
    step: Option<f64>,
    /// Of a row's counted instructions. All rows use the same memory.
    addresses: Addresses,
}

/// A count: the instructions, and where their addresses are.
#[derive(Clone, Debug)]
struct Count {
    instructions: u64,
    addresses: Range<usize>,
}

/// Two counts of loops of as many turns: one around the code, and one around nothing.
struct Loop {
    turns: u64,
    work: Count,
    nothing: Count,
}

impl Loop {
    fn instructions(&self) -> f64 {
        self.work.instructions as f64 - self.nothing.instructions as f64
    }
}

impl Stepper {
    pub(crate) fn new(time: Duration, is_other: bool) -> Stepper {
        Stepper { time, is_other, step: None, addresses: Addresses::new() }
    }

    /// Counts the instructions of a run. Returns them also by address, if they are kept.
    ///
    /// # Errors
    /// Why they could not be counted in this time.
    pub(crate) fn count(
        &mut self,
        code: &mut dyn Loops,
    ) -> Result<(Counted, Option<Recorded>), NoFigure> {
        let spent = Spent::new();
        let step = match self.step {
            Some(step) => step,
            None => *self.step.insert(in_turn(rdpmc_step::seconds_per_step, &spent)?),
        };
        let mut addresses = std::mem::take(&mut self.addresses);
        addresses.clear();
        if IS_KEPT && addresses.capacity() == 0 {
            addresses = Addresses::for_time(self.time, step);
        }
        let counted = self.count_within(code, step, &spent, &mut addresses);
        self.addresses = addresses;
        counted
    }

    /// Counts a row, while a step takes so many seconds.
    fn count_within(
        &self,
        code: &mut dyn Loops,
        step: f64,
        spent: &Spent,
        addresses: &mut Addresses,
    ) -> Result<(Counted, Option<Recorded>), NoFigure> {
        let mut count = |code: &mut dyn Loops, limit, run: &dyn Fn(&mut dyn Loops)| {
            count(code, limit, run, spent, addresses)
        };
        // What a first run does only once is done. Nothing is counted twice: the first loop also links functions.
        count(code, PILOT, &|code| code.nothing(1))?;
        let one_nothing = count(code, PILOT, &|code| code.nothing(1))?;
        let ends = one_nothing.instructions.max(1);
        let steps_in = |time: Duration| (time.as_secs_f64() / step) as u64;
        let left = || steps_in(self.time.saturating_sub(spent.time()));
        let multiple = code.multiple().max(1);
        // Made before the code runs: from here on, nothing but the code uses the heap, because its counts may depend on what is free.
        let mut loops = Vec::with_capacity(LENGTHS.len() + 1);
        // At full speed. Other rows have left the heap, and its next user tidies it up.
        code.prepare();
        code.work(multiple);
        // All that is certain to be known: one run, or one of each input.
        let before = spent.time();
        let first_work = count(code, left(), &|code| code.work(multiple))?;
        let first = first_work.instructions;
        // A repetition of a `rep` instruction takes as long as an instruction, and does not count.
        let pass = first.max(steps_in(spent.time().saturating_sub(before))) + ends;
        let runs_of = |lengths: &[u64]| lengths.iter().sum::<u64>();
        let needed = |lengths: &[u64], turns: u64| {
            (runs_of(lengths) * pass).saturating_mul(turns) / multiple
        };
        let most = match self.is_other {
            true => left().min(steps_in(self.time / PART_OF_PROCESS)),
            false => left(),
        };
        let all: &[u64] = if self.is_other { &OF_PROCESS } else { &LENGTHS };
        let fits = |lengths: &&[u64]| needed(lengths, multiple) <= most;
        let fewer = FEWER.into_iter().filter(|fewer| fewer.len() < all.len());
        let lengths = std::iter::once(all).chain(fewer).find(fits);
        let Some(lengths) = lengths.filter(|lengths| lengths.len() > 1) else {
            let runs = vec![first.saturating_sub(ends) as f64 / multiple as f64];
            let slack = ENDS / multiple as f64;
            let only = Loop { turns: multiple, work: first_work, nothing: one_nothing };
            let recorded = recorded(addresses, &[only], (0, None));
            return Ok((Counted { runs, slack, stepped: multiple, places: None }, recorded));
        };
        // With an even number of turns, code that takes two paths in turn takes both in each loop.
        let for_twice = if self.is_other { most / 4 } else { most };
        let turns = if multiple == 1 && needed(lengths, 2) <= for_twice { 2 } else { multiple };
        let needed = needed(lengths, turns);
        let for_long = steps_in((self.time / PART_FOR_LONG).min(MAX_FOR_LONG))
            .min(most.saturating_sub(needed));
        let long = (for_long / pass).min(LONG) / 2 * 2;
        let longest = LENGTHS.map(|length| length * turns).into_iter().max().unwrap_or(0);
        let has_long = multiple == 1 && !self.is_other && long > longest;
        let lengths = lengths.iter().map(|length| length * turns).chain(has_long.then_some(long));
        // The limit ends code whose runs become longer.
        let limit = || (4 * needed.max(for_long)).min(left()).max(PILOT);
        let counted = lengths.into_iter().try_for_each(|turns| {
            let work = count(code, limit(), &|code| code.work(turns))?;
            let nothing = count(code, limit(), &|code| code.nothing(turns))?;
            loops.push(Loop { turns, work, nothing });
            Ok(())
        });
        match counted {
            // Runs differ, so their number was estimated too high.
            Err(StepError::TooLong { .. }) if loops.len() > 1 => {}
            counted => counted?,
        }
        let stepped = multiple + loops.iter().map(|it: &Loop| it.turns).sum::<u64>();
        let differences: Vec<(u64, f64)> =
            loops.iter().map(|it| (it.turns, it.instructions())).collect();
        let figures = per_run(&differences);
        let runs: Vec<f64> = figures.iter().map(|figure| figure.instructions).collect();
        let typical = median(runs.iter().copied()).unwrap_or(0.0);
        let distance = |figure: &&Figure| (figure.instructions - typical).abs();
        let nearest = figures.iter().min_by(|one, two| distance(one).total_cmp(&distance(two)));
        let recorded = nearest.and_then(|figure| recorded(addresses, &loops, figure.loops));
        Ok((Counted { runs, slack: 0.0, stepped, places: None }, recorded))
    }
}

/// Returns the instructions by address: of a loop without those of a shorter one. None if not all addresses are there.
fn recorded(
    addresses: &mut Addresses,
    loops: &[Loop],
    (more, less): (usize, Option<usize>),
) -> Option<Recorded> {
    let counts = |place: usize, sign: i64| {
        let Loop { turns, work, nothing } = loops.get(place)?;
        Some((*turns, [(sign, work.clone()), (-sign, nothing.clone())]))
    };
    let (more, of_more) = counts(more, 1)?;
    let (less, of_less) = match less {
        Some(less) => counts(less, -1).map(|(less, counts)| (less, Some(counts)))?,
        None => (0, None),
    };
    let all = of_more.into_iter().chain(of_less.into_iter().flatten());
    let has_all = |count: &Count| count.addresses.len() as u64 == count.instructions;
    let all = all.map(|(times, count)| has_all(&count).then_some((times, count.addresses)));
    let tally = Tally::new(addresses, &all.collect::<Option<Vec<_>>>()?)?;
    Some(Recorded { tally, runs: more - less })
}

/// The instructions of a run, by one or two loops.
struct Figure {
    instructions: f64,
    /// The longer one, and the one that was subtracted.
    loops: (usize, Option<usize>),
}

/// Returns the instructions of a run by each two loops of different lengths. If these disagree, also by each loop alone, where
/// the cost of the loop's call is within the figure: a rare path makes some differences too small and none too large.
fn per_run(loops: &[(u64, f64)]) -> Vec<Figure> {
    let mut all: Vec<Figure> = Vec::new();
    for (less, (turns, instructions)) in loops.iter().enumerate() {
        for (more, (more_turns, of_more)) in loops.iter().enumerate().skip(less + 1) {
            if more_turns > turns {
                let instructions = (of_more - instructions) / (more_turns - turns) as f64;
                all.push(Figure { instructions, loops: (more, Some(less)) });
            }
        }
    }
    let differ = |pair: &[Figure]| match pair {
        [one, two] => one.instructions != two.instructions,
        _ => false,
    };
    if all.is_empty() || all.windows(2).any(differ) {
        all.extend(loops.iter().enumerate().map(|(place, (turns, instructions))| Figure {
            instructions: instructions / *turns as f64,
            loops: (place, None),
        }));
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
    addresses: &mut Addresses,
) -> Result<Count, StepError> {
    code.prepare();
    let start = addresses.as_slice().len();
    let counted = || rdpmc_step::count_into(limit, addresses, || run(&mut *code));
    let instructions = in_turn(counted, spent)?;
    Ok(Count { instructions, addresses: start..addresses.as_slice().len() })
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
        spent.go_on();
        match count() {
            Err(StepError::Busy) if begun.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(1));
            }
            counted => return counted,
        }
    }
}

/// Returns the figure by what this process and others have counted.
pub(crate) fn judged(own: &Counted, others: &[Counted], target: f64) -> (Estimate, Verdict) {
    let process = |counted: &Counted| Process::from_runs(&counted.runs, counted.slack);
    let others: Vec<Process> = others.iter().filter_map(process).collect();
    let Some(own) = process(own) else {
        return (Estimate::exactly(0.0), Verdict::Unstable(Cause::Unreadable));
    };
    verdict_on(&own.joined(&others), target)
}

/// Returns what several processes say of a figure that a counter has counted in each. None if the others agree with this one.
pub(crate) fn joined(
    own: &Estimate,
    others: &[Estimate],
    target: f64,
) -> Option<(Estimate, Verdict)> {
    let differs = |other: &&Estimate| other.high < own.low || own.high < other.low;
    if !others.iter().any(|other| differs(&other)) {
        return None;
    }
    let all: Vec<Estimate> = std::iter::once(own).chain(others).copied().collect();
    joined_counts(&all, target)
}

/// Returns what several processes say of counts that each of them has judged. None without processes.
pub(crate) fn joined_counts(all: &[Estimate], target: f64) -> Option<(Estimate, Verdict)> {
    let (own, others) = all.split_first()?;
    let others: Vec<Process> = others.iter().map(process_of).collect();
    Some(verdict_on(&process_of(own).joined(&others), target))
}

/// Returns an estimate as what one process counted.
fn process_of(it: &Estimate) -> Process {
    Process { run: Interval { low: it.low, median: it.value, high: it.high }, slack: 0.0 }
}

fn verdict_on(joined: &Interval, target: f64) -> (Estimate, Verdict) {
    let estimate = Estimate { value: joined.median, low: joined.low, high: joined.high };
    let is_narrow = estimate.error() <= target * estimate.value.abs();
    let verdict = match certainty(joined) {
        Certainty::Exact => Verdict::Exact,
        Certainty::Stable if is_narrow => Verdict::Stable,
        Certainty::Stable => Verdict::Range,
        Certainty::Unstable => Verdict::Unstable(Cause::SeveralPaths),
    };
    (estimate, verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the figure of code whose each `period`-th run takes a longer path, from run `first` on, by loops of these lengths.
    fn figure_of(period: u64, first: u64, lengths: &[u64]) -> (Estimate, Verdict, f64) {
        const SHORT: f64 = 15.0;
        const LONGER: f64 = 400.0;
        let (mut run, mut loops) = (first, Vec::new());
        for length in lengths {
            let end = run + length;
            let slow = end.div_ceil(period) - run.div_ceil(period);
            loops.push((*length, 7.0 + SHORT * *length as f64 + LONGER * slow as f64));
            run = end;
        }
        let runs: Vec<f64> = per_run(&loops).iter().map(|figure| figure.instructions).collect();
        let (estimate, verdict) = judged(&counted(&runs), &[], 0.01);
        (estimate, verdict, SHORT + LONGER / period as f64)
    }

    /// Exact is only what is right.
    #[test]
    fn a_longer_path_in_each_nth_run() {
        for turns in 1..=9 {
            for period in 1..=if turns == 1 { 10 } else { 18 } {
                for first in 0..period {
                    let lengths = LENGTHS.map(|length| length * turns);
                    let (estimate, verdict, mean) = figure_of(period, first, &lengths);
                    let (low, high) = (estimate.low - 1e-9, estimate.high + 1e-9);
                    assert!(low <= mean && mean <= high, "{turns}, {period}: {estimate:?}, {mean}");
                    // Each n-th of n turns, at least.
                    let is_even = turns % period == 0;
                    assert_eq!(
                        verdict == Verdict::Exact,
                        is_even,
                        "{turns}, {period}: {estimate:?}"
                    );
                }
            }
        }
    }

    /// The long loop shows rarer paths.
    #[test]
    fn a_longer_path_in_each_300th_run() {
        let mut lengths = LENGTHS.map(|length| 2 * length).to_vec();
        lengths.push(LONG);
        for period in 3..=300 {
            for first in 0..period {
                let (estimate, verdict, mean) = figure_of(period, first, &lengths);
                assert!(estimate.contains(mean), "{period}, {first}: {estimate:?}, {mean}");
                assert!(verdict != Verdict::Exact, "{period}, {first}: {estimate:?}");
            }
        }
    }

    fn counted(runs: &[f64]) -> Counted {
        Counted { runs: runs.to_vec(), slack: 0.0, stepped: 20, places: None }
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

    /// A counter's interval is that of its samples, in which others may have had interrupts.
    #[test]
    fn counts_of_processes_are_joined_if_they_differ() {
        let of = |low: f64, high: f64| Estimate { low, value: low.midpoint(high), high };
        let own = of(620.0, 620.0);
        assert_eq!(joined(&own, &[own, of(619.9, 620.1)], 0.01), None);
        assert_eq!(joined(&own, &[], 0.01), None);
        let six = [own, own, own, own, of(629.0, 629.0)];
        let range = Estimate { low: 615.5, value: 620.0, high: 633.5 };
        assert_eq!(joined(&own, &six, 0.01), Some((range, Verdict::Range)));
    }

    #[test]
    fn a_wide_range_has_a_verdict_of_its_own() {
        let of = |own: &[f64], others: &[f64]| {
            let others: Vec<Counted> = others.iter().map(|other| counted(&[*other])).collect();
            judged(&counted(own), &others, 0.01).1
        };
        assert_eq!(of(&[301.0; 3], &[301.0; 7]), Verdict::Exact);
        assert_eq!(of(&[301.0; 3], &[302.0; 7]), Verdict::Stable);
        assert_eq!(of(&[301.0; 3], &[350.0; 7]), Verdict::Range);
        assert_eq!(of(&[-3.0; 3], &[-3.0; 7]), Verdict::Unstable(Cause::SeveralPaths));
    }
}
