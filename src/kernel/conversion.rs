//! Converts ticks to nanoseconds and back: pure arithmetic without panics or overflow.
#![forbid(unsafe_code)]

use std::time::Duration;

/// A snapshot of a clock's conversion from ticks to nanoseconds and back, from
/// [`Clock::conversion`](crate::Clock::conversion).
///
/// A plain value that any thread may use. A clock's thread can record ticks, and another thread can convert them
/// later. All are converted by one set of parameters, so differences are exact and the order is kept. It is right for
/// ticks taken around the moment at which it was made: [`error_bound`](Conversion::error_bound) returns the maximum error of each.
/// Later updates of the clock do not change it.
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
    /// A tick takes `mult` / 2^`shift` nanoseconds. `shift` is at most 63.
    mult: u64,
    shift: u32,
    /// The nanoseconds at a count of 0. Negative values wrap.
    zero: u64,
    /// The minimum of the full count. The counter shows the bits of the count that are set in `mask`, which is all
    /// ones from the lowest bit up.
    cycles: u64,
    mask: u64,
    error: Error,
}

/// How far a conversion may be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Error {
    /// The ticks at which the error is `ns`.
    at: u64,
    /// In nanoseconds. [`UNKNOWN`] if nothing bounds it.
    ns: u64,
    /// The maximum relative error of the rate, in 2^-32.
    rate: u64,
}

const UNKNOWN: u64 = u64::MAX;

impl Error {
    const NONE: Error = Error { at: 0, ns: 0, rate: 0 };
}

impl Conversion {
    /// Makes a conversion from the `time_mult` and `time_shift` of a control page. `zero` is the page's field for the
    /// timeline: `time_zero` or `time_offset`. None if the shift exceeds 63.
    pub(crate) fn new(mult: u64, shift: u16, zero: u64) -> Option<Conversion> {
        match shift {
            0..=63 => {
                let conversion = Conversion::standing_still(zero);
                Some(Conversion { mult, shift: shift.into(), ..conversion })
            }
            _ => None,
        }
    }

    /// Makes the conversion of a clock that stands still at `ns`.
    pub(crate) fn standing_still(ns: u64) -> Conversion {
        Conversion { mult: 0, shift: 0, zero: ns, cycles: 0, mask: u64::MAX, error: Error::NONE }
    }

    /// Makes the conversion of ticks that are nanoseconds already, plus `more`.
    pub(crate) fn of_nanoseconds(more: u64) -> Conversion {
        Conversion { mult: 1, ..Conversion::standing_still(more) }
    }

    /// Makes the conversion by which a tick takes `rate` * 2^-32 nanoseconds and the time at `ticks` is `ns`.
    pub(crate) fn of_rate(rate: u64, ticks: u64, ns: u64) -> Conversion {
        let conversion = Conversion { mult: rate, shift: 32, ..Conversion::standing_still(0) };
        Conversion { zero: ns.wrapping_sub(conversion.ticks_to_ns(ticks)), ..conversion }
    }

    /// Returns this conversion with its maximum error: `ns` nanoseconds at the ticks `at`, and a part `rate` * 2^-32 of the
    /// time before and after them.
    pub(crate) fn off_by(self, at: u64, ns: u64, rate: u64) -> Conversion {
        Conversion { error: Error { at, ns, rate }, ..self }
    }

    /// Returns this conversion with `more` nanoseconds added to its maximum error. None if nothing bounds it.
    pub(crate) fn off_by_more(self, more: Option<u64>) -> Conversion {
        let ns = more.map_or(UNKNOWN, |more| self.error.ns.saturating_add(more));
        Conversion { error: Error { ns, ..self.error }, ..self }
    }

