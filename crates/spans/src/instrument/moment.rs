//! Moments, which go from one thread to another.

use crate::thread;
use rdpmc::Clock;
use std::time::{Duration, Instant, SystemTime};

/// A timestamp that can be sent to another thread. It is an end of a time for [`record!`](macro@crate::record) and `span!("name", since = moment)`.
///
/// | source | moment | cost |
/// |---|---|---|
/// | this thread, now | [`Moment::now`] | a read of the thread's clock |
/// | ticks of an [`rdpmc::Clock`] | [`Moment::from_ticks`] | some instructions |
/// | nanoseconds of such a clock | [`Moment::from_ticks`] of [`Clock::ns_to_ticks`](rdpmc::Clock::ns_to_ticks) | a conversion |
/// | an [`Instant`] | `Moment::from(instant)` | some 300 ns: three reads of both clocks, and a conversion |
/// | a [`SystemTime`], such as the kernel's timestamp of a packet | `Moment::from(time)` | the same |
///
/// Converting an `Instant` or a `SystemTime` adds the drift between the two clocks since then: at most 500 ppm while NTP slews. A step of the wall
/// clock is added in full. A thread that has forbidden itself the tick counter (`prctl(PR_SET_TSC)`) must not convert.
///
/// A `Moment` that is made while spans are off is empty. A time with an empty end is not recorded, and not lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Below 0 before the counter began.
    ticks: i64,
    clock: Of,
}

/// The clock whose ticks a moment has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// Spans were off.
    Nothing,
    TickCounter,
    /// That of the kernel, whose ticks are nanoseconds.
    Kernel,
}

impl Moment {
    /// In place of a moment while spans are off.
    const NOTHING: Moment = Moment { ticks: 0, clock: Of::Nothing };

    /// Reads this thread's clock. The first call of a thread takes as long as its first span.
    #[inline]
    pub fn now() -> Moment {
        Moment::by(|clock| signed(clock.ticks()))
    }

    /// Converts ticks of an [`rdpmc::Clock`], which any thread of this machine has read. This thread's clock must be of the same kind:
    /// [`Kernel`](rdpmc::clock::ClockKind::Kernel), or one of the others.
    #[inline]
    pub fn from_ticks(ticks: u64) -> Moment {
        Moment::by(|_| signed(ticks))
    }

    #[inline]
    fn by(ticks: impl FnOnce(&Clock) -> i64) -> Moment {
        if thread::recording() == 0 {
            return Moment::NOTHING;
        }
        let moment = |clock: &Clock| Moment {
            ticks: ticks(clock),
            clock: if clock.tick_counter().is_some() { Of::TickCounter } else { Of::Kernel },
        };
        thread::with_clock(moment).unwrap_or(Moment::NOTHING)
    }

    /// Returns the moment that another clock shows as so long ago, or as that far in the future.
    fn by_other(ago: impl Fn() -> Result<Duration, Duration>) -> Moment {
        Moment::by(|clock| {
            // Both at one moment, as far as the thread is not switched out in between. The look that took the least time.
            let look = || {
                let before = clock.ticks();
                let ago = ago();
                (clock.ticks().wrapping_sub(before), before, ago)
            };
            let looks = [look(), look(), look()];
            let [first, ..] = looks;
            let least = looks.into_iter().min_by_key(|(took, ..)| *took).unwrap_or(first);
            let (took, before, ago) = least;
            let now = signed(before.saturating_add(took / 2));
            match ago {
                Ok(age) => now.saturating_sub(ticks(clock, age)),
                Err(until) => now.saturating_add(ticks(clock, until)),
            }
        })
    }

    /// Returns the ticks between two moments: 0 if the second one is before. None if they are of different clocks.
    pub(super) fn ticks_until(self, end: Moment) -> Option<u64> {
        let ticks = u64::try_from(end.ticks.saturating_sub(self.ticks)).unwrap_or(0);
        (self.clock == end.clock).then_some(ticks)
    }

