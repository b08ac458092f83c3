//! The open counters of a set of events: of this thread, or of several threads.

use rdpmc::error::{OpenError, ReadError, SyscallReason};
use rdpmc::region::Snapshot;
use rdpmc::{Access, DynGroup, Event, PerEvent, Scope, SyscallGroup};

/// Counters that are open.
#[derive(Debug)]
pub(crate) enum Counters {
    OfThisThread(DynGroup),
    OfThreads(Box<SyscallGroup>),
}

impl Counters {
    pub(crate) fn open(events: &[Event], scope: Scope) -> Result<Counters, OpenError> {
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
        let software = Access::SystemCall(SyscallReason::SoftwareEvent);
        matches!(self, Counters::OfThisThread(group) if group.access() == software)
    }

    /// Returns the place of the context switches of this thread. None if they are not counted, or with those of other threads.
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

    /// Reads in user space, with the locks, which show context switches. None if that is not possible now.
    #[inline]
    pub(crate) fn snapshot(&self) -> Option<Snapshot<8>> {
        match self {
            Counters::OfThisThread(group) => group.snapshot(),
            Counters::OfThreads(_) => None,
        }
    }

    #[inline]
    pub(crate) fn read(&self) -> Result<PerEvent<u64>, ReadError> {
        match self {
            Counters::OfThisThread(group) => group.read(),
            Counters::OfThreads(group) => group.read(),
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
