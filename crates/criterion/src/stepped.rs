//! The instructions of a benchmark's first iterations: by single-stepping where no counter counts them, and by the counter otherwise. Other
//! processes count the same.
//!
//! The first batches of criterion's warm-up have 1, 2, 4, 8 and 16 iterations. criterion does not use their results, so they can be stepped.
//! The difference of two batches has neither the cost of measuring nor what happens once per batch.

use crate::arguments::Arguments;
pub(crate) use crate::batches::Counted;
use crate::batches::{Batches, Chosen, Costs, Extent, Failure, NoFigure};
use rdpmc_report::gate::Interval;
use rdpmc_report::gate::stepped::Process;
use rdpmc_step::functions::{Loaded, Split};
use rdpmc_step::processes::{NoAnswer, Question, Wanted, asked};
use rdpmc_step::{Addresses, Spent, StepError, Steps, Tally};
use std::cell::{Cell, OnceCell, RefCell};
use std::time::Duration;

/// criterion's warm-up time if no argument sets it.
const WARM_UP: Duration = Duration::from_secs(3);

/// The maximum part of the warm-up that is stepped. criterion estimates the time of an iteration from the whole warm-up.
const PART: u32 = 3;

/// Other programs can stretch the time of stepping by this factor.
const STRETCH: u32 = 8;

/// The time of an instruction that a counter counts, in seconds.
const COUNTED: f64 = 1e-9;

/// The first word of a question to another process, and others: whether it counts by a counter, and whether it is to count as this process would
/// in a long warm-up.
const WORD: &str = "rdpmc-criterion";
const BY_COUNTER: &str = "by-counter";
const IN_FULL: &str = "in-full";

/// What a process counted, and where the instructions are, if that is known.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) counted: Counted,
    pub(crate) places: Option<Split>,
}

/// What a benchmark's report says of stepping.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The instructions of an iteration, if they were counted.
    pub(crate) placed: Option<Placed>,
    /// Why there are none, and whether that was printed before.
    pub(crate) why_not: Option<String>,
    is_said: bool,
    /// Whether the warm-up was too short for what this process should have counted.
    pub(crate) is_cut: bool,
    /// Whether this machine and this run can step.
    pub(crate) works: bool,
    /// Lines for the report.
    pub(crate) lines: Vec<String>,
}

impl Report {
    /// Takes what another process counted in full.
    pub(crate) fn replace(&mut self, by: Result<Placed, String>) {
        match by {
            Ok(placed) => (self.placed, self.why_not) = (Some(placed), None),
            // What this process counted is all there is.
            Err(why) if self.placed.is_none() => self.why_not = Some(why),
            Err(_) => {}
        }
    }

    /// Returns the instructions of an iteration, if they were counted.
    pub(crate) fn counted(&self) -> Option<Counted> {
        self.placed.as_ref().map(|placed| placed.counted)
    }

    /// Returns all lines for the report.
    pub(crate) fn into_lines(self) -> Vec<String> {
        let why_not = self.why_not.filter(|_| !self.is_said);
        let first = why_not.map(|why| format!("Not counted by stepping: {why}."));
        first.into_iter().chain(self.lines).collect()
    }
}

/// Steps the first batches of each benchmark.
#[derive(Debug)]
pub(crate) struct Stepper {
    /// The time for a benchmark.
    time: Duration,
    /// In how many processes the instructions are counted.
    processes: u32,
    /// The place of the instructions among the counters. Their counts are taken instead of steps, to compare this process with others.
    counter: Option<usize>,
    /// What this process was started for, if another one counts as well.
    question: Option<Question>,
    /// The warm-up time, as far as it is known.
    warm_up: Cell<Duration>,
    costs: OnceCell<Result<Costs, NoFigure>>,
    /// Whether why nothing can be stepped was printed.
    is_said: Cell<bool>,
    /// Whether the next interval may be stepped.
    is_on: Cell<bool>,
    /// The number of intervals, also of those that are not stepped.
    intervals: Cell<u64>,
    /// The interval that is being stepped, and the time of all of them.
    steps: RefCell<Option<Steps>>,
    /// The addresses of what is counted: those of an interval with nothing in it, and then those of a benchmark.
    addresses: RefCell<Addresses>,
    of_nothing: Cell<usize>,
    spent: Spent,
    before: Cell<Duration>,
    /// The number of instructions in the last interval.
    last: Cell<Option<Result<u64, StepError>>>,
    batches: RefCell<Batches>,
    /// Why no more processes are started.
    in_vain: RefCell<Option<String>>,
}

