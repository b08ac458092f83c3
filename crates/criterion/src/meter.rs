//! Counts of a group between two points of a benchmark, with the cost of reading subtracted.

use criterion::measurement::Measurement;
use rdpmc::error::ReadError;
use rdpmc::{Group, PerEvent, Reading, fence};
use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::time::Duration;

/// The number of empty samples that measure the cost of measuring: enough to find the minimum.
pub(crate) const TIMES: usize = 100;

/// The most events in a group.
pub(crate) const MAX_EVENTS: usize = 8;

/// The number of attempts to take them: other events may have the counters for some milliseconds.
const ATTEMPTS: usize = 1_000;

/// The time between two reads of counters of different core types is less than this, mostly.
const SKEW: Duration = Duration::from_micros(20);

#[derive(Debug)]
pub(crate) struct Meter<const N: usize> {
    group: Group<N>,
    /// The start of the current interval. It does not pass through criterion, so that nothing is moved between the
    /// two readings. criterion measures one interval at a time.
    start: Cell<Option<Begun<N>>>,
    /// The error of the last read that failed.
    error: RefCell<Option<ReadError>>,
}

#[derive(Clone, Copy, Debug)]
struct Begun<const N: usize> {
    counts: [u64; N],
    /// Whether user space read them.
    by_user: bool,
    /// How long the events had been without counters, while they were enabled and the thread was running.
    absence: Duration,
    /// How long they had been enabled, if known.
    enabled: Option<Duration>,
}

/// The counts between a start and an end with nothing in between, to be subtracted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost<const N: usize> {
    /// Not measured yet, so that nothing is subtracted.
    Wanted,
    /// The minimum, by readings of this kind.
    Known { least: [u64; N], by_user: bool },
    /// Unknown, because there were no counters to measure it with.
    Unknown,
}

/// The counts of each event in one or more intervals of a benchmark: the values of
/// [`CounterMeasurement`](super::CounterMeasurement) and [`WithCounters`](super::WithCounters).
///
/// Implements `From<[u64; N]>`, so that counts taken by other means can be returned from `Bencher::iter_custom`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts<const N: usize> {
    /// The counts while the events had counters.
    counted: [u64; N],
    /// How long the events were enabled, without the intervals that are `untimed`. `running` is the part of it with
    /// counters.
    enabled: Duration,
    running: Duration,
    /// Whether there are intervals of unknown length, throughout which the events had counters.
    untimed: bool,
    /// Whether user space read them.
    by_user: bool,
    /// Whether the cost of measuring is unknown.
    is_inexact: bool,
    /// Whether an interval is missing.
    lacks: bool,
    /// The number of intervals.
    intervals: u64,
}

impl<const N: usize> From<[u64; N]> for Counts<N> {
    fn from(counted: [u64; N]) -> Counts<N> {
        Counts { counted, ..Counts::NONE }
    }
}

impl<const N: usize> Counts<N> {
    pub(crate) const NONE: Counts<N> = Counts {
        counted: [0; N],
        enabled: Duration::ZERO,
        running: Duration::ZERO,
        untimed: false,
        by_user: false,
        is_inexact: false,
        lacks: false,
        intervals: 0,
    };

    /// Returns the counts in the order of the events, with the cost of measuring subtracted.
    ///
    /// If the events had no counters for part of the time, returns estimates for the whole time. Returns 0 if they
    /// never had counters, or if the estimate exceeds 64 bits.
    pub fn counts(&self) -> [u64; N] {
        let mut counts = self.counted;
        // Untimed intervals are complete, and the times of other intervals do not apply to them.
        if self.enabled != self.running && !self.untimed {
            for count in &mut counts {
                *count = Reading::new(*count, self.enabled, self.running).scaled().unwrap_or(0);
            }
        }
        counts
    }

    /// Returns the number of intervals.
    pub(crate) fn intervals(&self) -> u64 {
        self.intervals
    }

