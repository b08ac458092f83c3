//! The slow spans of an interval, with what ran during them.

use crate::batch::Timeline;
use crate::collect::{Kept, inside};
use crate::record::Site;
use crate::session::Slow;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// The most spans over a limit that are kept of an interval: the longest ones.
pub(crate) const OVER: usize = 1_000;
/// The most spans inside a slow one that are kept.
const INSIDE: usize = 4_096;
/// The most spans of other threads that are kept for a slow one.
const BESIDE: usize = 64;
/// The most spans inside those that are kept.
const UNDER: usize = 256;

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
    /// The longest spans inside these, in the order in which they ended.
    pub(crate) under: Vec<Kept>,
    /// Whether later collects may still find some.
    is_recent: bool,
    /// Whether it is of this collect.
    is_new: bool,
}

impl Tree {
    fn new(root: &Kept, inside: Vec<&Kept>, not_kept: u64) -> Tree {
        Tree {
            root: root.clone(),
            inside: inside.into_iter().cloned().collect(),
            not_kept,
            beside: Vec::new(),
            under: Vec::new(),
            is_recent: true,
            is_new: true,
        }
    }

    /// Adds those of these spans that are beside the root, or inside such a span.
    fn add_beside<'a>(&mut self, all: impl Iterator<Item = &'a Kept>) {
        let Tree { root, beside, under, .. } = self;
        let spans = all.filter(|kept| !kept.raw.is_recorded_time());
        for kept in spans.filter(|kept| kept.is_beside(root)) {
            let to = if kept.raw.depth == 1 { &mut *beside } else { &mut *under };
            to.push(kept.clone());
        }
        for (of, most) in [(beside, BESIDE), (under, UNDER)] {
            if of.len() > most {
                of.sort_by_key(|kept| Reverse(kept.raw.time()));
                of.truncate(most);
            }
        }
        self.beside.sort_by_key(|kept| kept.raw.ticks);
        self.under.sort_by_key(|kept| (kept.raw.ticks[1], Reverse(kept.raw.depth)));
    }

    fn time(&self) -> u64 {
        self.root.raw.time()
    }

    /// Returns the sites of all its spans.
    pub(crate) fn sites(&self) -> impl Iterator<Item = &'static Site> {
        let others = self.inside.iter().chain(&self.beside).chain(&self.under);
        others.chain([&self.root]).map(|kept| kept.raw.site)
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
    /// The latest outermost spans, and how many spans each had inside.
    roots: VecDeque<(Kept, u64)>,
    /// The spans inside the last of these.
    last: VecDeque<Kept>,
    /// The ticks at which the last one ended that is not among the latest.
    forgotten: u64,
}

/// The most outermost spans of a thread that may be in a recorded time.
const ROOTS: usize = 256;

impl Open {
    /// Ends an outermost span. What is open then is inside.
    fn end(&mut self, root: &Kept) {
        let inside = self.spans.len() as u64 + self.not_kept;
        self.last = std::mem::take(&mut self.spans);
        (self.not_kept, self.left_out) = (0, None);
        self.roots.push_back((root.clone(), inside));
        if self.roots.len() > ROOTS {
            let forgotten = self.roots.pop_front();
            self.forgotten = forgotten.map_or(0, |(root, _)| root.raw.ticks[1]);
        }
    }

    /// Returns the spans of a recorded time, in the order in which they ended, and how many are not kept, at least: the outermost ones, one of which
    /// may have begun before, and the spans inside the last of these and inside the one that is open.
    fn in_time(&self, time: &Kept) -> (Vec<&Kept>, u64) {
        let [start, _] = time.raw.ticks;
        // A start before the counter began is a large number.
        let is_in = |kept: &&Kept| kept.raw.ticks[1] > start || start > time.raw.ticks[1];
        let roots = self.roots.iter().rev().take_while(|(root, _)| is_in(&root));
        let mut roots: Vec<&(Kept, u64)> = roots.collect();
        roots.reverse();
        let inside_all: u64 = roots.iter().map(|(_, inside)| inside).sum();
        let of_last = if roots.is_empty() { None } else { Some(&self.last) };
        let of_last = of_last.into_iter().flatten().filter(is_in);
        let mut all: Vec<&Kept> = Vec::new();
        let last = roots.pop().map(|(last, _)| last);
        all.extend(roots.into_iter().map(|(root, _)| root));
        let before = all.len();
        all.extend(of_last);
        let inside_last = (all.len() - before) as u64;
        all.extend(last);
        all.extend(self.spans.iter().filter(is_in));
        let forgotten = u64::from(start < self.forgotten);
        let not_kept = inside_all.saturating_sub(inside_last) + self.not_kept + forgotten;
        (all, not_kept + time.not_kept())
    }
}

