//! The instructions of a benchmark, counted by single-stepping where no counter counts them.
//!
//! The first batches of criterion's warm-up have 1, 2, 4, 8 and 16 iterations. Their results are not used by criterion, so they are
//! stepped. The difference of two batches has neither the cost of measuring nor what happens once per batch.

use crate::arguments::Arguments;
use rdpmc_gate::Interval;
use rdpmc_step::{StepError, Steps, VARIABLE};
use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::mem::take;
use std::time::{Duration, Instant};

/// criterion's warm-up time if no argument sets it.
const WARM_UP: Duration = Duration::from_secs(3);

/// The maximum part of the warm-up that is stepped. criterion estimates the time of an iteration from the whole warm-up.
const PART: u32 = 3;

/// The number of batches for a figure: two differences.
const BATCHES: usize = 3;

/// The number of iterations of the largest batch that is stepped, if there is time: 8, or 16 where the smaller ones disagree, for
/// example because the first iteration has done what happens once. Of code that takes a longer path in each 15th iteration or
/// more often, some batches then disagree.
const ITERATIONS: u64 = 8;
const MAX_ITERATIONS: u64 = 16;

/// The number of differences that agree in an exact figure.
const DIFFERENCES: usize = 3;

/// Why there is no figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum NoFigure {
    NotStepped(StepError),
    /// `--quick`: criterion does not warm up, and uses the result of each batch.
    Quick,
    /// The warm-up ended before enough batches were stepped.
    WarmUpTooShort,
    /// Larger batches have fewer instructions.
    Irregular,
    /// The instructions of an iteration for which there is time, and the time that would do, if it is known.
    TooLong {
        instructions: u64,
        needed: Option<Duration>,
    },
}

impl fmt::Display for NoFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoFigure::NotStepped(why) => why.fmt(f),
            NoFigure::Quick => f.write_str("there is no warm-up to step with `--quick`"),
            NoFigure::WarmUpTooShort => f.write_str(
                "the warm-up ended before enough batches were stepped. Set a longer warm-up time",
            ),
            NoFigure::Irregular => f.write_str(
                "more iterations have fewer instructions. Call `iter` once in each benchmark, and do the same in each iteration, on this thread",
            ),
            NoFigure::TooLong { instructions, needed } => {
                write!(
                    f,
                    "an iteration has more than the {instructions} instructions for which there is time. "
                )?;
                match needed.map(|needed| needed.as_secs_f64().ceil().max(1.0)) {
                    Some(needed) => write!(
                        f,
                        "Set {VARIABLE} to {needed} and pass `--warm-up-time {}`",
                        needed * f64::from(PART)
                    )?,
                    None => write!(f, "Raise {VARIABLE} and `--warm-up-time`")?,
                }
                f.write_str(", or give the benchmark less to do")
            }
        }
    }
}

/// Why a batch was not counted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Failure {
    TooLong,
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

/// What a benchmark's report says of stepping.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The instructions of an iteration, if they were counted.
    pub(crate) instructions: Option<Interval>,
    /// Why there are none.
    pub(crate) why_not: Option<String>,
    /// Whether this machine and this run can step.
    pub(crate) works: bool,
    /// Lines for the report.
    pub(crate) lines: Vec<String>,
}

/// Steps the first batches of each benchmark.
#[derive(Debug)]
pub(crate) struct Stepper {
    /// The time for a benchmark.
    time: Duration,
    /// The warm-up time, as far as it is known.
    warm_up: Cell<Duration>,
    costs: OnceCell<Result<Costs, NoFigure>>,
    /// Whether why nothing can be stepped was printed.
    is_said: Cell<bool>,
    /// Whether the next interval may be stepped.
    is_on: Cell<bool>,
    /// The interval that is being stepped, and when it began.
    steps: RefCell<Option<Steps>>,
    begun: Cell<Option<Instant>>,
    /// The number of instructions in the last interval.
    last: Cell<Option<Result<u64, StepError>>>,
    batches: RefCell<Batches>,
}

/// The costs of stepping on this machine.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Costs {
    /// The time of a step, in seconds.
    step: f64,
    /// The instructions of an interval with nothing in it.
    interval: u64,
}

