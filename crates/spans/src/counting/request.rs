//! What a thread is to count, and what it counts.

use crate::counting::{Formula, Level1, TimeOnlyReason};
use rdpmc::Error;
use rdpmc::Event;

/// Whether spans have counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counters {
    /// Counts, unless reads are trapped. On some virtual machines they are, and take microseconds.
    #[default]
    IfCheap,
    /// Counts, if user space can read the counters at any cost.
    Always,
    /// Time only.
    Never,
}

/// What a thread is to count.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) events: Vec<Event>,
    /// Why requested names are not events here.
    pub(crate) unknown: Vec<Error>,
    pub(crate) counters: Counters,
    /// Whether context switches are told apart.
    pub(crate) causes: bool,
    /// How the pipeline slots are counted, or why they cannot be. None if nobody asked for it.
    pub(crate) topdown: Option<Result<Formula, String>>,
}

/// What a thread counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    /// Those of the slots, and then the others.
    pub(crate) events: Vec<Event>,
    /// The same as of the request, for this thread.
    pub(crate) topdown: Option<Result<Formula, String>>,
    /// The events that cannot be counted. Empty if none can be: see `time_only`.
    pub(crate) missing: Vec<(Event, Error)>,
    pub(crate) time_only: Option<TimeOnlyReason>,
    pub(crate) counts_all_privilege_levels: bool,
    /// Whether the switches of the thread are to be told apart, and are.
    pub(crate) wants_causes: bool,
    pub(crate) knows_causes: bool,
}

impl Counted {
    /// Returns the index of the event that shows interrupts: the kernel's instructions, unless they are counted together
    /// with the program's.
    pub(crate) fn index_of_interrupts(&self) -> Option<usize> {
        let of_the_kernel = |event: &Event| *event == Event::INSTRUCTIONS.kernel();
        let index = self.events.iter().position(of_the_kernel);
        index.filter(|_| !self.counts_all_privilege_levels)
    }

    /// Returns how the slots are counted. None if they are not.
    pub(crate) fn formula(&self) -> Option<&Formula> {
        self.topdown.as_ref()?.as_ref().ok()
    }

    /// Returns the number of events for the slots: the first ones.
    pub(crate) fn events_of_slots(&self) -> usize {
        self.formula().map_or(0, |formula| formula.events().len())
    }

    /// Returns the parts of the slots by these counts, which begin with those of the slots' events.
    pub(crate) fn level1(&self, counts: &[u64]) -> Option<Level1> {
        self.formula()?.level1(counts.get(..self.events_of_slots())?)
    }

    /// Whether disturbed spans are flagged.
    pub(crate) fn knows_disturbances(&self) -> bool {
        self.knows_causes || self.time_only.is_none()
    }
}
