//! The batches of a benchmark that are stepped, and its instructions by their differences.

use rdpmc_report::gate::stepped::{Process, TOO_LONG};
use rdpmc_step::{StepError, VARIABLE};
use std::fmt;
use std::mem::take;
use std::ops::Range;
use std::time::{Duration, Instant};

/// The number of batches for two differences.
const BATCHES: usize = 3;

/// The number of iterations of the largest batch that is stepped, if there is time: 8, or 16 where the smaller ones disagree, for
/// example because the first iteration has done what happens once. Of code that takes a longer path in each 15th iteration or
/// more often, some batches then disagree.
const ITERATIONS: u64 = 8;
const MAX_ITERATIONS: u64 = 16;

/// Short code has batches of up to this number of iterations, in a part of the time. So a path that it takes in one of so many is seen.
const MAX_SHORT: u64 = 128;
const PART_FOR_SHORT: u32 = 8;
const MAX_FOR_SHORT: Duration = Duration::from_millis(125);

/// Another process has this part of the time for its batches after the first.
const PART_OF_PROCESS: u64 = 4;

/// The number of differences that agree in an exact figure.
const DIFFERENCES: usize = 3;

/// The instructions of a batch that are criterion's own, at most.
const ENDS: f64 = 16.0;

/// Why there is no figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum NoFigure {
    NotStepped(StepError),
    /// `--quick`: criterion does not warm up, and uses the result of each batch.
    Quick,
    /// The warm-up ended before enough batches were stepped.
    WarmUpTooShort,
    /// There was time for one iteration, which may have done what happens once.
    OneIteration,
    /// The instructions of an iteration for which there is time, and whether the warm-up is the limit.
    TooLong {
        instructions: u64,
        by_warm_up: bool,
    },
    /// The benchmark calls `iter` more than once.
    SeveralCalls,
    /// Other events had the counters.
    Estimated,
    /// One process has a counter of instructions, and the other does not.
    OtherWay,
}

impl fmt::Display for NoFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoFigure::NotStepped(why) => why.fmt(f),
            NoFigure::Quick => f.write_str("there is no warm-up to step with `--quick`"),
            NoFigure::WarmUpTooShort => f.write_str(
                "the warm-up ended before enough batches were stepped. Set a longer warm-up time",
            ),
            NoFigure::OneIteration => write!(
                f,
                "there was time for one iteration only, and the first iteration may do more than later ones. Raise {VARIABLE} and the warm-up time"
            ),
            NoFigure::TooLong { instructions, by_warm_up } => {
                let limit = if *by_warm_up { "the warm-up time" } else { VARIABLE };
                write!(
                    f,
                    "an iteration has more than the {instructions} {TOO_LONG}. Raise {limit}, or give the benchmark less to do"
                )
            }
            NoFigure::SeveralCalls => f.write_str(
                "the benchmark calls `iter` more than once, and criterion uses the last one. Call it once in each benchmark",
            ),
            NoFigure::Estimated => f.write_str(
                "the counters were multiplexed with other events. Close other programs that count events",
            ),
            NoFigure::OtherWay => f.write_str(
                "only one of two processes could open the counter of instructions. Close other programs that count events",
            ),
        }
    }
}

/// Why a batch was not counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Failure {
    TooLong,
    Estimated,
    Other(StepError),
}

impl From<StepError> for Failure {
    fn from(error: StepError) -> Failure {
        match error {
            StepError::TooLong { .. } => Failure::TooLong,
            other => Failure::Other(other),
        }
    }
}

/// How much of a benchmark is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Extent {
    /// As much as there is time for in the warm-up of a benchmark that is measured.
    #[default]
    InWarmUp,
    /// The same in a process that measures nothing. It takes the time for a second and a third iteration.
    InFull,
    /// A few iterations, to compare processes.
    Brief,
}

/// What was counted of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counted {
    pub(crate) process: Process,
    /// The number of iterations that were stepped.
    pub(crate) iterations: u64,
}

/// The costs of stepping on this machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Costs {
    /// The time of a step, in seconds.
    pub(crate) step: f64,
    /// The instructions of an interval with nothing in it.
    pub(crate) interval: u64,
}

