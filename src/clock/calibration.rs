//! Calibrates a tick counter against a reference clock: pure arithmetic on samples of both.
//!
//! The state is an interval: reference time ± error at one tick, and rate ± drift. A tighter sample narrows it. A
//! sample outside it invalidates it, because the counter has changed.
#![forbid(unsafe_code)]

use crate::kernel::conversion::Conversion;

/// A sample of both clocks: while the counter went from `before` to `after`, the reference clock showed `ns`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) before: u64,
    pub(crate) after: u64,
    pub(crate) ns: u64,
    /// The counter's step: it shows one value for this many ticks.
    pub(crate) step: u64,
}

impl Sample {
    /// Returns the number of ticks at which `ns` may have been read. The counter is anywhere in the step that it
    /// shows.
    pub(crate) fn width(&self) -> u64 {
        self.after.wrapping_sub(self.before).saturating_add(self.step)
    }

    /// Returns the ticks in the middle of the sample.
    pub(crate) fn middle(&self) -> u64 {
        self.before.wrapping_add(self.width() / 2)
    }

    /// Returns the maximum difference between `ns` and the reference clock at the start of the middle tick, in
    /// nanoseconds. Adds one for its rounding.
    fn error(&self, rate: Rate) -> u64 {
        rate.most(self.width().div_ceil(2)).saturating_add(1)
    }
}

/// The denominator of fractions in this module, 2^32.
const ONE: u128 = 1 << 32;
/// The maximum time between two samples, in nanoseconds.
pub(crate) const MAX_BETWEEN: u64 = 1_000_000_000;
/// The minimum time between the samples that determine the rate, in nanoseconds, once such samples exist. More
/// samples do not make it much longer.
const BASELINE: u64 = 4 * MAX_BETWEEN;
/// The allowed drift between two oscillators, relative to their rates during the baseline, in fractions of the time:
/// 100 ppb. By its temperature, a crystal drifts less within these seconds.
const WANDER: u64 = 430;

/// The rate of the counter.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// The length of a tick, in 2^-32 nanoseconds.
    tick: u64,
    /// The maximum relative error of `tick`, as a fraction.
    drift: u64,
}

/// The calibration of the counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calibration {
    rate: Rate,
    /// When the counter showed `ticks`, the reference clock was at `ns` ± `error`.
    ticks: u64,
    ns: u64,
    error: u64,
    /// The ticks at which the next sample is due.
    until: u64,
    /// The sample at which the baseline of the rate starts, and the one at which the next baseline starts.
    from: Sample,
    next: Sample,
    /// The counter's step.
    step: u64,
    /// Whether the counter itself drives the reference clock, so that they never drift apart.
    same_oscillator: bool,
}

impl Calibration {
    /// Calibrates by two samples, some time apart. None if one of the clocks stood still in between, or went back.
    pub(crate) fn new(first: Sample, second: Sample, same_oscillator: bool) -> Option<Calibration> {
        let rate = Rate::between(first, second)?;
        let ticks = second.middle();
        let calibration = Calibration {
            rate,
            ticks,
            ns: second.ns,
            error: second.error(rate),
            until: 0,
            from: first,
            next: second,
            step: second.step,
            same_oscillator,
        };
        Some(calibration.until_the_next_look(second))
    }

    /// Schedules the next sample, often enough at first that the error does not double.
    fn until_the_next_look(self, latest: Sample) -> Calibration {
        let so_far = latest.middle().saturating_sub(self.from.middle());
        let longest = narrow(u128::from(MAX_BETWEEN) * ONE / u128::from(self.rate.tick));
        Calibration { until: latest.after.saturating_add(so_far.min(longest)), ..self }
    }

