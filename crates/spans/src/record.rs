//! What is recorded of a span.

use crate::Site;
use std::fmt;

/// The most events that a record has counts of.
pub const MAX_EVENTS: usize = 8;

/// The most spans that can be open on a thread. More are dropped.
pub(crate) const MAX_DEPTH: u16 = 511;

/// A finished span or lap.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Where it began. For a lap, where its stage is defined.
    pub site: &'static Site,
    /// The site of the innermost span that was open when this one began. None if there was none, or if it is unknown
    /// because spans ended [out of order](Flags::OUT_OF_ORDER).
    pub parent: Option<&'static Site>,
    /// The clock's ticks at its beginning and at its end.
    pub ticks: [u64; 2],
    /// The number of open spans, with this one: 1 if there is none around it. A lap counts as one.
    pub depth: u16,
    /// The counts, in the order of the thread's [`ThreadInfo::events`](crate::ThreadInfo::events), which lack events that it
    /// cannot count. Unused entries are 0.
    pub counts: [u64; MAX_EVENTS],
    /// What is known about the counts.
    pub flags: Flags,
}

impl Record {
    /// Returns the length in ticks. 0 if the clock went backwards. [`Spans::duration`](crate::Spans::duration) converts it.
    pub fn duration(&self) -> u64 {
        let [start, end] = self.ticks;
        // A clock that was set back in between yields a huge difference.
        match end.wrapping_sub(start) {
            ticks if ticks > u64::MAX / 2 => 0,
            ticks => ticks,
        }
    }
}

/// What is known about a span and its counts.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Nothing happened.
    pub const NONE: Flags = Flags(0);
    /// The kernel switched the thread out, or moved a counter. The counts are correct, but include the consequences, such
    /// as cold caches.
    pub const DISTURBED: Flags = Flags(1);
    /// There are no counts: the events had no counters at the beginning or at the end.
    pub const NOT_COUNTED: Flags = Flags(1 << 1);
    /// The events were without counters for a part of the span, because others had their turn. The counts are too low.
    pub const MULTIPLEXED: Flags = Flags(1 << 2);
    /// The kernel executed instructions in between: an interrupt, a fault or a system call. Known only if `instructions:k`
    /// is among the events, and the PMU can count the kernel's instructions apart. Not known in histograms if the clock is the
    /// kernel's.
    pub const INTERRUPTED: Flags = Flags(1 << 3);
    /// The span ended before a span inside it did, or after the span around it. Its parent may be wrong.
    pub const OUT_OF_ORDER: Flags = Flags(1 << 4);
    /// A lap, from [`Laps::next`](crate::Laps::next), and not a span.
    pub const LAP: Flags = Flags(1 << 5);

    /// Whether all flags of `other` are set.
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any flag of `other` is set.
    pub const fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the flags that are set in either.
    #[must_use]
    pub const fn union(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u8) -> Flags {
        Flags(bits)
    }

    /// Returns the names of those that are set, as in reports and traces.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        const NAMES: [(Flags, &str); 6] = [
            (Flags::DISTURBED, "disturbed"),
            (Flags::NOT_COUNTED, "not counted"),
            (Flags::MULTIPLEXED, "multiplexed"),
            (Flags::INTERRUPTED, "interrupted"),
            (Flags::OUT_OF_ORDER, "out of order"),
            (Flags::LAP, "lap"),
        ];
        NAMES.into_iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| name)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