impl Stepper {
    /// Returns a stepper that takes this time for each benchmark. None if it has nothing to do: no time, or criterion does not
    /// measure (`--test`, `--profile-time`).
    pub(crate) fn new(time: Duration, processes: u32, arguments: &Arguments) -> Option<Stepper> {
        if time.is_zero() || !arguments.measures {
            return None;
        }
        let costs = OnceCell::new();
        if arguments.is_quick {
            let _ = costs.set(Err(NoFigure::Quick));
        }
        Some(Stepper {
            time,
            processes,
            counter: None,
            question: asked(WORD),
            warm_up: Cell::new(arguments.warm_up.unwrap_or(WARM_UP)),
            costs,
            is_said: Cell::new(false),
            is_on: Cell::new(false),
            intervals: Cell::new(0),
            steps: RefCell::default(),
            addresses: RefCell::default(),
            of_nothing: Cell::new(0),
            spent: Spent::new(),
            before: Cell::default(),
            last: Cell::new(None),
            batches: RefCell::default(),
            in_vain: RefCell::default(),
        })
    }

    /// Returns a stepper that takes the counts of the counter with this place. None if there are no other processes to compare with.
    pub(crate) fn by_counter(self, place: usize) -> Option<Stepper> {
        (self.processes > 1).then_some(Stepper { counter: Some(place), ..self })
    }

    /// Returns the place of the counter whose counts are taken.
    pub(crate) fn counter(&self) -> Option<usize> {
        self.counter
    }

    /// A benchmark begins. `empty` measures an interval with nothing in it. It is called for the first benchmark.
    pub(crate) fn begin(&self, empty: impl Fn()) {
        let costs = *self.costs.get_or_init(|| match self.counter {
            Some(_) => Ok(Costs { step: COUNTED, interval: 0 }),
            None => self.measure(empty).map_err(NoFigure::NotStepped),
        });
        let by_counter = self.counter.is_some();
        // Counting takes no time of the warm-up.
        let time = if by_counter { self.time } else { self.time.min(self.warm_up.get() / PART) };
        self.is_on.set(costs.is_ok());
        let is_asked = |word: &str| {
            self.question.as_ref().is_some_and(|question| question.words().any(|it| it == word))
        };
        if let Some(question) = &self.question {
            if is_asked(BY_COUNTER) != by_counter {
                answer(question, Err(NoFigure::OtherWay), None);
            }
            if let Err(why) = costs {
                answer(question, Err(why), None);
            }
        }
        self.question.iter().for_each(Question::use_heap);
        let costs = costs.unwrap_or(Costs { step: 1.0, interval: 0 });
        let extent = match () {
            () if is_asked(IN_FULL) => Extent::InFull,
            () if by_counter || self.question.is_some() => Extent::Brief,
            () => Extent::InWarmUp,
        };
        let of_nothing = self.of_nothing.get();
        self.addresses.borrow_mut().truncate(of_nothing);
        self.batches.replace(Batches::new(time, costs, extent, of_nothing));
    }

    /// Measures the costs of stepping.
    fn measure(&self, empty: impl Fn()) -> Result<Costs, StepError> {
        let step = rdpmc_step::seconds_per_step()?;
        self.addresses.replace(Addresses::for_time(self.time, step));
        let mut interval = u64::MAX;
        // The first one also links functions.
        for _ in 0..3 {
            self.batches.replace(Batches::calibrating());
            self.is_on.set(true);
            self.addresses.borrow_mut().clear();
            empty();
            interval = interval.min(self.last.take().unwrap_or(Err(StepError::Disturbed))?);
        }
        // Those of the last one, unless it was longer than another.
        let kept = self.addresses.borrow().as_slice().len();
        if kept as u64 == interval {
            self.of_nothing.set(kept);
        } else {
            self.addresses.take();
        }
        Ok(Costs { step, interval })
    }

    /// Returns where the instructions of a result are. None if that is not known.
    fn places(&self, chosen: Option<Chosen>) -> Option<Split> {
        let Chosen { parts, intervals, iterations } = chosen?;
        let mut addresses = self.addresses.try_borrow_mut().ok()?;
        let nothing = (-intervals, 0..self.of_nothing.get());
        let counts: Vec<_> = std::iter::once(nothing).chain(parts).collect();
        Some(Split::new(&Tally::new(&mut addresses, &counts)?, iterations, &Loaded::now()))
    }

