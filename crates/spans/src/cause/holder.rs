//! The span of another thread that explains why a slow one waited.

use super::place::{self, Found};
use super::usual::Usual;
use super::{Holder, Place, Reason, reasons};
use crate::batch::Tree;
use crate::collect::{Kept, inside};
use crate::record::Flags;
use std::time::Duration;

/// How many spans are followed: the one for which the slow one waited, and the one for which that did.
const STEPS: usize = 2;

/// Returns the spans for which a place of a slow span waited, by the reasons that are known of it.
pub(super) fn held_up_by<'t>(
    usual: &Usual<'_>,
    found: &Found<'t>,
    known: &[Reason],
    tree: &'t Tree,
) -> Vec<Holder> {
    let mut holders = Vec::new();
    let mut threads = vec![tree.root.thread.number];
    let longest = found.spans.iter().copied().max_by_key(|kept| usual.time(kept));
    let mut next = longest.zip(wait_of(found, known));
    while let Some((waiter, wait)) = next.filter(|_| holders.len() < STEPS) {
        let waits = Wait { usual, waiter, wait, tree };
        let Some(span) = waits.held_by(&threads) else { break };
        let under = tree.under.iter().filter(|kept| kept.thread.number == span.thread.number);
        let inside = inside(under.rev(), span);
        let found = place::find(usual, span, inside.into_iter()).unwrap_or_else(|| Found {
            spans: vec![span],
            without: Vec::new(),
            time: usual.time(span),
            usual: usual.median(span),
            // It took its usual time. What it did then is what explains the wait.
            usual_spans: 0,
            excess: usual.time(span),
        });
        let reasons = reasons::reasons_of(usual, &found, None);
        next = found.spans.first().copied().zip(wait_of(&found, &reasons));
        next = next.filter(|_| matches!(reasons.first(), Some(Reason::Waited { .. })));
        let began_after = waits.began_after(span).map(Duration::from_nanos);
        holders.push(Holder { place: Place::find(&found, &tree.root), reasons, began_after });
        threads.push(span.thread.number);
    }
    holders
}

/// Returns how long a place waited, in nanoseconds. None if it did not.
fn wait_of(found: &Found<'_>, known: &[Reason]) -> Option<u64> {
    known.iter().find_map(|reason| match reason {
        Reason::Waited { time: Some(time) } => u64::try_from(time.as_nanos()).ok(),
        Reason::Waited { time: None } => Some(found.excess),
        _ => None,
    })
}

/// A wait that is to be explained.
struct Wait<'a, 'b> {
    usual: &'a Usual<'b>,
    /// The span that waited.
    waiter: &'a Kept,
    /// How long, in nanoseconds.
    wait: u64,
    tree: &'a Tree,
}

impl<'a> Wait<'a, '_> {
    /// Returns the outermost span of a further thread that explains the wait best. None if none does.
    ///
    /// What let the waiter go on ended at about the same time: a job for which it waited, or a span that held a lock. That span took
    /// longer than usual, or its thread did nothing else during the wait. A span that holds a lock may also go on for long after it has
    /// released that. Then it took longer than usual for most of the wait.
    fn held_by(&self, threads: &[u32]) -> Option<&'a Kept> {
        let others = self.tree.beside.iter().filter(|kept| {
            !threads.contains(&kept.thread.number) && !self.waits_for_the_same(kept)
        });
        let excess = |kept: &Kept| self.usual.excess(kept).min(self.overlap(kept));
        let is_close = |kept: &&Kept| self.ends_close(kept);
        let is_much = |ns: u64| ns >= self.wait / 4;
        let closest = others.clone().filter(is_close).filter(|kept| is_much(self.overlap(kept)));
        let closest = closest.filter(|kept| is_much(excess(kept)) || self.is_alone(kept));
        let closest = closest.max_by_key(|kept| (excess(kept), self.overlap(kept)));
        let goes_on = || {
            let longer = others.clone().filter(|kept| kept.raw.ticks[1] > self.end());
            let longer = longer.filter(|kept| !kept.has(Flags::WAITED));
            let longer = longer.filter(|kept| excess(kept) >= self.wait / 2);
            longer.max_by_key(|kept| excess(kept))
        };
        // A job that began late: its thread had nothing else to do, and perhaps no CPU.
        let late = || {
            others
                .clone()
                .filter(is_close)
                .filter(|kept| self.is_alone(kept))
                .max_by_key(|kept| self.overlap(kept))
        };
        closest.or_else(goes_on).or_else(late)
    }

    fn end(&self) -> u64 {
        self.waiter.raw.ticks[1]
    }

    /// Returns nanoseconds.
    fn ns(&self, ticks: u64) -> u64 {
        self.usual.batch.time.conversion(&self.waiter.thread).delta_ns(ticks)
    }

    /// Returns how long a span and the waiter were open together.
    fn overlap(&self, kept: &Kept) -> u64 {
        let ([from, to], [start, end]) = (kept.raw.ticks, self.waiter.raw.ticks);
        self.ns(to.min(end).saturating_sub(from.max(start)))
    }

    /// Whether a span ended when the waiter was woken, as far as the two can be told from each other. The waiter may have got a CPU
    /// later.
    fn ends_close(&self, kept: &Kept) -> bool {
        const CLOSE: u64 = 200_000;
        let close = CLOSE.max(self.wait / 20);
        let runnable = self.waiter.lost().and_then(|lost| lost.runnable).unwrap_or(0);
        let [_, end] = kept.raw.ticks;
        let [before, after] = [self.end().saturating_sub(end), end.saturating_sub(self.end())];
        self.ns(before) <= close.saturating_add(runnable) && self.ns(after) <= close
    }

    /// Whether a span waited as the waiter did, and went on after it: so it did not let it go on.
    fn waits_for_the_same(&self, kept: &Kept) -> bool {
        const SOON: u64 = 100_000;
        let off_cpu = kept.lost().and_then(|lost| lost.off_cpu);
        let waited = kept.has(Flags::WAITED)
            && off_cpu.is_none_or(|off_cpu| off_cpu >= self.overlap(kept) / 2);
        let [start, end] = kept.raw.ticks;
        let after = self.ns(end.saturating_sub(self.end()));
        let is_same_place = std::ptr::eq(kept.raw.site, self.waiter.raw.site);
        // One that releases a lock ends soon after, and began before.
        let may_have_released = after <= SOON && start <= self.waiter.raw.ticks[0];
        waited && (is_same_place || after > 0 && !may_have_released)
    }

    /// Whether its thread had no other outermost span during the wait, before it.
    fn is_alone(&self, kept: &Kept) -> bool {
        let [start, _] = self.waiter.raw.ticks;
        let of_thread = self.tree.beside.iter().filter(|other| {
            other.thread.number == kept.thread.number && !std::ptr::eq(*other, kept)
        });
        let mut before = of_thread.filter(|other| other.raw.ticks[0] <= kept.raw.ticks[0]);
        !before.any(|other| other.raw.ticks[1] > start)
    }

    /// Returns how long after the beginning of the wait a span began, if it explains only the end of it.
    fn began_after(&self, kept: &Kept) -> Option<u64> {
        let ([from, _], [start, _]) = (kept.raw.ticks, self.waiter.raw.ticks);
        (self.overlap(kept) < self.wait / 4).then(|| self.ns(from.saturating_sub(start)))
    }
}
