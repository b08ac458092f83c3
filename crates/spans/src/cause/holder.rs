//! The span of another thread for which a slow one waited.

use super::place::{self, Found};
use super::usual::Usual;
use super::{Holder, Place, reasons};
use crate::batch::Tree;
use crate::cause::Reason;
use crate::collect::Kept;

/// How many spans are followed: the one for which the slow one waited, and the one for which that did.
const STEPS: usize = 2;

/// Returns the spans for which a place of a slow span waited, by the reasons that are known of it.
pub(super) fn of(
    usual: &Usual<'_>,
    found: &Found<'_>,
    known: &[Reason],
    tree: &Tree,
) -> Vec<Holder> {
    let mut holders = Vec::new();
    let mut threads = vec![tree.root.thread.number];
    let longest = found.spans.iter().copied().max_by_key(|kept| usual.time(kept));
    let mut waits = longest.zip(wait_of(found, known));
    while let Some((waiter, wait)) = waits.filter(|_| holders.len() < STEPS) {
        let Some(span) = held_by(usual, waiter, wait, tree, &threads) else { break };
        let under = tree.under.iter().filter(|kept| kept.thread.number == span.thread.number);
        let inside = crate::collect::inside(under.rev(), span);
        let found = place::find(usual, span, inside.into_iter()).unwrap_or_else(|| Found {
            spans: vec![span],
            without: Vec::new(),
            time: usual.time(span),
            usual: usual.median(span),
            excess: usual.time(span),
        });
        let reasons = reasons::of(usual, &found, None);
        waits = found.spans.first().copied().zip(wait_of(&found, &reasons));
        waits = waits.filter(|_| matches!(reasons.first(), Some(Reason::Waited { .. })));
        holders.push(Holder { place: Place::of(&found, &tree.root), reasons });
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

/// Returns the outermost span of a further thread that explains the wait best. None if none does.
fn held_by<'a>(
    usual: &Usual<'_>,
    waiter: &Kept,
    wait: u64,
    tree: &'a Tree,
    threads: &[u32],
) -> Option<&'a Kept> {
    let [start, end] = waiter.raw.ticks;
    let conversion = usual.batch.time.conversion(&waiter.thread);
    let overlap = |kept: &Kept| {
        let [from, to] = kept.raw.ticks;
        conversion.delta_ns(to.min(end).saturating_sub(from.max(start)))
    };
    let is_much = |ns: u64| ns >= wait / 4;
    let others = || {
        let others = tree.beside.iter().filter(|kept| !threads.contains(&kept.thread.number));
        others.filter(|kept| is_much(overlap(kept)))
    };
    // The longest of those that took longer than usual. One that waited itself, at the same place, waits for the same.
    let excess = |kept: &Kept| usual.excess(kept).min(overlap(kept));
    let is_like = |kept: &Kept| std::ptr::eq(kept.raw.site, waiter.raw.site);
    let longest = others().filter(|kept| is_much(excess(kept)));
    let longest = longest.max_by_key(|kept| (!is_like(kept), excess(kept)));
    // Or the one whose end let it go on.
    longest.or_else(|| {
        others()
            .filter(|kept| kept.raw.ticks[0] < end)
            .max_by_key(|kept| kept.raw.ticks[1].min(end))
    })
}
