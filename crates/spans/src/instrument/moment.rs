//! Moments, which go from one thread to another.

use crate::thread;
use rdpmc::Clock;
use std::time::{Duration, Instant, SystemTime};

/// A moment: where a time begins or ends that does not stay on one thread. For [`record!`](crate::record) and for
/// `span!("name", since = moment)`.
///
/// A program sends it along with the work, or makes one from a timestamp of another source:
///
/// | source | moment | cost |
/// |---|---|---|
/// | this thread, now | [`Moment::now`] | a read of the thread's clock |
/// | ticks of an [`rdpmc::Clock`] | [`Moment::from_ticks`] | some instructions |
/// | nanoseconds of such a clock | [`Moment::from_ticks`] of [`Clock::ns_to_ticks`](rdpmc::Clock::ns_to_ticks) | a conversion |
/// | an [`Instant`] | `Moment::from(instant)` | `clock_gettime` and a conversion |
/// | a [`SystemTime`], such as a packet's timestamp by the kernel or by a network card that `ptp4l` or `phc2sys` sets | `Moment::from(time)` | the same |
///
/// One from an `Instant` or `SystemTime` has the difference between that clock and the thread's since then: at most 500 ppm while NTP slews
/// the clock, and a step of the wall clock. A moment is nothing while spans are off. Then nothing is recorded of the time that it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    ticks: u64,
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

    /// Returns this moment, by the clock of this thread. The thread's first call takes as long as its first span.
    #[inline]
    pub fn now() -> Moment {
        Moment::by(Clock::ticks)
    }

    /// Returns the moment of these ticks of an [`rdpmc::Clock`], on any thread of this machine. This thread's clock must be of the same kind:
    /// [`Kernel`](rdpmc::clock::ClockKind::Kernel), or one of the others.
    #[inline]
    pub fn from_ticks(ticks: u64) -> Moment {
        Moment::by(|_| ticks)
    }

    fn by(ticks: impl FnOnce(&Clock) -> u64) -> Moment {
        let moment = |clock: &Clock| Moment {
            ticks: ticks(clock),
            clock: if clock.tick_counter().is_some() { Of::TickCounter } else { Of::Kernel },
        };
        thread::with_clock(moment).unwrap_or(Moment::NOTHING)
    }

    /// Returns the moment at which something is this old.
    fn of_age(age: Duration) -> Moment {
        Moment::by(|clock| clock.ticks().wrapping_sub(ticks(clock, age)))
    }

    /// Returns the moment in so much time.
    fn after(time: Duration) -> Moment {
        Moment::by(|clock| clock.ticks().wrapping_add(ticks(clock, time)))
    }

    /// Returns the ticks between two moments. None if they are of different clocks.
    pub(super) fn ticks_until(self, end: Moment) -> Option<u64> {
        let ticks = crate::record::ticks_between(self.ticks, end.ticks);
        (self.clock == end.clock).then_some(ticks)
    }

    pub(super) fn is_nothing(self) -> bool {
        self.clock == Of::Nothing
    }
}

/// Returns a time in ticks of a clock.
fn ticks(clock: &Clock, time: Duration) -> u64 {
    let (conversion, now) = (clock.conversion(), clock.ticks());
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let then = conversion.ticks_to_ns(now).saturating_add(ns);
    conversion.ns_to_ticks(then).saturating_sub(now)
}

impl From<Instant> for Moment {
    /// Returns the moment of an instant, which may be in the future.
    fn from(instant: Instant) -> Moment {
        let now = Instant::now();
        match now.checked_duration_since(instant) {
            Some(age) => Moment::of_age(age),
            None => Moment::after(instant.saturating_duration_since(now)),
        }
    }
}

impl From<SystemTime> for Moment {
    /// Returns the moment of a time of the wall clock, which may be in the future.
    fn from(time: SystemTime) -> Moment {
        match SystemTime::now().duration_since(time) {
            Ok(age) => Moment::of_age(age),
            Err(before) => Moment::after(before.duration()),
        }
    }
}

/// The begin and the end of a time, for [`record!`](crate::record): `begin..end`, `begin..` until now, or a [`Duration`] that ends now.
pub trait Times: sealed::Sealed {
    /// Returns both ends.
    #[doc(hidden)]
    fn ends(self) -> [Moment; 2];
}

impl Times for std::ops::Range<Moment> {
    fn ends(self) -> [Moment; 2] {
        [self.start, self.end]
    }
}

impl Times for std::ops::RangeFrom<Moment> {
    fn ends(self) -> [Moment; 2] {
        [self.start, Moment::now()]
    }
}

impl Times for Duration {
    fn ends(self) -> [Moment; 2] {
        let end = Moment::now();
        let start = Moment::by(|clock| end.ticks.wrapping_sub(ticks(clock, self)));
        [start, end]
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for std::ops::Range<super::Moment> {}
    impl Sealed for std::ops::RangeFrom<super::Moment> {}
    impl Sealed for std::time::Duration {}
}

/// Returns the ticks of both ends by this thread's clock. None if one of them is nothing, an error if they are of another clock.
pub(super) fn ticks_of([start, end]: [Moment; 2]) -> Option<Result<[u64; 2], ()>> {
    if start.is_nothing() || end.is_nothing() {
        return None;
    }
    let here = Moment::from_ticks(0);
    let is_of_this_clock = [start, end].iter().all(|moment| moment.clock == here.clock);
    Some(if is_of_this_clock { Ok([start.ticks, end.ticks]) } else { Err(()) })
}
