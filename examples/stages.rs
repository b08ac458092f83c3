//! Measures the stages of a loop that runs all day, such as a trading engine's or a game's.
//!
//! Prints percentiles of time, cycles and instructions at the end. Once it is set up, the loop neither allocates nor
//! makes a system call (unless the clock is the kernel's). `tests/stages.rs` runs it where both are forbidden.
//!
//! `cargo run --release --example stages`

use hdrhistogram::Histogram;
use rdpmc::error::OpenError;
use rdpmc::{Clock, Event, Group};
use std::hint::black_box;
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut meter = Meter::open()?;
    let feed = feed();
    run(&mut meter, &feed, 100_000);
    meter.print();
    Ok(())
}

/// The loop. To measure a stage takes one line after it.
pub(crate) fn run(meter: &mut Meter, feed: &[String], messages: usize) {
    let mut book = [0_i64; LEVELS];
    let mut order = [0_u8; 64];
    for message in feed.iter().cycle().take(messages) {
        meter.begin();
        let change = black_box(decode(message));
        meter.end_of(Stage::Decode);
        let best = black_box(change.and_then(|change| update(&mut book, change)));
        meter.end_of(Stage::Update);
        black_box(encode(&mut order, best));
        meter.end_of(Stage::Encode);
    }
}

#[derive(Clone, Copy)]
enum Stage {
    Decode,
    Update,
    Encode,
}

const STAGES: [&str; 3] = ["decode", "update", "encode"];

/// The measurements of the stages so far. Like the counters, a meter belongs to its thread: each thread has its own.
pub(crate) struct Meter {
    clock: Clock,
    /// Without counters, for example on a virtual machine without a PMU, the time is still measured.
    counters: Result<Group<2>, OpenError>,
    stages: [Histograms; STAGES.len()],
    /// The cost of an empty stage, to be subtracted.
    nothing: [u64; 3],
    last: Border,
    /// The number of stages without counts, because a border had none.
    uncounted: u64,
}

/// The values that are read where a stage ends and the next begins.
#[derive(Clone, Copy, Default)]
struct Border {
    ticks: u64,
    counts: Option<[u64; 2]>,
}

/// Histograms of the ticks, the cycles and the instructions of a stage. Their size is constant.
type Histograms = [Histogram<u64>; 3];

impl Meter {
    /// Sets up the meter. All system calls and allocations are here.
    pub(crate) fn open() -> Result<Meter, Box<dyn std::error::Error>> {
        // A read that faults then does not kill the process, whatever the administrator changes while it runs.
        rdpmc::contain_faults()?;
        // Pinned: never multiplexed, so that counts are complete.
        let counters = Group::builder([Event::CYCLES, Event::INSTRUCTIONS]).pinned(true);
        let mut meter = Meter {
            clock: Clock::open()?,
            counters: counters.allow_all_privilege_levels(true).open(),
            stages: [histograms()?, histograms()?, histograms()?],
            nothing: [0; 3],
            last: Border::default(),
            uncounted: 0,
        };
        let mut least = [u64::MAX; 3];
        for _ in 0..1_000 {
            meter.begin();
            for (least, amount) in least.iter_mut().zip(meter.since(meter.border())) {
                *least = (*least).min(amount.unwrap_or(u64::MAX));
            }
        }
        meter.nothing = least.map(|least| if least == u64::MAX { 0 } else { least });
        Ok(meter)
    }

    /// Begins the first stage.
    #[inline]
    fn begin(&mut self) {
        self.last = self.border();
    }

    /// Ends a stage. The time to record it is in no stage, because the next one begins afterwards.
    #[inline]
    fn end_of(&mut self, stage: Stage) {
        let amounts = self.since(self.border());
        self.uncounted += u64::from(self.counters.is_ok() && amounts.contains(&None));
        let histograms = self.stages.get_mut(stage as usize).into_iter().flatten();
        for (histogram, (amount, nothing)) in histograms.zip(amounts.into_iter().zip(self.nothing))
        {
            if let Some(amount) = amount {
                histogram.saturating_record(amount.saturating_sub(nothing));
            }
        }
        self.last = self.border();
    }