    /// Makes the conversion on which two reads of a tick counter and of a clock lie: `(ticks, ns)` each.
    ///
    /// For a program that compares the two itself, some time apart: its rate is as exact as the two reads are, over the time
    /// in between. Rounds the rate down to 2^-32 nanoseconds a tick. None if one of the two stood still, or went back.
    ///
    /// ```
    /// use rdpmc::clock::Conversion;
    ///
    /// let conversion = Conversion::through((100, 5_000), (300, 5_100)).ok_or("no time passed")?;
    /// assert_eq!(conversion.ticks_to_ns(200), 5_050);
    /// # Ok::<(), &str>(())
    /// ```
    pub fn through(earlier: (u64, u64), later: (u64, u64)) -> Option<Conversion> {
        let ticks = later.0.checked_sub(earlier.0).filter(|ticks| *ticks > 0)?;
        let ns = later.1.checked_sub(earlier.1)?;
        let rate = u64::try_from((u128::from(ns) << 32) / u128::from(ticks)).ok()?;
        let conversion = || Conversion::of_rate(rate, earlier.0, earlier.1).off_by_more(None);
        (rate > 0).then(conversion)
    }

    /// Returns this conversion for a counter narrower than 64 bits, from `time_cycles` and `time_mask`.
    pub(crate) fn narrow(self, cycles: u64, mask: u64) -> Conversion {
        Conversion { cycles, mask, ..self }
    }

    /// Returns the full count whose low bits are `ticks`.
    fn count(&self, ticks: u64) -> u64 {
        self.cycles.wrapping_add(ticks.wrapping_sub(self.cycles) & self.mask)
    }

    /// Returns the time at which the counter showed `ticks`, in nanoseconds on the clock's timeline. It is rounded
    /// down, and exact for every shift: the header's formula (`time_zero` in `linux/perf_event.h`).
    ///
    /// For a counter narrower than 64 bits (`time_mask`), `ticks` stand for the count nearest to the moment at which
    /// this value was made. Times before the timeline's 0 wrap. A few instructions, no system call.
    pub fn ticks_to_ns(&self, ticks: u64) -> u64 {
        // The product fits in 128 bits. The header's quotient and remainder, which keep it in 64 bits, are not
        // needed.
        let nanoseconds = (u128::from(self.count(ticks)) * u128::from(self.mult)) >> self.shift;
        self.zero.wrapping_add(nanoseconds as u64)
    }

    /// Returns the maximum difference between the time that [`ticks_to_ns`](Conversion::ticks_to_ns) returns for these ticks
    /// and the clock's reference when the counter showed them. A few instructions, no system call.
    ///
    /// The reference, and what the bound assumes, are those of [`Clock::error_bound`](crate::Clock::error_bound). For a calibrated
    /// clock, the bound grows with the distance of the ticks from the moment of the conversion:
    /// - The rate of a clock that was just opened is that of 200 microseconds. Its bound is some hundred parts per million of the
    ///   distance. The actual error is mostly far smaller: 6 ppm have been seen.
    /// - The rate of a clock that has been read every second for ten seconds has a bound below 0.1 ppm where the kernel's clock
    ///   uses the counter, and a few tenths of a ppm elsewhere. There, a clock that was not read for 8 seconds begins again with a
    ///   rate of 200 microseconds.
    ///
    /// To convert ticks of a long time, read the clock every second, or make a conversion near the ticks.
    ///
    /// Zero for clocks of the other kinds: their times are the kernel's own, by the parameters of that moment. None if nothing
    /// bounds the error: for [`through`](Conversion::through), which does not know how exact its reads are, and for a conversion
    /// made in a signal handler that interrupts an update.
    pub fn error_bound(&self, ticks: u64) -> Option<Duration> {
        let Error { at, ns, rate } = self.error;
        if ns == UNKNOWN {
            return None;
        }
        let away = match rate {
            0 => 0,
            _ => self.delta_ns(ticks.abs_diff(at)).saturating_add(1),
        };
        let grown = (u128::from(away) * u128::from(rate)).div_ceil(1 << 32);
        let grown = u64::try_from(grown).unwrap_or(u64::MAX);
        Some(Duration::from_nanos(ns.saturating_add(grown)))
    }