/// The batches of a benchmark that were stepped. criterion does not tell a measurement where a batch begins:
/// - `Bencher::iter` calls `zero` once, and has one interval in each batch.
/// - `Bencher::iter_batched` calls `zero` once more before each batch, and has one or more intervals in each.
///
/// After the warm-up, criterion calls `zero` once more.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    pub(crate) time: Duration,
    costs: Option<Costs>,
    /// When the benchmark began, when `zero` was called last, and how long the warm-up took.
    begun: Option<Instant>,
    last_zero: Option<Instant>,
    pub(crate) warm_up: Option<Duration>,
    /// The number of steps in it.
    pub(crate) steps: u64,
    /// The calls of `zero` since the last interval.
    zeros: u64,
    is_batched: bool,
    /// The current batch: its iterations (0 before the first one), and what was counted.
    iterations: u64,
    current: Option<Result<u64, Failure>>,
    /// Whether there was not enough time for the first iteration.
    is_first_too_long: bool,
    /// The intervals of the current batch, and whether the batch of two iterations had two. criterion then has other code for a batch with
    /// fewer intervals than iterations.
    intervals_of_batch: u64,
    are_single: bool,
    /// The limit of its next interval.
    pub(crate) limit: u64,
    /// Iterations and instructions of successive batches.
    counted: Vec<(u64, u64)>,
    /// Their addresses, and their intervals.
    recorded: Vec<Recorded>,
    /// How many addresses are kept, and how many were before this batch. The instructions of the batch, with the cost of its intervals.
    addresses: usize,
    before_batch: usize,
    all_of_batch: u64,
    pub(crate) result: Option<Result<Counted, NoFigure>>,
    is_calibrating: bool,
    /// The calls of `zero`, and those with which the samples began. The intervals of all benchmarks, at the first and at the last sample. The
    /// number of samples.
    all_zeros: u64,
    zeros_before: u64,
    intervals: Option<(u64, u64)>,
    samples: u64,
    extent: Extent,
}

/// Where the addresses of a batch are.
#[derive(Clone, Debug)]
struct Recorded {
    iterations: u64,
    intervals: u64,
    addresses: Range<usize>,
}

/// The addresses that a result is of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chosen {
    /// Which of the kept addresses, and how often they count.
    pub(crate) parts: Vec<(i64, Range<usize>)>,
    /// How often an interval with nothing in it is subtracted.
    pub(crate) intervals: i64,
    pub(crate) iterations: u64,
}

impl Batches {
    /// Begins a benchmark. So many addresses are kept already, which are of no batch.
    pub(crate) fn new(time: Duration, costs: Costs, extent: Extent, addresses: usize) -> Batches {
        let (costs, begun) = (Some(costs), Some(Instant::now()));
        let before_batch = addresses;
        Batches { time, costs, begun, extent, addresses, before_batch, ..Batches::default() }
    }

    /// Returns the addresses of what is nearest to the result's median. None if there is no result, or not all of them were kept.
    pub(crate) fn chosen(&self) -> Option<Chosen> {
        let typical = self.result?.ok()?.process.run.median;
        let pairs = self.recorded.iter().zip(self.recorded.iter().skip(1));
        let differences = self.differences().into_iter().zip(pairs).map(|(value, (few, many))| {
            let parts = vec![(-1, few.addresses.clone()), (1, many.addresses.clone())];
            let intervals = many.intervals as i64 - few.intervals as i64;
            (value, Chosen { parts, intervals, iterations: many.iterations - few.iterations })
        });
        let means = self.counted.iter().map(mean).zip(&self.recorded).map(|(value, batch)| {
            let parts = vec![(1, batch.addresses.clone())];
            (
                value,
                Chosen { parts, intervals: batch.intervals as i64, iterations: batch.iterations },
            )
        });
        let distance = |(value, _): &(f64, Chosen)| (value - typical).abs();
        let nearest =
            differences.chain(means).min_by(|one, two| distance(one).total_cmp(&distance(two)));
        nearest.map(|(_, chosen)| chosen).filter(|_| self.recorded.len() == self.counted.len())
    }

    /// Steps a single interval.
    pub(crate) fn calibrating() -> Batches {
        Batches { is_calibrating: true, limit: 100_000, ..Batches::default() }
    }

