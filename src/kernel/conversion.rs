//! From ticks to nanoseconds and back: pure arithmetic without panics or overflow.
#![forbid(unsafe_code)]

use std::time::Duration;

/// How ticks of the processor's counter become nanoseconds and back, as of one moment: from
/// [`Clock::conversion`](crate::Clock::conversion).
///
/// A plain value that any thread may use: what a clock's thread has recorded in ticks, another can
/// convert later, all of it by the same parameters, so that differences are exact and the order
/// stays. It is right for ticks taken around the moment that it was made, and does not learn what
/// the clock finds out later.
///
/// ```
/// let clock = rdpmc::Clock::open()?;
/// let stages = [clock.ticks(), clock.ticks(), clock.ticks()];
/// let conversion = clock.conversion();
/// let reader = std::thread::spawn(move || stages.map(|ticks| conversion.ticks_to_ns(ticks)));
/// println!("{:?}", reader.join());
/// # Ok::<(), rdpmc::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// A tick is `mult` / 2^`shift` nanoseconds; `shift` is at most 63.
    mult: u64,
    shift: u32,
    /// The nanoseconds at a count of 0. Negative values wrap.
    zero: u64,
    /// The counter shows the bits of `mask`, all ones from the lowest up, of a count that has not
    /// been less than `cycles`.
    cycles: u64,
    mask: u64,
}

impl Conversion {
    /// By `time_mult` and `time_shift` of a control page; None for a shift no kernel means. `zero` is
    /// what it says of the moment from which nanoseconds are to count.
    pub(crate) fn new(mult: u64, shift: u16, zero: u64) -> Option<Conversion> {
        match shift {
            0..=63 => {
                Some(Conversion { mult, shift: shift.into(), zero, cycles: 0, mask: u64::MAX })
            }
            _ => None,
        }
    }

    /// Of a clock that stands still at `ns`.
    pub(crate) fn standing_still(ns: u64) -> Conversion {
        Conversion { mult: 0, shift: 0, zero: ns, cycles: 0, mask: u64::MAX }
    }

    /// Of ticks that are nanoseconds already, and so many more of them.
    pub(crate) fn of_nanoseconds(more: u64) -> Conversion {
        Conversion { mult: 1, ..Conversion::standing_still(more) }
    }

    /// A tick is `rate` 2^-32 nanoseconds, and at `ticks` the time was `ns`.
    pub(crate) fn of_rate(rate: u64, ticks: u64, ns: u64) -> Conversion {
        let conversion = Conversion { mult: rate, shift: 32, ..Conversion::standing_still(0) };
        Conversion { zero: ns.wrapping_sub(conversion.ticks_to_ns(ticks)), ..conversion }
    }

    /// By `time_cycles` and `time_mask`, of a counter narrower than 64 bits.
    pub(crate) fn narrow(self, cycles: u64, mask: u64) -> Conversion {
        Conversion { cycles, mask, ..self }
    }

    /// The full count that `ticks` are the low bits of.
    fn count(&self, ticks: u64) -> u64 {
        self.cycles.wrapping_add(ticks.wrapping_sub(self.cycles) & self.mask)
    }

    /// The time at which the counter showed `ticks`, in nanoseconds of the clock's timeline: the
    /// header's formula (`time_zero` in `linux/perf_event.h`), exact for every shift, rounded down.
    ///
    /// Of a counter narrower than 64 bits (`time_mask`), they are taken for those nearest to the
    /// moment that this was made. Times of before the timeline's 0 wrap. A few instructions, no system
    /// call.
    pub fn ticks_to_ns(&self, ticks: u64) -> u64 {
        // The product fits in 128 bits, so the header's way by quotient and remainder, which keeps
        // it in 64, is not needed to be exact.
        let nanoseconds = (u128::from(self.count(ticks)) * u128::from(self.mult)) >> self.shift;
        self.zero.wrapping_add(nanoseconds as u64)
    }