    /// criterion begins a benchmark, its samples or a batch.
    pub(crate) fn zero(&self) {
        if let Ok(mut batches) = self.batches.try_borrow_mut() {
            batches.zero();
        }
    }

    /// Whether the interval that begins is to be stepped.
    pub(crate) fn is_due(&self) -> bool {
        self.intervals.set(self.intervals.get().wrapping_add(1));
        self.is_on.get() && self.plan()
    }

    /// Plans the interval that begins, and returns whether it is to be stepped.
    #[cold]
    fn plan(&self) -> bool {
        let Ok(mut batches) = self.batches.try_borrow_mut() else { return false };
        let is_due = batches.next();
        if let (Some(question), Some(result)) = (&self.question, batches.result) {
            answer(question, result, self.places(batches.chosen()));
        }
        self.is_on.set(is_due);
        is_due
    }

    /// Starts to step, after everything else.
    #[inline(never)]
    pub(crate) fn start(&self) {
        let limit = self.batches.try_borrow().map_or(0, |batches| batches.limit);
        self.before.set(self.spent.time());
        let addresses = self.addresses.take();
        match Steps::start_into(limit, addresses) {
            Ok(steps) => drop(self.steps.replace(Some(steps))),
            Err((why, addresses)) => {
                self.addresses.replace(addresses);
                self.last.set(Some(Err(why)));
            }
        }
    }

    /// Ends the interval that is being stepped, before everything else.
    #[inline(never)]
    pub(crate) fn end(&self) {
        if let Some(steps) = self.steps.take() {
            let (counted, addresses) = steps.stop_with_addresses();
            self.last.set(Some(counted));
            self.addresses.replace(addresses);
        }
        let counted = self.last.get().unwrap_or(Err(StepError::Disturbed));
        if let Ok(mut batches) = self.batches.try_borrow_mut() {
            let time = self.spent.time().saturating_sub(self.before.get());
            let kept = self.addresses.borrow().as_slice().len();
            batches.add(counted.map_err(Failure::from), time, kept);
        }
    }

    /// Takes the count of an interval by the counter. None if it is not known.
    pub(crate) fn take(&self, count: Option<u64>) {
        if let Ok(mut batches) = self.batches.try_borrow_mut() {
            batches.add(count.ok_or(Failure::Estimated), Duration::ZERO, 0);
        }
    }

    /// A sample was taken, so the warm-up is over.
    pub(crate) fn sample(&self) {
        let Ok(mut batches) = self.batches.try_borrow_mut() else { return };
        batches.sample(self.intervals.get());
        if let Some(warm_up) = batches.end_of_warm_up() {
            self.is_on.set(false);
            // If it was shorter than known, less of the next one is stepped.
            if matches!(self.costs.get(), Some(Ok(_))) {
                self.warm_up.set(self.warm_up.get().min(warm_up));
            }
        }
        if let (Some(question), Some(result)) = (&self.question, batches.result) {
            answer(question, result, self.places(batches.chosen()));
        }
    }

    /// Returns what the report of the benchmark says.
    pub(crate) fn report(&self) -> Report {
        let batches = self.batches.take();
        let is_short =
            batches.warm_up.is_none_or(|warm_up| warm_up < self.time.saturating_mul(PART));
        let result = match self.costs.get() {
            Some(Err(why)) => Err(*why),
            _ if batches.has_several_calls() => Err(NoFigure::SeveralCalls),
            _ => match batches.result.unwrap_or(Err(NoFigure::WarmUpTooShort)) {
                Err(NoFigure::TooLong { instructions, .. }) => {
                    Err(NoFigure::TooLong { instructions, by_warm_up: is_short })
                }
                other => other,
            },
        };
        // Beside other programs, stepping may take as long as the warm-up.
        let is_cut = match result {
            Err(NoFigure::WarmUpTooShort | NoFigure::OneIteration) => true,
            Ok(_) | Err(NoFigure::TooLong { .. }) => is_short,
            Err(_) => false,
        };
        // What holds for all benchmarks is printed once.
        let is_general = matches!(self.costs.get(), Some(Err(_)));
        let is_said = result.is_err() && is_general && self.is_said.replace(true);
        let mut lines = Vec::new();
        let stepped = batches.time_of(batches.steps);
        if let Some(warm_up) = batches.warm_up.filter(|warm_up| *warm_up / 2 < stepped) {
            let (stepped, warm_up) = (stepped.as_millis(), warm_up.as_millis());
            lines.push(format!(
                "stepping: it took {stepped} of {warm_up} ms of the warm-up, so timing samples may have few iterations. Pass `--warm-up-time`, or set a longer warm-up"
            ));
        }
        let why_not = result.as_ref().err().map(NoFigure::to_string);
        let placed = |counted| Placed { counted, places: self.places(batches.chosen()) };
        let placed = result.ok().map(placed);
        let works = matches!(self.costs.get(), Some(Ok(_)));
        Report { placed, why_not, is_said, is_cut, works, lines }
    }