    pub(crate) fn zero(&mut self) {
        self.zeros += 1;
        self.all_zeros += 1;
        if self.warm_up.is_none() {
            self.last_zero = Some(Instant::now());
        }
    }

    /// An interval begins. Returns whether it is to be stepped.
    pub(crate) fn next(&mut self) -> bool {
        if self.is_calibrating {
            return true;
        }
        let zeros = take(&mut self.zeros);
        if self.iterations == 0 {
            self.is_batched = zeros > 1;
        }
        match (self.is_batched, zeros) {
            (true, 0) if self.iterations > 0 => {}
            _ if self.iterations == 0 => self.begin_batch(1),
            (false, 0) | (true, 1) => {
                self.end_batch();
                self.begin_batch(self.iterations * 2);
            }
            _ => self.finish(),
        }
        self.result.is_none()
    }

    /// Returns the number of instructions for which there is time.
    fn most_steps(&self) -> u64 {
        self.steps_in(self.time)
    }

    fn steps_in(&self, time: Duration) -> u64 {
        let step = self.costs.map_or(1.0, |costs| costs.step);
        (time.as_secs_f64() / step) as u64
    }

    /// Returns the time of these steps.
    pub(crate) fn time_of(&self, steps: u64) -> Duration {
        let step = self.costs.map_or(1.0, |costs| costs.step);
        Duration::try_from_secs_f64(steps as f64 * step).unwrap_or(Duration::MAX)
    }

    /// Sets the limit of the batch, or ends the stepping if there is not enough time.
    fn begin_batch(&mut self, iterations: u64) {
        self.iterations = iterations;
        if self.result.is_some() {
            return;
        }
        let most = self.most_steps();
        let left = most.saturating_sub(self.steps);
        let Some((last, count)) = self.counted.last() else {
            // The first iteration may do what happens once, such as making a table. Some time is left for others.
            self.limit = if iterations == 1 { self.most_of_first() } else { left };
            return;
        };
        let expected = (count / last.max(&1)).saturating_mul(iterations);
        if iterations == 2 && self.extent != Extent::InWarmUp {
            // A half more: the first iteration may have been a short one.
            self.limit = left.max(expected.saturating_add(expected / 2));
            return;
        }
        let is_brief = self.extent == Extent::Brief;
        let has_figure = self.counted.len() >= BATCHES;
        let is_short = iterations <= MAX_SHORT
            && self.steps.saturating_add(expected)
                <= self.steps_in((self.time / PART_FOR_SHORT).min(MAX_FOR_SHORT))
            && !is_brief;
        let is_enough = match is_brief {
            true => {
                let is_settled = self.counted.len() > BATCHES || is_one_value(&self.values());
                has_figure && is_settled
                    || self.counted.len() > 1
                        && self.steps.saturating_add(expected) > most / PART_OF_PROCESS
            }
            false => {
                has_figure
                    && (iterations > MAX_ITERATIONS || iterations > ITERATIONS && self.is_exact())
            }
        };
        // More than expected if a later iteration takes a longer path.
        if expected >= left || is_enough && !is_short {
            self.judge();
        } else {
            self.limit = left;
        }
    }

    fn most_of_first(&self) -> u64 {
        self.most_steps() / 8 * 7
    }

    fn too_long(&self) -> NoFigure {
        NoFigure::TooLong { instructions: self.most_of_first(), by_warm_up: false }
    }

    /// Adds an interval to the batch. So many addresses are kept now.
    pub(crate) fn add(&mut self, counted: Result<u64, Failure>, time: Duration, addresses: usize) {
        if self.is_calibrating {
            return;
        }
        self.addresses = addresses;
        self.all_of_batch = self.all_of_batch.saturating_add(counted.unwrap_or(0));
        // `time` is CPU time, and a repetition of a `rep` instruction takes as long as an instruction, and does not count.
        let step = self.costs.map_or(1.0, |costs| costs.step);
        let steps = counted.unwrap_or(self.limit).max((time.as_secs_f64() / step) as u64);
        self.steps = self.steps.saturating_add(steps);
        let cost = self.costs.map_or(0, |costs| costs.interval);
        let sum = match (self.current, counted) {
            (Some(Err(why)), _) | (_, Err(why)) => Err(why),
            (sum, Ok(count)) => {
                Ok(sum.and_then(Result::ok).unwrap_or(0) + count.saturating_sub(cost))
            }
        };
        self.limit = self.limit.saturating_sub(counted.unwrap_or(0));
        self.intervals_of_batch += 1;
        self.current = Some(sum);
    }

