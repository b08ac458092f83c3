//! The cost of a read on this machine, and the cheaper way to read.
#![allow(unsafe_code)]

use super::events::Opened;
use crate::asm;
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::kernel::{self, List, Thousands};
use std::time::Duration;

/// The median time that a read takes, rounded to nanoseconds, from [`Counter::read_cost`](crate::Counter::read_cost) or
/// [`Group::read_cost`](crate::Group::read_cost). If it is too slow for eight samples, the minimum of those taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadCost {
    /// By `read_user`. None if user space cannot read the counters now.
    pub user: Option<Duration>,
    /// By `read(2)`. None if that fails.
    pub system_call: Option<Duration>,
    /// Of the tick counter, for comparison ([`Clock::ticks`](crate::Clock::ticks)). None if this thread may not read it.
    pub tick: Option<Duration>,
    /// Whether the instruction that reads a counter is trapped, for example by a hypervisor. The criterion is a time per
    /// counter in user space above that of an empty system call, or above both 20 ticks and 300 nanoseconds.
    pub is_trapped: bool,
}

impl ReadCost {
    /// Returns the median time of the way that `read` takes by [`ReadBy::Cheaper`](crate::ReadBy::Cheaper). None if neither way could be
    /// measured.
    pub fn cheaper(&self) -> Option<Duration> {
        match (self.user, self.system_call) {
            (Some(user), Some(system_call)) => Some(user.min(system_call)),
            (user, system_call) => user.or(system_call),
        }
    }

    /// Returns the duration of the shortest work to which two reads add at most a tenth. Measure shorter work by time,
    /// or repeat it many times. None if neither way could be measured.
    pub fn shortest_work(&self) -> Option<Duration> {
        Some(self.cheaper()?.saturating_mul(20))
    }

    /// Returns the reason to read by system call: it takes less time than user space.
    pub(crate) fn reason(&self) -> Option<Error> {
        let (user, system_call) = (self.user?, self.system_call?);
        let why = || {
            Error::new(
                ErrorKind::Slower,
                "user space is slower than the system call here: a read takes {0} ns in user space, for example because \
                 a hypervisor traps it, and {1} ns by system call",
                "No action needed",
            )
        };
        let ns = |time: Duration| Thousands(time.as_nanos());
        (system_call < user).then(|| why().with(&ns(user)).with(&ns(system_call)))
    }
}

/// The maximum number of samples of one operation.
const MAX_SAMPLES: usize = 24;
/// The minimum number, which no time limit reduces. One of these may be disturbed: their median is not.
const MIN_SAMPLES: usize = 3;
/// The time limit for the other samples, in nanoseconds.
const TIME: u64 = 40_000;
/// The same limit for user-space reads. These come last, because a trapped read may take very long.
const TIME_TO_READ: u64 = 70_000;
/// The time in nanoseconds that one sample should take at least.
const SAMPLE: u64 = 800;
/// A read of one counter is trapped if it takes longer than both this and `TRAPPED_TICKS` ticks.
const TRAPPED: Duration = Duration::from_nanos(300);
const TRAPPED_TICKS: u32 = 20;
/// The maximum number of calls in a sample.
const MAX_CALLS: u64 = 64;

/// The minimum and the median of a measured time, rounded to nanoseconds.
#[derive(Clone, Copy)]
struct Timing {
    minimum: Duration,
    /// Or the minimum if the operation is too slow for more than seven samples.
    median: Duration,
}

/// Runs an operation this many times. None if one run fails.
///
/// The loop is in the operation, so that one measurement, compiled once, times groups of all sizes: it adds one call to a
/// sample.
pub(super) type Repeated<'a> = &'a mut dyn FnMut(u64) -> Option<()>;

fn repeated(mut operation: impl FnMut() -> Option<()>) -> impl FnMut(u64) -> Option<()> {
    move |calls| {
        for _ in 0..calls {
            operation()?;
        }
        Some(())
    }
}

/// A clock for short times: `now` returns nanoseconds.
struct Stopwatch<F> {
    now: F,
    /// What an empty sample takes, in nanoseconds.
    empty: u64,
}

