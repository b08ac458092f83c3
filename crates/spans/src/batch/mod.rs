//! What an interval has: statistics, records and slow spans of all threads.

mod slow;
mod time;

pub(crate) use slow::{SlowKeeper, Tree};
pub(crate) use time::Timeline;

use crate::collect::{Kept, Meta};
use crate::statistics::SiteStats;
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

/// What was recorded in an interval.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    /// In the order in which they, or the first of them, joined.
    pub(crate) threads: Vec<Thread>,
    /// The latest records, in the order in which they ended.
    pub(crate) records: Vec<Kept>,
    /// The number of earlier ones.
    pub(crate) not_kept: u64,
    /// The slow spans, the slowest first, and the number of those over a limit that are not kept.
    pub(crate) slow: Vec<Arc<Tree>>,
    pub(crate) slow_not_kept: u64,
    /// The spans without a record.
    pub(crate) lost: u64,
    pub(crate) time: Timeline,
    /// Why a counter read that faults would end the process.
    pub(crate) not_contained: Option<String>,
}

impl Batch {
    /// Returns the records of the slow spans, each once: those inside, those of other threads that overlap them, themselves.
    pub(crate) fn slow_records(&self) -> Vec<&Kept> {
        let key = |kept: &Kept| {
            let [start, end] = kept.raw.ticks;
            (end, kept.thread.number, std::cmp::Reverse(kept.raw.depth), start)
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
