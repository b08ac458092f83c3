//! What a thread has recorded, for the side that reads.
#![allow(unsafe_code)]

use crate::collect::{Kept, Meta, Nested};
use crate::counting::Patience;
use crate::record::{Companion, Details, Pending, Raw, Site};
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
    fn of(&mut self, site: &'static Site, events: usize) -> Option<&mut SiteStats> {
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
            pending: Pending::default(),
            sites: Sites::default(),
            dropped_before: 0,
            refused_before: 0,
        }
    }

    /// Asks the thread for its histograms: some time before `collect`.
    pub(crate) fn request(&mut self) {
        self.histograms.iter_mut().for_each(Published::request);
    }

    /// Calls `each` with all new records, and adds them and the new histograms to the statistics.
    ///
    /// # Safety
    /// As `Handover::take`, with `request`.
    pub(crate) unsafe fn collect(
        &mut self,
        is_quiet: bool,
        patience: &mut Patience,
        each: &mut dyn FnMut(Kept),
    ) {
        let OfThread { meta, reader, histograms, nested, pending, sites, .. } = self;
        let events = meta.counted.events.len();
        let kernel_instructions = meta.counted.index_of_interrupts();
        reader.read(|words| {
            if let Some(companion) = Companion::of(words) {
                return pending.add(companion, words);
            }
            // SAFETY: the thread has written them, with the addresses of statics.
            let Some(mut raw) = (unsafe { Raw::of(words) }) else { return };
            if raw.left_out().is_some() {
                return each(Kept::new(meta.clone(), raw, Details::default()));
            }
            let details = pending.take(raw.ticks[0], raw.last());
            let costs = &meta.cost.subtracted;
            let of_children = nested.correct(&mut raw, details.number.is_some(), costs);
            raw.find_interrupts(kernel_instructions);
            if !meta.is_in_histograms {
                // First, so that a span is listed before those inside it.
                if let Some(parent) = raw.parent {
                    sites.of(parent, events);
                }
                if let Some(stats) = sites.of(raw.site, events) {
                    stats.add(&raw, &details, of_children);
                }
            }
            each(Kept::new(meta.clone(), raw, details));
        });
        // SAFETY: the caller's promise.
        let drained = histograms
            .as_mut()
            .and_then(|histograms| unsafe { histograms.take(is_quiet, patience) });
        for more in drained.unwrap_or_default() {
            if let Some(stats) = sites.of(more.site, events) {
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
        let used = self.sites.all.iter().filter(|stats| stats.count > 0);
        Taken { sites: used.cloned().collect(), ..self.view_without_sites() }
    }
}