impl Stepper {
    /// Returns a stepper that takes this time for each benchmark. None if it has nothing to do: no time, or criterion does not
    /// measure (`--test`, `--profile-time`).
    pub(crate) fn new(time: Duration, arguments: &Arguments) -> Option<Stepper> {
        if time.is_zero() || !arguments.measures {
            return None;
        }
        let costs = OnceCell::new();
        if arguments.is_quick {
            let _ = costs.set(Err(NoFigure::Quick));
        }
        Some(Stepper {
            time,
            warm_up: Cell::new(arguments.warm_up.unwrap_or(WARM_UP)),
            costs,
            is_said: Cell::new(false),
            is_on: Cell::new(false),
            steps: RefCell::default(),
            begun: Cell::new(None),
            last: Cell::new(None),
            batches: RefCell::default(),
        })
    }

    /// A benchmark begins. `empty` measures an interval with nothing in it. It is called for the first benchmark.
    pub(crate) fn begin(&self, empty: impl Fn()) {
        let costs = *self.costs.get_or_init(|| self.measure(empty).map_err(NoFigure::NotStepped));
        let time = self.time.min(self.warm_up.get() / PART);
        self.is_on.set(costs.is_ok());
        let costs = costs.unwrap_or(Costs { step: 1.0, interval: 0 });
        self.batches.replace(Batches::new(time, costs));
    }

    /// Measures the costs of stepping.
    fn measure(&self, empty: impl Fn()) -> Result<Costs, StepError> {
        let step = rdpmc_step::seconds_per_step()?;
        let mut interval = u64::MAX;
        // The first one also links functions.
        for _ in 0..3 {
            self.batches.replace(Batches::calibrating());
            self.is_on.set(true);
            empty();
            interval = interval.min(self.last.take().unwrap_or(Err(StepError::Disturbed))?);
        }
        Ok(Costs { step, interval })
    }

    /// criterion begins a benchmark, its samples or a batch.
    pub(crate) fn zero(&self) {
        if let Ok(mut batches) = self.batches.try_borrow_mut() {
            batches.zero();
        }
    }

    /// Whether the interval that begins is to be stepped.
    pub(crate) fn is_due(&self) -> bool {
        self.is_on.get() && self.plan()
    }

    /// Plans the interval that begins, and returns whether it is to be stepped.
    #[cold]
    fn plan(&self) -> bool {
        let Ok(mut batches) = self.batches.try_borrow_mut() else { return false };
        let is_due = batches.next();
        self.is_on.set(is_due);
        is_due
    }

    /// Starts to step, after everything else.
    #[inline(never)]
    pub(crate) fn start(&self) {
        let limit = self.batches.try_borrow().map_or(0, |batches| batches.limit);
        self.begun.set(Some(Instant::now()));
        match Steps::start(limit) {
            Ok(steps) => drop(self.steps.replace(Some(steps))),
            Err(why) => self.last.set(Some(Err(why))),
        }
    }

    /// Ends the interval that is being stepped, before everything else.
    #[inline(never)]
    pub(crate) fn end(&self) {
        if let Some(steps) = self.steps.take() {
            self.last.set(Some(steps.stop()));
        }
        let counted = self.last.get().unwrap_or(Err(StepError::Disturbed));
        if let Ok(mut batches) = self.batches.try_borrow_mut() {
            let time = self.begun.take().map_or(Duration::ZERO, |begun| begun.elapsed());
            batches.add(counted.map_err(Failure::from), time);
        }
    }

    /// A sample was taken, so the warm-up is over.
    pub(crate) fn sample(&self) {
        let Ok(mut batches) = self.batches.try_borrow_mut() else { return };
        if let Some(warm_up) = batches.end_of_warm_up() {
            self.is_on.set(false);
            // If it was shorter than known, less of the next one is stepped.
            if matches!(self.costs.get(), Some(Ok(_))) {
                self.warm_up.set(self.warm_up.get().min(warm_up));
            }
        }
    }

