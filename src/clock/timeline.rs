//! Decides from where a timeline goes on after a jump: pure arithmetic on times.
#![forbid(unsafe_code)]

use super::calibration::MAX_BETWEEN;

/// A clock may be held at a time that is later than its own by so many nanoseconds.
pub(super) const HELD: u64 = 1_000_000;

/// Returns the time from which a clock goes on that has to calibrate anew. None for that of the kernel.
///
/// `by_ticks` is the time by the old calibration, `by_kernel` by CLOCK_MONOTONIC_RAW. `last` was returned last. Mostly the two
/// differ because the counter has changed or was not looked at for long, and the kernel's clock is right.
///
/// In another time namespace, either may have jumped: the kernel's clock, or the counter of another machine, if the process was
/// restored there. `witness` is the time by CLOCK_REALTIME then, which may be adjusted, but hardly at this moment. It decides
/// between times that differ by more than the kernel adjusts it by in two seconds: a counter that has not jumped is the better witness. Without it, the
/// kernel's clock has surely jumped if it is before `last` by more than the counter may mislead until the next sample.
pub(super) fn continuation(
    by_ticks: u64,
    by_kernel: u64,
    last: u64,
    witness: Option<u64>,
) -> Option<u64> {
    let off = |time: u64, witness: u64| (time.wrapping_sub(witness) as i64).unsigned_abs();
    let is_behind = |time: u64, by: u64| is_before(time.wrapping_add(by), last);
    let is_by_ticks = match witness {
        Some(witness) => off(by_ticks, witness) <= off(by_kernel, witness).max(HELD),
        None => is_behind(by_kernel, MAX_BETWEEN),
    };
    match is_by_ticks {
        false if witness.is_none() || !is_behind(by_kernel, HELD) => None,
        true if !is_behind(by_ticks, HELD) => Some(later(by_ticks, last)),
        _ => Some(last),
    }
}

/// Whether `one` is before `other`, on a timeline that may begin with negative times.
#[inline(always)]
pub(super) fn is_before(one: u64, other: u64) -> bool {
    (one.wrapping_sub(other) as i64) < 0
}

pub(super) fn later(one: u64, other: u64) -> u64 {
    if is_before(one, other) { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The true time is 1,000 s: what the clock would show if nothing had happened.
    #[test]
    fn the_timeline_goes_on_from_the_clock_that_has_not_jumped() {
        const SECOND: u64 = 1_000_000_000;
        let now = 1_000 * SECOND;
        let other_machine = u64::MAX / 4;
        // It was read a second ago, or not for a long time.
        for last in [now - SECOND, now - 900 * SECOND] {
            // The administrator may have adjusted the time meanwhile.
            for witness in [now, now + SECOND / 10, now - SECOND / 10] {
                let time = |by_ticks, by_kernel| {
                    continuation(by_ticks, by_kernel, last, Some(witness)).unwrap_or(by_kernel)
                };
                for offset in [60, 800, 1_000_000] {
                    assert_eq!(time(now, now.wrapping_sub(offset * SECOND)), now, "it is behind");
                    assert_eq!(time(now, now + offset * SECOND), now, "it is ahead");
                }
                assert_eq!(time(now, now - SECOND / 2), now, "half a second behind");
                if witness == now {
                    let slewed = |by_kernel| {
                        let witness = Some(now + 500_000); // 500 ppm of a second
                        continuation(now, by_kernel, last, witness).unwrap_or(by_kernel)
                    };
                    assert_eq!(slewed(now + 400_000), now, "ahead, as CLOCK_REALTIME is");
                    assert_eq!(slewed(now - 100_000), now, "behind");
                }
                assert_eq!(time(now, now + SECOND / 2), now, "half a second ahead");
                assert_eq!(time(0, now), now, "another machine's counter, behind");
                assert_eq!(time(other_machine, now), now, "another machine's counter, ahead");
                assert_eq!(time(0, 1), last, "both have gone back");
            }
        }
        // Nothing tells the namespace.
        let last = now - SECOND;
        let time = |by_ticks, by_kernel| {
            continuation(by_ticks, by_kernel, last, None).unwrap_or(by_kernel)
        };
        assert_eq!(time(now, now - 60 * SECOND), now, "the kernel's clock is behind");
        assert_eq!(time(0, now), now, "a counter that was set back");
        assert_eq!(time(other_machine, now), now, "a counter that was set forwards");
        assert_eq!(time(now, now - 5), now - 5, "a sample that contradicts");
        assert_eq!(time(last + 1, now), now, "a counter that stood still");
        assert_eq!(time(0, 1), last, "both have gone back");
        // Held, until the time that it has returned too early is reached.
        assert_eq!(time(now, last - SECOND / 2), last - SECOND / 2);
        assert_eq!(time(last - 5, now - 60 * SECOND), last, "a clock that is held");
    }
}
