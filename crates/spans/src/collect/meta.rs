//! What is known of a thread that records.

use crate::collect::Cost;
use crate::counting::Counted;
use rdpmc::Error;
use rdpmc::clock::{ClockKind, Conversion};

/// What is known of a thread.
#[derive(Clone, Debug)]
pub(crate) struct Meta {
    /// The order in which threads joined, from 1.
    pub(crate) number: u32,
    pub(crate) name: String,
    /// The kernel's numbers of the process and the thread.
    pub(crate) kernel_ids: [u32; 2],
    /// Whether the program has named it.
    pub(crate) is_named: bool,
    pub(crate) counted: Counted,
    /// Why requested names are not events here.
    pub(crate) unknown: Vec<Error>,
    pub(crate) clock: ClockKind,
    pub(crate) conversion: Conversion,
    pub(crate) cost: Cost,
    pub(crate) is_in_histograms: bool,
}

impl Meta {
    /// Whether the ticks are those of a tick counter.
    pub(crate) fn has_tick_counter(&self) -> bool {
        !matches!(self.clock, ClockKind::Kernel(_))
    }

    /// Returns the kernel's number of the thread. In the child of a fork, that of its first thread: it has no other of the parent's.
    pub(crate) fn kernel_id(&self) -> u32 {
        let [process, thread] = self.kernel_ids;
        let this = std::process::id();
        if this == process { thread } else { this }
    }

    /// Returns the name under which ended threads are added up.
    pub(crate) fn group(&self) -> &str {
        if self.is_named { &self.name } else { "unnamed threads" }
    }

    /// Whether the figures of both threads can be added.
    pub(crate) fn is_like(&self, other: &Meta) -> bool {
        self.counted.events == other.counted.events
            && self.has_tick_counter() == other.has_tick_counter()
            && self.is_in_histograms == other.is_in_histograms
    }
}
