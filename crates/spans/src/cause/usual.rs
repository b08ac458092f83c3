//! What is usual for the spans of a site.

use crate::batch::Batch;
use crate::collect::Kept;
use crate::record::Flags;
use crate::statistics::{LostSums, SiteStats};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// With fewer spans of a site, nothing is usual.
const ENOUGH: u64 = 3;

/// A thread's number and a site's address.
type Key = (u32, usize);

/// The statistics of the sites of a batch, which are looked up once.
pub(crate) struct Usual<'a> {
    pub(crate) batch: &'a Batch,
    sites: RefCell<HashMap<Key, Option<Rc<OfSite<'a>>>>>,
}

/// The spans of a site.
pub(crate) struct OfSite<'a> {
    pub(super) stats: Cow<'a, SiteStats>,
    /// The median of their times, in nanoseconds. None if there are too few.
    median: Option<u64>,
}

impl OfSite<'_> {
    /// Whether there are enough spans to tell what is usual.
    pub(super) fn has_enough(&self) -> bool {
        self.stats.count >= ENOUGH
    }

    /// Whether most of the spans have a flag, so that it explains nothing.
    pub(super) fn is_usual(&self, flag: Flags) -> bool {
        self.has_enough() && self.stats.with(flag) > self.stats.count / 2
    }
}

impl<'a> Usual<'a> {
    pub(crate) fn new(batch: &'a Batch) -> Usual<'a> {
        Usual { batch, sites: RefCell::default() }
    }

    /// Returns the time of a span in nanoseconds.
    pub(crate) fn time(&self, kept: &Kept) -> u64 {
        self.batch.time.conversion(&kept.thread).delta_ns(kept.raw.time())
    }

    /// Returns the median time of the spans of its site, in nanoseconds. None if there are too few.
    pub(crate) fn median(&self, kept: &Kept) -> Option<u64> {
        self.of_site(kept)?.median
    }

    /// Returns the mean time of the spans of its site outside of the spans inside them, but not more than the median. None if there are
    /// too few.
    pub(super) fn own(&self, kept: &Kept) -> Option<u64> {
        let of = self.of_site(kept).filter(|of| of.has_enough())?;
        let own = of.stats.ticks.saturating_sub(of.stats.of_children) / of.stats.count.max(1);
        let own = self.batch.time.conversion(&kept.thread).delta_ns(own);
        Some(own.min(of.median?))
    }

    /// Returns the mean times that the spans of its site waited and were ready to run, in nanoseconds.
    pub(super) fn off_cpu(&self, kept: &Kept) -> [u64; 2] {
        let Some(of) = self.of_site(kept).filter(|of| of.has_enough()) else { return [0; 2] };
        let LostSums { off_cpu, runnable } = of.stats.lost;
        let [off_cpu, runnable] =
            [off_cpu, runnable].map(|sum| sum.unwrap_or(0) / of.stats.count.max(1));
        [off_cpu.saturating_sub(runnable), runnable]
    }

    /// Returns how much longer than that it took, in nanoseconds: all of its time if nothing is usual.
    pub(super) fn excess(&self, kept: &Kept) -> u64 {
        self.time(kept).saturating_sub(self.median(kept).unwrap_or(0))
    }

    /// Returns the number of the spans of its site.
    pub(super) fn count(&self, kept: &Kept) -> u64 {
        self.of_site(kept).map_or(0, |of| of.stats.count)
    }

    /// Returns the statistics of the spans of its site: those of its thread, or of all threads if that has too few.
    pub(super) fn of_site(&self, kept: &Kept) -> Option<Rc<OfSite<'a>>> {
        let key = (kept.thread.number, std::ptr::from_ref(kept.raw.site).addr());
        if let Some(known) = self.sites.borrow().get(&key) {
            return known.clone();
        }
        let stats = self.of_thread(kept).map(Cow::Borrowed);
        let stats = stats.filter(|stats| stats.count >= ENOUGH);
        let found = stats.or_else(|| self.of_all_threads(kept).map(Cow::Owned)).map(|stats| {
            let median = stats.times.quantile(0.5).filter(|_| stats.count >= ENOUGH);
            let median = median.map(|it| self.batch.time.conversion(&kept.thread).delta_ns(it));
            Rc::new(OfSite { stats, median })
        });
        self.sites.borrow_mut().insert(key, found.clone());
        found
    }

    fn of_thread(&self, kept: &Kept) -> Option<&'a SiteStats> {
        let is_its = self.batch.threads.iter().filter(|thread| match thread.ended {
            0 => thread.meta.number == kept.thread.number,
            _ => thread.meta.group() == kept.thread.group() && thread.meta.is_like(&kept.thread),
        });
        let mut sites = is_its.flat_map(|thread| &thread.sites);
        sites.find(|stats| std::ptr::eq(stats.site, kept.raw.site))
    }

    fn of_all_threads(&self, kept: &Kept) -> Option<SiteStats> {
        let like = self.batch.threads.iter().filter(|thread| thread.meta.is_like(&kept.thread));
        let of_site = like.flat_map(|thread| &thread.sites);
        let of_site = of_site.filter(|stats| std::ptr::eq(stats.site, kept.raw.site)).cloned();
        of_site.reduce(|mut all, more| {
            all.merge(&more);
            all
        })
    }
}
