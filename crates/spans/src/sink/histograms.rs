//! Histograms of each site, in place of single records.
#![allow(unsafe_code)]

use crate::counting::Patience;
use crate::distribution::{BUCKETS, Distribution, bucket};
use crate::record::{Details, Flags, MAX_EVENTS, Polls, Site};
use crate::sink::Handover;
use crate::statistics::{LostSums, SiteStats};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// A histogram of all 64-bit values, which takes 58 KiB.
#[derive(Debug)]
struct Histogram {
    buckets: Box<[u64]>,
    max: u64,
}

impl Histogram {
    fn new() -> Histogram {
        // Written, so that recording does not fault.
        Histogram { buckets: std::iter::repeat_with(|| 0).take(BUCKETS).collect(), max: 0 }
    }

    #[inline(always)]
    fn record(&mut self, value: u64) {
        if let Some(count) = self.buckets.get_mut(bucket(value)) {
            *count += 1;
        }
        self.max = self.max.max(value);
    }

    /// Moves all values to a distribution.
    fn drain(&mut self) -> Distribution {
        let mut all = Distribution::default();
        let max = std::mem::take(&mut self.max);
        let used = self.buckets.iter_mut().enumerate().take(bucket(max) + 1);
        for (bucket, count) in used.filter(|(_, count)| **count > 0) {
            all.add(bucket, std::mem::take(count));
        }
        all.raise_max(max);
        all
    }
}

/// What is recorded of one site.
#[derive(Debug)]
pub(super) struct SiteHistograms {
    site: &'static Site,
    /// How often each flag was set.
    flags: [u64; Flags::COUNT],
    ticks: u64,
    /// The ticks of spans whose parent this is.
    of_children: u64,
    counts: [u64; MAX_EVENTS],
    lost: LostSums,
    times: Histogram,
    of_counts: Box<[Histogram]>,
    disturbed: Option<Histogram>,
    interrupted: Option<Histogram>,
    /// The page faults of spans that are named for it.
    faults: Option<Histogram>,
    major_faults: u64,
    /// Whether these are times that the program recorded, and the polls of futures.
    is_recorded: bool,
    polls: Option<Polls>,
}

/// What a thread's histograms are of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) events: usize,
    /// Whether disturbed spans are flagged.
    pub(crate) knows_disturbances: bool,
    /// The index of the kernel's instructions among the counts, which show interrupts.
    pub(crate) kernel_instructions: Option<usize>,
    /// The names of the spans whose page faults are counted.
    pub(crate) faults: &'static [String],
}

impl SiteHistograms {
    pub(super) fn new(site: &'static Site, shape: &Shape) -> SiteHistograms {
        SiteHistograms {
            site,
            flags: [0; Flags::COUNT],
            ticks: 0,
            of_children: 0,
            counts: [0; MAX_EVENTS],
            lost: LostSums::default(),
            times: Histogram::new(),
            of_counts: (0..shape.events).map(|_| Histogram::new()).collect(),
            disturbed: shape.knows_disturbances.then(Histogram::new),
            interrupted: shape.kernel_instructions.map(|_| Histogram::new()),
            faults: shape.faults.iter().any(|name| name == site.name()).then(Histogram::new),
            major_faults: 0,
            is_recorded: false,
            polls: None,
        }
    }

    pub(super) fn is_of(&self, site: &Site) -> bool {
        std::ptr::eq(self.site, site)
    }

    /// Adds a span's ticks, and the part in spans inside it.
    #[inline(always)]
    pub(super) fn add_time(&mut self, ticks: u64, of_children: u64) {
        self.ticks += ticks;
        self.of_children += of_children.min(ticks);
        self.times.record(ticks);
    }

    /// Adds a span's flags, and the counts if it has some.
    pub(super) fn add_rest(
        &mut self,
        ticks: u64,
        flags: Flags,
        details: &Details,
        counts: impl Iterator<Item = u64>,
    ) {
        self.lost.add(details.lost);
        if let Some((faults, all)) = details.faults.zip(self.faults.as_mut()) {
            all.record(faults.all());
            self.major_faults = self.major_faults.saturating_add(faults.major);
        }
        for (bit, flag) in self.flags.iter_mut().enumerate() {
            *flag += u64::from(flags.bits() >> bit & 1);
        }
        if flags.contains(Flags::DISTURBED) {
            self.disturbed.iter_mut().for_each(|disturbed| disturbed.record(ticks));
        } else if flags.contains(Flags::INTERRUPTED) {
            self.interrupted.iter_mut().for_each(|interrupted| interrupted.record(ticks));
        }
        if flags.contains(Flags::NOT_COUNTED) {
            return;
        }
        for ((count, histogram), sum) in counts.zip(&mut self.of_counts).zip(&mut self.counts) {
            histogram.record(count);
            *sum = sum.wrapping_add(count);
        }
    }

