//! What is known of a thread.

use crate::batch::{Thread, Timeline};
use crate::counting::TimeOnlyReason;
use rdpmc::Error;
use rdpmc::Event;
use std::time::Duration;

/// What is known of a thread that records, or of ended threads of one name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ThreadInfo {
    /// The order in which threads registered or recorded their first span, from 1. That of the first one, if several have
    /// ended.
    pub number: u32,
    /// The thread's name, or `thread` and its number. Ended threads without a name are `unnamed threads`, and those beyond 64
    /// names `threads of other names`.
    pub name: String,
    /// The number of threads that have ended. 0 for one that has not. A thread that was killed, or ended by the system call
    /// `exit`, counts as one that has not.
    pub ended: u64,
    /// The events that it counts. Those of the top-down method come first.
    pub events: Vec<Event>,
    /// The requested events that it cannot count, and why. Empty if it counts none: see `time_only`.
    pub missing: Vec<(Event, Error)>,
    /// Why requested names are not events of this machine: it lacks the PMU that they need.
    pub unknown: Vec<Error>,
    /// Why it counts no event at all. None if it does.
    pub time_only: Option<TimeOnlyReason>,
    /// Whether the counts include the kernel's, because the PMU cannot leave them out.
    pub counts_all_privilege_levels: bool,
    /// Whether [`Settings::causes`](crate::Settings::causes) is set and works.
    pub knows_causes: bool,
    pub(super) wants_causes: bool,
    pub(super) counts_slots: bool,
    /// Why the pipeline slots are not counted, although that was requested.
    pub(super) no_slots: Option<String>,
    /// The mean time of an empty span, which the times of all spans include.
    pub empty_span: Duration,
    /// The mean time that an empty span takes the program: that of both ends and of recording it.
    pub span_cost: Duration,
    /// The mean time of an empty lap, which the times of all laps include.
    pub empty_lap: Duration,
    /// The counts of an empty span. The counts of spans have them subtracted. None if they vary by more than a
    /// sixteenth: then they are not subtracted.
    pub empty_span_counts: Vec<(Event, Option<u64>)>,
    /// The spans and laps that found the ring full, or for which more than 511 spans were open.
    pub dropped: u64,
}

impl ThreadInfo {
    pub(crate) fn new(thread: &Thread, time: &Timeline) -> ThreadInfo {
        let meta = &thread.meta;
        let conversion = time.conversion(meta);
        let amounts = &meta.cost.span;
        let counts = amounts.counts.iter().zip(amounts.is_steady);
        let counts = counts.map(|(count, is_steady)| is_steady.then_some(*count));
        let counted = meta.counted.clone();
        ThreadInfo {
            number: meta.number,
            name: meta.name.clone(),
            ended: thread.ended,
            empty_span_counts: counted
                .events
                .iter()
                .copied()
                .zip(counts)
                .skip(counted.events_of_slots())
                .collect(),
            counts_slots: counted.formula().is_some(),
            no_slots: counted.topdown.and_then(Result::err),
            events: counted.events,
            missing: counted.missing,
            unknown: meta.unknown.clone(),
            time_only: counted.time_only,
            counts_all_privilege_levels: counted.counts_all_privilege_levels,
            wants_causes: counted.wants_causes,
            knows_causes: counted.knows_causes,
            empty_span: meta.cost.span_time.duration(&conversion),
            span_cost: meta.cost.span_whole.duration(&conversion),
            empty_lap: meta.cost.lap_time.duration(&conversion),
            dropped: thread.dropped,
        }
    }
}