impl<F: Fn() -> Option<u64>> Stopwatch<F> {
    fn new(now: F) -> Option<Stopwatch<F>> {
        // The clock may advance in steps longer than a call. So a call's time is a mean, and the minimum of several means,
        // because an interrupt may disturb some.
        const CALLS: u64 = 16;
        let mut least = u64::MAX;
        for _ in 0..4 {
            let before = now()?;
            for _ in 1..CALLS {
                now()?;
            }
            least = least.min(now()?.saturating_sub(before) / CALLS);
        }
        Some(Stopwatch { now, empty: least })
    }

    /// Times `calls` of an operation, in nanoseconds. None if it fails.
    fn sample(&self, calls: u64, operation: Repeated<'_>) -> Option<u64> {
        let before = (self.now)()?;
        operation(calls)?;
        Some((self.now)()?.saturating_sub(before).saturating_sub(self.empty))
    }

    /// Times an operation, in samples of several calls, until there are enough of them or `budget` nanoseconds are
    /// over. None if the operation fails, or if the clock is too coarse.
    fn time(&self, budget: u64, operation: Repeated<'_>) -> Option<Timing> {
        // The first calls fill the caches and tell how many a sample needs. They are no samples themselves. The shortest
        // counts, because the first is slow, and an interrupt may disturb another.
        let mut least = u64::MAX;
        for _ in 0..3 {
            least = least.min(self.sample(1, operation)?);
        }
        let calls = (SAMPLE / least.max(1)).clamp(1, MAX_CALLS);
        let mut samples = [0_u64; MAX_SAMPLES]; // picoseconds per call
        let (mut taken, mut all) = (0, 0_u64);
        for sample in &mut samples {
            let time = self.sample(calls, operation)?;
            *sample = time.saturating_mul(1_000) / calls;
            taken += 1;
            all = all.saturating_add(time);
            // The next sample must end in time.
            if taken >= MIN_SAMPLES && all.saturating_add(time) > budget {
                break;
            }
        }
        let samples = samples.get_mut(..taken)?;
        samples.sort_unstable();
        let nanoseconds =
            |picoseconds: u64| Duration::from_nanos(picoseconds.saturating_add(500) / 1_000);
        let minimum = nanoseconds(*samples.first().filter(|least| **least > 0)?);
        // If the time was over early, most of the few samples may be disturbed.
        let middle = if taken < MAX_SAMPLES / 3 { 0 } else { taken / 2 };
        Some(Timing { minimum, median: nanoseconds(*samples.get(middle)?) })
    }
}

/// Measures reads of `counters` counters at once in user space, and by system call. `empty_call` is a system call that does
/// nothing. Takes at most about 200 microseconds, or longer if three of these calls do.
fn measure(
    counters: usize,
    user: Repeated<'_>,
    empty_call: Repeated<'_>,
    system_call: Repeated<'_>,
) -> ReadCost {
    let is_forbidden = kernel::ticks_are_forbidden();
    let now = || kernel::monotonic_raw(is_forbidden).ok();
    let Some(stopwatch) = Stopwatch::new(now) else { return ReadCost::default() };
    let may_tick = asm::TICKS.is_some() && !is_forbidden;
    let mut tick = repeated(|| {
        // SAFETY: this thread may read the tick counter, as `may_tick` says.
        std::hint::black_box(unsafe { asm::ticks::<false>() });
        Some(())
    });
    let tick = may_tick.then(|| stopwatch.time(TIME, &mut tick)).flatten();
    let empty = stopwatch.time(TIME, empty_call);
    let system_call = stopwatch.time(TIME, system_call);
    let user = stopwatch.time(TIME_TO_READ, user);
    let each = user.map(|user| user.minimum / (counters as u32).max(1));
    // Where system calls are slow, the tick counter tells.
    let ticks = |tick: Timing| (tick.minimum * TRAPPED_TICKS).max(TRAPPED);
    let is_longer =
        |limit: Option<Duration>| each.zip(limit).is_some_and(|(each, limit)| each > limit);
    let is_trapped = is_longer(empty.map(|empty| empty.minimum)) || is_longer(tick.map(ticks));
    let [user, system_call, tick] = [user, system_call, tick].map(|way| Some(way?.median));
    ReadCost { user, system_call, tick, is_trapped }
}

