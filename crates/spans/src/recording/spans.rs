//! A recording.

use crate::batch::{Batch, SlowKeeper, Thread, Timeline, Tree};
use crate::collect::{Estate, Kept, Meta, OfThread, Taken};
use crate::output::perfetto::Missing;
use crate::output::{PerfettoTrace, Report, ThreadInfo};
use crate::record::lost;
use crate::recording::Interval;
use crate::session::Session;
use rdpmc::Clock;
use std::collections::{HashSet, VecDeque};
use std::io::{self, Write};
use std::sync::Arc;

/// A recording, from [`Settings::start`](crate::Settings::start). Dropping it turns spans off. Each thread keeps its clock,
/// its counters (a descriptor for each event) and its memory until it ends or records in another recording.
///
/// May be moved to another thread, which collects and reports while the others run.
///
/// ```
/// use rdpmc_spans::{Settings, span};
///
/// let mut spans = Settings::new().start()?;
/// for second in 0..3 {
///     drop(span!("work"));
///     let interval = spans.take(); // what was recorded since the last one
///     println!("{}", interval.report());
///     println!("second {second}: {} spans", interval.records().count());
/// }
/// # Ok::<(), rdpmc_spans::StartError>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping this turns spans off"]
pub struct Spans {
    session: &'static Session,
    /// The latest records of all threads since the last `take`, and the number of earlier ones.
    kept: VecDeque<Kept>,
    not_kept: u64,
    slow: SlowKeeper,
    /// Of threads that have ended, since the last `take`.
    ended: Estate,
    /// Of threads that have ended while they were read.
    later: Estate,
    time: Timeline,
    /// The latest ticks of the records that were collected since the last look at `time`.
    latest: u64,
    not_contained: Option<String>,
    /// The number of lost spans at the last `take`.
    lost_before: u64,
    /// The missing records of this interval at the last `write_perfetto`.
    missing: Missing,
}

impl Spans {
    pub(super) fn new(
        session: &'static Session,
        clock: &Clock,
        not_contained: Option<String>,
    ) -> Spans {
        Spans {
            session,
            kept: VecDeque::new(),
            not_kept: 0,
            slow: SlowKeeper::new(session.plan.slow.clone()),
            ended: Estate::default(),
            later: Estate::default(),
            time: Timeline::new(clock),
            latest: 0,
            not_contained,
            lost_before: lost(),
            missing: Missing::default(),
        }
    }

    /// Takes the records from all threads' rings. Call it often enough that the rings do not fill up: new records that find
    /// their ring full are dropped.
    ///
    /// The threads go on recording meanwhile, and do not notice. Returns the number of records: 0 with
    /// [`Storage::Histograms`](crate::Storage).
    pub fn collect(&mut self) -> u64 {
        self.gather(|_| None).0
    }

    /// Collects, and returns what was recorded since the beginning or the last `take`. The next interval begins here.
    ///
    /// Waits up to 50 ms for threads that are in the middle of a record or of their end. What such a thread has recorded may
    /// then be in the next interval. With [`Storage::Histograms`](crate::Storage), a span that ends meanwhile may be in one
    /// interval's report, and among the slow spans of another.
    ///
    /// Opens a clock to convert the ticks, unless it has in the last 10 ms: some 200 microseconds on a virtual machine.
    pub fn take(&mut self) -> Interval {
        // Before and after, so that no span of the last interval keeps one of the next from being slow.
        self.session.begin_interval();
        let (_, threads) = self.gather(|thread| Some(thread.take()));
        self.session.begin_interval();
        let slow = self.slow.view();
        let mut batch = self.batch(threads, slow);
        batch.records = in_order(std::mem::take(&mut self.kept).into());
        self.missing = Missing::default();
        self.ended = Estate::default();
        self.not_kept = 0;
        self.slow.clear();
        self.lost_before = self.lost_before.wrapping_add(batch.lost);
        Interval::new(batch)
    }

    /// As [`take`](Spans::take), but the interval goes on. Copies all records that are kept.
    pub fn view(&mut self) -> Interval {
        let mut batch = self.view_without_records();
        batch.records = in_order(self.kept.iter().cloned().collect());
        Interval::new(batch)
    }

    fn view_without_records(&mut self) -> Batch {
        let (_, threads) = self.gather(|thread| Some(thread.view()));
        let slow = self.slow.view();
        self.batch(threads, slow)
    }

    /// Collects, and returns the table of what was recorded since the beginning or the last [`take`](Spans::take).
    pub fn report(&mut self) -> Report {
        Interval::new(self.view_without_records()).report()
    }

