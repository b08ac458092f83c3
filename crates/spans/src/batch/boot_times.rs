//! The times of a recording on CLOCK_BOOTTIME, which system traces have.
#![allow(unsafe_code)]

use rdpmc::Clock;

/// The most known times.
const KNOWN: usize = 64;

/// Times since the recording began, and CLOCK_BOOTTIME then. NTP slews that clock. Times between two samples are interpolated linearly.
#[derive(Clone, Debug, Default)]
pub(crate) struct BootTimes {
    known: Vec<(u64, u64)>,
}

impl BootTimes {
    /// Adds what a look at both clocks has shown. Up to the time `reached`, the times stay as they are, because they were
    /// given out. Older samples are thinned.
    pub(crate) fn add(&mut self, reached: u64, seen: Option<(u64, u64)>) {
        let Some((ns, boot)) = seen else { return };
        let is_new = self.known.last().is_some_and(|(last, _)| *last < reached && reached < ns);
        if is_new {
            self.known.push((reached, self.at(reached)));
        }
        match self.known.last() {
            // The clock was set back.
            Some((last, _)) if *last > ns => self.known.clear(),
            Some((last, _)) if *last == ns => return,
            _ => {}
        }
        // Extrapolated times may be some nanoseconds ahead.
        let least = self.known.last().map_or(0, |(_, last)| *last);
        self.known.push((ns, boot.max(least)));
        if self.known.len() > KNOWN {
            // Every other one of the older half, so that the whole run is known.
            let mut place = 0;
            self.known.retain(|_| {
                place += 1;
                place % 2 == 1 || place > KNOWN / 2
            });
        }
    }

    /// Returns CLOCK_BOOTTIME at a time since the recording began. That itself if none is known.
    pub(crate) fn at(&self, ns: u64) -> u64 {
        let after = self.known.partition_point(|(known, _)| *known <= ns);
        let before = after.checked_sub(1).and_then(|last| self.known.get(last));
        match (before, self.known.get(after)) {
            (Some((start, from)), Some((end, to))) => {
                let [part, all] = [ns - start, end - start].map(u128::from);
                let passed = u128::from(to.saturating_sub(*from)) * part / all.max(1);
                from.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
            }
            (Some((start, from)), None) => from.saturating_add(ns - start),
            (None, Some((end, to))) => to.saturating_sub(end - ns),
            (None, None) => ns,
        }
    }
}

/// Returns the ticks of a clock and CLOCK_BOOTTIME at one moment.
pub(super) fn now(clock: &Clock) -> Option<(u64, u64)> {
    // The look that was disturbed least.
    (0..5)
        .filter_map(|_| {
            let before = clock.ticks();
            let boot = boot_time()?;
            let after = clock.ticks();
            let between = after.saturating_sub(before);
            Some((between, (before.saturating_add(between / 2), boot)))
        })
        .min_by_key(|(between, _)| *between)
        .map(|(_, seen)| seen)
}

/// As for the wall-clock time, by a system call where a timespec is the kernel's.
#[cfg(target_os = "linux")]
fn boot_time() -> Option<u64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[cfg(target_pointer_width = "64")]
    // SAFETY: the kernel writes a timespec, which has 64-bit fields here.
    let failed =
        unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_BOOTTIME, &raw mut now) };
    #[cfg(not(target_pointer_width = "64"))]
    // SAFETY: the C library writes a timespec.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) };
    let seconds = u64::try_from(now.tv_sec).ok()?;
    let ns = seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(now.tv_nsec).ok()?)?;
    (failed == 0).then_some(ns)
}

#[cfg(not(target_os = "linux"))]
fn boot_time() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clocks drift apart by 50 ppm, and looks are at any distance: the times never decrease, those that were given out stay, and all are right
    /// to a part of a microsecond.
    #[test]
    fn drifting_clocks() {
        let truth = |ns: u64| 1_000_000_000_000 + ns + ns / 20_000;
        let mut times = BootTimes::default();
        assert_eq!(times.at(17), 17);
        let (mut reached, mut last) = (0, 0);
        for look in 1..10_000_u64 {
            let ns = reached + 10_000 + look * 7_919 % 16_000_000;
            times.add(reached, Some((ns, truth(ns))));
            times.add(reached, None);
            let next = ns + look * 104_729 % 2_000_000;
            let given_out: Vec<_> =
                (0..10).map(|part| reached + (next - reached) * part / 10).collect();
            let before: Vec<_> = given_out.iter().map(|ns| times.at(*ns)).collect();
            for (ns, boot) in given_out.iter().zip(&before) {
                assert!(*boot >= last && boot.abs_diff(truth(*ns)) <= 200, "{ns}: {boot}");
                last = *boot;
            }
            times.add(next, Some((next + 5, truth(next + 5))));
            let after: Vec<_> = given_out.iter().map(|ns| times.at(*ns)).collect();
            assert_eq!(after, before, "look {look}");
            reached = next;
        }
        assert!(times.known.len() <= KNOWN);
        let mut last = 0;
        for ns in (0..reached).step_by(77_777_777) {
            let boot = times.at(ns);
            assert!(boot >= last && boot.abs_diff(truth(ns)) <= 1_000, "{ns}: {boot}");
            last = boot;
        }
        // The counter is set back when the machine wakes.
        times.add(0, Some((5, 9_000_000_000_000)));
        assert_eq!([times.at(5), times.at(6)], [9_000_000_000_000, 9_000_000_000_001]);
        assert_eq!(times.at(0), 8_999_999_999_995);
    }
}
