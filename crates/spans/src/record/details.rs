//! What is known of a span beside its record.

/// The time in a span in which its thread was not on a CPU, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// All of it. None if it is not known.
    pub(crate) off_cpu: Option<u64>,
    /// The part in which the thread was ready to run: it was preempted, or was woken and got no CPU. None if the kernel does
    /// not tell.
    pub(crate) runnable: Option<u64>,
}

/// Page faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// Those that the kernel handled without waiting for a disk.
    pub(crate) minor: u64,
    /// Those for which it read from a disk.
    pub(crate) major: u64,
}

impl Faults {
    pub(crate) fn all(self) -> u64 {
        self.minor.saturating_add(self.major)
    }

    /// Returns those since an earlier time.
    pub(crate) fn since(self, earlier: Faults) -> Faults {
        Faults {
            minor: self.minor.saturating_sub(earlier.minor),
            major: self.major.saturating_sub(earlier.major),
        }
    }
}

/// The polls of a future.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Polls {
    /// The sum of their ticks.
    pub(crate) busy: u64,
    /// Their number.
    pub(crate) times: u64,
}

impl Polls {
    /// Returns the sum of what is known.
    pub(crate) fn sum(one: Option<Polls>, other: Option<Polls>) -> Option<Polls> {
        match (one, other) {
            (Some(one), Some(other)) => Some(Polls {
                busy: one.busy.saturating_add(other.busy),
                times: one.times.saturating_add(other.times),
            }),
            (one, other) => one.or(other),
        }
    }
}

/// What is known of a span beside its record.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Details {
    /// The program's number.
    pub(crate) number: Option<u64>,
    pub(crate) lost: Option<Lost>,
    pub(crate) faults: Option<Faults>,
    pub(crate) polls: Option<Polls>,
    /// Of a recorded time in histograms: how many spans in it are not kept.
    pub(crate) not_kept: u64,
}

impl Details {
    /// Those of a recorded time.
    pub(crate) fn of_time(number: Option<u64>, polls: Option<Polls>) -> Details {
        Details { number, polls, ..Details::default() }
    }
}
