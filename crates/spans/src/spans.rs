//! The collector: takes the records of all threads.

use crate::Site;
use crate::histogram::is_interrupted;
use crate::record::{Flags, MAX_EVENTS, Record};
use crate::report::Report;
use crate::session::{self, Joined, Session};
use crate::stats::{Nested, SiteStats};
use crate::time_only::TimeOnlyReason;
use rdpmc::clock::{ClockKind, Conversion};
use rdpmc::error::{NameError, OpenError};
use rdpmc::{Clock, Event};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ptr;
use std::time::Duration;

/// A recording, from [`Settings::start`](crate::Settings::start). Dropping it turns spans off. Each thread keeps its clock,
/// its counters (a descriptor for each event) and its memory until it ends or records in another recording.
///
/// May be moved to another thread, which collects and reports while the others run.
#[derive(Debug)]
#[must_use = "dropping this turns spans off"]
pub struct Spans {
    session: &'static Session,
    threads: Vec<Thread>,
    kept: VecDeque<(u32, Record)>,
    not_kept: u64,
    time: Timeline,
    pub(crate) not_contained: Option<String>,
    /// The number of lost spans up to the last collect, and up to the one before the last clear.
    lost_collected: u64,
    lost_before: u64,
}

/// The conversion of ticks.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    pub(crate) conversion: Conversion,
    pub(crate) kind: ClockKind,
    pub(crate) error: Option<Duration>,
    /// The ticks when the recording began.
    pub(crate) zero: u64,
}

/// A thread that records, or has recorded.
#[derive(Debug)]
pub(crate) struct Thread {
    joined: Joined,
    nested: Nested,
    sites: HashMap<usize, SiteStats>,
    /// The histograms of the last report. None if they have been cleared since then.
    reported: Option<Vec<SiteStats>>,
    /// Those of the last report before the last clear, by their sites' addresses.
    before: HashMap<usize, SiteStats>,
    /// The number of dropped records up to the last collect, and up to the one before the last clear.
    dropped_collected: u64,
    dropped_before: u64,
}

/// What is known of a thread that records.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ThreadInfo {
    /// The order in which threads registered or recorded their first span, from 1.
    pub number: u32,
    /// The thread's name, or `thread` and its number.
    pub name: String,
    /// The events that it counts.
    pub events: Vec<Event>,
    /// The requested events that it cannot count, and why. Empty if it counts none: see `time_only`.
    pub missing: Vec<(Event, OpenError)>,
    /// Why requested names are not events of this machine: it lacks the PMU that they need.
    pub unknown: Vec<NameError>,
    /// Why it counts no event at all. None if it does.
    pub time_only: Option<TimeOnlyReason>,
    /// Whether the counts include the kernel's, because the PMU cannot leave them out.
    pub counts_all_privilege_levels: bool,
    /// The mean time of an empty span, which the times of all spans include.
    pub empty_span: Duration,
    /// The mean time of an empty lap, which the times of all laps include.
    pub empty_lap: Duration,
    /// The counts of an empty span. The counts of spans have them subtracted, except in
    /// [`Storage::Histograms`](crate::Storage). None if they are not constant: then they are not subtracted.
    pub empty_span_counts: Vec<(Event, Option<u64>)>,
    /// The records that found the ring full, or for which more than 511 spans were open.
    pub dropped: u64,
    /// Whether it has ended. False also if it was killed, or ended by the system call `exit`.
    pub is_ended: bool,
    pub(crate) is_in_histograms: bool,
}

/// The most records of a ring.
pub(crate) const MAX_RECORDS: usize = 1 << 28;