    /// Returns these counts, and 0 for further events.
    pub(crate) fn widened(self) -> Counts<MAX_EVENTS> {
        let mut counted = [0; MAX_EVENTS];
        for (into, count) in counted.iter_mut().zip(self.counted) {
            *into = count;
        }
        let Counts { enabled, running, untimed, by_user, is_inexact, lacks, intervals, .. } = self;
        Counts { counted, enabled, running, untimed, by_user, is_inexact, lacks, intervals }
    }

    pub(crate) fn are_estimates(&self) -> bool {
        self.is_inexact || self.enabled != self.running
    }

    /// Whether something is missing that no estimate replaces.
    pub(crate) fn are_incomplete(&self) -> bool {
        self.lacks || (self.enabled != self.running && (self.running.is_zero() || self.untimed))
    }

    pub(crate) fn plus(&self, more: &Counts<N>) -> Counts<N> {
        let mut counted = self.counted;
        for (count, more) in counted.iter_mut().zip(more.counted) {
            *count = count.saturating_add(more);
        }
        Counts {
            counted,
            enabled: self.enabled.saturating_add(more.enabled),
            running: self.running.saturating_add(more.running),
            untimed: self.untimed || more.untimed,
            by_user: self.by_user || more.by_user,
            is_inexact: self.is_inexact || more.is_inexact,
            lacks: self.lacks || more.lacks,
            intervals: self.intervals.saturating_add(more.intervals),
        }
    }

    /// Returns the difference of two readings of one kind.
    fn between(start: &Begun<N>, end: &[u64; N]) -> Counts<N> {
        let mut counts =
            Counts { counted: *end, by_user: start.by_user, intervals: 1, ..Counts::NONE };
        for (count, start) in counts.counted.iter_mut().zip(start.counts) {
            // A count decreases only if something resets it.
            counts.lacks |= *count < start;
            *count = count.saturating_sub(start);
        }
        counts
    }

    /// Returns the difference of two readings by system call, the earlier one first. Without them, an interval is missing.
    pub(crate) fn of_readings(both: Option<(PerEvent<Reading>, PerEvent<Reading>)>) -> Counts<N> {
        let mut counts = Counts { intervals: 1, lacks: both.is_none(), ..Counts::NONE };
        let Some((before, after)) = both else { return counts };
        let pairs = before.iter().zip(&after);
        for (count, (before, after)) in counts.counted.iter_mut().zip(pairs.clone()) {
            match after.value.checked_sub(before.value) {
                Some(difference) => *count = difference,
                None => counts.lacks = true,
            }
        }
        // All events of a group have equal times.
        if let Some((before, after)) = pairs.clone().next() {
            counts.enabled = after.time_enabled().saturating_sub(before.time_enabled());
            counts.running = after.time_running().saturating_sub(before.time_running());
        }
        // With several core types, the two come from reads at slightly different times.
        if counts.enabled.abs_diff(counts.running) <= SKEW + counts.enabled / 1_000 {
            counts.running = counts.enabled;
        }
        counts
    }

    /// Marks the counts as complete: the events had counters for all of `time`, if that is known.
    fn throughout(self, time: Option<Duration>) -> Counts<N> {
        let elapsed = time.unwrap_or_default();
        Counts { enabled: elapsed, running: elapsed, untimed: time.is_none(), ..self }
    }

    /// Subtracts the cost of one interval.
    pub(crate) fn less(mut self, overhead: &Cost<N>) -> Counts<N> {
        match overhead {
            Cost::Wanted => {}
            Cost::Known { least, by_user } => {
                for (count, overhead) in self.counted.iter_mut().zip(least) {
                    *count = count.saturating_sub(*overhead);
                }
                self.is_inexact |= self.by_user != *by_user;
            }
            Cost::Unknown => self.is_inexact = true,
        }
        self
    }
}

