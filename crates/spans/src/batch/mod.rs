//! What an interval has: statistics, records and slow spans of all threads.

mod boot_times;
mod records;
mod slow;
mod time;

pub(crate) use records::Records;
pub(crate) use slow::{SlowKeeper, Tree};
pub(crate) use time::Timeline;

use crate::collect::{Kept, Meta};
use crate::session::Slow;
use crate::statistics::{SiteStats, merge_into};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A thread, or the ended threads of one name.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) meta: Arc<Meta>,
    /// The number of ended threads. 0 for one that has not ended.
    pub(crate) ended: u64,
    pub(crate) sites: Vec<SiteStats>,
    pub(crate) dropped: u64,
    /// The slow outermost spans that found no room.
    pub(crate) refused: u64,
}

impl Thread {
    /// Adds what the same thread, or threads of the same name, recorded earlier.
    fn add_earlier(&mut self, earlier: Thread) {
        // In the order of their first spans.
        let mut sites = earlier.sites;
        std::mem::take(&mut self.sites).into_iter().for_each(|stats| merge_into(&mut sites, stats));
        self.sites = sites;
        self.ended += earlier.ended;
        self.dropped += earlier.dropped;
        self.refused += earlier.refused;
    }
}

/// What the settings name and keep.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keep {
    pub(crate) records: usize,
    pub(crate) slow: Arc<Slow>,
    /// The names of the spans whose page faults are counted.
    pub(crate) faults: &'static [String],
}

/// What was recorded in an interval.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    /// In the order in which they, or the first of them, joined.
    pub(crate) threads: Vec<Thread>,
    /// The latest records, in the order in which they ended.
    pub(crate) records: Records,
    /// The number of earlier ones.
    pub(crate) not_kept: u64,
    /// The number of those that were written to a trace while the program ran.
    pub(crate) written: u64,
    /// The slow spans, the slowest first, and the number of those over a limit that are not kept.
    pub(crate) slow: Vec<Arc<Tree>>,
    pub(crate) slow_not_kept: u64,
    pub(crate) plan: Keep,
    /// The spans without a record.
    pub(crate) lost: u64,
    pub(crate) time: Timeline,
    /// When it began, in nanoseconds since the recording began.
    pub(crate) begun: u64,
    /// Why a counter read that faults would end the process.
    pub(crate) not_contained: Option<String>,
}

impl Batch {
    /// Returns the names in the settings that no span has. None before the first span.
    pub(crate) fn unknown_names(&self) -> Vec<String> {
        let has = |name: &str| {
            let mut sites = self.threads.iter().flat_map(|thread| &thread.sites);
            sites.any(|stats| stats.site.name() == name)
        };
        let limits = self.plan.slow.limits.iter().map(|(name, _)| name);
        let mut unknown: Vec<String> =
            limits.chain(self.plan.faults).filter(|name| !has(name)).cloned().collect();
        unknown.sort();
        unknown.dedup();
        let has_spans = self.threads.iter().any(|thread| !thread.sites.is_empty());
        if has_spans { unknown } else { Vec::new() }
    }

    /// Whether both are of one recording.
    pub(crate) fn is_of_recording_of(&self, other: &Batch) -> bool {
        self.time.zero() == other.time.zero()
    }

    /// Adds a later interval of the same recording.
    pub(crate) fn merge(&mut self, later: &Batch) {
        let mut threads = later.threads.clone();
        for thread in std::mem::take(&mut self.threads) {
            let is_it = |other: &Thread| {
                [thread.ended, other.ended] == [0, 0] && thread.meta.number == other.meta.number
            };
            // It has ended since then, or others of its name have.
            let is_of_its_name = |other: &Thread| {
                other.ended > 0
                    && thread.meta.group() == other.meta.group()
                    && thread.meta.is_like(&other.meta)
            };
            let place = threads.iter().position(is_it);
            let place = place.or_else(|| threads.iter().position(is_of_its_name));
            match place.and_then(|place| threads.get_mut(place)) {
                Some(other) => other.add_earlier(thread),
                None => threads.push(thread),
            }
        }
        threads.sort_by_key(|thread| thread.meta.number);
        self.threads = threads;
        self.records.append(&later.records, later.time.is_ticks());
        self.written += later.written;
        self.not_kept += later.not_kept + self.records.keep_latest(self.plan.records);
        let slow = self.slow.iter().chain(&later.slow);
        let (slow, not_kept) = slow::worst(slow, &self.plan.slow, &later.time);
        self.slow = slow;
        self.slow_not_kept += later.slow_not_kept + not_kept;
        self.lost = self.lost.wrapping_add(later.lost);
        self.time = later.time.clone();
    }

    /// Returns the records of the slow spans, each once: those inside, those of other threads that overlap them, themselves.
    pub(crate) fn slow_records(&self) -> Vec<&Kept> {
        let key = |kept: &Kept| {
            let [start, end] = kept.raw.ticks;
            let site = std::ptr::from_ref(kept.raw.site).addr();
            (end, kept.thread.number, std::cmp::Reverse(kept.raw.depth), start, site, kept.number())
        };
        let mut all = BTreeMap::new();
        for tree in &self.slow {
            let mut of_tree: Vec<&Kept> =
                tree.inside.iter().chain(&tree.beside).chain([&tree.root]).collect();
            of_tree.sort_by_key(|kept| key(kept));
            // Short spans may begin and end in one tick. In a tree, each is another one.
            let mut same = 0;
            for (place, kept) in of_tree.iter().enumerate() {
                let before = place.checked_sub(1).and_then(|before| of_tree.get(before));
                same = if before.is_some_and(|before| key(before) == key(kept)) {
                    same + 1
                } else {
                    0
                };
                all.entry((key(kept), same)).or_insert(*kept);
            }
        }
        all.into_values().collect()
    }
}