/// The most outermost spans of earlier collects that are kept, to be beside later ones.
const RECENT: usize = 1_024;
/// The most spans inside these.
const RECENT_UNDER: usize = 4_096;

/// Finds slow spans among all.
#[derive(Debug, Default)]
pub(crate) struct SlowKeeper {
    plan: Arc<Slow>,
    open: HashMap<u32, Open>,
    /// The latest outermost spans of earlier collects, and the latest inside them.
    recent: VecDeque<Kept>,
    recent_under: VecDeque<Kept>,
    /// The slowest outermost spans, and the longest over their limits: each with the longest first.
    slowest: Vec<Arc<Tree>>,
    over: Vec<Arc<Tree>>,
    over_not_kept: u64,
}

impl SlowKeeper {
    pub(crate) fn new(plan: Arc<Slow>) -> SlowKeeper {
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
        if kept.raw.is_recorded_time() {
            return self.see_time(kept, time);
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
        let length = time.conversion(&kept.thread).duration(ticks);
        let is_over = self.plan.is_over(kept.raw.site.name(), length);
        let slowest = match is_outermost {
            true => self.plan.slowest,
            false => 0,
        };
        let is_slowest = has_place(&self.slowest, slowest, ticks);
        if is_over && !has_place(&self.over, OVER, ticks) {
            self.over_not_kept += 1;
        }
        let is_over = is_over && has_place(&self.over, OVER, ticks);
        if is_over || is_slowest {
            // That of an outermost span which began later is not this one's.
            let [start, end] = kept.raw.ticks;
            let left_out = open.left_out.filter(|(begin, _)| match is_outermost {
                true => *begin == start,
                false => *begin <= end,
            });
            let left_out = left_out.map_or(0, |(_, spans)| spans);
            let inside = inside(open.spans.iter().rev(), kept);
            let tree = Arc::new(Tree::new(kept, inside, open.not_kept + left_out));
            if is_over {
                self.over_not_kept += keep_longest(&mut self.over, OVER, tree.clone());
            }
            if is_slowest {
                keep_longest(&mut self.slowest, slowest, tree);
            }
        }
        if is_outermost {
            open.end(kept);
            return;
        }
        open.spans.push_back(kept.clone());
        if open.spans.len() > INSIDE {
            open.spans.pop_front();
            open.not_kept += 1;
        }
    }

    /// Sees a time that the program recorded.
    fn see_time(&mut self, kept: &Kept, time: &Timeline) {
        let open = self.open.entry(kept.thread.number).or_default();
        let ticks = kept.raw.time();
        let length = time.conversion(&kept.thread).duration(ticks);
        if self.plan.is_over(kept.raw.site.name(), length) {
            match has_place(&self.over, OVER, ticks) {
                true => {
                    // A future waits while its thread does something else.
                    let (inside, not_kept) = match kept.polls() {
                        Some(_) => (Vec::new(), 0),
                        None => open.in_time(kept),
                    };
                    let tree = Arc::new(Tree::new(kept, inside, not_kept));
                    self.over_not_kept += keep_longest(&mut self.over, OVER, tree);
                }
                false => self.over_not_kept += 1,
            }
        }
    }

    /// Finds the spans of other threads that overlap slow ones, among those of one collect.
    pub(crate) fn end_collect(&mut self, fresh: &[Kept]) {
        let recent = self.slowest.iter_mut().chain(&mut self.over).filter(|tree| tree.is_recent);
        for tree in recent {
            let tree = Arc::make_mut(tree);
            let is_new = std::mem::take(&mut tree.is_new);
            let earlier = self.recent.iter().chain(&self.recent_under).filter(|_| is_new);
            tree.add_beside(earlier.chain(fresh));
            // The next collect may still have spans that began before its end.
            let [_, root_end] = tree.root.raw.ticks;
            tree.is_recent = !fresh.iter().any(|kept| {
                let [start, _] = kept.raw.ticks;
                start > root_end
                    && kept.raw.depth == 1
                    && Arc::ptr_eq(&kept.thread, &tree.root.thread)
            });
        }
        if self.is_idle() {
            return;
        }
        for (recent, most, is_outermost) in
            [(&mut self.recent, RECENT, true), (&mut self.recent_under, RECENT_UNDER, false)]
        {
            let latest = fresh.iter().rev().filter(|kept| !kept.raw.is_recorded_time());
            let latest = latest.filter(|kept| (kept.raw.depth == 1) == is_outermost);
            let latest: Vec<&Kept> = latest.take(most).collect();
            let too_many = (recent.len() + latest.len()).saturating_sub(most);
            recent.drain(..too_many);
            recent.extend(latest.into_iter().rev().cloned());
        }
    }

    /// Returns the slow spans, the slowest first, and the number of those that are not kept.
    pub(crate) fn view(&self) -> (Vec<Arc<Tree>>, u64) {
        (without_twins(self.slowest.iter().chain(&self.over)), self.over_not_kept)
    }

    /// Returns the slowest span of a name.
    pub(crate) fn slowest_of(&self, name: &str) -> Option<&Arc<Tree>> {
        let all = self.slowest.iter().chain(&self.over).rev();
        // Of those with one time, the first, as in an interval.
        all.filter(|tree| tree.root.raw.site.name() == name).max_by_key(|tree| tree.time())
    }

    /// Returns the slow spans that ended then or later, in no order.
    pub(crate) fn since(&self, ticks: u64) -> Vec<Arc<Tree>> {
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

/// Whether a span of this length is among the longest.
fn has_place(longest: &[Arc<Tree>], most: usize, ticks: u64) -> bool {
    longest.len() < most || longest.last().is_some_and(|tree| most > 0 && tree.time() < ticks)
}

/// Adds one to the longest, and returns how many are not kept for it.
fn keep_longest(longest: &mut Vec<Arc<Tree>>, most: usize, tree: Arc<Tree>) -> u64 {
    let place = longest.partition_point(|other| other.time() >= tree.time());
    longest.insert(place, tree);
    let too_many = longest.len().saturating_sub(most);
    longest.truncate(most);
    too_many as u64
}

/// Returns these slow spans, each once and the longest first. One may be among the slowest and over its limit, too.
fn without_twins<'a>(all: impl Iterator<Item = &'a Arc<Tree>>) -> Vec<Arc<Tree>> {
    let mut seen = HashSet::new();
    let is_new = |tree: &&Arc<Tree>| {
        let Kept { thread, raw, .. } = &tree.root;
        // Recorded times are kept for their limits alone, and two may be the same.
        raw.is_recorded_time() || seen.insert((thread.number, raw.ticks, raw.depth, raw.is_lap()))
    };
    let mut all: Vec<Arc<Tree>> = all.filter(is_new).cloned().collect();
    all.sort_by_key(|tree| Reverse(tree.time()));
    all
}

/// Returns the slow spans of several intervals that are kept, the longest first, and how many are not.
pub(super) fn worst<'a>(
    all: impl Iterator<Item = &'a Arc<Tree>>,
    plan: &Slow,
    time: &Timeline,
) -> (Vec<Arc<Tree>>, u64) {
    let [mut slowest, mut over] = [0, 0];
    let mut not_kept = 0;
    let mut kept = without_twins(all);
    kept.retain(|tree| {
        let root = &tree.root;
        let is_over =
            plan.is_over(root.raw.site.name(), time.conversion(&root.thread).duration(tree.time()));
        over += usize::from(is_over);
        slowest += usize::from(root.raw.depth == 1);
        not_kept += u64::from(over > OVER && is_over);
        is_over && over <= OVER || root.raw.depth == 1 && slowest <= plan.slowest
    });
    (kept, not_kept)
}