    fn end_batch(&mut self) {
        let intervals = take(&mut self.intervals_of_batch);
        if self.is_batched && self.iterations == 2 {
            self.are_single = intervals == 2;
        }
        if self.are_single && intervals < self.iterations {
            self.judge();
        }
        match self.current.take() {
            _ if self.result.is_some() => {}
            Some(Ok(count)) => {
                self.counted.push((self.iterations, count));
                let addresses = self.before_batch..self.addresses;
                if addresses.len() as u64 == self.all_of_batch {
                    let iterations = self.iterations;
                    self.recorded.push(Recorded { iterations, intervals, addresses });
                }
            }
            // What the first iteration alone does: it starts threads, or makes a large table.
            Some(Err(why @ (Failure::TooLong | Failure::Other(StepError::Disturbed))))
                if self.iterations == 1 =>
            {
                self.is_first_too_long = why == Failure::TooLong;
            }
            // What was counted before is known.
            Some(Err(Failure::TooLong)) if !self.counted.is_empty() => self.judge(),
            Some(Err(Failure::TooLong)) => {
                self.result.get_or_insert(Err(self.too_long()));
            }
            Some(Err(Failure::Estimated)) => {
                self.result.get_or_insert(Err(NoFigure::Estimated));
            }
            Some(Err(Failure::Other(why))) => {
                self.result.get_or_insert(Err(NoFigure::NotStepped(why)));
            }
            None => {}
        }
        (self.before_batch, self.all_of_batch) = (self.addresses, 0);
    }

    /// Returns the instructions of an iteration, by each two successive batches.
    fn differences(&self) -> Vec<f64> {
        let of = |((few, less), (many, more)): (&(u64, u64), &(u64, u64))| {
            (*more as f64 - *less as f64) / (*many as f64 - *few as f64)
        };
        self.counted.iter().zip(self.counted.iter().skip(1)).map(of).collect()
    }

    /// Returns what is compared. The first iteration may have done what happens once, so it is left out if there is enough else.
    fn values(&self) -> Vec<f64> {
        if self.are_single {
            return self.later_means().collect();
        }
        let all = self.differences();
        let enough = if self.extent == Extent::Brief { DIFFERENCES - 1 } else { DIFFERENCES };
        let first = usize::from(all.len() > enough);
        all.into_iter().skip(first).collect()
    }

    /// Returns the mean of each batch, without that of one iteration.
    fn later_means(&self) -> impl Iterator<Item = f64> {
        let later = self.counted.iter().filter(|(iterations, _)| *iterations > 1);
        later.map(mean)
    }

    /// Whether all values agree. Fewer than three agree also where a longer path is in none of them, or in each.
    fn is_exact(&self) -> bool {
        let values = self.values();
        let has_first = self.counted.first().is_some_and(|(iterations, _)| *iterations == 1);
        (has_first || self.are_single) && values.len() >= DIFFERENCES && is_one_value(&values)
    }

    /// Whether all differences agree but for the first, which the first iteration alone explains.
    fn has_odd_first(&self) -> bool {
        let all = self.differences();
        let Some((first, later)) = all.split_first() else { return false };
        let agree = later.first().is_some_and(|each| first != each && self.are_means_near(*each));
        !self.are_single && agree && is_one_value(later)
    }

    /// Whether all batches but that of one iteration have this many instructions in an iteration, and their own.
    fn are_means_near(&self, each: f64) -> bool {
        self.later_means().all(|mean| (0.0..=ENDS / 2.0).contains(&(mean - each)))
    }