/// Why spans could not be started.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StartError {
    /// They are on already: another [`Spans`] is alive.
    Running,
    /// There are more events than a group can have.
    #[non_exhaustive]
    TooManyEvents {
        /// The number of events.
        events: usize,
    },
    /// The ring has more than 2^28 records.
    #[non_exhaustive]
    RingTooLarge {
        /// The number of records.
        records: usize,
    },
    /// There is no clock.
    Clock(OpenError),
    /// A requested name is not that of an event.
    Name(NameError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Running => {
                f.write_str("spans are recorded already. Drop the other `Spans` first")
            }
            StartError::TooManyEvents { events } => {
                write!(f, "spans count at most {MAX_EVENTS} events, not {events}. Leave some out")
            }
            StartError::RingTooLarge { records } => {
                write!(f, "a ring of {records} records is too large. Use at most {MAX_RECORDS}")
            }
            StartError::Clock(why) => write!(f, "spans have no clock: {why}"),
            StartError::Name(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

impl Spans {
    pub(crate) fn new(
        session: &'static Session,
        clock: &Clock,
        not_contained: Option<String>,
    ) -> Spans {
        let mut time = Timeline::of(clock);
        time.zero = clock.ticks();
        Spans {
            session,
            threads: Vec::new(),
            kept: VecDeque::new(),
            not_kept: 0,
            time,
            not_contained,
            lost_collected: session::lost(),
            lost_before: session::lost(),
        }
    }

    /// Takes the records from all threads' rings. Call it often enough that the rings do not fill up: new records that find
    /// their ring full are dropped.
    ///
    /// The threads go on recording meanwhile, and do not notice. Frees the rings of threads that have ended. Returns the
    /// number of records: 0 with [`Storage::Histograms`](crate::Storage).
    pub fn collect(&mut self) -> u64 {
        self.collect_with(|_, _| {})
    }

    /// As [`collect`](Spans::collect), and calls `each` with every record and its thread's number. The counts have the
    /// span's own cost subtracted, where that is constant.
    pub fn collect_with(&mut self, mut each: impl FnMut(u32, &Record)) -> u64 {
        let joined = self.session.take_joined();
        self.threads.extend(joined.into_iter().map(Thread::new));
        self.lost_collected = session::lost();
        let most = self.session.settings().kept;
        let mut collected = 0;
        let mut new = Vec::new();
        for thread in &mut self.threads {
            let number = thread.joined.number;
            thread.collect(|record| {
                collected += 1;
                if most > 0 {
                    new.push((number, *record));
                }
                each(number, record);
            });
        }
        // The latest of all threads.
        new.sort_by_key(|(_, record)| record.ticks[1]);
        let too_many = (self.kept.len() + new.len()).saturating_sub(most);
        let kept_before = self.kept.len();
        self.kept.drain(..too_many.min(kept_before));
        new.drain(..too_many.saturating_sub(kept_before));
        self.kept.extend(new);
        self.not_kept += if most > 0 { too_many as u64 } else { collected };
        collected
    }

    /// Collects, and returns what was recorded since the beginning or the last [`clear`](Spans::clear).
    ///
    /// Opens a clock to convert the ticks: some 200 microseconds on a virtual machine.
    pub fn report(&mut self) -> Report {
        self.collect();
        self.update_time();
        for thread in &mut self.threads {
            thread.reported = Some(thread.histograms());
        }
        Report::new(self)
    }

    /// Forgets what has been collected: records, statistics, and the numbers of dropped and lost ones. The next report is
    /// about what follows.
    ///
    /// Of [`Storage::Histograms`](crate::Storage), forgets what the last report had: its histograms are subtracted from
    /// later reports, whose maxima are then too high by less than 1 %.
    pub fn clear(&mut self) {
        for thread in &mut self.threads {
            thread.sites.clear();
            if let Some(reported) = thread.reported.take() {
                let by_site = |stats: SiteStats| (ptr::from_ref(stats.site).addr(), stats);
                thread.before = reported.into_iter().map(by_site).collect();
            }
            thread.dropped_before = thread.dropped_collected;
        }
        self.threads.retain(Thread::is_needed);
        self.kept.clear();
        self.not_kept = 0;
        self.lost_before = self.lost_collected;
    }

    /// Returns the length of a record. None for the number of a thread that is not known.
    pub fn duration(&self, thread: u32, record: &Record) -> Option<Duration> {
        let thread = self.threads.iter().find(|known| known.joined.number == thread)?;
        Some(thread.conversion(&self.time).duration(record.duration()))
    }

    /// Returns the threads that were known at the last [`collect`](Spans::collect). A thread that has ended is among them
    /// until the next [`clear`](Spans::clear).
    pub fn threads(&self) -> Vec<ThreadInfo> {
        self.threads.iter().map(|thread| thread.info(&self.time)).collect()
    }

    pub(crate) fn update_time(&mut self) {
        let Ok(clock) = Clock::open() else { return };
        let time = Timeline { zero: self.time.zero, ..Timeline::of(&clock) };
        // A clock of another unit, since the kernel no longer trusts the tick counter, converts no ticks.
        if Timeline::is_ticks(&time.kind) == Timeline::is_ticks(&self.time.kind) {
            self.time = time;
        }
    }

    pub(crate) fn time(&self) -> &Timeline {
        &self.time
    }

    pub(crate) fn all_threads(&self) -> &[Thread] {
        &self.threads
    }

    pub(crate) fn kept(&self) -> impl Iterator<Item = &(u32, Record)> {
        self.kept.iter()
    }

    pub(crate) fn not_kept(&self) -> u64 {
        self.not_kept
    }

    pub(crate) fn lost(&self) -> u64 {
        session::lost().wrapping_sub(self.lost_before)
    }
}

impl Drop for Spans {
    fn drop(&mut self) {
        self.session.end();
    }
}

impl Timeline {
    fn of(clock: &Clock) -> Timeline {
        let (kind, error) = (clock.kind(), clock.error_bound());
        Timeline { conversion: clock.conversion(), kind, error, zero: 0 }
    }

    pub(crate) fn is_ticks(kind: &ClockKind) -> bool {
        !matches!(kind, ClockKind::Kernel(_))
    }
}

/// Returns the statistics of a site.
fn stats_of<'a>(
    sites: &'a mut HashMap<usize, SiteStats>,
    site: &'static Site,
    events: usize,
) -> &'a mut SiteStats {
    let order = sites.len();
    let stats = sites.entry(ptr::from_ref(site).addr());
    stats.or_insert_with(|| SiteStats::new(site, order, events))
}