    /// Returns the first ticks at which the time was `ns` or later: the inverse of
    /// [`ticks_to_ns`](Conversion::ticks_to_ns).
    ///
    /// Ticks converted there and back are the first that fell into that nanosecond. A time converted there and back
    /// is unchanged, or less than one tick later. Saturates: returns 0 for times before the zero of a 64-bit counter,
    /// and the largest counter value for times that the counter cannot represent. A division, no system call.
    pub fn ns_to_ticks(&self, ns: u64) -> u64 {
        let since_zero = ns.wrapping_sub(self.zero);
        if since_zero > i64::MAX as u64 {
            return 0; // before zero, because no count is 292 years after it
        }
        match (u128::from(since_zero) << self.shift, u128::from(self.mult)) {
            (_, 0) => 0, // a clock that stands still
            (ns, mult) => u64::try_from(ns.div_ceil(mult)).unwrap_or(u64::MAX) & self.mask,
        }
    }

    /// Returns the length of `ticks` in nanoseconds, rounded down: [`duration`](Conversion::duration) as a number.
    /// `u64::MAX` if 64 bits are too few. A few instructions, no system call.
    pub fn delta_ns(&self, ticks: u64) -> u64 {
        let ticks = ticks & self.mask;
        let nanoseconds = (u128::from(ticks) * u128::from(self.mult)) >> self.shift;
        u64::try_from(nanoseconds).unwrap_or(u64::MAX)
    }

    /// Returns the length of `ticks`, rounded down to a nanosecond. Pass the difference of two reads,
    /// `end.wrapping_sub(start)`: it is right even if a narrow counter has wrapped in between. A few instructions and
    /// a division, no system call.
    pub fn duration(&self, ticks: u64) -> Duration {
        Duration::from_nanos(self.delta_ns(ticks))
    }

    /// Returns this conversion for ticks before `now` as well as after it, within half the counter's range each. For
    /// a counter so narrow that its range is not a whole number of nanoseconds, it is right to one nanosecond.
    pub(crate) fn around(&self, now: u64) -> Conversion {
        let (now, half) = (self.count(now), self.mask >> 1);
        match (now.checked_sub(half), self.mask.checked_add(1)) {
            (Some(cycles), _) => Conversion { cycles, ..*self },
            (None, None) => *self,
            // Counts before the last wrap are negative, so all counts are moved one turn later.
            (None, Some(turn)) => {
                let ns = (u128::from(turn) * u128::from(self.mult)) >> self.shift;
                let zero = self.zero.wrapping_sub(ns as u64);
                Conversion { cycles: now.saturating_add(turn).saturating_sub(half), zero, ..*self }
            }
        }
    }

    /// Returns the form that takes the fewest instructions. It is valid for ticks from `time_cycles` to below its
    /// limit.
    pub(crate) fn line(&self) -> Line {
        let rate = match self.shift {
            0..=32 => u128::from(self.mult) << (32 - self.shift),
            _ => u128::MAX,
        };
        // A count with bits that the counter does not show, and a mask with gaps, need the general form.
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
    /// The length of a tick, in units of 2^-32 nanoseconds.
    rate: u64,
    /// The nanoseconds at a count of 0.
    zero: u64,
    pub(crate) limit: u64,
}

impl Line {
    /// The conversion of no ticks: its limit is 0.
    pub(crate) const NONE: Line = Line { rate: 0, zero: 0, limit: 0 };

    /// Returns this conversion with a limit of at most `limit`.
    pub(crate) fn below(self, limit: u64) -> Line {
        Line { limit: self.limit.min(limit), ..self }
    }

    /// Returns the time at `ticks` in nanoseconds, as [`Conversion::ticks_to_ns`] does.
    #[inline(always)]
    pub(crate) fn ns(self, ticks: u64) -> u64 {
        let nanoseconds = (u128::from(ticks) * u128::from(self.rate)) >> 32;
        self.zero.wrapping_add(nanoseconds as u64)
    }
}
