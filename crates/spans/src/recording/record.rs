//! Single spans of an interval.

use crate::batch::{Batch, Tree};
use crate::cause::{Cause, Usual};
use crate::collect::{Kept, inside};
use crate::record::{Flags, Site};
#[cfg(doc)]
use crate::recording::Interval;
use rdpmc::Event;
use std::fmt;
use std::time::{Duration, SystemTime};

/// A finished span or lap.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    pub(super) batch: &'a Batch,
    pub(super) kept: &'a Kept,
}

/// A slow span: see [`Settings::slowest`](crate::Settings::slowest).
#[derive(Clone, Copy)]
pub struct SlowSpan<'a> {
    pub(super) batch: &'a Batch,
    pub(super) tree: &'a Tree,
}

impl<'a> Record<'a> {
    /// Returns the name of the span.
    pub fn name(&self) -> &'static str {
        self.kept.raw.site.name()
    }

    /// Returns where it began. For a lap, where its stage is defined.
    pub fn site(&self) -> &'static Site {
        self.kept.raw.site
    }

    /// Returns the site of the innermost span that was open when this one began. None if there was none, or if it is
    /// unknown because spans ended [out of order](Flags::OUT_OF_ORDER).
    pub fn parent(&self) -> Option<&'static Site> {
        self.kept.raw.parent
    }

    /// Returns the number of its thread, from 1.
    pub fn thread(&self) -> u32 {
        self.kept.thread.number
    }

    /// Returns the name of its thread.
    pub fn thread_name(&self) -> &'a str {
        &self.kept.thread.name
    }

    /// Returns the number that the program gave it, in `span!("frame", number)`. None if it has none, if it ended
    /// [out of order](Flags::OUT_OF_ORDER), or if a signal handler recorded a number at that moment.
    pub fn number(&self) -> Option<u64> {
        self.kept.number()
    }

    /// Returns the time from the beginning of the recording to its own. The times of one recording have the order of
    /// their ticks: those of an interval are not before those of earlier ones. Exceptions: the beginnings of spans that are
    /// older than the last 32 intervals, and a machine whose counter is set back when it wakes.
    pub fn start(&self) -> Duration {
        let [start, _] = self.batch.time.nanoseconds(self.kept);
        Duration::from_nanos(start)
    }

    /// Returns the time from the beginning of the recording to its end.
    pub fn end(&self) -> Duration {
        let [_, end] = self.batch.time.nanoseconds(self.kept);
        Duration::from_nanos(end)
    }

    /// Returns its length.
    pub fn time(&self) -> Duration {
        self.batch.time.conversion(&self.kept.thread).duration(self.kept.raw.time())
    }

    /// Returns the wall-clock time of its beginning.
    pub fn wall_clock(&self) -> SystemTime {
        let [start, _] = self.batch.time.nanoseconds(self.kept);
        self.batch.time.wall(start)
    }

    /// Returns the time of its polls, if it is the whole time of a future: see [`polled!`](crate::polled). None otherwise. Polls on
    /// several threads at once are added up.
    pub fn busy(&self) -> Option<Duration> {
        let polls = self.kept.polls()?;
        Some(self.batch.time.conversion(&self.kept.thread).duration(polls.busy))
    }

    /// Returns the time in which a future was not polled. None as [`busy`](Record::busy). 0 if several threads have polled it for longer.
    pub fn idle(&self) -> Option<Duration> {
        Some(self.time().saturating_sub(self.busy()?))
    }

    /// Returns the number of polls of a future. None as [`busy`](Record::busy).
    pub fn polls(&self) -> Option<u64> {
        self.kept.polls().map(|polls| polls.times)
    }

    /// Returns the number of spans that were open, with this one: 1 if there is none around it. A lap counts as one. 0 for a
    /// [recorded time](macro@crate::record).
    pub fn depth(&self) -> u16 {
        self.kept.raw.depth
    }

    /// Returns what is known of it.
    pub fn flags(&self) -> Flags {
        self.kept.raw.flags
    }

    /// Returns the count of an event. None if it was not counted.
    pub fn count(&self, event: Event) -> Option<u64> {
        self.kept.count(event)
    }

    /// Returns the instructions per cycle. None if they, or cycles, were not counted.
    pub fn ipc(&self) -> Option<f64> {
        self.kept.ipc()
    }

    /// Returns where the pipeline slots went, as [`Row::topdown`](crate::Row::topdown).
    #[cfg(feature = "topdown")]
    pub fn topdown(&self) -> Option<rdpmc_events::topdown::Level1> {
        self.kept.level1()
    }

    /// Returns the records of the spans and laps inside it, on its thread (of a lap, not those of laps in it), among
    /// [those of the interval](Interval::records).
    pub fn inside(&self) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let batch = self.batch;
        inside_of(batch, self.kept).into_iter().map(move |kept| Record { batch, kept })
    }

    /// Returns the records of other threads' spans that overlap it, among [those of the interval](Interval::records).
    pub fn beside(&self) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let (batch, root) = (self.batch, self.kept);
        let [start, _] = root.raw.ticks;
        let beside = batch.records.since(root, start).filter(move |kept| kept.is_beside(root));
        beside.map(move |kept| Record { batch, kept })
    }
}