    pub(super) fn is_nothing(self) -> bool {
        self.clock == Of::Nothing
    }
}

/// Returns ticks that a clock shows, which are less than 2^63 for a hundred years.
fn signed(ticks: u64) -> i64 {
    i64::try_from(ticks).unwrap_or(i64::MAX)
}

/// Returns a time in ticks of a clock.
fn ticks(clock: &Clock, time: Duration) -> i64 {
    let (conversion, now) = (clock.conversion(), clock.ticks());
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    // No clock has such a time, and no time is as long.
    if ns > u64::MAX / 4 {
        return i64::MAX;
    }
    let then = conversion.ticks_to_ns(now).saturating_add(ns);
    signed(conversion.ns_to_ticks(then).saturating_sub(now))
}

impl From<Instant> for Moment {
    /// Converts an instant, which may be in the future.
    fn from(instant: Instant) -> Moment {
        Moment::by_other(|| {
            let now = Instant::now();
            now.checked_duration_since(instant)
                .ok_or_else(|| instant.saturating_duration_since(now))
        })
    }
}

impl From<SystemTime> for Moment {
    /// Converts a time of the wall clock, which may be in the future.
    fn from(time: SystemTime) -> Moment {
        Moment::by_other(|| {
            SystemTime::now().duration_since(time).map_err(|before| before.duration())
        })
    }
}

/// The begin and the end of a time, for [`record!`](macro@crate::record): `begin..end`, `begin..` until now, or a [`Duration`] that ends now. An end is a
/// [`Moment`], an [`Instant`] or a [`SystemTime`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a time that can be recorded",
    note = "use `begin..end` with two ends of one type, `begin..` until now, or a `Duration` that ends now",
    note = "an end is a `Moment`, an `Instant` or a `SystemTime`; `Moment::from` converts the others"
)]
pub trait Times: sealed::Sealed {
    /// Returns both ends.
    #[doc(hidden)]
    fn ends(self) -> [Moment; 2];
}

impl<T: Into<Moment>> Times for std::ops::Range<T> {
    fn ends(self) -> [Moment; 2] {
        [self.start.into(), self.end.into()]
    }
}

impl<T: Into<Moment>> Times for std::ops::RangeFrom<T> {
    fn ends(self) -> [Moment; 2] {
        let end = Moment::now();
        [self.start.into(), end]
    }
}

impl Times for Duration {
    fn ends(self) -> [Moment; 2] {
        let end = Moment::now();
        let start = Moment::by(|clock| end.ticks.saturating_sub(ticks(clock, self)));
        [start, end]
    }
}

mod sealed {
    pub trait Sealed {}
    impl<T: Into<super::Moment>> Sealed for std::ops::Range<T> {}
    impl<T: Into<super::Moment>> Sealed for std::ops::RangeFrom<T> {}
    impl Sealed for std::time::Duration {}
}

/// The most ticks of a time. Longer ones are of a wrong timestamp, such as 0, and sums of them would overflow. Years, by any clock.
const MOST: u64 = 1 << 57;

/// What is to be done with the time between two moments.
pub(super) enum Between {
    Record([u64; 2]),
    /// Spans were off at one of them.
    Nothing,
    /// It is too long, one of them is of another clock, or this thread has none any more.
    Lose,
}

/// Returns the ticks of both ends by this thread's clock.
pub(super) fn between([start, end]: [Moment; 2]) -> Between {
    let here = Moment::now();
    if thread::recording() != 0 && here.is_nothing() {
        return Between::Lose;
    }
    if start.is_nothing() || end.is_nothing() {
        return Between::Nothing;
    }
    match start.ticks_until(end) {
        Some(ticks) if ticks <= MOST && end.clock == here.clock => {
            let end = end.ticks as u64; // as a clock has it
            Between::Record([end.wrapping_sub(ticks), end])
        }
        _ => Between::Lose,
    }
}
