//! The open counters of a set of events: of this thread, or of several threads.

use rdpmc::Error;
use rdpmc::error::ErrorKind;
use rdpmc::region::Snapshot;
use rdpmc::{Access, DynGroup, Event, PerEvent, Reading, Scope, SyscallGroup};

/// Counts at one moment.
pub(crate) enum Counts {
    /// With the locks, which show context switches.
    User(Snapshot<8>),
    Kernel(PerEvent<u64>),
    /// With the times, which show whether the events had counters.
    OfThreads(PerEvent<Reading>),
    None,
}

/// Counters that are open.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for each set of events")]
pub(crate) enum Counters {
    OfThisThread(DynGroup),
    OfThreads(Box<SyscallGroup>),
}

impl Counters {
    pub(crate) fn open(events: &[Event], scope: Scope) -> Result<Counters, Error> {
        // If the PMU cannot exclude the kernel (riscv64), it is counted, too.
        let builder = DynGroup::builder(events).allow_all_privilege_levels(true);
        match scope {
            Scope::Thread => builder.open().map(Counters::OfThisThread),
            scope => Ok(Counters::OfThreads(Box::new(builder.open_scope(scope)?))),
        }
    }

    /// Whether they are read in user space.
    pub(crate) fn are_in_user_space(&self) -> bool {
        matches!(self, Counters::OfThisThread(group) if group.access() == Access::UserSpace)
    }

    /// Whether all counts are this thread's and the kernel's own: page faults, for example.
    pub(crate) fn are_software(&self) -> bool {
        let software = Some(ErrorKind::SoftwareEvent);
        matches!(self, Counters::OfThisThread(group) if group.access().why_system_call() == software)
    }

    /// Returns the place of the context switches. None if they are not counted for this thread alone.
    pub(crate) fn place_of_switches(&self) -> Option<usize> {
        let Counters::OfThisThread(group) = self else { return None };
        group.events().iter().position(|event| *event == Event::CONTEXT_SWITCHES)
    }

    pub(crate) fn count_all_privilege_levels(&self) -> bool {
        match self {
            Counters::OfThisThread(group) => group.counts_all_privilege_levels(),
            Counters::OfThreads(group) => group.counts_all_privilege_levels(),
        }
    }

    /// Reads the counts, in user space if that is possible and `in_user_space` is set. None if they cannot be read now.
    #[inline]
    pub(crate) fn read(&self, in_user_space: bool) -> Option<Counts> {
        match self {
            Counters::OfThisThread(group) if in_user_space => group.snapshot().map(Counts::User),
            Counters::OfThisThread(group) => group.read().map(Counts::Kernel).ok(),
            Counters::OfThreads(group) => group.reading().map(Counts::OfThreads).ok(),
        }
    }

    /// Says why they cannot be read.
    pub(crate) fn why_unreadable(&self) -> String {
        match self {
            Counters::OfThisThread(group) => group.access().to_string(),
            Counters::OfThreads(group) => {
                group.read().err().map_or_else(String::new, |why| why.to_string())
            }
        }
    }
}
