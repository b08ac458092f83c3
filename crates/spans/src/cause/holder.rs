//! The span of another thread for which a slow one waited.

use super::place::{self, Found};
use super::usual::Usual;
use super::{Holder, Place, Reason, reasons};
use crate::batch::Tree;
use crate::collect::Kept;
use crate::record::Flags;

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
    // One that waited at the same place waits for the same.
    let is_peer =
        |kept: &Kept| std::ptr::eq(kept.raw.site, waiter.raw.site) && kept.has(Flags::WAITED);
    let others = tree.beside.iter().filter(|kept| {
        !threads.contains(&kept.thread.number) && !is_peer(kept) && is_much(overlap(kept))
    });
    // What let it go on has ended by then, or soon after: it may have released a lock first.
    let is_over =
        |kept: &Kept| conversion.delta_ns(kept.raw.ticks[1].saturating_sub(end)) <= wait / 10;
    // The longest of those that took longer than usual, or, of all, the one whose end is closest.
    let excess = |kept: &Kept| usual.excess(kept).min(overlap(kept));
    let longest = others.clone().filter(|kept| is_much(excess(kept)));
    let longest = longest.max_by_key(|kept| (is_over(kept), excess(kept)));
    longest.or_else(|| others.min_by_key(|kept| kept.raw.ticks[1].abs_diff(end)))
}
