//! What is known about a span and its counts.

use std::fmt;

/// What is known about a span and its counts.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Nothing happened.
    pub const NONE: Flags = Flags(0);
    /// The kernel switched the thread out, or moved a counter. The counts are correct, but include the consequences, such
    /// as cold caches. Known with counters, and with [`Settings::causes`](crate::Settings::causes).
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
    /// The thread gave up its CPU in between: it waited for a lock, for another thread, for input or output. Known with
    /// [`Settings::causes`](crate::Settings::causes).
    pub const WAITED: Flags = Flags(1 << 6);
    /// The kernel gave the CPU to another thread in between, although this one did not wait. Known with
    /// [`Settings::causes`](crate::Settings::causes).
    pub const PREEMPTED: Flags = Flags(1 << 7);

    /// The number of flags.
    pub(crate) const COUNT: usize = 8;

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
        const NAMES: [(Flags, &str); Flags::COUNT] = [
            (Flags::DISTURBED, "disturbed"),
            (Flags::NOT_COUNTED, "not counted"),
            (Flags::MULTIPLEXED, "multiplexed"),
            (Flags::INTERRUPTED, "interrupted"),
            (Flags::OUT_OF_ORDER, "out of order"),
            (Flags::LAP, "lap"),
            (Flags::WAITED, "waited"),
            (Flags::PREEMPTED, "preempted"),
        ];
        NAMES.into_iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| name)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