    /// Takes what was counted as the result.
    fn judge(&mut self) {
        let iterations = self.counted.iter().map(|(iterations, _)| iterations).sum();
        let (values, is_brief) = (self.values(), self.extent == Extent::Brief);
        let all = match (self.counted.as_slice(), values.as_slice()) {
            ([], _) => None,
            ([_], _) => None,
            // The first iteration may have done what happens once, or iterations differ.
            ([one, two], [_]) if !is_brief && (mean(one) - mean(two)).abs() > ENDS => {
                Process::from_runs(&[mean(one), mean(two)], 0.0)
            }
            ([_, two], [_]) => Process::from_runs(&[mean(two)], ENDS / 2.0),
            (_, values) if self.is_exact() || is_brief && is_one_value(values) => {
                Process::from_runs(values, 0.0)
            }
            // Fewer batches than an exact figure has. Their means have the batches' own instructions.
            (_, [value, ..]) if is_one_value(&values) && self.are_means_near(*value) => {
                Process::from_runs(&values, ENDS / 2.0)
            }
            // All but the first iteration agree, and there was no time for a batch more.
            (_, [_, second, ..]) if self.has_odd_first() => {
                Process::from_runs(&[*second], ENDS / 2.0)
            }
            (_, values) => {
                // A longer path of some iterations is in some batches, and can be in none of the differences.
                let means = self.later_means();
                // More iterations can have fewer instructions: an allocator's first calls, for example, do more.
                let differences = values.iter().copied().filter(|difference| *difference >= 0.0);
                let all: Vec<f64> = differences.chain(means).collect();
                Process::from_runs(&all, 0.0)
            }
        };
        let result = match all {
            None if self.counted.is_empty() => Err(NoFigure::WarmUpTooShort),
            None => Err(NoFigure::OneIteration),
            Some(process) => Ok(Counted { process, iterations }),
        };
        self.result.get_or_insert(result);
    }

    /// No more is stepped.
    pub(crate) fn finish(&mut self) {
        if self.result.is_none() {
            self.end_batch();
            if self.counted.len() >= BATCHES {
                self.judge();
            }
            let why = match self.is_first_too_long && self.counted.is_empty() {
                true => self.too_long(),
                false => NoFigure::WarmUpTooShort,
            };
            self.result.get_or_insert(Err(why));
        }
    }

    /// A sample was taken, at this number of intervals.
    pub(crate) fn sample(&mut self, intervals: u64) {
        match &mut self.intervals {
            Some((_, last)) => *last = intervals,
            None => {
                self.intervals = Some((intervals, intervals));
                self.zeros_before = self.all_zeros;
            }
        }
        self.samples += 1;
    }

    /// Whether samples have more than one call of `iter`. A call of `iter` has one interval, and one of `iter_batched` calls `zero` once.
    pub(crate) fn has_several_calls(&self) -> bool {
        let Some((first, last)) = self.intervals else { return false };
        let later = self.samples.saturating_sub(1);
        match self.all_zeros - self.zeros_before {
            0 => last - first > later,
            zeros => zeros > later,
        }
    }

    /// Returns how long the warm-up took, when the first sample has been taken.
    pub(crate) fn end_of_warm_up(&mut self) -> Option<Duration> {
        if self.warm_up.is_some() {
            return None;
        }
        self.finish();
        self.warm_up = Some(self.last_zero?.duration_since(self.begun?));
        self.warm_up
    }
}

fn mean((iterations, count): &(u64, u64)) -> f64 {
    *count as f64 / *iterations as f64
}