/// Measures an open group, or returns what this process knows of its events. `user` reads it in user space.
pub(super) fn known_or_measured(
    events: &[Event],
    flags: u64,
    opened: &Opened,
    user: Repeated<'_>,
) -> ReadCost {
    if let Some(known) = known(events, flags) {
        return known;
    }
    // The calls would read another file.
    if opened.are_own().is_err() {
        return ReadCost::default();
    }
    let mut empty_call = repeated(|| {
        opened.leader.empty_call();
        Some(())
    });
    let mut system_call = repeated(|| opened.read().ok().flatten().map(drop));
    let cost = measure(events.len(), user, &mut empty_call, &mut system_call);
    // Only a complete answer is kept.
    if cost.user.is_some() && cost.system_call.is_some() {
        keep(events, flags, cost);
    }
    cost
}

/// What was measured for a set of events.
struct Known {
    events: Vec<Event>,
    flags: u64,
    cost: ReadCost,
}

/// The known costs: [`MAX_KNOWN`], and one more for each thread that adds one at the same time.
static COSTS: List<Known> = List::new();
/// Costs of more sets of events are not kept.
const MAX_KNOWN: usize = 64;

pub(super) fn known(events: &[Event], flags: u64) -> Option<ReadCost> {
    let mut all = COSTS.iter();
    Some(all.find(|known| known.flags == flags && known.events == events)?.cost)
}

/// Keeps a cost for the rest of the process. Two threads may both keep one, which does no harm.
fn keep(events: &[Event], flags: u64, cost: ReadCost) {
    if COSTS.iter().count() < MAX_KNOWN {
        COSTS.push(Known { events: events.to_vec(), flags, cost });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::cell::Cell;

    /// A simulated thread: its time in picoseconds, and the absence that it has once.
    struct Thread {
        time: Cell<u64>,
        /// In picoseconds: the instant, and the length.
        absence: (u64, u64),
        /// The step of the clock, in nanoseconds.
        step: u64,
    }

    impl Thread {
        fn take(&self, picoseconds: u64) {
            let before = self.time.get();
            let (instant, length) = self.absence;
            let is_here = (before..before + picoseconds).contains(&instant);
            self.time.set(before + picoseconds + if is_here { length } else { 0 });
        }

        fn now(&self) -> Option<u64> {
            self.take(25_000);
            Some(self.time.get() / 1_000 / self.step * self.step)
        }
    }

    /// Measures a read of 30 ns and a system call of 250 ns, whose first calls take longer. Returns the choice, and the two
    /// times.
    fn choice(thread: &Thread, cold: u64) -> ReadCost {
        let stopwatch = Stopwatch::new(|| thread.now()).unwrap();
        let timed = |budget, warm: u64| {
            let is_cold = Cell::new(true);
            let mut operation = repeated(|| {
                thread.take(1_000 * if is_cold.take() { cold.max(warm) } else { warm });
                Some(())
            });
            stopwatch.time(budget, &mut operation)
        };
        let system_call = timed(TIME, 250);
        let [user, system_call] =
            [timed(TIME_TO_READ, 30), system_call].map(|way| Some(way?.median));
        ReadCost { system_call, user, ..ReadCost::default() }
    }

    /// The thread is switched out for 4 ms, at each of 30,000 instants.
    #[test]
    fn an_absence_does_not_change_the_choice() {
        for (cold, step) in [(150, 1), (600, 1), (1_200, 1), (600, 10), (1_200, 10), (600, 40)] {
            let mut wrong = 0;
            for instant in 0..30_000 {
                let absence = (1_000_000_000_000 + instant * 5_000, 4_000_000_000);
                let thread = Thread { time: Cell::new(1_000_000_000_000), absence, step };
                let cost = choice(&thread, cold);
                let near = |median: Option<Duration>, truth: u64| {
                    let median = median.unwrap().as_nanos() as u64;
                    median.abs_diff(truth) <= 1 + truth / 10
                };
                let is_right =
                    cost.reason().is_none() && near(cost.user, 30) && near(cost.system_call, 250);
                wrong += u32::from(!is_right);
            }
            assert_eq!(wrong, 0, "the first call takes {cold} ns, the clock's step is {step} ns");
        }
    }
}
