//! A tick counter calibrated against another clock: pure arithmetic on looks at both.
//!
//! What is known is kept as intervals: where the other clock is at a moment, to within how much, and
//! how much of it a tick is. A look that is narrower than what was known makes it narrower; one that
//! contradicts it says that the counter is no longer what it was.
#![forbid(unsafe_code)]

use crate::kernel::conversion::Conversion;

/// A look at both: while the counter went from `before` to `after`, the other clock showed `ns`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) before: u64,
    pub(crate) after: u64,
    pub(crate) ns: u64,
}

impl Sample {
    /// How many ticks `ns` may be of: the counter is anywhere in the tick that it shows.
    pub(crate) fn width(&self) -> u64 {
        self.after.wrapping_sub(self.before).saturating_add(1)
    }

    pub(crate) fn middle(&self) -> u64 {
        self.before.wrapping_add(self.width() / 2)
    }

    /// How far from `ns` the other clock may be at the beginning of the tick in the middle, in
    /// nanoseconds. It rounds off one.
    fn error(&self, rate: Rate) -> u64 {
        rate.most(self.width().div_ceil(2)).saturating_add(1)
    }
}

/// Fractions here are of 2^32.
const ONE: u128 = 1 << 32;
/// The longest time between two looks, in nanoseconds.
const LONGEST: u64 = 1_000_000_000;
/// The rate is taken from looks at least so far apart, once there are some, and not much further if
/// there are more.
const BASELINE: u64 = 4 * LONGEST;
/// What part of the time two oscillators may be off the rate that they had to each other during the
/// baseline: 100 ppb, more than what a crystal's temperature does in its seconds.
const WANDER: u64 = 430;

/// How fast the counter goes.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// A tick, in 2^-32 nanoseconds.
    tick: u64,
    /// What part of the time it may be wrong by.
    drift: u64,
}

/// What is known of the counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calibration {
    rate: Rate,
    /// When the counter showed `ticks`, the other clock was at `ns`, give or take `error`.
    ticks: u64,
    ns: u64,
    error: u64,
    /// When to look again.
    until: u64,
    /// The looks that the rate is taken from begin with the first; the second is its successor.
    from: Sample,
    next: Sample,
    /// Whether the other clock is driven by this counter itself, so that they never drift apart.
    same_oscillator: bool,
}

impl Calibration {
    /// By two looks, some time apart. None if the counter stood still in between, or went back.
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
            same_oscillator,
        };
        Some(calibration.until_the_next_look(second))
    }

    /// As often at first as it takes for the error not to double.
    fn until_the_next_look(self, latest: Sample) -> Calibration {
        let so_far = latest.middle().saturating_sub(self.from.middle());
        let longest = narrow(u128::from(LONGEST) * ONE / u128::from(self.rate.tick));
        Calibration { until: latest.after.saturating_add(so_far.min(longest)), ..self }
    }

    /// What is known after another look; None if that cannot be.
    pub(crate) fn refined(self, look: Sample) -> Option<Calibration> {
        let ticks = look.middle();
        if !self.same_oscillator && look.ns.saturating_sub(self.ns) > 2 * BASELINE {
            return None; // the rate of long ago
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
        // The rate of the present, and not of all time.
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

    /// Whether these ticks need no further look: not before the last one, as if the counter had been
    /// set back, nor too long after.
    pub(crate) fn covers(&self, ticks: u64) -> bool {
        (self.ticks..self.until).contains(&ticks)
    }

    /// The ticks from which on they need one.
    pub(crate) fn until(&self) -> u64 {
        self.until
    }

    /// Ticks to the other clock's nanoseconds, and so many more.
    pub(crate) fn conversion(&self, more: u64) -> Conversion {
        Conversion::of_rate(self.rate.tick, self.ticks, self.ns.wrapping_add(more))
    }

    /// How far from the other clock the conversion of ticks may be when they are read, in
    /// nanoseconds: up to a tick later than they began.
    pub(crate) fn error_bound(&self, ticks: u64) -> u64 {
        self.error_at(ticks).saturating_add(self.rate.most(1))
    }

    /// The same at the moment that the tick began.
    fn error_at(&self, ticks: u64) -> u64 {
        let elapsed = self.rate.nanoseconds(ticks.abs_diff(self.ticks));
        let wander = if self.same_oscillator { 0 } else { WANDER };
        let grown = part(elapsed, self.rate.drift.saturating_add(wander));
        self.error.saturating_add(grown).saturating_add(1) // which the conversion rounds off
    }
}

impl Rate {
    /// By two looks, if there is any.
    fn between(from: Sample, to: Sample) -> Option<Rate> {
        let ticks = to.middle().checked_sub(from.middle()).filter(|ticks| *ticks > 0)?;
        let ns = to.ns.checked_sub(from.ns).filter(|ns| *ns > 0)?;
        let per = |ns: u64, ticks: u64| u128::from(ns) * ONE / u128::from(ticks);
        let tick = u64::try_from(per(ns, ticks)).ok().filter(|tick| *tick > 0)?;
        // The same of as many nanoseconds as it may have been, and as few ticks.
        let unsure = from.width().div_ceil(2).saturating_add(to.width().div_ceil(2));
        let most = per(ns.saturating_add(1), ticks.saturating_sub(unsure).max(1)) + 1;
        let part = (most * ONE).div_ceil(u128::from(tick)).saturating_sub(ONE);
        Some(Rate { tick, drift: narrow(part) })
    }

    /// What so many ticks take, rounded up.
    fn nanoseconds(self, ticks: u64) -> u64 {
        narrow((u128::from(ticks) * u128::from(self.tick)).div_ceil(ONE))
    }

    /// What they take at the most.
    fn most(self, ticks: u64) -> u64 {
        let ns = self.nanoseconds(ticks);
        ns.saturating_add(part(ns, self.drift))
    }
}

/// A part of `ns`, rounded up.
fn part(ns: u64, of: u64) -> u64 {
    narrow((u128::from(ns) * u128::from(of)).div_ceil(ONE))
}

fn narrow(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}
