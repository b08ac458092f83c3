//! The settings of a recording.

use crate::counting::{Counters, Request};
use crate::record::MAX_EVENTS;
use crate::recording::start_error::MAX_RECORDS;
use crate::recording::{Spans, StartError};
use crate::session::{Plan, Slow, Storage, begin};
use rdpmc::Error;
use rdpmc::IntoEvent;
use rdpmc::error::ErrorKind;
use std::time::Duration;

/// The most slowest spans of an interval.
const MAX_SLOWEST: usize = 1_000;

/// The settings of a recording, to be [started](Settings::start).
///
/// ```
/// use rdpmc::Event;
/// use rdpmc_spans::{Settings, span};
///
/// let events = [Event::CYCLES, Event::INSTRUCTIONS];
/// let mut spans = Settings::new().events(&events).start()?;
/// {
///     let _span = span!("physics");
/// }
/// println!("{}", spans.report());
/// # Ok::<(), rdpmc_spans::StartError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    plan: Plan,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::new()
    }
}

impl Settings {
    /// Returns the settings of a recording of time only, in rings of 16,384 records, which keeps a million records for
    /// traces.
    pub fn new() -> Settings {
        Settings {
            plan: Plan {
                request: Request {
                    events: Vec::new(),
                    unknown: Vec::new(),
                    counters: Counters::IfCheap,
                    causes: false,
                    topdown: None,
                },
                storage: Storage::default(),
                kept: 1_000_000,
                slow: Slow::default(),
                faults: Vec::new(),
            },
        }
    }

    /// Counts these events, or the events of these names, in every span: at most 8, on every thread.
    ///
    /// Events that a thread cannot open are left out, and the report has the reason. So are names that need a PMU which this
    /// machine lacks. If user space cannot read one of the others, such as a software event, spans have the time only.
    #[must_use]
    pub fn events<E>(mut self, events: &[E]) -> Settings
    where
        for<'a> &'a E: IntoEvent,
    {
        let request = &mut self.plan.request;
        (request.events, request.unknown) = (Vec::new(), Vec::new());
        for event in events {
            match event.into_event() {
                Ok(event) => request.events.push(event),
                Err(why) => request.unknown.push(why),
            }
        }
        self
    }

    /// Also counts where the pipeline slots of each span go: the first level of the top-down method. See [`rdpmc_events::topdown`].
    ///
    /// The slots' events take precedence over [`events`](Settings::events), unless there are more than 8 with these. Their own counts are in no
    /// report, trace or metric.
    ///
    /// The report has four more columns, and the cause of a slow span names the largest part. This takes 4 to 6 counters of the 8 events
    /// that a span can have. The memory's part of the back end, which takes more, is not counted. [`Row::topdown`](crate::Row::topdown)
    /// and [`Record::topdown`](crate::Record::topdown) have the figures.
    ///
    /// Finds out how this CPU counts slots, by opening an event. On a CPU with several core types, the calling thread has to be
    /// restricted to one of them, and only threads of that type count. Threads that cannot count them record without, and the report
    /// says why: this CPU has no such events, or too few counters. Needs the feature `topdown`.
    #[cfg(feature = "topdown")]
    #[must_use]
    pub fn topdown(mut self) -> Settings {
        let formula = rdpmc_events::topdown::Formula::of_this_cpu();
        let formula = formula.map(rdpmc_events::topdown::Formula::without_memory);
        self.plan.request.topdown = Some(formula.map_err(|why| why.to_string()));
        self
    }

    /// Sets whether spans have counts.
    #[must_use]
    pub fn counters(mut self, counters: Counters) -> Settings {
        self.plan.request.counters = counters;
        self
    }

    /// Tells spans in which the thread waited from those in which it was preempted: [`Flags::WAITED`](crate::Flags::WAITED)
    /// and [`Flags::PREEMPTED`](crate::Flags::PREEMPTED), and how long: [`Row::off_cpu`](crate::Row::off_cpu) and
    /// [`Row::runnable`](crate::Row::runnable). The [cause](crate::SlowSpan::cause) of a slow span needs it. Without counters, it
    /// also finds which spans are disturbed.
    ///
    /// A span takes some instructions more. After a context switch, the next span makes system calls: `getrusage` and
    /// `clock_gettime` twice. After a preemption, and after waits of 100 µs, it also reads `/proc/thread-self/schedstat` (`open`,
    /// `read`, `close`). Together these take 1 to 6 µs. A seccomp filter that kills the process for one of them has to allow it.
    ///
    /// Needs an area that glibc 2.35 or later registers with the kernel (rseq). Kernels since 6.19 may not show waits there: the
    /// first thread finds out, in a millisecond. Without it, nothing changes, and the report says so. If other code of the
    /// program uses this area, more spans make the system calls.
    #[must_use]
    pub fn causes(mut self) -> Settings {
        self.plan.request.causes = true;
        self
    }