fn is_one_value(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair.first() == pair.last())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdpmc_report::gate::Interval;

    const TIME: Duration = Duration::from_secs(1);
    const COSTS: Costs = Costs { step: 1e-6, interval: 100 };

    fn batches(time: Duration) -> Batches {
        Batches::new(time, COSTS, Extent::InWarmUp, 0)
    }

    /// criterion's calls for a batch of `Bencher::iter`, or of `iter_batched` with these intervals. Returns how many were stepped.
    fn batch(batches: &mut Batches, is_batched: bool, intervals: &[u64]) -> usize {
        if is_batched {
            batches.zero();
        }
        let mut stepped = 0;
        for count in intervals {
            if batches.next() {
                let is_too_long = *count >= batches.limit;
                let counted = if is_too_long { Err(Failure::TooLong) } else { Ok(*count) };
                batches.add(counted, Duration::ZERO, 0);
                stepped += 1;
            }
        }
        stepped
    }

    fn run_of(batches: &Batches) -> Option<Result<Interval, NoFigure>> {
        batches.result.map(|result| result.map(|counted| counted.process.run))
    }

    fn exactly(count: f64) -> Option<Result<Interval, NoFigure>> {
        Some(Ok(Interval { low: count, median: count, high: count }))
    }

    /// The addresses of a result are those of batches that have it, if all were kept.
    #[test]
    fn addresses_of_a_result() {
        let chosen = |kept: &dyn Fn(u64) -> u64| {
            let mut batches = Batches::new(TIME, COSTS, Extent::Brief, 7);
            let (mut addresses, mut is_due) = (7, true);
            batches.zero();
            for iterations in [1, 2, 4, 8, 16] {
                is_due &= batches.next();
                if is_due {
                    let count = COSTS.interval + 3 + 26 * iterations;
                    addresses += kept(count) as usize;
                    batches.add(Ok(count), Duration::ZERO, addresses);
                }
            }
            assert_eq!(run_of(&batches), exactly(26.0));
            batches.chosen()
        };
        let (one, two) = (7 + 129, 7 + 129 + 155);
        let parts = vec![(-1, 7..one), (1, one..two)];
        let expected = Chosen { parts, intervals: 0, iterations: 1 };
        assert_eq!(chosen(&|count| count), Some(expected));
        assert_eq!(chosen(&|count| count - 1), None);
    }

    #[test]
    fn batches_are_told_apart() {
        let powers: Vec<usize> = (0..9).map(|power| 1 << power).collect();
        // 26 instructions in each iteration, and 103 around each interval.
        let mut iter = batches(TIME);
        iter.zero();
        let each = |n: &usize| batch(&mut iter, false, &[103 + 26 * *n as u64]);
        let stepped: Vec<usize> = powers.iter().map(each).collect();
        assert_eq!((stepped, run_of(&iter)), ([&[1; 8][..], &[0]].concat(), exactly(26.0)));
        assert_eq!(iter.result.map(|it| it.map(|it| it.iterations)), Some(Ok(255)));
        let mut batched = batches(TIME);
        batched.zero();
        let each = |n: &usize| batch(&mut batched, true, &vec![129; *n]);
        let stepped: Vec<usize> = powers.iter().map(each).collect();
        assert_eq!(
            (stepped, run_of(&batched)),
            (vec![1, 2, 4, 8, 16, 32, 64, 128, 0], exactly(29.0))
        );
        // `BatchSize::SmallInput` has more iterations in an interval from the eleventh on, and more instructions around them.
        let mut small = batches(TIME);
        small.zero();
        let all =
            [1, 2, 4, 8].map(|n| vec![129; n]).into_iter().chain([vec![1_158; 8], vec![2_200; 8]]);
        let stepped: Vec<usize> = all.map(|of| batch(&mut small, true, &of)).collect();
        assert_eq!((stepped, run_of(&small)), (vec![1, 2, 4, 8, 8, 0], exactly(29.0)));
        // `BatchSize::NumBatches(2)` and `(3)` have such intervals from the third and the fourth iteration on.
        let two: [&[u64]; 4] = [&[129], &[129; 2], &[145; 2], &[190; 2]];
        let three: [&[u64]; 4] = [&[129], &[129; 2], &[145, 145], &[163, 163, 145]];
        for all in [two, three] {
            let mut few = batches(TIME);
            few.zero();
            let stepped = all.map(|of| batch(&mut few, true, of));
            let process = few.result.and_then(Result::ok).map(|it| it.process);
            let expected = Process { run: one_value(29.0), slack: ENDS / 2.0 };
            assert_eq!((stepped, process), ([1, 2, 2, 0], Some(expected)));
        }
        // `BatchSize::NumIterations(3)`, for which there is less time.
        let mut threes = batches(TIME / 1_000);
        threes.zero();
        let of = |intervals: &[u64]| intervals.iter().map(|n| 100 + 9 * n).collect::<Vec<u64>>();
        let all: [&[u64]; 5] = [&[1], &[2], &[3, 1], &[3, 3, 2], &[3, 3, 3, 3, 3, 1]];
        let stepped = all.map(|intervals| batch(&mut threes, true, &of(intervals)));
        assert_eq!((stepped, run_of(&threes)), ([1, 1, 2, 3, 0], exactly(9.0)));
    }

    /// Another process takes few iterations, and at least two batches.
    #[test]
    fn another_process_takes_fewer() {
        for (each, expected, process) in [
            (26, [1, 1, 1, 0], Process { run: one_value(26.0), slack: 0.0 }),
            (30_000, [1, 1, 1, 0], Process { run: one_value(30_000.0), slack: 0.0 }),
            (50_000, [1, 1, 0, 0], Process { run: one_value(50_000.0), slack: ENDS / 2.0 }),
            (200_000, [1, 1, 0, 0], Process { run: one_value(200_000.0), slack: ENDS / 2.0 }),
            (400_000, [1, 1, 0, 0], Process { run: one_value(400_000.0), slack: ENDS / 2.0 }),
            (800_000, [1, 1, 0, 0], Process { run: one_value(800_000.0), slack: ENDS / 2.0 }),
        ] {
            let mut other = Batches::new(TIME, COSTS, Extent::Brief, 0);
            other.zero();
            let stepped = [1, 2, 4, 8].map(|n| batch(&mut other, false, &[100 + each * n]));
            assert_eq!(
                (stepped, other.result.map(|it| it.map(|it| it.process))),
                (expected, Some(Ok(process)))
            );
        }
    }

    fn one_value(count: f64) -> Interval {
        Interval { low: count, median: count, high: count }
    }

    /// Code whose each n-th iteration takes a longer path: exact is only what is right.
    #[test]
    fn a_longer_path_in_each_nth_iteration() {
        // Where the first iteration has taken most of the time, 30 more are stepped.
        let periods =
            |most: u64, is_first_counted| (2..=most).map(move |period| (period, is_first_counted));
        for (period, is_first_counted) in periods(120, true).chain(periods(15, false)) {
            for first in 0..period {
                let (mut all, mut run) = (batches(TIME), first);
                all.zero();
                if !is_first_counted {
                    batch(&mut all, false, &[900_000]);
                    run += 1;
                }
                for iterations in
                    (0..9).map(|power| 1 << power).skip(usize::from(!is_first_counted))
                {
                    let end = run + iterations;
                    let slow = end.div_ceil(period) - run.div_ceil(period);
                    batch(&mut all, false, &[100 + 22 * iterations + 400 * slow]);
                    run = end;
                }
                let mean = 22.0 + 400.0 / period as f64;
                let found = run_of(&all).and_then(Result::ok);
                assert!(
                    found.is_some_and(|all| all.low <= mean && mean <= all.high),
                    "{period}, {first}: {found:?}"
                );
            }
        }
    }

    #[test]
    fn samples_are_not_stepped() {
        for is_batched in [false, true] {
            for in_warm_up in [1, 2] {
                let mut short = batches(TIME);
                short.zero();
                for n in 0..in_warm_up {
                    let intervals = if is_batched { 1 << n } else { 1 };
                    assert!(batch(&mut short, is_batched, &vec![126; intervals]) > 0);
                }
                short.zero();
                assert_eq!(batch(&mut short, is_batched, &[126; 4]), 0);
                assert!(short.end_of_warm_up().is_some() && short.end_of_warm_up().is_none());
                assert_eq!(short.result, Some(Err(NoFigure::WarmUpTooShort)));
            }
        }
    }

    #[test]
    fn what_happens_once_is_left_out() {
        let of = |counts: &[u64]| {
            let mut all = batches(TIME);
            all.zero();
            for count in counts {
                batch(&mut all, false, &[100 + count]);
            }
            all.zero();
            all.next();
            run_of(&all)
        };
        assert_eq!(of(&[5_026, 52, 104, 208, 416]), exactly(26.0));
        // More than there is time for, in the first iteration alone.
        assert_eq!(of(&[900_000, 52, 104, 208, 416]), exactly(26.0));
        // There was no time for a batch that leaves it out.
        let slow = |each: u64| {
            let mut all = batches(TIME);
            all.zero();
            for n in [1, 2, 4, 8, 16, 32] {
                batch(&mut all, false, &[103 + each * n + if n == 1 { 500 } else { 0 }]);
            }
            all.result.and_then(Result::ok).map(|it| (it.process.run, it.process.slack))
        };
        assert_eq!(slow(30_000), Some((one_value(30_000.0), 0.0)));
        assert_eq!(slow(60_000), Some((one_value(60_000.0), ENDS / 2.0)));
        // What differs is a range.
        let range = Interval { low: 25.5, median: 26.0, high: 27.0 };
        assert_eq!(of(&[26, 51, 103, 211, 416]), Some(Ok(range)));
        let range = Interval { low: 11.25, median: 25.875, high: 40.75 };
        assert_eq!(of(&[26, 51, 103, 90, 416]), Some(Ok(range)));
    }

    /// The time is spent on few iterations first, and on agreement after that.
    #[test]
    fn long_code_has_a_figure_of_few_iterations() {
        let with = |extent: Extent, counts: &[u64]| {
            let mut long = Batches::new(TIME, COSTS, extent, 0);
            long.zero();
            for count in counts {
                batch(&mut long, false, &[100 + count]);
            }
            let range = |it: Process| (it.run.low, it.run.high, it.slack);
            long.result.map(|result| result.map(|it| range(it.process)))
        };
        let of = |counts: &[u64]| with(Extent::InWarmUp, counts);
        let each = |count: f64, slack: f64| Some(Ok((count, count, slack)));
        assert_eq!(of(&[100_000, 200_000, 400_000, 800_000]), each(100_000.0, ENDS / 2.0));
        assert_eq!(of(&[200_000, 400_000, 800_000]), each(200_000.0, ENDS / 2.0));
        // The first iteration is longer, or longer than it may be.
        assert_eq!(of(&[300_000, 400_000, 800_000]), Some(Ok((200_000.0, 300_000.0, 0.0))));
        assert_eq!(of(&[900_000, 40_000, 80_000, 160_000]), each(20_000.0, ENDS / 2.0));
        // One iteration may have done what happens once. Another process has the time for three.
        for count in [400_000, 800_000] {
            let all = [count, 2 * count, 4 * count];
            assert_eq!(of(&all), Some(Err(NoFigure::OneIteration)));
            assert_eq!(with(Extent::InFull, &all), each(count as f64, ENDS / 2.0));
        }
        assert_eq!(
            with(Extent::InFull, &[800_000, 1_000_000, 4_000_000]),
            Some(Ok((500_000.0, 800_000.0, 0.0)))
        );
        let far_longer = [400_000, 2_000_000, 4_000_000];
        assert_eq!(with(Extent::InFull, &far_longer), Some(Err(NoFigure::OneIteration)));
        let too_long =
            of(&[900_000, 1_800_000, 3_600_000]).and_then(Result::err).map(|why| why.to_string());
        let text = "an iteration has more than the 875000 instructions for which there is time. Raise RDPMC_STEP_SECONDS, \
                    or give the benchmark less to do";
        assert_eq!(too_long.as_deref(), Some(text));
        // The first iteration takes the whole warm-up.
        let mut slow = batches(TIME);
        slow.zero();
        batch(&mut slow, false, &[900_000]);
        slow.finish();
        assert_eq!(
            slow.result,
            Some(Err(NoFigure::TooLong { instructions: 875_000, by_warm_up: false }))
        );
    }

    /// criterion's calls for the samples of a benchmark that calls `iter` or `iter_batched` once or twice.
    #[test]
    fn several_calls_of_iter_are_noticed() {
        let of = |zeros: u64, intervals: u64| {
            let mut all = batches(TIME);
            let mut seen = 77;
            all.zero();
            for _ in 0..10 {
                (0..zeros).for_each(|_| all.zero());
                seen += intervals;
                all.sample(seen);
            }
            all.has_several_calls()
        };
        assert!(!of(0, 1) && !of(1, 1) && !of(1, 7));
        assert!(of(0, 2) && of(2, 2) && of(2, 9));
        assert!(!batches(TIME).has_several_calls());
    }

    #[test]
    fn other_errors_end_it() {
        let mut traced = batches(TIME);
        traced.zero();
        assert!(traced.next());
        traced.add(Err(Failure::Other(StepError::Busy)), Duration::ZERO, 0);
        assert!(!traced.next());
        assert_eq!(traced.result, Some(Err(NoFigure::NotStepped(StepError::Busy))));
    }
}