impl Thread {
    fn new(joined: Joined) -> Thread {
        Thread {
            joined,
            nested: Nested::default(),
            sites: HashMap::new(),
            reported: None,
            before: HashMap::new(),
            dropped_collected: 0,
            dropped_before: 0,
        }
    }

    fn collect(&mut self, mut each: impl FnMut(&Record)) {
        let Thread { joined, nested, sites, dropped_collected, .. } = self;
        let (cost, events, kernel) = (joined.cost, joined.events.len(), joined.kernel_instructions);
        let has_ended = joined.reader.is_closed();
        joined.reader.read(|mut record| {
            let of_children = nested.correct(&mut record, &cost);
            if is_interrupted(kernel, &record) {
                record.flags = record.flags.union(Flags::INTERRUPTED);
            }
            // First, so that a span is listed before those inside it.
            if let Some(parent) = record.parent {
                stats_of(sites, parent, events);
            }
            stats_of(sites, record.site, events).add(&record, of_children);
            each(&record);
        });
        *dropped_collected = joined.reader.dropped();
        if has_ended {
            joined.reader.free();
        }
    }

    /// Whether there is, or may be, more to report.
    fn is_needed(&self) -> bool {
        let Joined { reader, .. } = &self.joined;
        !reader.is_closed() || reader.has_more() || !self.sites().is_empty()
    }

    pub(crate) fn name(&self) -> &str {
        &self.joined.name
    }

    /// Returns the statistics of the histograms of each site.
    fn histograms(&self) -> Vec<SiteStats> {
        let mut sites = Vec::new();
        if let Some(histograms) = &self.joined.histograms {
            histograms.each(|histograms| sites.push(SiteStats::of_histograms(histograms)));
        }
        sites
    }

    /// Returns the statistics of each site.
    pub(crate) fn sites(&self) -> Vec<SiteStats> {
        let mut sites: Vec<SiteStats> = self.sites.values().cloned().collect();
        for stats in self.reported.clone().unwrap_or_else(|| self.histograms()) {
            let before = self.before.get(&ptr::from_ref(stats.site).addr());
            sites.push(match before {
                Some(before) => stats.since(before),
                None => stats,
            });
        }
        sites.retain(|stats| stats.count > 0);
        sites.sort_by_key(|stats| stats.order);
        sites
    }

    /// Returns the conversion of this thread's ticks.
    pub(crate) fn conversion(&self, time: &Timeline) -> Conversion {
        // A thread that may not read the tick counter has another unit.
        match Timeline::is_ticks(&self.joined.clock) == Timeline::is_ticks(&time.kind) {
            true => time.conversion,
            false => self.joined.conversion,
        }
    }

    fn empty_span_counts(&self) -> Vec<(Event, Option<u64>)> {
        let Joined { cost, events, .. } = &self.joined;
        let counts = cost.inside.counts.iter().zip(cost.inside.is_constant);
        let counts = counts.map(|(count, is_constant)| is_constant.then_some(*count));
        events.iter().copied().zip(counts).collect()
    }

    pub(crate) fn info(&self, time: &Timeline) -> ThreadInfo {
        let Thread { joined, .. } = self;
        ThreadInfo {
            number: joined.number,
            name: joined.name.clone(),
            events: joined.events.clone(),
            missing: joined.missing.clone(),
            unknown: joined.unknown.clone(),
            time_only: joined.time_only.clone(),
            counts_all_privilege_levels: joined.counts_all_privilege_levels,
            empty_span: joined.cost.span_time.duration(&self.conversion(time)),
            empty_lap: joined.cost.lap_time.duration(&self.conversion(time)),
            empty_span_counts: self.empty_span_counts(),
            dropped: joined.reader.dropped().wrapping_sub(self.dropped_before),
            is_ended: joined.reader.is_closed(),
            is_in_histograms: joined.histograms.is_some(),
        }
    }
}