    /// Counts the page faults of the spans of this name, such as that of a frame, by a system call (`getrusage`) before and after
    /// each of them. May be called for several names.
    ///
    /// A [cause](crate::SlowSpan::cause) then tells when a slow span had more than usual, without a PMU. Other spans take some
    /// instructions more. Not for laps.
    #[must_use]
    pub fn faults(mut self, name: &str) -> Settings {
        self.plan.faults.push(name.to_string());
        self
    }

    /// Sets where threads record.
    #[must_use]
    pub fn storage(mut self, storage: Storage) -> Settings {
        self.plan.storage = storage;
        self
    }

    /// Keeps this many records for [`Interval::records`](crate::Interval::records) and traces: the latest of all threads.
    /// Earlier records are only in the report, and the trace has their number. A record takes 128 bytes, and 72 more if it has a number, lost time
    /// or page faults.
    #[must_use]
    pub fn keep(mut self, records: usize) -> Settings {
        self.plan.kept = records;
        self
    }

    /// Keeps the slowest outermost spans of each interval, with the spans inside them and those of other threads that
    /// overlap them: see [`Interval::slowest`](crate::Interval::slowest). At most 1,000.
    ///
    /// With [`Storage::Histograms`], a thread keeps the first 1,024 records inside an outermost span until it ends, and 64 more
    /// of spans over their limits, in 111 KiB. They are known when it ends. The others are
    /// [counted](crate::SlowSpan::not_kept). Slow ones go to a ring of 4,096 records, which [`Spans::collect`] empties. Spans
    /// of other threads are then known only if they are slow themselves.
    #[must_use]
    pub fn slowest(mut self, spans: usize) -> Settings {
        self.plan.slow.slowest = spans.min(MAX_SLOWEST);
        self
    }

    /// Keeps the spans of this name that take longer than `limit`, as [`slowest`](Settings::slowest) does. May be called for
    /// several names. Of an interval, the longest 1,000 are kept, and the others counted.
    #[must_use]
    pub fn slow(mut self, name: &str, limit: Duration) -> Settings {
        self.plan.slow.limits.push((name.to_string(), limit));
        self
    }

    /// Turns spans on in the whole process.
    ///
    /// Also calls [`rdpmc::contain_faults`], so that a read that faults does not kill the process. Without the feature
    /// `enabled`, nothing is recorded, and reports say so.
    ///
    /// # Errors
    /// - [`StartError::Running`] if the result of another call is still alive.
    /// - [`StartError::TooManyEvents`] for more than 8 events.
    /// - [`StartError::Name`] for a name that is not that of an event, unless only the PMU is missing that it needs.
    /// - [`StartError::RingTooLarge`] for more than 2^28 records.
    /// - [`StartError::Clock`] if there is no clock: the target is not Linux.
    #[allow(unused_mut, reason = "only with the feature `topdown`")]
    pub fn start(mut self) -> Result<Spans, StartError> {
        let Request { events, unknown, topdown, .. } = &mut self.plan.request;
        let events = events.len() + unknown.len();
        if let Some(Ok(formula)) = topdown {
            let all = events + formula.events().len();
            if all > MAX_EVENTS {
                *topdown = Some(Err(format!(
                    "with the others, {all} events are needed, and {MAX_EVENTS} can be counted"
                )));
            }
        }
        if events > MAX_EVENTS {
            return Err(StartError::TooManyEvents { events });
        }
        let is_wrong =
            |why: &&Error| !matches!(why.kind(), ErrorKind::NoPmu { .. } | ErrorKind::NoPmuList);
        if let Some(why) = self.plan.request.unknown.iter().find(is_wrong) {
            return Err(StartError::Name(why.clone()));
        }
        if let Storage::Ring { records } = self.plan.storage {
            if records > MAX_RECORDS {
                return Err(StartError::RingTooLarge { records });
            }
        }
        let clock = rdpmc::Clock::open().map_err(StartError::Clock)?;
        // Refused only where another handler is in the way. Reads work without.
        let contained =
            if cfg!(feature = "enabled") { rdpmc::contain_faults().err() } else { None };
        let session = begin(self.plan).ok_or(StartError::Running)?;
        Ok(Spans::new(session, &clock, contained.map(|why| why.to_string())))
    }
}
