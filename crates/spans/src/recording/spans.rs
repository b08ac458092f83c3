//! A recording.

use crate::batch::{Batch, Keep, Records, SlowKeeper, Thread, Timeline, Tree};
use crate::collect::{Estate, Kept, Meta, OfThread, Taken};
use crate::output::one_line;
use crate::output::perfetto::Missing;
use crate::output::{PerfettoTrace, Report, ThreadInfo};
use crate::record::{Site, lost};
use crate::recording::Interval;
use crate::session::{Session, Statistics};
use rdpmc::Clock;
use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

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
    kept: Records,
    not_kept: u64,
    slow: SlowKeeper,
    plan: Keep,
    /// Of threads that have ended, since the last `take`.
    ended: Estate,
    /// Of threads that have ended while they were read.
    later: Estate,
    time: Timeline,
    /// When this interval began, in nanoseconds since the recording began.
    begun: u64,
    /// The latest ticks of the records that were collected since the last look at `time`.
    latest: u64,
    not_contained: Option<String>,
    /// The number of lost spans at the last `take`.
    lost_before: u64,
    /// The records of this interval that `write_perfetto` has taken.
    written: u64,
    /// The missing records of this interval at the last `write_perfetto`.
    missing: Missing,
}

impl Spans {
    pub(super) fn new(
        session: &'static Session,
        clock: &Clock,
        not_contained: Option<String>,
    ) -> Spans {
        let slow = Arc::new(session.plan.slow.clone());
        Spans {
            session,
            kept: Records::default(),
            not_kept: 0,
            slow: SlowKeeper::new(slow.clone()),
            plan: Keep { records: session.plan.kept, slow, faults: &session.plan.faults },
            ended: Estate::default(),
            later: Estate::default(),
            time: Timeline::new(clock),
            begun: 0,
            latest: 0,
            not_contained,
            lost_before: lost(),
            written: 0,
            missing: Missing::default(),
        }
    }

    /// Takes the records from all threads' rings. Call it often enough that the rings do not fill up: new records that find
    /// their ring full are dropped.
    ///
    /// The threads go on recording meanwhile, and do not notice. Returns the number of records: 0 with
    /// [`Storage::Histograms`](crate::Storage).
    pub fn collect(&mut self) -> u64 {
        self.gather(Statistics::Later, |_| None).0
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
        let (_, threads) = self.gather(Statistics::Now, |thread| Some(thread.take()));
        self.session.begin_interval();
        let slow = self.slow.view();
        let mut batch = self.batch(threads, slow);
        batch.records = std::mem::take(&mut self.kept);
        self.missing = Missing::default();
        self.written = 0;
        self.ended = Estate::default();
        self.begun = self.time.latest();
        self.not_kept = 0;
        self.slow.clear();
        self.lost_before = self.lost_before.wrapping_add(batch.lost);
        Interval::new(batch)
    }

    /// As [`take`](Spans::take), but the interval goes on. Shares the records that are kept, and copies the statistics.
    pub fn view(&mut self) -> Interval {
        let mut batch = self.view_without_records();
        batch.records = self.kept.clone();
        Interval::new(batch)
    }

    fn view_without_records(&mut self) -> Batch {
        let (_, threads) = self.gather(Statistics::Now, |thread| Some(thread.view()));
        let slow = self.slow.view();
        self.batch(threads, slow)
    }

    /// Collects, and returns one line about the spans of a name since the beginning or the last [`take`](Spans::take), as
    /// [`Interval::line`]. Copies no records, and only the statistics that the line needs: for an overlay.
    ///
    /// Its times have the clock's conversion of the last 10 seconds.
    ///
    /// ```
    /// use rdpmc_spans::{Settings, span};
    ///
    /// let mut spans = Settings::new().slowest(1).start()?;
    /// drop(span!("frame"));
    /// println!("{}", spans.line("frame"));
    /// # Ok::<(), rdpmc_spans::StartError>(())
    /// ```
    pub fn line(&mut self, name: &str) -> String {
        const AGE: Duration = Duration::from_secs(10);
        // A new slowest span may have spans of other sites inside.
        const TRIES: u32 = 2;
        let mut wanted: HashSet<usize> = HashSet::new();
        let mut batch = None;
        let address = |site: &'static Site| std::ptr::from_ref(site).addr();
        for _ in 0..TRIES {
            wanted.extend(
                self.slow.slowest_of(name).iter().flat_map(|tree| tree.sites()).map(address),
            );
            let is_wanted =
                |site: &'static Site| site.name() == name || wanted.contains(&address(site));
            let (_, threads) =
                self.gather(Statistics::Now, |thread| Some(thread.view_of(is_wanted)));
            let slowest = self.slow.slowest_of(name).cloned();
            let is_known = slowest
                .iter()
                .flat_map(|tree| tree.sites())
                .all(|site| wanted.contains(&address(site)));
            self.time.update_after(AGE);
            let slow = (slowest.into_iter().collect(), 0);
            batch = Some(self.batch_at_known_time(threads, slow, is_wanted));
            if is_known {
                break;
            }
        }
        batch.map_or_else(String::new, |batch| one_line::line(&batch, name))
    }