    /// Returns what the report of the benchmark says.
    pub(crate) fn report(&self) -> Report {
        let batches = self.batches.take();
        let result = match self.costs.get() {
            Some(Err(why)) => Err(*why),
            _ => batches.result.unwrap_or(Err(NoFigure::WarmUpTooShort)),
        };
        let mut lines = Vec::new();
        if let Err(why) = &result {
            // What holds for all benchmarks is printed once.
            let is_general = matches!(self.costs.get(), Some(Err(_)));
            if !(is_general && self.is_said.replace(true)) {
                lines.push(format!("Not counted by stepping: {why}."));
            }
        }
        if batches.warm_up.is_some_and(|warm_up| warm_up / 2 < batches.time_of(batches.steps)) {
            lines.push(format!(
                "stepping: it took most of the warm-up, so the samples have few iterations. Set a longer warm-up time, or {VARIABLE}=0"
            ));
        }
        let why_not = result.as_ref().err().map(NoFigure::to_string);
        let works = matches!(self.costs.get(), Some(Ok(_)));
        Report { instructions: result.ok(), why_not, works, lines }
    }
}

/// The batches of a benchmark that were stepped. criterion does not tell a measurement where a batch begins:
/// - `Bencher::iter` calls `zero` once, and has one interval in each batch.
/// - `Bencher::iter_batched` calls `zero` once more before each batch, and has one or more intervals in each.
///
/// After the warm-up, criterion calls `zero` once more.
#[derive(Debug, Default)]
struct Batches {
    time: Duration,
    costs: Option<Costs>,
    /// When the benchmark began, when `zero` was called last, and how long the warm-up took.
    begun: Option<Instant>,
    last_zero: Option<Instant>,
    warm_up: Option<Duration>,
    /// The number of steps in it.
    steps: u64,
    /// The calls of `zero` since the last interval.
    zeros: u64,
    is_batched: bool,
    /// The current batch: its iterations (0 before the first one), and what was counted.
    iterations: u64,
    current: Option<Result<u64, Failure>>,
    /// The limit of its next interval.
    limit: u64,
    /// Iterations and instructions of successive batches.
    counted: Vec<(u64, u64)>,
    result: Option<Result<Interval, NoFigure>>,
    is_calibrating: bool,
}

impl Batches {
    fn new(time: Duration, costs: Costs) -> Batches {
        Batches { time, costs: Some(costs), begun: Some(Instant::now()), ..Batches::default() }
    }

    /// Steps a single interval.
    fn calibrating() -> Batches {
        Batches { is_calibrating: true, limit: 100_000, ..Batches::default() }
    }

    fn zero(&mut self) {
        self.zeros += 1;
        if self.warm_up.is_none() {
            self.last_zero = Some(Instant::now());
        }
    }

    /// An interval begins. Returns whether it is to be stepped.
    fn next(&mut self) -> bool {
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
        let step = self.costs.map_or(1.0, |costs| costs.step);
        (self.time.as_secs_f64() / step) as u64
    }

    /// Returns the time of these steps.
    fn time_of(&self, steps: u64) -> Duration {
        let step = self.costs.map_or(1.0, |costs| costs.step);
        Duration::try_from_secs_f64(steps as f64 * step).unwrap_or(Duration::MAX)
    }

    /// Sets the limit of the batch, or ends the stepping if there is not enough time.
    fn begin_batch(&mut self, iterations: u64) {
        self.iterations = iterations;
        if self.result.is_some() {
            return;
        }
        let left = self.most_steps().saturating_sub(self.steps);
        let missing = BATCHES.saturating_sub(self.counted.len()).max(1);
        // This batch, and those after it, each of which is twice as large.
        let needed = iterations.saturating_mul((1 << missing) - 1);
        let each = self.counted.last().map(|(iterations, count)| count / iterations.max(&1));
        let expected = each.unwrap_or(0).saturating_mul(needed);
        let is_optional = self.counted.len() >= BATCHES;
        let is_enough = iterations > MAX_ITERATIONS || iterations > ITERATIONS && self.is_exact();
        match each {
            Some(_) if is_optional && (is_enough || expected >= left) => self.judge(),
            Some(_) if expected >= left => self.result = Some(Err(self.too_long(Some(expected)))),
            Some(_) => self.limit = left,
            None => self.limit = left / needed.max(1) * iterations,
        }
    }

    fn too_long(&self, more: Option<u64>) -> NoFigure {
        let needed = more.map(|steps| steps.saturating_mul(3) / 2 + self.steps);
        let needed = needed.map(|steps| self.time_of(steps));
        NoFigure::TooLong { instructions: self.most_steps() / 7, needed }
    }