    /// Returns what another process counts of the benchmark with this name, as this one would in a warm-up that is long enough.
    ///
    /// # Errors
    /// Why it does not.
    pub(crate) fn ask_in_full(&self, name: &str) -> Result<Placed, String> {
        let answers = self.ask(IN_FULL, name, 1);
        answers.into_iter().next().unwrap_or_else(|| Err("no process was started".to_owned()))
    }

    /// Returns what other processes counted of the benchmark with this name, and why there is nothing.
    pub(crate) fn ask_others(&self, name: &str, number: u32) -> (Vec<Placed>, Option<String>) {
        let (mut counted, mut why_not) = (Vec::new(), None);
        let way = if self.counter.is_some() { BY_COUNTER } else { "" };
        for answer in self.ask(way, name, number) {
            match answer {
                Ok(found) => counted.push(found),
                Err(why) => why_not = Some(why),
            }
        }
        (counted, why_not)
    }

    /// Starts this program again, for one benchmark. The warm-up is as long as the stepping may need beside other programs: the process ends after
    /// that.
    fn ask(&self, way: &str, name: &str, number: u32) -> Vec<Result<Placed, String>> {
        if let Some(why) = self.in_vain.borrow().as_ref() {
            return vec![Err(why.clone())];
        }
        let question = format!("{WORD} {way}");
        let warm_up = self.time.saturating_mul(PART * STRETCH).as_secs_f64();
        // A name may begin with a dash.
        let arguments = ["--bench", "--warm-up-time", &warm_up.to_string(), "--exact", "--", name];
        let arguments = arguments.map(Into::into).to_vec();
        // Three iterations, of which each may take all of the time.
        let time = self.time.saturating_mul(3);
        let answers = Wanted { question: &question, number, arguments, time }.ask();
        let counted = |answer: Result<String, NoAnswer>| {
            // It may wait for what this process has. Others would, too.
            if let Err(why @ NoAnswer::TooSlow(_)) = &answer {
                self.in_vain.replace(Some(why.to_string()));
            }
            answer.map_err(|why| why.to_string()).and_then(|said| parsed(&said))
        };
        answers.into_iter().map(counted).collect()
    }

    /// Returns in how many processes the instructions are counted.
    pub(crate) fn processes(&self) -> u32 {
        self.processes
    }

    /// Whether this process was started by another one, to count a benchmark.
    pub(crate) fn is_other(&self) -> bool {
        self.question.is_some()
    }
}

/// Answers, and ends this process.
fn answer(question: &Question, result: Result<Counted, NoFigure>, places: Option<Split>) -> ! {
    let places = places.as_ref().map_or_else(|| "-".to_owned(), Split::to_string);
    question.answer(&match result {
        Ok(Counted {
            process: Process { run: Interval { low, median, high }, slack },
            iterations,
        }) => {
            format!("{low} {median} {high} {slack} {iterations} {places}")
        }
        Err(why) => why.to_string(),
    })
}

/// Returns what an answer says.
///
/// # Errors
/// The answer, if it is a reason.
fn parsed(answer: &str) -> Result<Placed, String> {
    let said = || answer.to_owned();
    let (numbers, places) = answer.rsplit_once(' ').ok_or_else(said)?;
    let numbers = numbers.split(' ').map(|number| number.parse::<f64>().ok());
    let numbers = numbers.collect::<Option<Vec<f64>>>().ok_or_else(said)?;
    let Ok([low, median, high, slack, iterations]) = <[f64; 5]>::try_from(numbers) else {
        return Err(said());
    };
    let process = Process { run: Interval { low, median, high }, slack };
    let counted = Counted { process, iterations: iterations as u64 };
    Ok(Placed { counted, places: Split::from_text(places) })
}
