//! Why a span was slow: where its time went, what happened there, and who held it up.
//!
//! `usual` has what is usual for each site. `place` finds the span, `reasons` what happened in it, `holder` the span of another thread
//! for which it waited. `sentence` says it.

mod holder;
mod place;
mod reasons;
mod sentence;
mod usual;

#[cfg(feature = "otlp")]
pub(crate) use place::nodes;
pub(crate) use usual::Usual;

use crate::batch::Tree;
use crate::collect::Kept;
use crate::record::Site;
use place::Found;
use rdpmc::Event;
use std::time::Duration;

/// Why a span was slow: from [`SlowSpan::cause`](crate::SlowSpan::cause). Printing it prints some sentences.
///
/// ```
/// use rdpmc_spans::{Settings, span};
///
/// let mut spans = Settings::new().slowest(1).causes().start()?;
/// for frame in 0..10 {
///     let _frame = span!("frame", frame);
///     let _work = span!("work");
///     if frame == 7 {
///         std::thread::sleep(std::time::Duration::from_millis(5));
///     }
/// }
/// let interval = spans.take();
/// if let Some(slow) = interval.slowest().next() {
///     println!("{}", slow.cause()); // work took 5.08 ms, usually 20 ns. It waited for 5.06 ms: for something without a span.
/// }
/// # Ok::<(), rdpmc_spans::StartError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Cause {
    /// The median time of the spans with the same site. None if there are fewer than three.
    pub usual: Option<Duration>,
    /// Where the time went: the span inside, or the part of the slow span that is in no span inside, that took the most longer
    /// than usual. None if the slow span took less than a tenth longer than usual.
    pub place: Option<Place>,
    /// What happened there, and is not usual there. What explains the most time comes first.
    pub reasons: Vec<Reason>,
    /// If it waited: the span of another thread that explains it best. Then the span that explains the wait of that one.
    pub waited_for: Vec<Holder>,
    /// The number of spans that are not kept, of those inside the outermost span around it.
    pub not_kept: u64,
    slots: Option<String>,
    /// Whether its thread tells waits and preemptions.
    knows_causes: bool,
}

/// A part of a slow span.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Place {
    /// The name of the span.
    pub name: &'static str,
    /// Its source location.
    pub site: &'static Site,
    /// The program's number of the span.
    pub number: Option<u64>,
    /// The name of its thread.
    pub thread: String,
    /// The number of spans: more than 1 if all spans of a site, directly inside one span, took longer together.
    pub spans: u64,
    /// The number of such spans that there usually are. 0 for a span that there usually is not.
    pub usual_spans: u64,
    /// Whether it is the slow span itself.
    pub is_root: bool,
    /// Whether the time is that outside of the spans inside it.
    pub is_own: bool,
    /// The time.
    pub time: Duration,
    /// The usual time: 0 for a span that there usually is not. None if there are fewer than three spans of the site.
    pub usual: Option<Duration>,
}

/// What happened in a slow span.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// The thread gave up its CPU: it waited for a lock, for another thread, for input or output.
    #[non_exhaustive]
    Waited {
        /// How long. None if it is not known.
        time: Option<Duration>,
    },
    /// The kernel gave the CPU to another thread.
    #[non_exhaustive]
    Preempted {
        /// How long. None if it is not known.
        time: Option<Duration>,
    },
    /// The thread had been waiting, was woken, and got no CPU for this time.
    #[non_exhaustive]
    WokenLate {
        /// How long.
        time: Duration,
    },
    /// The thread was ready to run and had no CPU: it was preempted, and woken late.
    #[non_exhaustive]
    WithoutCpu {
        /// How long.
        time: Duration,
    },
    /// The kernel switched the thread out or moved a counter. [`Settings::causes`](crate::Settings::causes) tells more.
    Disturbed,
    /// The thread ran on a CPU.
    #[non_exhaustive]
    Ran {
        /// How long.
        time: Duration,
    },
    /// The whole time of a future: see [`polled!`](crate::polled).
    #[non_exhaustive]
    Polled {
        /// The number of polls.
        polls: u64,
        /// The time of these.
        busy: Duration,
        /// The time in which it was not polled.
        idle: Duration,
    },
    /// It had more page faults than usual.
    #[non_exhaustive]
    PageFaults {
        /// The name of the span whose faults were [counted](crate::Settings::faults).
        of: &'static str,
        /// Their number.
        count: u64,
        /// The part for which the kernel read from a disk.
        major: u64,
        /// The median of the site.
        usual: u64,
    },
    /// The kernel executed more instructions than usual: for interrupts, faults or system calls.
    #[non_exhaustive]
    Kernel {
        /// The number of instructions.
        count: u64,
        /// The median of the site.
        usual: u64,
    },
    /// It executed more instructions than usual.
    #[non_exhaustive]
    Instructions {
        /// Their number.
        count: u64,
        /// The median of the site.
        usual: u64,
    },
    /// It had more of an event than usual, such as cache misses.
    #[non_exhaustive]
    Event {
        /// The event.
        event: Event,
        /// Its count.
        count: u64,
        /// The median of the site.
        usual: u64,
    },
    /// It executed fewer instructions per cycle than usual.
    #[non_exhaustive]
    SlowInstructions {
        /// The instructions per cycle.
        ipc: f64,
        /// The usual ones.
        usual: f64,
    },
}

/// A span of another thread for which a slow one waited.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Holder {
    /// The part of that span that took the most longer than usual.
    pub place: Place,
    /// What happened there.
    pub reasons: Vec<Reason>,
    /// How long after the waiting span it began, if it explains only the end of the wait: perhaps its thread had no CPU. None
    /// otherwise.
    pub began_after: Option<Duration>,
}

impl Cause {
    /// Returns why the root of a tree was slow.
    pub(crate) fn find(usual: &Usual<'_>, tree: &Tree) -> Cause {
        let root = &tree.root;
        let found = place::find(usual, root, tree.inside.iter());
        let mut cause = Cause {
            usual: usual.median(root).map(Duration::from_nanos),
            place: None,
            reasons: Vec::new(),
            waited_for: Vec::new(),
            not_kept: tree.not_kept,
            slots: None,
            // Of a recorded time, no setting tells more.
            knows_causes: root.thread.counted.knows_causes || root.raw.is_recorded_time(),
        };
        let Some(found) = found else { return cause };
        cause.place = Some(Place::find(&found, root));
        cause.reasons = reasons::reasons_of(usual, &found, Some(root));
        cause.waited_for = holder::held_up_by(usual, &found, &cause.reasons, tree);
        cause.slots = found.spans.first().and_then(|kept| reasons::slots(usual, kept));
        cause
    }
}

impl Place {
    fn find(found: &Found<'_>, root: &Kept) -> Place {
        // A place has at least one span.
        let kept = found.spans.first().copied().unwrap_or(root);
        Place {
            name: kept.raw.site.name(),
            site: kept.raw.site,
            number: kept.number().filter(|_| found.spans.len() == 1),
            thread: kept.thread.name.clone(),
            spans: found.spans.len() as u64,
            usual_spans: found.usual_spans,
            is_root: std::ptr::eq(kept, root),
            is_own: !found.without.is_empty(),
            time: Duration::from_nanos(found.time),
            usual: found.usual.map(Duration::from_nanos),
        }
    }
}
