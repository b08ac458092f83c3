//! What a thread has recorded, for the side that reads.
#![allow(unsafe_code)]

use crate::collect::unloaded_sites::Loaded;
use crate::collect::{Kept, Meta, Nested};
use crate::counting::Patience;
use crate::record::{Companion, Details, Pending, Raw, Site, address};
use crate::sink::{Published, Reader};
use crate::statistics::SiteStats;
use std::collections::HashMap;
use std::ptr;
use std::sync::Arc;

/// The statistics of a thread's sites.
#[derive(Debug, Default)]
struct Sites {
    /// In the order of their first spans.
    all: Vec<SiteStats>,
    /// The place of each, by the site's address.
    places: HashMap<usize, usize>,
}

impl Sites {
    fn of_site(&mut self, site: &'static Site, events: usize) -> Option<&mut SiteStats> {
        let next = self.all.len();
        let place = *self.places.entry(ptr::from_ref(site).addr()).or_insert(next);
        if place == next {
            self.all.push(SiteStats::new(site, events));
        }
        self.all.get_mut(place)
    }
}

/// A thread's records and statistics.
#[derive(Debug)]
pub(crate) struct OfThread {
    pub(crate) meta: Arc<Meta>,
    reader: Reader,
    histograms: Option<Published>,
    nested: Nested,
    /// The sites of the records, and those of the histograms, which may be of earlier collects.
    loaded: Loaded,
    loaded_of_histograms: Loaded,
    /// What is known of the span that comes next.
    pending: Pending,
    /// Since the last `take`.
    sites: Sites,
    /// The number of dropped records at the last `take`.
    dropped_before: u64,
    refused_before: u64,
}

/// What a thread has recorded since the last time.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) sites: Vec<SiteStats>,
    /// The spans for which there was no room.
    pub(crate) dropped: u64,
    /// The slow outermost spans for which there was no room. They are in the statistics.
    pub(crate) refused: u64,
}

impl OfThread {
    pub(crate) fn new(meta: Meta, reader: Reader, histograms: Option<Published>) -> OfThread {
        OfThread {
            meta: Arc::new(meta),
            reader,
            histograms,
            nested: Nested::default(),
            loaded: Loaded::new(),
            loaded_of_histograms: Loaded::new(),
            pending: Pending::default(),
            sites: Sites::default(),
            dropped_before: 0,
            refused_before: 0,
        }
    }

    /// Asks the thread for its histograms: some time before `collect_histograms`.
    pub(crate) fn request(&mut self) {
        self.histograms.iter_mut().for_each(Published::request);
    }

    /// Calls `each` with all new records, and adds them to the statistics.
    ///
    /// # Safety
    /// Nobody else reads the thread's records.
    pub(crate) unsafe fn collect_records(&mut self, each: &mut dyn FnMut(Kept)) {
        let OfThread { meta, reader, nested, loaded, pending, sites, .. } = self;
        loaded.begin_collect();
        let events = meta.counted.events.len();
        let kernel_instructions = meta.counted.index_of_interrupts();
        reader.read(|words| {
            if let Some(companion) = Companion::decode(words) {
                return pending.add(companion, words);
            }
            // SAFETY: the thread has written them, with the addresses of statics.
            let site_of = |address| unsafe { loaded.site(address) };
            let Some(mut raw) = Raw::decode(words, site_of) else { return };
            if raw.left_out().is_some() {
                return each(Kept::new(meta.clone(), raw, Details::default()));
            }
            let details = pending.take(raw.ticks[0], raw.last());
            let costs = &meta.cost.subtracted;
            let of_children = match raw.is_recorded_time() {
                true => 0,
                false => nested.correct(&mut raw, details.number.is_some(), costs),
            };
            raw.find_interrupts(kernel_instructions);
            if !meta.is_in_histograms {
                // First, so that a span is listed before those inside it.
                if let Some(parent) = raw.parent {
                    sites.of_site(parent, events);
                }
                if let Some(stats) = sites.of_site(raw.site, events) {
                    stats.add(&raw, &details, of_children);
                }
            }
            each(Kept::new(meta.clone(), raw, details));
        });
    }

    /// Adds the histograms since the last time to the statistics.
    ///
    /// # Safety
    /// As `Handover::take`, with `request`.
    pub(crate) unsafe fn collect_histograms(&mut self, is_quiet: bool, patience: &mut Patience) {
        let OfThread { meta, histograms, loaded_of_histograms: loaded, sites, .. } = self;
        loaded.begin_collect();
        let events = meta.counted.events.len();
        // SAFETY: the caller's promise.
        let drained = histograms
            .as_mut()
            .and_then(|histograms| unsafe { histograms.take(is_quiet, patience) });
        for more in drained.unwrap_or_default() {
            // SAFETY: the thread has recorded spans of this static.
            let site = unsafe { loaded.site(address(more.site)) };
            if let Some(stats) = site.and_then(|site| sites.of_site(site, events)) {
                stats.merge(&more);
            }
        }
    }

    /// Returns what has been collected since the last time.
    pub(crate) fn take(&mut self) -> Taken {
        let taken = self.view();
        // Not read again: the thread goes on meanwhile.
        self.dropped_before = self.dropped_before.wrapping_add(taken.dropped);
        self.refused_before = self.refused_before.wrapping_add(taken.refused);
        self.sites = Sites::default();
        taken
    }

    /// Returns the number of dropped records since the last `take`, without statistics.
    pub(crate) fn view_without_sites(&self) -> Taken {
        Taken {
            sites: Vec::new(),
            dropped: self.reader.dropped().wrapping_sub(self.dropped_before),
            refused: self.reader.refused_trees().wrapping_sub(self.refused_before),
        }
    }

    /// Returns what has been collected since the last `take`, and keeps it.
    pub(crate) fn view(&self) -> Taken {
        self.view_of(|_| true)
    }

    /// As `view`, with the statistics of some sites.
    pub(crate) fn view_of(&self, is_wanted: impl Fn(&'static Site) -> bool) -> Taken {
        let used = self.sites.all.iter().filter(|stats| stats.count > 0 && is_wanted(stats.site));
        Taken { sites: used.cloned().collect(), ..self.view_without_sites() }
    }
}
