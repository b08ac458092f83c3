//! The conversion of ticks to time.
#![allow(unsafe_code)]

use crate::batch::boot_times::{self, BootTimes};
use crate::collect::{Kept, Meta};
use rdpmc::Clock;
use rdpmc::clock::{ClockKind, Conversion};
use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

/// The time of a recording.
///
/// Each look at the clock adds a line from where the last one ended, or from the latest time that was given out. Times behind
/// that stay as they are, as long as their line is kept, so that those of one interval are not before those of an earlier one.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// The length of a tick, by the latest two looks.
    pub(crate) conversion: Conversion,
    /// That of the beginning, for sums that must not fall.
    first: Conversion,
    pub(crate) kind: ClockKind,
    pub(crate) error: Option<Duration>,
    /// The step of the ticks, in nanoseconds.
    pub(crate) step: Duration,
    /// The clock's time when the recording began.
    zero: u64,
    lines: VecDeque<Line>,
    /// The latest ticks whose time was given out.
    reached: u64,
    /// The ticks and the clock's time at the latest look.
    seen: (u64, u64),
    /// The wall-clock time at some ticks, the latest that are known.
    now: (u64, SystemTime),
    boot: BootTimes,
}

/// Times around some ticks: those that passed since the recording began, and the length of a tick.
#[derive(Clone, Copy, Debug)]
struct Line {
    ticks: u64,
    ns: u64,
    conversion: Conversion,
}

impl Line {
    fn at(&self, ticks: u64) -> u64 {
        match ticks.checked_sub(self.ticks) {
            Some(after) => self.ns.saturating_add(self.conversion.delta_ns(after)),
            None => self.ns.saturating_sub(self.conversion.delta_ns(self.ticks - ticks)),
        }
    }
}

/// The latest lines are kept, two for each look.
const LINES: usize = 64;

impl Timeline {
    pub(crate) fn new(clock: &Clock) -> Timeline {
        // First, because threads record already.
        let begun = clock.ticks();
        let (conversion, step) = (clock.conversion(), clock.step());
        let mut boot = BootTimes::default();
        boot.add(
            0,
            boot_times::now(clock)
                .map(|(ticks, boot)| (conversion.delta_ns(ticks.saturating_sub(begun)), boot)),
        );
        Timeline {
            boot,
            error: clock.error_bound(),
            step: conversion.duration(step),
            now: (clock.ticks(), wall_clock()),
            ..Timeline::at(begun, conversion.ticks_to_ns(begun), conversion, clock.kind())
        }
    }

    /// Makes one from the ticks and the clock's time at the beginning.
    pub(crate) fn at(begun: u64, zero: u64, conversion: Conversion, kind: ClockKind) -> Timeline {
        Timeline {
            conversion,
            first: conversion,
            kind,
            error: None,
            step: Duration::ZERO,
            zero,
            lines: VecDeque::from([Line { ticks: begun, ns: 0, conversion }]),
            reached: begun,
            seen: (begun, zero),
            now: (begun, SystemTime::UNIX_EPOCH),
            boot: BootTimes::default(),
        }
    }

    /// Looks at the clock, unless it has in the last 10 ms. Opens a clock: some 200 microseconds on a virtual machine.
    pub(crate) fn update(&mut self) {
        self.update_after(Duration::from_millis(10));
    }

    /// Looks at the clock, unless it has for less than `age`.
    pub(crate) fn update_after(&mut self, age: Duration) {
        let (_, then) = self.now;
        if !wall_clock().duration_since(then).is_ok_and(|since| since < age) {
            self.look();
        }
    }

    /// Returns the clock's time when the recording began.
    pub(crate) fn zero(&self) -> u64 {
        self.zero
    }

    /// Fixes the times up to these ticks, before those of records are given out.
    pub(crate) fn give_out(&mut self, latest: u64) {
        self.reached = self.reached.max(latest);
    }

    fn look(&mut self) {
        let Ok(clock) = Clock::open() else { return };
        // The ticks of a clock that the kernel no longer trusts are of another unit.
        if matches!(clock.kind(), ClockKind::Kernel(_)) == self.is_ticks() {
            return;
        }
        let (conversion, now) = (clock.conversion(), clock.ticks());
        self.error = clock.error_bound();
        self.now = (now, wall_clock());
        let is_same = std::mem::discriminant(&clock.kind()) == std::mem::discriminant(&self.kind);
        let ns = match is_same {
            true => conversion.ticks_to_ns(now),
            // Another kind of clock has another timeline, and ticks of the same length.
            false => {
                self.seen.1.saturating_add(conversion.delta_ns(now.saturating_sub(self.seen.0)))
            }
        };
        let reached = self.reached;
        self.learn((now, ns), conversion);
        let reached = self.since_zero(reached);
        let boot = boot_times::now(&clock);
        self.boot.add(reached, boot.map(|(ticks, boot)| (self.since_zero(ticks), boot)));
    }