impl<const N: usize> Cost<N> {
    /// Takes the minimum of `TIMES` empty samples. Repeats that until the events have counters.
    pub(crate) fn measure(nothing: impl Fn() -> Vec<Counts<N>>) -> Cost<N> {
        for _ in 0..ATTEMPTS {
            let mut exact = nothing();
            exact.retain(|counts| !counts.are_estimates() && !counts.are_incomplete());
            let by_user = exact.iter().any(|counts| counts.by_user);
            exact.retain(|counts| counts.by_user == by_user);
            if exact.is_empty() {
                continue;
            }
            let mut least = [u64::MAX; N];
            for counts in exact {
                for (least, count) in least.iter_mut().zip(counts.counted) {
                    *least = (*least).min(count);
                }
            }
            return Cost::Known { least, by_user };
        }
        Cost::Unknown
    }
}

/// Returns what is left of most batches with nothing in them: the 90th percentile of each event.
pub(crate) fn floor<const N: usize>(batches: Vec<Counts<N>>) -> [u64; N] {
    let mut floor = [0; N];
    for (place, floor) in floor.iter_mut().enumerate() {
        let of = |counts: &Counts<N>| counts.counts().get(place).copied().unwrap_or(0);
        *floor = percentile_90(batches.iter().map(of).collect());
    }
    floor
}

/// Returns the 90th percentile.
pub(crate) fn percentile_90(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() * 9 / 10).copied().unwrap_or(0)
}

impl<const N: usize> Meter<N> {
    pub(crate) fn new(group: Group<N>) -> Meter<N> {
        Meter { group, start: Cell::new(None), error: RefCell::new(None) }
    }

    pub(crate) fn group(&self) -> &Group<N> {
        &self.group
    }

    /// Returns the error of the last read that failed since the previous call.
    pub(crate) fn take_error(&self) -> Option<ReadError> {
        self.error.try_borrow_mut().ok()?.take()
    }

    /// Starts an interval. Reads the counts last.
    ///
    /// Neither this nor `end` is inlined, while their callers are. The instructions between the two readings are
    /// therefore equal everywhere, but for a few moves, and can be subtracted.
    #[inline(never)]
    pub(crate) fn start(&self) {
        let timed = fenced(|| self.group.reading_user());
        self.start.set(match timed {
            Some(now) => Some(Begun::from_snapshot(&Snapshot::from_readings(now), true)),
            None => self.start_without_clock(),
        });
    }

    /// Starts an interval if the page has no clock, or if there is nothing to read.
    fn start_without_clock(&self) -> Option<Begun<N>> {
        let by_system_call = || Some(Begun::from_snapshot(&self.by_system_call()?, false));
        // If the events have always had counters, the enabled time is not needed.
        let known = match self.group.time_without_counters() {
            None => return by_system_call(),
            Some(Duration::ZERO) => None,
            Some(_) => Some(self.by_system_call()?),
        };
        let absence = known.as_ref().map_or(Duration::ZERO, Snapshot::absence);
        let enabled = known.map(|known| known.enabled);
        // From here on, both cases have equal cost.
        match fenced(|| self.group.read_user()) {
            Some(counts) if self.group.time_without_counters() == Some(absence) => {
                Some(Begun { counts, by_user: true, absence, enabled })
            }
            _ => by_system_call(),
        }
    }

    /// Ends the interval. Reads the counts first, and does not subtract the cost of reading.
    #[inline(never)]
    pub(crate) fn end(&self) -> Counts<N> {
        let counts = fenced(|| self.group.read_user());
        let timed = self.group.reading_user().map(Snapshot::from_readings);
        let absence = match &timed {
            Some(now) => Some(now.absence()),
            None => self.group.time_without_counters(),
        };
        let Some(start) = self.start.take() else {
            return Counts { lacks: true, intervals: 1, ..Counts::NONE };
        };
        match (counts, absence) {
            (Some(counts), Some(absence)) if start.by_user && absence == start.absence => {
                let time = start.enabled.and_then(|enabled| {
                    let now = timed.or_else(|| self.by_system_call())?;
                    now.enabled.checked_sub(enabled)
                });
                Counts::between(&start, &counts).throughout(time)
            }
            _ => self.end_by_system_call(start),
        }
    }

