//! The slow spans of an interval, with what ran during them.

use crate::batch::Timeline;
use crate::collect::Kept;
use crate::session::Slow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The most spans over a limit that are kept of an interval.
const OVER: usize = 1_000;
/// The most spans inside a slow one that are kept.
const INSIDE: usize = 4_096;
/// The most spans of other threads that are kept for a slow one.
const BESIDE: usize = 64;

/// A slow span.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) root: Kept,
    /// The spans inside it, in the order in which they ended.
    pub(crate) inside: Vec<Kept>,
    /// The number of others that ended since the outermost span around it began, and are not kept.
    pub(crate) not_kept: u64,
    /// The longest outermost spans of other threads that overlap it, in the order of their beginnings.
    pub(crate) beside: Vec<Kept>,
    /// Whether later collects may still find some.
    is_recent: bool,
    /// Whether it is of this collect.
    is_new: bool,
}

impl Tree {
    fn is_beside(&self, kept: &Kept) -> bool {
        kept.raw.depth == 1 && kept.is_beside(&self.root)
    }
}

/// The spans of a thread since its last outermost one ended.
#[derive(Debug, Default)]
struct Open {
    spans: VecDeque<Kept>,
    /// The number of earlier ones.
    not_kept: u64,
    /// The beginning of an outermost span, and the number of spans inside it without a record.
    left_out: Option<(u64, u64)>,
}

/// The most outermost spans of earlier collects that are kept, to be beside later ones.
const RECENT: usize = 1_024;

/// Finds slow spans among all.
#[derive(Debug, Default)]
pub(crate) struct SlowKeeper {
    plan: Slow,
    open: HashMap<u32, Open>,
    /// The latest outermost spans of earlier collects.
    recent: VecDeque<Kept>,
    slowest: Vec<Tree>,
    over: Vec<Tree>,
    over_not_kept: u64,
}

impl SlowKeeper {
    pub(crate) fn new(plan: Slow) -> SlowKeeper {
        SlowKeeper { plan, ..SlowKeeper::default() }
    }

    /// Whether there is nothing to find.
    pub(crate) fn is_idle(&self) -> bool {
        self.plan.is_empty()
    }

    /// Sees a span, in the order in which those of its thread ended.
    pub(crate) fn see(&mut self, kept: &Kept, time: &Timeline) {
        if self.is_idle() {
            return;
        }
        let open = self.open.entry(kept.thread.number).or_default();
        if let Some(left_out) = kept.raw.left_out() {
            // The one before may have been for a span whose record was dropped.
            (open.left_out, open.not_kept) = (Some(left_out), 0);
            open.spans.clear();
            return;
        }
        let ticks = kept.raw.time();
        let is_outermost = kept.raw.depth == 1;
        let limits = self.plan.limits.iter().filter(|(name, _)| name == kept.raw.site.name());
        let length = || time.conversion(&kept.thread).duration(ticks);
        let is_over = limits.map(|(_, limit)| *limit).min().is_some_and(|limit| length() > limit);
        let is_slowest = is_outermost
            && self.plan.slowest > 0
            && (self.slowest.len() < self.plan.slowest
                || self.slowest.iter().any(|tree| tree.root.raw.time() < ticks));
        if is_over || is_slowest {
            // That of an outermost span which began later is not this one's.
            let [start, end] = kept.raw.ticks;
            let left_out = open.left_out.filter(|(begin, _)| match is_outermost {
                true => *begin == start,
                false => *begin <= end,
            });
            let left_out = left_out.map_or(0, |(_, spans)| spans);
            let tree = Tree {
                root: kept.clone(),
                inside: open.spans.iter().filter(|other| other.is_inside(kept)).cloned().collect(),
                not_kept: open.not_kept + left_out,
                beside: Vec::new(),
                is_recent: true,
                is_new: true,
            };
            if is_over && self.over.len() >= OVER {
                self.over_not_kept += 1;
            } else if is_over {
                self.over.push(tree.clone());
            }
            if is_slowest {
                self.slowest.push(tree);
                self.slowest.sort_by_key(|tree| std::cmp::Reverse(tree.root.raw.time()));
                self.slowest.truncate(self.plan.slowest);
            }
        }
        if is_outermost {
            *open = Open::default();
            return;
        }
        open.spans.push_back(kept.clone());
        if open.spans.len() > INSIDE {
            open.spans.pop_front();
            open.not_kept += 1;
        }
    }

    /// Finds the spans of other threads that overlap slow ones, among those of one collect.
    pub(crate) fn end_collect(&mut self, fresh: &[Kept]) {
        for tree in self.slowest.iter_mut().chain(&mut self.over).filter(|tree| tree.is_recent) {
            let is_new = std::mem::take(&mut tree.is_new);
            let earlier = self.recent.iter().filter(|_| is_new);
            let all = earlier.chain(fresh).filter(|kept| tree.is_beside(kept));
            let beside: Vec<_> = all.cloned().collect();
            tree.beside.extend(beside);
            tree.beside.sort_by_key(|kept| std::cmp::Reverse(kept.raw.time()));
            tree.beside.truncate(BESIDE);
            tree.beside.sort_by_key(|kept| kept.raw.ticks);
            // The next collect may still have spans that began before its end.
            let [_, root_end] = tree.root.raw.ticks;
            tree.is_recent = !fresh.iter().any(|kept| {
                let [start, _] = kept.raw.ticks;
                start > root_end
                    && kept.raw.depth == 1
                    && Arc::ptr_eq(&kept.thread, &tree.root.thread)
            });
        }
        if !self.is_idle() {
            let latest = fresh.iter().rev().filter(|kept| kept.raw.depth == 1).take(RECENT);
            let latest: Vec<&Kept> = latest.collect();
            let too_many = (self.recent.len() + latest.len()).saturating_sub(RECENT);
            self.recent.drain(..too_many);
            self.recent.extend(latest.into_iter().rev().cloned());
        }
    }

    /// Returns the slow spans, the slowest first, and the number of those that are not kept.
    pub(crate) fn view(&self) -> (Vec<Tree>, u64) {
        let is_new = |tree: &&Tree| {
            let same = |other: &Tree| {
                Arc::ptr_eq(&other.root.thread, &tree.root.thread)
                    && other.root.raw.ticks == tree.root.raw.ticks
                    && other.root.raw.depth == tree.root.raw.depth
            };
            !self.slowest.iter().any(same)
        };
        let over = self.over.iter().filter(is_new);
        let mut all: Vec<Tree> = self.slowest.iter().chain(over).cloned().collect();
        all.sort_by_key(|tree| std::cmp::Reverse(tree.root.raw.time()));
        (all, self.over_not_kept)
    }

    /// Returns the slow spans that ended then or later, in no order.
    pub(crate) fn since(&self, ticks: u64) -> Vec<Tree> {
        let all = self.slowest.iter().chain(&self.over);
        all.filter(|tree| tree.root.raw.ticks[1] >= ticks).cloned().collect()
    }

    /// Forgets the slow spans. Those that are open remain.
    pub(crate) fn clear(&mut self) {
        (self.slowest, self.over, self.over_not_kept) = (Vec::new(), Vec::new(), 0);
    }

    /// Forgets the open spans of threads that have ended.
    pub(crate) fn retain(&mut self, lives: impl Fn(u32) -> bool) {
        self.open.retain(|number, _| lives(*number));
    }
}