    /// Returns the nanoseconds from the beginning of the recording to the latest look at the clock.
    pub(crate) fn latest(&self) -> u64 {
        self.since_zero(self.seen.0)
    }

    /// Returns the CLOCK_BOOTTIME of nanoseconds since the recording began. These themselves if it is not known.
    pub(crate) fn boot(&self, ns: u64) -> u64 {
        self.boot.at(ns)
    }

    /// Adds what a look has shown: the ticks and the clock's time, and the conversion by itself.
    pub(crate) fn learn(&mut self, now: (u64, u64), conversion: Conversion) {
        let (ticks, since) = (now.0, now.1.saturating_sub(self.zero));
        if ticks < self.seen.0 {
            // The counter was set back, as it may be when a machine wakes.
            self.lines.clear();
            self.lines.push_back(Line { ticks, ns: since, conversion });
            (self.conversion, self.reached, self.seen) = (conversion, ticks, now);
            return;
        }
        // Records of before the counter was set back may have come since then.
        let from = self.reached.min(ticks).max(self.seen.0);
        let ns = self.since_zero(from);
        let until = since.max(ns);
        let line = Conversion::through((from, ns), (ticks, until.max(ns.saturating_add(1))));
        self.lines.extend(line.map(|conversion| Line { ticks: from, ns, conversion }));
        // The longer the time between two looks, the better they tell the length of a tick, where the clock does not know it.
        // Unless the machine slept in between, when the tick counter and the clock went apart.
        let elapsed = ticks - self.seen.0;
        let alone = conversion.delta_ns(elapsed);
        let is_like =
            |by_both: &Conversion| by_both.delta_ns(elapsed).abs_diff(alone) <= alone / 1024;
        let by_both = match self.kind {
            ClockKind::Calibrated(_) => Conversion::through(self.seen, now).filter(is_like),
            _ => None,
        };
        self.conversion = by_both.unwrap_or(conversion);
        self.lines.push_back(Line { ticks, ns: until, conversion: self.conversion });
        // What is before the first line follows from it.
        self.lines.drain(..self.lines.len().saturating_sub(LINES));
        (self.reached, self.seen) = (ticks, now);
    }

    pub(crate) fn is_ticks(&self) -> bool {
        !matches!(self.kind, ClockKind::Kernel(_))
    }

    /// Returns the conversion of a thread's ticks.
    pub(crate) fn conversion(&self, thread: &Meta) -> Conversion {
        // A thread that may not read the tick counter has another unit.
        match thread.has_tick_counter() == self.is_ticks() {
            true => self.conversion,
            false => thread.conversion,
        }
    }

    /// Returns a conversion of a thread's ticks that never changes, and so is less exact.
    pub(crate) fn first_conversion(&self, thread: &Meta) -> Conversion {
        match thread.has_tick_counter() == self.is_ticks() {
            true => self.first,
            false => thread.conversion,
        }
    }

    /// Returns the nanoseconds of both ends of a record since the recording began.
    pub(crate) fn nanoseconds(&self, kept: &Kept) -> [u64; 2] {
        // Each end by itself, so that spans which end in one tick end in one nanosecond.
        let [start, end] = kept.raw.ticks.map(|ticks| {
            if kept.thread.has_tick_counter() == self.is_ticks() {
                return self.since_zero(ticks);
            }
            let ns = kept.thread.conversion.ticks_to_ns(ticks).wrapping_sub(self.zero);
            if ns > u64::MAX / 2 { 0 } else { ns }
        });
        // It began before the counter did.
        let [start_ticks, end_ticks] = kept.raw.ticks;
        let start = if start_ticks > end_ticks && kept.raw.time() > 0 { 0 } else { start };
        // The counter may have been set back in between.
        [start, end.max(start)]
    }

    /// Returns the nanoseconds from the beginning to some ticks.
    pub(crate) fn since_zero(&self, ticks: u64) -> u64 {
        let line = self.lines.iter().rev().find(|line| line.ticks <= ticks);
        line.or(self.lines.front()).map_or(0, |line| line.at(ticks))
    }

    /// Returns the wall-clock time of nanoseconds since the recording began.
    pub(crate) fn wall(&self, ns: u64) -> SystemTime {
        let (ticks, now) = self.now;
        let since = Duration::from_nanos(self.since_zero(ticks));
        let at = Duration::from_nanos(ns);
        let moved =
            if at > since { now.checked_add(at - since) } else { now.checked_sub(since - at) };
        moved.unwrap_or(now)
    }
}

/// Returns the wall-clock time, by a system call: the C library reads the tick counter, which this thread may not be allowed
/// to read.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn wall_clock() -> SystemTime {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes a timespec, which has 64-bit fields here.
    let failed =
        unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_REALTIME, &raw mut now) };
    let since = Duration::new(
        u64::try_from(now.tv_sec).unwrap_or(0),
        u32::try_from(now.tv_nsec).unwrap_or(0) % 1_000_000_000,
    );
    if failed == 0 { SystemTime::UNIX_EPOCH + since } else { SystemTime::UNIX_EPOCH }
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}