    /// Adds an interval to the batch.
    fn add(&mut self, counted: Result<u64, Failure>, time: Duration) {
        if self.is_calibrating {
            return;
        }
        // A repetition of a `rep` instruction takes as long as an instruction, and does not count.
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
        self.current = Some(sum);
    }

    fn end_batch(&mut self) {
        match self.current.take() {
            Some(Ok(count)) => self.counted.push((self.iterations, count)),
            // What the first iteration alone does: it starts threads, or makes a large table.
            Some(Err(Failure::TooLong | Failure::Other(StepError::Disturbed)))
                if self.iterations == 1 => {}
            Some(Err(Failure::TooLong)) => {
                self.result.get_or_insert(Err(self.too_long(None)));
            }
            Some(Err(Failure::Other(why))) => {
                self.result.get_or_insert(Err(NoFigure::NotStepped(why)));
            }
            None => {}
        }
    }

    /// Returns the instructions of an iteration, by each two successive batches.
    fn differences(&self) -> Vec<f64> {
        let of = |((few, less), (many, more)): (&(u64, u64), &(u64, u64))| {
            (*more as f64 - *less as f64) / (*many as f64 - *few as f64)
        };
        self.counted.iter().zip(self.counted.iter().skip(1)).map(of).collect()
    }

    /// Whether all batches, or all but the first one, have the same instructions for an iteration. Fewer batches than four agree
    /// also where a longer path is in none of them, or in each.
    fn is_exact(&self) -> bool {
        let all = self.differences();
        let last = all.get(all.len().saturating_sub(DIFFERENCES)..).unwrap_or_default();
        let has_first = self.counted.first().is_some_and(|(iterations, _)| *iterations == 1);
        has_first
            && last.len() == DIFFERENCES
            && last.windows(2).all(|pair| pair.first() == pair.last())
    }

    /// Takes the last differences as the result.
    fn judge(&mut self) {
        let all = self.differences();
        // The first iteration may have done what happens once, so its difference is not used if there are others.
        let used = if all.len() > BATCHES { DIFFERENCES } else { BATCHES - 1 };
        let last = all.get(all.len().saturating_sub(used)..).unwrap_or_default();
        let mut low = last.iter().copied().fold(f64::INFINITY, f64::min);
        let mut high = last.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !self.is_exact() {
            // A longer path of some iterations is in some batches, and can be in none of the differences.
            let later = self.counted.iter().filter(|(iterations, _)| *iterations > 1);
            let means = later.map(|(iterations, count)| *count as f64 / *iterations as f64);
            (low, high) =
                means.fold((low, high), |(low, high), mean| (low.min(mean), high.max(mean)));
        }
        let result = match last.last() {
            Some(_) if last.len() < BATCHES - 1 => Err(NoFigure::WarmUpTooShort),
            Some(_) if low < 0.0 => Err(NoFigure::Irregular),
            Some(last) => Ok(Interval { low, median: *last, high }),
            None => Err(NoFigure::WarmUpTooShort),
        };
        self.result.get_or_insert(result);
    }

    /// No more is stepped.
    fn finish(&mut self) {
        if self.result.is_none() {
            self.end_batch();
            self.judge();
        }
    }

