//! Times of a recording, by a clock whose looks are inexact, against the true times.

use crate::batch::Timeline;
use rdpmc::clock::Conversion;

/// A tick takes 0.4 ns. The clock showed 1,000,000 at 5,000,000 ticks.
fn truth(ticks: u64) -> u64 {
    1_000_000 + (ticks - BEGUN) * 2 / 5
}
const BEGUN: u64 = 5_000_000;

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
fn times_never_decrease() {
    let mut random = Random(88_172_645_463_325_252);
    for _ in 0..20 {
        let mut time = Timeline::at(BEGUN, truth(BEGUN), by_itself(BEGUN, random.around_zero(500)));
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
            time.reached = time.reached.max(ends[3]);
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

/// Records older than the lines that are kept have a time between the neighbours'.
#[test]
fn old_times_are_near() {
    let mut time = Timeline::at(BEGUN, truth(BEGUN), by_itself(BEGUN, 300));
    let step = 100_000_000;
    for look in 1..=500_u64 {
        let now = BEGUN + look * step;
        time.learn((now, truth(now) + look % 7 * 10), by_itself(now, -300));
    }
    for look in 0..=500_u64 {
        let ticks = BEGUN + look * step;
        let true_time = truth(ticks) - truth(BEGUN);
        assert!(time.since_zero(ticks).abs_diff(true_time) <= 100);
    }
}

/// The machine sleeps: ticks pass, and the clock stands still. Then the counter starts at 0.
#[test]
fn the_machine_sleeps() {
    let second = 2_500_000_000;
    let mut time = Timeline::at(BEGUN, truth(BEGUN), by_itself(BEGUN, 0));
    let asleep = BEGUN + 2 * second;
    time.learn((asleep, truth(asleep) - 1_000_000_000), by_itself(asleep, 10));
    let about = |ns: u64, expected: u64| assert!(ns.abs_diff(expected) <= 2, "{ns} {expected}");
    about(time.since_zero(asleep), 1_000_000_000);
    about(time.conversion.delta_ns(second), 1_000_010_000);
    about(time.since_zero(asleep + second), 2_000_010_000);

    time.learn((second, truth(asleep)), by_itself(BEGUN, 10));
    about(time.since_zero(second), 2_000_000_000);
    about(time.since_zero(second / 2), 1_499_995_000);
    about(time.since_zero(2 * second), 3_000_010_000);
}