    /// Returns the calibration refined by another sample. None if the sample contradicts it, or if the known rate is
    /// too old.
    pub(crate) fn refined(self, look: Sample) -> Option<Calibration> {
        let ticks = look.middle();
        if !self.same_oscillator && look.ns.saturating_sub(self.ns) > 2 * BASELINE {
            return None; // the rate is too old
        }
        let known = |ns: u64, error: u64| {
            let (ns, error) = (i128::from(ns), i128::from(error));
            (ns - error, ns + error)
        };
        let expected = known(self.conversion(0).ticks_to_ns(ticks), self.error_at(ticks));
        let seen = known(look.ns, look.error(self.rate));
        let (low, high) = (expected.0.max(seen.0), expected.1.min(seen.1));
        if low > high || ticks <= self.ticks {
            return None;
        }
        let ns = u64::try_from(low + (high - low) / 2).ok()?;
        let error = u64::try_from(high - low).ok()?.div_ceil(2);
        let mut refined = Calibration { ticks, ns, error, ..self };
        // The baseline moves on, so that the rate is a recent one.
        let has_moved_on = look.ns.saturating_sub(self.next.ns) >= BASELINE;
        if has_moved_on {
            (refined.from, refined.next) = (self.next, look);
        }
        let rate = Rate::between(refined.from, look)?;
        if rate.drift <= self.rate.drift || has_moved_on {
            refined.rate = rate;
        }
        Some(refined.until_the_next_look(look))
    }

    /// Whether these ticks need no new sample: they are not before the last one, which would mean that the counter
    /// was set back, nor too long after it.
    pub(crate) fn covers(&self, ticks: u64) -> bool {
        (self.ticks..self.until).contains(&ticks)
    }

    /// Returns the first ticks that need a new sample.
    pub(crate) fn until(&self) -> u64 {
        self.until
    }

    /// Returns the conversion of ticks to the reference clock's nanoseconds, plus `more`.
    pub(crate) fn conversion(&self, more: u64) -> Conversion {
        let conversion =
            Conversion::of_rate(self.rate.tick, self.ticks, self.ns.wrapping_add(more));
        let drift = self.rate.drift.saturating_add(self.wander());
        conversion.off_by(self.ticks, self.error_bound(self.ticks), drift)
    }

    /// Returns the maximum difference between the reference clock and the conversion of ticks when they are read, in
    /// nanoseconds. A tick is read up to one step after it began.
    pub(crate) fn error_bound(&self, ticks: u64) -> u64 {
        self.error_at(ticks).saturating_add(self.rate.most(self.step))
    }

    /// Returns the reference clock's time at the last sample, in nanoseconds.
    pub(crate) fn ns(&self) -> u64 {
        self.ns
    }

    /// Returns the counter's step, for further samples.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    fn wander(&self) -> u64 {
        if self.same_oscillator { 0 } else { WANDER }
    }

    /// Returns the maximum difference at the start of the tick, in nanoseconds.
    fn error_at(&self, ticks: u64) -> u64 {
        let elapsed = self.rate.nanoseconds(ticks.abs_diff(self.ticks));
        let grown = part(elapsed, self.rate.drift.saturating_add(self.wander()));
        self.error.saturating_add(grown).saturating_add(1) // for the rounding of the conversion
    }
}

impl Rate {
    /// Returns the rate between two samples, if both clocks advanced.
    fn between(from: Sample, to: Sample) -> Option<Rate> {
        let ticks = to.middle().checked_sub(from.middle()).filter(|ticks| *ticks > 0)?;
        let ns = to.ns.checked_sub(from.ns).filter(|ns| *ns > 0)?;
        let per = |ns: u64, ticks: u64| u128::from(ns) * ONE / u128::from(ticks);
        let tick = u64::try_from(per(ns, ticks)).ok().filter(|tick| *tick > 0)?;
        // The maximum rate: the most nanoseconds that may have passed, over the fewest ticks.
        let unsure = from.width().div_ceil(2).saturating_add(to.width().div_ceil(2));
        let most = per(ns.saturating_add(1), ticks.saturating_sub(unsure).max(1)) + 1;
        let part = (most * ONE).div_ceil(u128::from(tick)).saturating_sub(ONE);
        Some(Rate { tick, drift: narrow(part) })
    }

    /// Returns how many nanoseconds `ticks` take, rounded up.
    fn nanoseconds(self, ticks: u64) -> u64 {
        narrow((u128::from(ticks) * u128::from(self.tick)).div_ceil(ONE))
    }

    /// Returns the maximum number of nanoseconds that `ticks` take.
    fn most(self, ticks: u64) -> u64 {
        let ns = self.nanoseconds(ticks);
        ns.saturating_add(part(ns, self.drift))
    }
}

/// Returns the fraction `of` of `ns`, rounded up.
fn part(ns: u64, of: u64) -> u64 {
    narrow((u128::from(ns) * u128::from(of)).div_ceil(ONE))
}

/// Converts to 64 bits, saturating.
fn narrow(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}