    /// Returns how long the warm-up took, when the first sample has been taken.
    fn end_of_warm_up(&mut self) -> Option<Duration> {
        if self.warm_up.is_some() {
            return None;
        }
        self.finish();
        self.warm_up = Some(self.last_zero?.duration_since(self.begun?));
        self.warm_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(1);
    const COSTS: Costs = Costs { step: 1e-6, interval: 100 };

    fn batches(time: Duration) -> Batches {
        Batches::new(time, COSTS)
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
                batches.add(counted, Duration::ZERO);
                stepped += 1;
            }
        }
        stepped
    }

    fn exactly(count: f64) -> Option<Result<Interval, NoFigure>> {
        Some(Ok(Interval { low: count, median: count, high: count }))
    }

    #[test]
    fn batches_are_told_apart() {
        // 26 instructions in each iteration, and 103 around each interval.
        let mut iter = batches(TIME);
        iter.zero();
        let stepped = [1, 2, 4, 8, 16].map(|n| batch(&mut iter, false, &[103 + 26 * n]));
        assert_eq!((stepped, iter.result), ([1, 1, 1, 1, 0], exactly(26.0)));
        let mut batched = batches(TIME);
        batched.zero();
        let stepped = [1, 2, 4, 8, 16].map(|n| batch(&mut batched, true, &vec![129; n]));
        assert_eq!((stepped, batched.result), ([1, 2, 4, 8, 0], exactly(29.0)));
        // `BatchSize::NumIterations(3)`.
        let mut threes = batches(TIME);
        threes.zero();
        let of = |intervals: &[u64]| intervals.iter().map(|n| 100 + 29 * n).collect::<Vec<u64>>();
        let all: [&[u64]; 5] = [&[1], &[2], &[3, 1], &[3, 3, 2], &[3, 3, 3, 3, 3, 1]];
        let stepped = all.map(|intervals| batch(&mut threes, true, &of(intervals)));
        assert_eq!((stepped, threes.result), ([1, 1, 2, 3, 0], exactly(29.0)));
    }

    /// Code whose each n-th iteration takes a longer path: exact is only what is right.
    #[test]
    fn a_longer_path_in_each_nth_iteration() {
        for (period, is_first_counted) in
            (2..=15_u64).flat_map(|period| [(period, true), (period, false)])
        {
            for first in 0..period {
                let (mut all, mut run) = (batches(TIME), first);
                all.zero();
                if !is_first_counted {
                    batch(&mut all, false, &[900_000]);
                    run += 1;
                }
                for iterations in
                    [1, 2, 4, 8, 16, 32].into_iter().skip(usize::from(!is_first_counted))
                {
                    let end = run + iterations;
                    let slow = end.div_ceil(period) - run.div_ceil(period);
                    batch(&mut all, false, &[100 + 22 * iterations + 400 * slow]);
                    run = end;
                }
                let mean = 22.0 + 400.0 / period as f64;
                let result = all.result.and_then(Result::ok);
                assert!(
                    result.is_none_or(|all| all.low <= mean && mean <= all.high),
                    "{period}, {first}: {result:?}"
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
            all.result
        };
        assert_eq!(of(&[5_026, 52, 104, 208, 416]), exactly(26.0));
        // More than there is time for, in the first iteration alone.
        assert_eq!(of(&[900_000, 52, 104, 208, 416]), exactly(26.0));
        // What differs is a range.
        let range = Interval { low: 25.5, median: 25.625, high: 27.0 };
        assert_eq!(of(&[26, 51, 103, 211, 416]), Some(Ok(range)));
        assert_eq!(of(&[26, 51, 103, 90, 416]), Some(Err(NoFigure::Irregular)));
    }

    #[test]
    fn long_code_says_how_much_time_it_needs() {
        let of = |time: Duration, counts: &[u64]| {
            let mut long = batches(time);
            long.zero();
            for count in counts {
                batch(&mut long, false, &[*count]);
            }
            long.result.and_then(Result::err).map(|why| why.to_string())
        };
        let unknown = "an iteration has more than the 142857 instructions for which there is time. Raise RDPMC_STEP_SECONDS and \
                       `--warm-up-time`, or give the benchmark less to do";
        assert_eq!(of(TIME, &[500_000, 1_000_000, 2_000_000]).as_deref(), Some(unknown));
        let known = "an iteration has more than the 142857 instructions for which there is time. Set RDPMC_STEP_SECONDS to 2 and \
                     pass `--warm-up-time 6`, or give the benchmark less to do";
        assert_eq!(of(TIME, &[100_000, 400_000, 800_000]).as_deref(), Some(known));
        assert_eq!(of(TIME, &[100_000, 200_000, 400_000, 800_000]), None);
    }

    #[test]
    fn other_errors_end_it() {
        let mut traced = batches(TIME);
        traced.zero();
        assert!(traced.next());
        traced.add(Err(Failure::Other(StepError::Busy)), Duration::ZERO);
        assert!(!traced.next());
        assert_eq!(traced.result, Some(Err(NoFigure::NotStepped(StepError::Busy))));
    }
}
