//! The time that single-stepping has spent.

use crate::usage;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Other programs can stretch the time by this factor.
const STRETCH: u32 = 8;

/// What the clocks of a thread show at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    at: Instant,
    cpu: Option<Duration>,
    waited: Option<i64>,
}

impl Moment {
    fn now() -> Moment {
        Moment { at: Instant::now(), cpu: usage::thread_time(), waited: usage::waits() }
    }

    /// Returns the CPU time since the earlier moment, clamped to at least an eighth of the elapsed time. If this thread gave up its CPU, it
    /// is the elapsed time: the code sleeps, or a tracer steps it.
    fn since(self, earlier: Moment) -> Duration {
        let elapsed = self.at.saturating_duration_since(earlier.at);
        match (earlier.cpu, self.cpu) {
            (Some(first), Some(last)) if self.waited.is_some() && self.waited == earlier.waited => {
                last.saturating_sub(first).clamp(elapsed / STRETCH, elapsed)
            }
            _ => elapsed,
        }
    }
}

/// The time that stepping has spent: the CPU time of this thread, so other programs on the CPU do not use it up. It is the elapsed time in
/// intervals in which this thread gave up its CPU, because the code sleeps, or because a tracer steps it.
#[derive(Debug)]
pub struct Spent {
    total: Cell<Duration>,
    until: Cell<Moment>,
}

impl Default for Spent {
    fn default() -> Spent {
        Spent::new()
    }
}

impl Spent {
    /// Begins now.
    pub fn new() -> Spent {
        Spent { total: Cell::new(Duration::ZERO), until: Cell::new(Moment::now()) }
    }

    /// Returns the time up to now.
    pub fn time(&self) -> Duration {
        self.add(Moment::now())
    }

    /// Goes on now. The time since the last call does not count.
    pub fn go_on(&self) {
        self.until.set(Moment::now());
    }

    /// Returns the time that `work` takes, and adds it. The time since the last call does not count.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> (T, Duration) {
        self.go_on();
        let before = self.total.get();
        let done = work();
        (done, self.time().saturating_sub(before))
    }

    fn add(&self, now: Moment) -> Duration {
        let total = self.total.get().saturating_add(now.since(self.until.get()));
        self.until.set(now);
        self.total.set(total);
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_os = "linux")]
    use std::collections::BTreeSet;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_cpu_time_counts_unless_the_thread_waited() {
        let start = Moment::now();
        let at = |elapsed: u32, cpu: u32, waited: i64| Moment {
            at: start.at + MS * elapsed,
            cpu: Some(MS * cpu),
            waited: Some(waited),
        };
        let spent = Spent { total: Cell::new(Duration::ZERO), until: Cell::new(at(0, 0, 7)) };
        assert_eq!(spent.add(at(10, 10, 7)), MS * 10);
        // It waited for a CPU for 60 ms.
        assert_eq!(spent.add(at(90, 30, 7)), MS * 30);
        // It slept once. That does not change what was before.
        assert_eq!(spent.add(at(95, 31, 8)), MS * 35);
        assert_eq!(spent.add(at(115, 36, 8)), MS * 40);
        // An eighth at least, and the elapsed time at most: the clocks are not read at one instant.
        assert_eq!(spent.add(at(915, 37, 8)), MS * 140);
        assert_eq!(spent.add(at(916, 40, 8)), MS * 141);
        // Another thread was waited for.
        spent.until.set(at(2_000, 50, 99));
        assert_eq!(spent.add(at(2_003, 53, 99)), MS * 144);
        // Nothing goes back.
        assert_eq!(spent.add(at(2_002, 52, 99)), MS * 144);
        // Without these clocks.
        let without = Moment { cpu: None, ..at(2_010, 0, 99) };
        assert_eq!(spent.add(without), MS * 152);
        assert_eq!(spent.add(Moment { waited: None, ..at(2_011, 0, 0) }), MS * 153);
        assert_eq!(spent.add(Moment { waited: None, ..at(2_012, 0, 0) }), MS * 154);
    }

    #[test]
    fn sleep_counts() {
        let spent = Spent::new();
        std::thread::sleep(MS * 20);
        assert!(spent.time() >= MS * 20);
    }

    /// These clocks are there on Linux, and the CPU time is that of the moment, not of the last timer interrupt.
    #[cfg(target_os = "linux")]
    #[test]
    fn work_is_seen_at_once() {
        assert!(usage::waits().is_some());
        let times: BTreeSet<Duration> = (0..1_000).filter_map(|_| usage::thread_time()).collect();
        assert!(times.len() > 100, "{times:?}");
    }
}