    #[cold]
    #[inline(never)]
    fn end_by_system_call(&self, start: Begun<N>) -> Counts<N> {
        let lacking = Counts { lacks: true, intervals: 1, ..Counts::NONE };
        let Some(now) = self.by_system_call() else { return lacking };
        let measured = Counts { by_user: false, ..Counts::between(&start, &now.counts) };
        let enabled = start.enabled.and_then(|enabled| now.enabled.checked_sub(enabled));
        match (enabled, now.absence().checked_sub(start.absence)) {
            (Some(Duration::ZERO), _) => lacking, // the group is disabled
            (time, Some(Duration::ZERO)) => measured.throughout(time),
            // Other events had the counters for part of the interval.
            (Some(enabled), Some(away)) => {
                Counts { enabled, running: enabled.saturating_sub(away), ..measured }
            }
            _ => lacking,
        }
    }

    #[cold]
    #[inline(never)]
    fn by_system_call(&self) -> Option<Snapshot<N>> {
        match self.group.reading_by_system_call() {
            Ok(readings) => Some(Snapshot::from_readings(readings)),
            Err(error) => {
                if let Ok(mut last) = self.error.try_borrow_mut() {
                    *last = Some(error);
                }
                None
            }
        }
    }
}

/// Simultaneous counts of a group, and its times.
#[derive(Clone, Copy, Debug)]
struct Snapshot<const N: usize> {
    counts: [u64; N],
    enabled: Duration,
    running: Duration,
}

/// Reads between fences, so that no instruction of the code around it moves across the read.
#[inline(always)]
fn fenced<T>(read: impl FnOnce() -> T) -> T {
    fence();
    let counts = read();
    fence();
    counts
}

impl<const N: usize> Snapshot<N> {
    fn from_readings(readings: [Reading; N]) -> Snapshot<N> {
        let first = readings.first().copied().unwrap_or_default();
        Snapshot {
            counts: readings.map(|reading| reading.value),
            enabled: first.time_enabled(),
            running: first.time_running(),
        }
    }

    /// Returns how long the events have been enabled without counters.
    fn absence(&self) -> Duration {
        self.enabled.saturating_sub(self.running)
    }
}

impl<const N: usize> Begun<N> {
    fn from_snapshot(now: &Snapshot<N>, by_user: bool) -> Begun<N> {
        Begun { counts: now.counts, by_user, absence: now.absence(), enabled: Some(now.enabled) }
    }
}

/// Takes `TIMES` empty samples, with nothing between start and end.
pub(crate) fn empty_samples<M: Measurement>(measurement: &M) -> Vec<M::Value> {
    (0..TIMES).map(|_| measurement.end(black_box(measurement.start()))).collect()
}

/// Takes `TIMES` batches of one iteration with nothing in it, in criterion's way.
pub(crate) fn empty_batches<M: Measurement>(measurement: &M) -> Vec<M::Value> {
    let mut sum = measurement.end(measurement.start());
    let once = |_| {
        let input = black_box(0);
        let start = measurement.start();
        let output = black_box(input);
        let batch = measurement.end(start);
        sum = measurement.add(&sum, &batch);
        black_box(output);
        batch
    };
    (0..TIMES).map(once).collect()
}

#[cfg(test)]
impl<const N: usize> Counts<N> {
    /// An exact interval with the same count of each event.
    pub(crate) fn interval(count: u64) -> Counts<N> {
        Counts { intervals: 1, ..Counts::from([count; N]) }
    }