    /// Adds a time that the program recorded, and the polls if it is a future's.
    pub(super) fn add_recorded(&mut self, ticks: u64, polls: Option<Polls>) {
        // Wrong timestamps make long times.
        self.ticks = self.ticks.saturating_add(ticks);
        self.times.record(ticks);
        self.is_recorded = true;
        self.polls = Polls::sum(self.polls, polls);
    }

    fn drain(&mut self) -> SiteStats {
        let drained = |histogram: &mut Option<Histogram>| {
            histogram.as_mut().map(Histogram::drain).unwrap_or_default()
        };
        let times = self.times.drain();
        SiteStats {
            site: self.site,
            count: times.count(),
            flags: std::mem::take(&mut self.flags),
            ticks: std::mem::take(&mut self.ticks),
            of_children: std::mem::take(&mut self.of_children),
            counts: std::mem::take(&mut self.counts),
            lost: std::mem::take(&mut self.lost),
            times,
            of_counts: self.of_counts.iter_mut().map(Histogram::drain).collect(),
            disturbed: drained(&mut self.disturbed),
            interrupted: drained(&mut self.interrupted),
            faults: drained(&mut self.faults),
            major_faults: std::mem::take(&mut self.major_faults),
            is_recorded: self.is_recorded,
            polls: self.polls.take(),
        }
    }
}

/// The histograms of one side.
#[derive(Debug)]
pub(crate) struct Side {
    /// In the order of their first spans, a span before those inside it.
    sites: Vec<SiteHistograms>,
    /// The place of a site among these, from 1, by its index.
    places: Vec<u32>,
}

impl Side {
    #[inline(always)]
    pub(super) fn of_site(&mut self, site: &Site) -> Option<&mut SiteHistograms> {
        let place = *self.places.get(site.index() as usize)?;
        self.sites.get_mut((place as usize).wrapping_sub(1))
    }

    /// Returns an empty side, with room for as many sites as most threads have.
    pub(super) fn new() -> Side {
        let mut sites = Vec::with_capacity(64);
        // Written, so that recording does not fault.
        sites.spare_capacity_mut().fill_with(MaybeUninit::zeroed);
        Side { sites, places: std::iter::repeat_with(|| 0).take(256).collect() }
    }

    pub(super) fn add(&mut self, histograms: SiteHistograms) {
        let index = histograms.site.take_index() as usize;
        if index == 0 || u32::try_from(self.sites.len() + 1).is_err() {
            return;
        }
        if self.places.len() <= index {
            self.places.resize((index + 1).next_power_of_two(), 0);
        }
        self.sites.push(histograms);
        if let Some(place) = self.places.get_mut(index) {
            *place = self.sites.len() as u32;
        }
    }

    /// Returns the statistics of all sites with spans, and empties them.
    fn drain(&mut self) -> Vec<SiteStats> {
        let all = self.sites.iter_mut().map(SiteHistograms::drain);
        all.filter(|stats| stats.count > 0).collect()
    }
}

/// The histograms of a thread, for its reader.
#[derive(Debug)]
pub(crate) struct Published {
    sides: Arc<Handover<Side>>,
    /// Whether a request has no result yet.
    is_requested: bool,
    /// Whether the thread was in the middle of a record for so long that it may never go on: it was killed, or is one of
    /// the parent of this process.
    is_stuck: bool,
}

impl Published {
    pub(super) fn new(sides: Arc<Handover<Side>>) -> Published {
        Published { sides, is_requested: false, is_stuck: false }
    }

    /// Asks for what was recorded since the last time: before `take`.
    pub(crate) fn request(&mut self) {
        if !std::mem::replace(&mut self.is_requested, true) {
            self.sides.request();
        }
    }

    /// Returns what was recorded up to the request: at one moment, so that counts, sums and percentiles agree. None if the
    /// thread is in the middle of a record for longer than `patience`. Then it is the result of a later call.
    ///
    /// # Safety
    /// As `Handover::take`.
    pub(crate) unsafe fn take(
        &mut self,
        is_quiet: bool,
        patience: &mut Patience,
    ) -> Option<Vec<SiteStats>> {
        let mut none = Patience::none();
        let patience = if self.is_stuck { &mut none } else { patience };
        // SAFETY: the caller's promise.
        let taken = unsafe { self.sides.take(is_quiet, patience, Side::drain) };
        self.is_stuck = taken.is_none();
        self.is_requested = taken.is_none();
        taken
    }
}
