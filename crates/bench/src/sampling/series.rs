//! The samples of one row, while one set of events is counted.

use crate::sampling::code::{Content, Random};
use crate::sampling::sample::{Measure, Sample, Shape, sample};
use rdpmc_report::gate::SLICES;
use rdpmc_step::Spent;
use std::time::{Duration, Instant};

/// The short loops take at least this long. The reads and the clock's steps weigh little in it, and few interrupts come.
const LOOP: Duration = Duration::from_micros(20);
/// Code that takes longer than this has one run in its short loops.
const LONG: Duration = Duration::from_millis(1);
/// The search for the length of the loops ends after this CPU time, even if the clock stands still.
const MAX_SEARCH: Duration = Duration::from_millis(200);
/// Other programs on the CPU may slow a row down by up to this factor, before it has fewer samples.
const PATIENCE: u32 = 8;
/// The maximum number of samples: those of some five seconds.
const MAX_SAMPLES: usize = 1 << 15;
/// A sample that takes longer than this, and longer than the row may, is of code that has become slow.
const SLOW: Duration = Duration::from_millis(200);
/// The maximum number of failed reads.
const MAX_UNREADABLE: usize = 64;

/// The number of turns that makes loops long enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length {
    /// The turns of the shortest loop. Others have up to half more.
    pub(crate) k: u64,
    /// Loops are of a multiple of this number of turns.
    pub(crate) multiple: u64,
    /// Whether the loop's own instructions may add to the result, so that two copies of the code are measured as well.
    pub(crate) with_copies: bool,
    /// The time of the shortest loop.
    pub(crate) time: Duration,
}

impl Length {
    /// Tries longer and longer loops, for at most this time. Their runs warm the caches. One run comes before: the first may make a table, or
    /// read a file, and says nothing about the others.
    pub(crate) fn find(
        measure: &mut dyn Measure,
        shape: &Shape,
        multiple: u64,
        has_fence: bool,
        time: Duration,
    ) -> Length {
        let multiple = multiple.max(1);
        measure.measure(Content::Work, multiple);
        let (begun, spent) = (Instant::now(), Spent::new());
        let mut k = multiple;
        loop {
            let (mut work, mut nothing) = (u64::MAX, u64::MAX);
            for attempt in 0..3 {
                for (content, least) in
                    [(Content::Work, &mut work), (Content::Nothing, &mut nothing)]
                {
                    if let Some(found) = measure.measure(content, k) {
                        let [.., ticks] = found.values;
                        *least = (*least).min(ticks);
                    }
                }
                // A run takes long. If it was another program that did, the next attempt shows it.
                let is_enough =
                    attempt > 0 || work as f64 * shape.ns_per_tick > LONG.as_nanos() as f64;
                if is_enough && begun.elapsed() > time {
                    break;
                }
            }
            let ns = work as f64 * shape.ns_per_tick;
            let is_long = ns >= LOOP.as_nanos() as f64 || spent.time() > MAX_SEARCH;
            if work == u64::MAX || is_long || k >= 1 << 40 {
                // Even numbers, so that code that takes two paths in turn does the same in each loop.
                let is_odd = multiple == 1 && ns < LONG.as_nanos() as f64;
                // A thousandth of the result is part of its interval anyway. The clock may hide a step of an empty loop.
                let nothing = nothing as f64 + shape.step;
                let with_copies = !has_fence && nothing * 1_000.0 >= work as f64;
                return Length {
                    k: if is_odd { k.max(2) } else { k },
                    multiple: if is_odd { 2 } else { multiple },
                    with_copies,
                    time: Duration::from_nanos(ns as u64),
                };
            }
            k = k.saturating_mul(2);
        }
    }

    /// Returns a length for code that has panicked.
    pub(crate) fn of_nothing() -> Length {
        Length { k: 1, multiple: 1, with_copies: false, time: LONG }
    }

    /// Returns a number of turns, drawn anew for each sample: what the code does every so many runs is then not in step
    /// with the loops.
    fn draw(&self, random: &mut Random) -> u64 {
        let units = self.k / self.multiple;
        let more = random.below(usize::try_from(units / 2 + 1).unwrap_or(usize::MAX)) as u64;
        self.multiple.saturating_mul(units.saturating_add(more))
    }

    /// Returns a number of turns to run before a sample: other rows have used the caches and the branch predictor. It is drawn
    /// anew as well, because `k` has few values for code that takes long.
    fn draw_warm_up(&self, random: &mut Random) -> u64 {
        let units = (self.k / self.multiple / 8).max(u64::from(self.time < LONG));
        self.multiple.saturating_mul(units.saturating_add(random.below(2) as u64))
    }

    /// Makes the loops shorter by this factor.
    fn shorten(&mut self, factor: f64) {
        let units = (self.k / self.multiple) as f64 * factor;
        self.k = self.multiple.saturating_mul((units as u64).max(1));
    }
}

/// The samples of one row, and the time that they may take.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) length: Length,
    pub(crate) samples: Vec<Sample>,
    /// How many to take.
    pub(crate) wanted: usize,
    time: Duration,
    spent: Duration,
    unreadable: usize,
}

impl Series {
    pub(crate) fn new(length: Length, time: Duration) -> Series {
        // A loop is longer by a quarter on average. The work runs once, twice, and in two copies. Nothing takes
        // less, and so do the runs before.
        let loops = if length.with_copies { 7.0 } else { 4.5 };
        let wanted = time.as_secs_f64() / (length.time.as_secs_f64() * loops).max(1e-9);
        let wanted = (wanted as usize).clamp(SLICES, MAX_SAMPLES);
        let samples = Vec::with_capacity(wanted);
        Series { length, samples, wanted, time, spent: Duration::ZERO, unreadable: 0 }
    }

    /// Whether it has the samples for which there is time, or has taken much longer and has one for each slice.
    pub(crate) fn is_done(&self) -> bool {
        let is_slow = self.spent >= self.time.saturating_mul(PATIENCE);
        self.samples.len() >= self.wanted
            || is_slow && self.samples.len() >= SLICES
            || self.unreadable >= MAX_UNREADABLE
    }

    /// Takes a sample.
    pub(crate) fn take(&mut self, measure: &mut dyn Measure, pass: u32, random: &mut Random) {
        let begun = Instant::now();
        let k = self.length.draw(random);
        measure.measure(Content::Work, self.length.draw_warm_up(random));
        let blocked = rdpmc_step::waits();
        match sample(measure, pass, k, self.length.with_copies, random) {
            Some(mut sample) => {
                sample.has_blocked = rdpmc_step::waits() != blocked;
                self.samples.push(sample);
            }
            None => self.unreadable += 1,
        }
        let took = begun.elapsed();
        self.spent += took;
        if took > SLOW && took > self.time {
            let wanted = self.time.as_secs_f64() / SLICES as f64 / took.as_secs_f64();
            self.length.shorten(wanted);
        }
    }
}

#[cfg(test)]
#[path = "../tests/simulated.rs"]
mod simulated;