    /// An interval throughout which the events had no counters.
    pub(crate) fn without_counters() -> Counts<N> {
        Counts { lacks: true, ..Counts::interval(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counted: u64, enabled: u64, running: u64) -> Counts<1> {
        let [enabled, running] = [enabled, running].map(Duration::from_nanos);
        Counts { counted: [counted], enabled, running, by_user: true, ..Counts::NONE }
    }

    fn judged(counts: Counts<1>) -> ([u64; 1], bool, bool) {
        (counts.counts(), counts.are_estimates(), counts.are_incomplete())
    }

    #[test]
    fn what_is_missing_is_estimated() {
        assert_eq!(judged(counts(7, 50, 50)), ([7], false, false));
        assert_eq!(judged(counts(7, 50, 25)), ([14], true, false));
        assert_eq!(judged(counts(7, 50, 0)), ([0], true, true));
        assert_eq!(judged(counts(u64::MAX, 50, 25)).0, [0]);
        // Over all intervals of a batch, including those without a counter.
        let sum = counts(10, 100, 100).plus(&counts(0, 100, 0)).plus(&counts(5, 100, 50));
        assert_eq!(judged(sum), ([30], true, false));
        let (exact, untimed) = (counts(7, 5, 5), counts(7, 0, 0).throughout(None));
        assert_eq!(judged(exact.plus(&untimed)), ([14], false, false));
        assert_eq!(judged(counts(7, 50, 25).plus(&untimed)), ([14], true, true));
        for (first, second) in [(false, true), (true, false)] {
            let of = |lacks| Counts { lacks, ..exact };
            assert!(of(first).plus(&of(second)).are_incomplete());
            let of = |is_inexact| Counts { is_inexact, ..exact };
            assert!(of(first).plus(&of(second)).are_estimates());
        }
        assert_eq!(counts(u64::MAX, 0, 0).plus(&exact).counts(), [u64::MAX]);
    }

    #[test]
    fn the_cost_is_taken_off() {
        let known = Cost::Known { least: [5], by_user: true };
        assert_eq!(judged(counts(7, 9, 9).less(&known)), ([2], false, false));
        assert_eq!(judged(counts(3, 9, 9).less(&known)), ([0], false, false));
        // A reading of another kind has another cost.
        let asked = Counts { by_user: false, ..counts(7, 9, 9) };
        assert_eq!(judged(asked.less(&known)), ([2], true, false));
        assert_eq!(judged(counts(7, 9, 9).less(&Cost::Unknown)), ([7], true, false));
        assert_eq!(judged(counts(7, 9, 9).less(&Cost::Wanted)), ([7], false, false));
        // The minimum of the exact samples, by readings of the kind that is used.
        let asked = Counts { by_user: false, ..counts(1, 9, 9) };
        let lacking = Counts { lacks: true, ..counts(2, 9, 9) };
        let all = [asked, counts(9, 9, 9), counts(8, 9, 9), lacking, counts(4, 9, 3)];
        let overhead = Cost::measure(|| all.to_vec());
        assert!(matches!(overhead, Cost::Known { least: [8], by_user: true }), "{overhead:?}");
        let tries = Cell::new(0);
        let overhead = Cost::measure(|| {
            tries.set(tries.get() + 1);
            if tries.get() < 10 { vec![lacking] } else { vec![asked] }
        });
        assert!(matches!(overhead, Cost::Known { least: [1], by_user: false }), "{overhead:?}");
        assert!(matches!(Cost::measure(|| vec![lacking]), Cost::Unknown));
    }

    #[test]
    fn the_floor_is_what_most_batches_have() {
        let batches: Vec<_> = (0..10).map(|count| Counts::<2>::from([count, 7])).collect();
        assert_eq!(floor(batches), [9, 7]);
        assert_eq!(floor(vec![Counts::from([3])]), [3]);
        assert_eq!(floor::<1>(Vec::new()), [0]);
    }

    #[test]
    fn a_count_that_went_back_is_none() {
        let start = Begun { counts: [7, 5], by_user: true, absence: Duration::ZERO, enabled: None };
        let counts = Counts::between(&start, &[6, 9]);
        assert!(counts.are_incomplete());
        assert_eq!(counts.counts(), [0, 4]);
    }
}
