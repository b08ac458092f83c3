//! Times of a recording, by a clock whose looks are inexact, against the true times.

use crate::batch::Timeline;
use rdpmc::clock::{ClockKind, Conversion};

/// A tick takes 0.4 ns. The clock showed 1,000,000 at 5,000,000 ticks.
fn truth(ticks: u64) -> u64 {
    1_000_000 + (ticks - BEGUN) * 2 / 5
}
const BEGUN: u64 = 5_000_000;

/// A timeline whose first conversion is wrong by some parts per million.
fn begin(millionths: i64) -> Timeline {
    let kind = ClockKind::Calibrated(rdpmc::Error::of_name("another clock", "No action needed"));
    Timeline::at(BEGUN, truth(BEGUN), by_itself(BEGUN, millionths), kind)
}

/// A look's own conversion, wrong by some parts per million.
fn by_itself(ticks: u64, millionths: i64) -> Conversion {
    let ns = 400_000_u64.saturating_add_signed(millionths * 400_000 / 1_000_000);
    let at = truth(ticks);
    Conversion::through((ticks, at), (ticks + 1_000_000, at + ns)).unwrap()
}

struct Random(u64);

impl Random {
    /// A number from 0 to below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
    fn around_zero(&mut self, most: i64) -> i64 {
        self.below(2 * most as u64 + 1) as i64 - most
    }
}

/// Takes at any time: those in which the clock is looked at, and those in which it is not.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn times_never_decrease() {
    let mut random = Random(88_172_645_463_325_252);
    for _ in 0..20 {
        let mut time = begin(random.around_zero(500));
        let (mut now, mut last, mut looks) = (BEGUN, 0, 0);
        for _ in 0..2_000 {
            let before = now;
            let bits = random.below(31);
            now += 1 + random.below(1 << bits);
            if random.below(3) > 0 && now - before > 25_000_000 {
                let noise = random.around_zero(100);
                let seen = truth(now).saturating_add_signed(noise);
                time.learn((now, seen), by_itself(now, random.around_zero(500)));
                looks += 1;
            }
            // Records that have ended since the last take.
            let mut ends: Vec<u64> =
                (0..4).map(|_| before + random.below(now - before + 1)).collect();
            ends.sort_unstable();
            for end in &ends {
                let ns = time.since_zero(*end);
                assert!(ns >= last, "{ns} after {last}");
                last = ns;
            }
            time.give_out(ends[3]);
        }
        // After a look, times are as exact as it is.
        assert!(looks > 100, "{looks}");
        now += 25_000_000_000;
        time.learn((now, truth(now)), by_itself(now, 500));
        let true_time = truth(now) - truth(BEGUN);
        assert!(
            time.since_zero(now).abs_diff(true_time) <= 1,
            "{} {true_time}",
            time.since_zero(now)
        );
        // The rate by two looks is better than that of one.
        let second = time.conversion.delta_ns(2_500_000_000);
        assert!(second.abs_diff(1_000_000_000) <= 100, "{second}");
    }
}

/// The beginnings of spans that are older than the lines that are kept.
#[test]
fn old_times_are_near() {
    let mut time = begin(300);
    let (step, looks) = (100_000_000, 500);
    for look in 1..=looks {
        let now = BEGUN + look * step;
        time.learn((now, truth(now) + look % 7 * 10), by_itself(now, -300));
    }
    for look in 0..=looks {
        let ticks = BEGUN + look * step;
        let true_time = truth(ticks) - truth(BEGUN);
        // 60 ns in 40 ms, at each distance from the oldest line.
        let before = (looks - look).saturating_sub(30) * 60;
        assert!(time.since_zero(ticks).abs_diff(true_time) <= 100 + before, "{look}");
    }
}

const SECOND: u64 = 2_500_000_000;

#[track_caller]
fn about(ns: u64, expected: u64) {
    assert!(ns.abs_diff(expected) <= 2, "{ns}, expected {expected}");
}

/// The machine sleeps: ticks pass, and the clock stands still. Then the counter starts at 0.
#[test]
fn the_machine_sleeps() {
    let mut time = begin(0);
    let asleep = BEGUN + 2 * SECOND;
    time.learn((asleep, truth(asleep) - 1_000_000_000), by_itself(asleep, 10));
    about(time.since_zero(asleep), 1_000_000_000);
    about(time.conversion.delta_ns(SECOND), 1_000_010_000);
    about(time.since_zero(asleep + SECOND), 2_000_010_000);

    time.learn((SECOND, truth(asleep)), by_itself(BEGUN, 10));
    about(time.since_zero(SECOND), 2_000_000_000);
    about(time.since_zero(SECOND / 2), 1_499_995_000);
    about(time.since_zero(2 * SECOND), 3_000_010_000);
}

/// Eight hours of sleep, and then a look for each frame: a span of two seconds is as long as it is.
#[test]
fn spans_after_a_long_sleep() {
    let mut time = begin(0);
    let awake = BEGUN + 8 * 3_600 * SECOND;
    let slept = 8 * 3_600 * 1_000_000_000 - 1_000_000;
    let mut now = awake;
    for _ in 0..1_000 {
        time.learn((now, truth(now) - slept), by_itself(now, 0));
        now += SECOND / 60;
    }
    let (start, end) = (time.since_zero(now - 2 * SECOND), time.since_zero(now));
    assert!((end - start).abs_diff(2_000_000_000) <= 100, "{start} {end}");
}

/// The counter is set back by a second of a million. Records of before it come afterwards.
#[test]
fn the_counter_is_set_back() {
    let begun = 1_000_000 * SECOND;
    let kind = ClockKind::Calibrated(rdpmc::Error::of_name("another clock", "No action needed"));
    let mut time = Timeline::at(begun, truth(begun), by_itself(begun, 0), kind);
    let moved = |ticks: u64| truth(ticks) + 1_000_000_000;
    time.learn((begun + 10 * SECOND, truth(begun + 10 * SECOND)), by_itself(begun, 0));
    for seconds in 10..20 {
        let ticks = begun + (seconds - 1) * SECOND + SECOND / 2;
        time.learn((ticks, moved(ticks)), by_itself(ticks, 400));
        if seconds == 10 {
            time.give_out(begun + 5_000 * SECOND);
        } else if seconds > 11 {
            about(time.since_zero(ticks), seconds * 1_000_000_000 + 500_000_000);
        }
    }
    // The looks have corrected the conversion, and go on to do so.
    assert!(time.conversion.delta_ns(SECOND).abs_diff(1_000_000_000) < 100);
}

/// The control page's conversion is the kernel's, and needs no second look.
#[test]
fn a_page_is_believed() {
    let mut time = Timeline::at(BEGUN, truth(BEGUN), by_itself(BEGUN, 0), ClockKind::Page);
    // 2 of 600 seconds asleep.
    let now = BEGUN + 600 * SECOND;
    time.learn((now, truth(now) - 2_000_000_000), by_itself(now, 0));
    about(time.conversion.delta_ns(SECOND), 1_000_000_000);
}
