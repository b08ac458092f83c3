//! The conversion of ticks to time.
#![allow(unsafe_code)]

use crate::collect::{Kept, Meta};
use rdpmc::Clock;
use rdpmc::clock::{ClockKind, Conversion};
use std::time::{Duration, SystemTime};

/// The time of a recording.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    conversion: Conversion,
    /// That of the beginning, for sums that must not fall.
    first: Conversion,
    pub(crate) kind: ClockKind,
    pub(crate) error: Option<Duration>,
    /// The step of the ticks, in nanoseconds.
    pub(crate) step: Duration,
    /// The ticks when the recording began.
    zero: u64,
    /// The wall-clock time at some ticks, the latest that are known.
    now: (u64, SystemTime),
}

impl Timeline {
    pub(crate) fn new(clock: &Clock) -> Timeline {
        let zero = clock.ticks();
        let (conversion, step) = (clock.conversion(), clock.step());
        Timeline {
            conversion,
            first: conversion,
            kind: clock.kind(),
            error: clock.error_bound(),
            step: conversion.duration(step),
            zero,
            now: (zero, wall_clock()),
        }
    }

    /// Converts with a newer calibration, if this one is 10 ms old. Opens a clock: some 200 microseconds on a virtual
    /// machine.
    pub(crate) fn update(&mut self) {
        const AGE: Duration = Duration::from_millis(10);
        let (_, then) = self.now;
        if wall_clock().duration_since(then).is_ok_and(|age| age < AGE) {
            return;
        }
        let Ok(clock) = Clock::open() else { return };
        let new = Timeline { zero: self.zero, first: self.first, ..Timeline::new(&clock) };
        // A clock of another unit, since the kernel no longer trusts the tick counter, converts no ticks.
        if new.is_ticks() == self.is_ticks() {
            *self = new;
        }
    }

    fn is_ticks(&self) -> bool {
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
        let conversion = self.conversion(&kept.thread);
        let zero = self.conversion.ticks_to_ns(self.zero);
        // Each end by itself, so that spans which end in one tick end in one nanosecond. A conversion of another
        // calibration may put the first spans before the beginning.
        let since = |ticks: u64| match conversion.ticks_to_ns(ticks).wrapping_sub(zero) {
            before if before > u64::MAX / 2 => 0,
            since => since,
        };
        let [start, end] = kept.raw.ticks.map(since);
        [start, end.max(start)]
    }

    /// Returns the wall-clock time of nanoseconds since the recording began.
    pub(crate) fn wall(&self, ns: u64) -> SystemTime {
        let (ticks, now) = self.now;
        let since = self.conversion.duration(ticks.wrapping_sub(self.zero));
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