    /// The first ticks at which the time was `ns` or later, the inverse of
    /// [`ticks_to_ns`](Conversion::ticks_to_ns). So ticks converted there and back are the first of
    /// those that fell into the same nanosecond, and a time converted there and back is the same,
    /// or less than one tick later. 0 for times before a counter of 64 bits was 0, and the most that it
    /// shows for such as no count is of. A division, no system call.
    pub fn ns_to_ticks(&self, ns: u64) -> u64 {
        let since_zero = ns.wrapping_sub(self.zero);
        if since_zero > i64::MAX as u64 {
            return 0; // before it, as nothing is 292 years after
        }
        match (u128::from(since_zero) << self.shift, u128::from(self.mult)) {
            (_, 0) => 0, // a clock that stands still
            (ns, mult) => u64::try_from(ns.div_ceil(mult)).unwrap_or(u64::MAX) & self.mask,
        }
    }

    /// Returns how long a number of ticks takes, in nanoseconds, rounded down: [`duration`](Conversion::duration) as a
    /// number. `u64::MAX` if 64 bits are too few. A few instructions, no system call.
    pub fn delta_ns(&self, ticks: u64) -> u64 {
        let ticks = ticks & self.mask;
        let nanoseconds = (u128::from(ticks) * u128::from(self.mult)) >> self.shift;
        u64::try_from(nanoseconds).unwrap_or(u64::MAX)
    }

    /// Returns how long a number of ticks takes, rounded down to a nanosecond. Pass the difference of two reads,
    /// `end.wrapping_sub(start)`: it is right even if a narrow counter has wrapped in between. A few instructions and a
    /// division, no system call.
    pub fn duration(&self, ticks: u64) -> Duration {
        Duration::from_nanos(self.delta_ns(ticks))
    }

    /// The same for ticks before those of `now` as well as after, half the counter's range each. To the
    /// nanosecond for a counter of so few bits that its range is no whole number of them.
    pub(crate) fn around(&self, now: u64) -> Conversion {
        let (now, half) = (self.count(now), self.mask >> 1);
        match (now.checked_sub(half), self.mask.checked_add(1)) {
            (Some(cycles), _) => Conversion { cycles, ..*self },
            (None, None) => *self,
            // Counts of before it has last wrapped are negative, so all are taken one turn later.
            (None, Some(turn)) => {
                let ns = (u128::from(turn) * u128::from(self.mult)) >> self.shift;
                let zero = self.zero.wrapping_sub(ns as u64);
                Conversion { cycles: now.saturating_add(turn).saturating_sub(half), zero, ..*self }
            }
        }
    }

    /// The same in the form that takes the fewest instructions: right for ticks from `time_cycles`
    /// on, to below its limit.
    pub(crate) fn line(&self) -> Line {
        let rate = match self.shift {
            0..=32 => u128::from(self.mult) << (32 - self.shift),
            _ => u128::MAX,
        };
        // Bits of the count that the counter does not show, and a strange mask, take the long way.
        let shows_all = self.cycles & !self.mask == 0 && self.mask & self.mask.wrapping_add(1) == 0;
        match u64::try_from(rate) {
            Ok(rate) if shows_all => {
                Line { rate, zero: self.zero, limit: self.mask.saturating_add(1) }
            }
            _ => Line::NONE,
        }
    }
}

/// A [`Conversion`] for ticks below a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// 2^-32 nanoseconds that a tick takes.
    rate: u64,
    /// The nanoseconds at a count of 0.
    zero: u64,
    pub(crate) limit: u64,
}

impl Line {
    /// For no ticks at all.
    pub(crate) const NONE: Line = Line { rate: 0, zero: 0, limit: 0 };

    /// The same for no more ticks than below `limit`.
    pub(crate) fn below(self, limit: u64) -> Line {
        Line { limit: self.limit.min(limit), ..self }
    }

    /// As [`Conversion::ticks_to_ns`].
    #[inline(always)]
    pub(crate) fn ns(self, ticks: u64) -> u64 {
        let nanoseconds = (u128::from(ticks) * u128::from(self.rate)) >> 32;
        self.zero.wrapping_add(nanoseconds as u64)
    }
}