    /// Collects, and returns the table of what was recorded since the beginning or the last [`take`](Spans::take).
    pub fn report(&mut self) -> Report {
        Interval::new(self.view_without_records()).report()
    }

    /// Collects, and adds the records since the last call, or the last [`take`](Spans::take), to a trace. This removes
    /// the records [from the interval](Interval::records) and frees their memory. The interval's report and slow spans still include
    /// them, its page has no times over the run. For both a trace and such a page, [`take`](Spans::take) intervals,
    /// [append](Interval::append_perfetto) each to the trace, and [merge](Interval::merge) them.
    ///
    /// Call it about every 100 ms, in place of [`collect`](Spans::collect). With [`Storage::Histograms`](crate::Storage), there are no
    /// records. See [`Interval::write_slow_perfetto`].
    ///
    /// # Errors
    /// As [`Interval::append_perfetto`]. After an error of writing, the records of this call are lost.
    pub fn write_perfetto<W: Write>(&mut self, trace: &mut PerfettoTrace<W>) -> io::Result<()> {
        // First, so that an error here loses no record.
        trace.may_add(&self.time)?;
        let (_, mut threads) =
            self.gather(Statistics::Later, |thread| Some(thread.view_without_sites()));
        let first = self.kept.iter().map(|kept| kept.raw.ticks[1]).min().unwrap_or(u64::MAX);
        if !self.slow.since(first).is_empty() {
            // The causes need the medians. This second collection may find further slow spans.
            (_, threads) = self.gather(Statistics::Now, |thread| Some(thread.view()));
        }
        let slow = self.slow.since(first);
        let mut batch = self.batch(threads, (slow, 0));
        batch.records = std::mem::take(&mut self.kept);
        self.written += batch.records.len() as u64;
        let missing = Missing::in_batch(&batch);
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
        statistics: Statistics,
        take: impl Fn(&mut OfThread) -> Option<Taken>,
    ) -> (u64, Vec<(Arc<Meta>, Taken)>) {
        let Spans { slow, time, .. } = self;
        let most = self.plan.records;
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
        let left = self.session.collect(statistics, &mut see, each, &mut self.later);
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
        self.kept.add(fresh, is_ticks);
        self.not_kept += self.kept.keep_latest(most);
        (records, threads)
    }

    /// Returns what was recorded, with that of ended threads, and without records.
    fn batch(&mut self, threads: Vec<(Arc<Meta>, Taken)>, slow: (Vec<Arc<Tree>>, u64)) -> Batch {
        self.time.update();
        self.batch_at_known_time(threads, slow, |_| true)
    }

    /// As `batch`, without a look at the clock, and with the statistics of some sites of ended threads.
    fn batch_at_known_time(
        &mut self,
        threads: Vec<(Arc<Meta>, Taken)>,
        slow: (Vec<Arc<Tree>>, u64),
        is_wanted: impl Fn(&'static Site) -> bool,
    ) -> Batch {
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
            sites: of.sites.iter().filter(|stats| is_wanted(stats.site)).cloned().collect(),
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
            records: Records::default(),
            not_kept: self.not_kept,
            written: self.written,
            slow,
            plan: self.plan.clone(),
            slow_not_kept: slow_not_kept + self.ended.slow_not_kept + refused,
            lost: lost().wrapping_sub(self.lost_before),
            time: self.time.clone(),
            begun: self.begun,
            not_contained: self.not_contained.clone(),
        }
    }
}

impl Drop for Spans {
    fn drop(&mut self) {
        self.session.end();
    }
}