/// Returns the records inside a span of the batch.
fn inside_of<'a>(batch: &'a Batch, root: &Kept) -> Vec<&'a Kept> {
    let [_, end] = root.raw.ticks;
    let earlier = batch.records.until(root, end).rev();
    let mut earlier = earlier.filter(|kept| kept.thread.number == root.thread.number).peekable();
    // Those that ended after the span in the same tick come first, and the span itself.
    let is_same = |kept: &Kept| {
        kept.raw.span == root.raw.span
            && kept.raw.ticks == root.raw.ticks
            && kept.raw.is_lap() == root.raw.is_lap()
    };
    let mut at = earlier.clone();
    if at.by_ref().take_while(|kept| kept.raw.ticks[1] == end).any(is_same) {
        earlier = at;
    }
    inside(earlier, root)
}

impl fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("name", &self.name())
            .field("thread", &self.thread())
            .field("number", &self.number())
            .field("parent", &self.parent())
            .field("depth", &self.depth())
            .field("ticks", &self.kept.raw.ticks)
            .field("time", &self.time())
            .field("counts", &self.kept.raw.counts)
            .field("flags", &self.flags())
            .finish()
    }
}

impl<'a> SlowSpan<'a> {
    /// Returns the record of the span.
    pub fn record(&self) -> Record<'a> {
        Record { batch: self.batch, kept: &self.tree.root }
    }

    /// Returns the records of the spans inside it, in the order in which they ended: the latest 4,096. Of a [recorded time](macro@crate::record), they
    /// are the thread's outermost spans since it began, at most 256, and those inside the last of these. The first may have begun before. None for a lap that
    /// is in no span. With
    /// [`Storage::Histograms`](crate::Storage), the first 1,024 records, and up to 64 more of spans over their limits.
    pub fn inside(&self) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let batch = self.batch;
        self.tree.inside.iter().map(move |kept| Record { batch, kept })
    }

    /// Returns how many spans are not among these, of those inside the outermost span around it. Of a [recorded time](macro@crate::record), how many of
    /// those in it, at least.
    pub fn not_kept(&self) -> u64 {
        self.tree.not_kept
    }

    /// Returns the records of other threads' outermost spans that overlap it: the 64 longest. With
    /// [`Storage::Histograms`](crate::Storage), those that are slow themselves.
    ///
    /// Looks at those of the collect that has found it, at the 1,024 latest of earlier collects, and at those of later collects
    /// until its own thread's next outermost span is collected.
    pub fn beside(&self) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let batch = self.batch;
        self.tree.beside.iter().map(move |kept| Record { batch, kept })
    }

    /// Returns why it was slow: where its time went, what happened there, and for what it waited. Printing it prints some
    /// sentences. Takes some microseconds for each site inside.
    pub fn cause(&self) -> Cause {
        Cause::find(&Usual::new(self.batch), self.tree)
    }
}

impl fmt::Debug for SlowSpan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlowSpan").field("record", &self.record()).finish_non_exhaustive()
    }
}