    #[inline]
    fn border(&self) -> Border {
        Border {
            // The raw ticks, which are converted to nanoseconds at the end.
            ticks: self.clock.ticks(),
            // Never a system call, which `read` would make if there is no counter. Not ordered: the CPU may still be
            // at the end of one stage when the next begins. `ordered()` waits for it, and takes that time.
            counts: self.counters.as_ref().ok().and_then(Group::read_user),
        }
    }

    #[inline]
    fn since(&self, end: Border) -> [Option<u64>; 3] {
        let ticks = Some(end.ticks.wrapping_sub(self.last.ticks));
        match (self.last.counts, end.counts) {
            (Some([cycles, instructions]), Some([end_cycles, end_instructions])) => {
                [ticks, Some(end_cycles - cycles), Some(end_instructions - instructions)]
            }
            _ => [ticks, None, None],
        }
    }

    /// Returns the number of recorded stages, and the number of those without counts.
    pub(crate) fn recorded(&self) -> (u64, u64) {
        (self.stages.iter().map(|[ticks, ..]| ticks.len()).sum(), self.uncounted)
    }

    fn print(&self) {
        println!("| stage  |     50% |     99% |   99.9% |      most | of one run");
        println!("|:-------|--------:|--------:|--------:|----------:|:----------");
        let conversion = self.clock.conversion();
        for (stage, [ticks, cycles, instructions]) in STAGES.iter().zip(&self.stages) {
            let row = |histogram: &Histogram<u64>, what, unit: &dyn Fn(u64) -> u64| {
                let shares = [0.5, 0.99, 0.999, 1.0];
                let [p50, p99, p999, most] =
                    shares.map(|share| unit(histogram.value_at_quantile(share)));
                if !histogram.is_empty() {
                    println!("| {stage} | {p50:7} | {p99:7} | {p999:7} | {most:9} | {what}");
                }
            };
            row(ticks, "nanoseconds", &|ticks| conversion.delta_ns(ticks));
            row(cycles, "cycles", &|cycles| cycles);
            row(instructions, "instructions", &|instructions| instructions);
        }
        println!();
        let (recorded, uncounted) = self.recorded();
        match &self.counters {
            Ok(group) => {
                println!("{recorded} stages, {uncounted} of them not counted; {}.", group.access());
            }
            Err(why) => println!("{recorded} stages, measured by time alone: {why}."),
        }
        println!("The time comes from {}.", self.clock.kind());
    }
}

/// Returns histograms with two digits for values up to 10^12: 34 KiB each.
fn histograms() -> Result<Histograms, hdrhistogram::CreationError> {
    let histogram = || Histogram::new_with_bounds(1, 1_000_000_000_000, 2);
    Ok([histogram()?, histogram()?, histogram()?])
}

// The measured code: a market's messages, its book, and the orders in answer.

const LEVELS: usize = 1 << 10;

struct Change {
    level: usize,
    amount: i64,
}

pub(crate) fn feed() -> Vec<String> {
    let line = |n: usize| format!("{},{}", n * 7919 % LEVELS, n as i64 * 104_729 % 2_000 - 900);
    (0..1 << 12).map(line).collect()
}

/// Parses `LEVEL,AMOUNT`.
fn decode(message: &str) -> Option<Change> {
    let (level, amount) = message.split_once(',')?;
    Some(Change { level: level.parse().ok()?, amount: amount.parse().ok()? })
}

/// Returns the first level on which more is offered than wanted.
fn update(book: &mut [i64; LEVELS], change: Change) -> Option<usize> {
    *book.get_mut(change.level)? += change.amount;
    book.iter().position(|amount| *amount > 0)
}

/// Writes an order, and returns its length.
fn encode(order: &mut [u8; 64], best: Option<usize>) -> usize {
    let mut rest = order.as_mut_slice();
    match best.map(|level| write!(rest, "BUY 100 AT {level}")) {
        Some(Ok(())) => 64 - rest.len(),
        _ => 0,
    }
}