    /// Collects, and adds the records since the last call, or the last [`take`](Spans::take), to a trace. This removes
    /// the records [from the interval](Interval::records) and frees their memory. The interval's report and slow spans still include them.
    ///
    /// Call it about every 100 ms, in place of [`collect`](Spans::collect). With [`Storage::Histograms`](crate::Storage), there are no
    /// records. See [`Interval::write_slow_perfetto`].
    ///
    /// # Errors
    /// As [`Interval::append_perfetto`]. After an error of writing, the records of this call are lost.
    pub fn write_perfetto<W: Write>(&mut self, trace: &mut PerfettoTrace<W>) -> io::Result<()> {
        // First, so that an error here loses no record.
        trace.may_add(&self.time)?;
        let (_, mut threads) = self.gather(|thread| Some(thread.view_without_sites()));
        let first = self.kept.iter().map(|kept| kept.raw.ticks[1]).min().unwrap_or(u64::MAX);
        if !self.slow.since(first).is_empty() {
            // The causes need the medians. This second collection may find further slow spans.
            (_, threads) = self.gather(|thread| Some(thread.view()));
        }
        let slow = self.slow.since(first);
        let mut batch = self.batch(threads, (slow, 0));
        batch.records = in_order(std::mem::take(&mut self.kept).into());
        let missing = Missing::of(&batch);
        let since = missing.since(std::mem::replace(&mut self.missing, missing));
        trace.add(&batch, batch.records.iter(), since)
    }

    /// Returns what is known of the threads that record.
    pub fn threads(&mut self) -> Vec<ThreadInfo> {
        Interval::new(self.view_without_records()).threads()
    }

    /// Collects. Returns the number of records, and what `take` returns of each thread.
    fn gather(
        &mut self,
        take: impl Fn(&mut OfThread) -> Option<Taken>,
    ) -> (u64, Vec<(Arc<Meta>, Taken)>) {
        let Spans { slow, time, .. } = self;
        let most = self.session.plan.kept;
        let (mut records, mut fresh, mut threads) = (0, Vec::new(), Vec::new());
        let (mut live, mut latest, is_ticks) = (HashSet::new(), 0, time.is_ticks());
        let mut see = |kept: Kept| {
            if kept.thread.has_tick_counter() == is_ticks {
                latest = kept.raw.ticks[1].max(latest);
            }
            slow.see(&kept, time);
            records += u64::from(!kept.thread.is_in_histograms);
            fresh.push(kept);
        };
        let earlier = std::mem::take(&mut self.later);
        let each = |thread: &mut OfThread| {
            live.insert(thread.meta.number);
            threads.extend(take(thread).map(|taken| (thread.meta.clone(), taken)));
        };
        let left = self.session.collect(&mut see, each, &mut self.later);
        for mut left in [Some(earlier), left].into_iter().flatten() {
            left.records.drain(..).for_each(&mut see);
            self.not_kept += std::mem::take(&mut left.not_kept);
            self.ended.add(left);
        }
        self.latest = self.latest.max(latest);
        self.slow.retain(|number| live.contains(&number));
        // The latest of all threads.
        fresh.sort_by_key(|kept| kept.raw.ticks[1]);
        self.slow.end_collect(&fresh);
        // Of threads with histograms, only slow spans have come.
        fresh.retain(|kept| !kept.thread.is_in_histograms);
        let too_many = (self.kept.len() + fresh.len()).saturating_sub(most);
        let kept_before = self.kept.len();
        self.kept.drain(..too_many.min(kept_before));
        fresh.drain(..too_many.saturating_sub(kept_before));
        self.kept.extend(fresh);
        self.not_kept += too_many as u64;
        (records, threads)
    }

    /// Returns what was recorded, with that of ended threads, and without records.
    fn batch(&mut self, threads: Vec<(Arc<Meta>, Taken)>, slow: (Vec<Arc<Tree>>, u64)) -> Batch {
        self.time.update();
        let live = threads.into_iter().map(|(meta, Taken { sites, dropped, refused })| Thread {
            meta,
            ended: 0,
            sites,
            dropped,
            refused,
        });
        let ended = self.ended.names.iter().map(|of| Thread {
            meta: of.meta.clone(),
            ended: of.threads,
            sites: of.sites.clone(),
            dropped: of.dropped,
            refused: of.refused,
        });
        let mut threads: Vec<_> = live.chain(ended).collect();
        threads.sort_by_key(|thread| thread.meta.number);
        let (slow, slow_not_kept) = slow;
        let refused: u64 = threads.iter().map(|thread| thread.refused).sum();
        self.time.give_out(std::mem::take(&mut self.latest));
        Batch {
            threads,
            records: Vec::new(),
            not_kept: self.not_kept,
            slow,
            slow_not_kept: slow_not_kept + self.ended.slow_not_kept + refused,
            lost: lost().wrapping_sub(self.lost_before),
            time: self.time.clone(),
            not_contained: self.not_contained.clone(),
        }
    }
}

/// Returns the records in the order in which they ended. Those of one collect are, and nearly those of all.
fn in_order(mut records: Vec<Kept>) -> Vec<Kept> {
    records.sort_by_key(|kept| kept.raw.ticks[1]);
    records
}

impl Drop for Spans {
    fn drop(&mut self) {
        self.session.end();
    }
}
