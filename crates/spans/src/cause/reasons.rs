//! What happened at a place, and is not usual there.

use super::Reason;
use super::place::Found;
use super::usual::{OfSite, Usual};
use crate::collect::Kept;
use crate::record::Flags;
use rdpmc::Event;
use std::time::Duration;

/// The time that a place has lost, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Off {
    /// While it waited.
    blocked: u64,
    /// While it was ready to run.
    runnable: u64,
}

/// Returns what happened at a place, in the order of the time that it explains. `root`: the slow span around it, whose page
/// faults may be known.
pub(super) fn reasons_of(usual: &Usual<'_>, found: &Found<'_>, root: Option<&Kept>) -> Vec<Reason> {
    let Some(kept) = found.spans.first() else { return Vec::new() };
    // Nothing is usual for what usually is not there.
    let is_rare = found.usual_spans == 0;
    let site = usual.of_site(kept).filter(|_| !is_rare);
    let is_usual = |flag| site.as_ref().is_some_and(|site| site.is_usual(flag));
    let flags = found.spans.iter().fold(Flags::NONE, |all, kept| all.union(kept.raw.flags));
    if let (Some(polls), [_]) = (kept.polls(), &*found.spans) {
        let busy = usual.batch.time.conversion(&kept.thread).delta_ns(polls.busy);
        return vec![Reason::Polled {
            polls: polls.times,
            busy: Duration::from_nanos(busy),
            idle: Duration::from_nanos(found.time.saturating_sub(busy)),
        }];
    }
    let mut reasons = Vec::new();
    // What is less than a tenth of the excess explains nothing.
    let is_much = |ns: u64| ns > found.excess / 10;
    let mut has_run = false;
    if let Some(off) = off_cpu(found) {
        let [usual_wait, usual_runnable] = usual_off_cpu(usual, found);
        let blocked = off.blocked.saturating_sub(usual_wait);
        let runnable = off.runnable.saturating_sub(usual_runnable);
        let on_cpu = found.excess.saturating_sub(blocked).saturating_sub(runnable);
        let time = Duration::from_nanos;
        if is_much(blocked) {
            reasons.push((blocked, Reason::Waited { time: Some(time(off.blocked)) }));
        }
        if is_much(runnable) {
            let time = time(off.runnable);
            let reason = match [Flags::WAITED, Flags::PREEMPTED].map(|flag| flags.contains(flag)) {
                [true, true] => Reason::WithoutCpu { time },
                [true, false] => Reason::WokenLate { time },
                _ => Reason::Preempted { time: Some(time) },
            };
            reasons.push((runnable, reason));
        }
        if is_much(on_cpu) {
            let on_cpu_in_all = found.time.saturating_sub(off.blocked).saturating_sub(off.runnable);
            reasons.push((on_cpu, Reason::Ran { time: time(on_cpu_in_all) }));
            has_run = true;
        }
    } else {
        by_flags(found, flags, &is_usual, &mut reasons);
    }
    // Instructions, misses and faults take time on the CPU.
    let may_have_run = has_run || reasons.iter().all(|(_, reason)| !is_timed(reason));
    let counts = site.as_ref().filter(|_| may_have_run).map(|site| by_counts(found, site));
    let faults = page_faults(usual, found, root).filter(|_| may_have_run);
    reasons.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    let mut reasons: Vec<Reason> = reasons.into_iter().map(|(_, reason)| reason).collect();
    // They say more of the time on the CPU, or stand alone where that is not known.
    reasons.extend(counts.into_iter().flatten().chain(faults));
    reasons
}

/// Whether it says how much time it explains.
fn is_timed(reason: &Reason) -> bool {
    match reason {
        Reason::Waited { time } | Reason::Preempted { time } => time.is_some(),
        Reason::WokenLate { .. } | Reason::WithoutCpu { .. } | Reason::Ran { .. } => true,
        _ => false,
    }
}

/// Returns the time off the CPU. None if it is not known.
fn off_cpu(found: &Found<'_>) -> Option<Off> {
    let of = |kept: &&Kept| {
        let lost = kept.lost()?;
        let off_cpu = lost.off_cpu?;
        let runnable = match lost.runnable {
            Some(runnable) => runnable.min(off_cpu),
            // Both kinds of switches, and it is not known how long which of them took.
            None if kept.has(Flags::WAITED) && kept.has(Flags::PREEMPTED) => return None,
            None if kept.has(Flags::PREEMPTED) => off_cpu,
            None => 0,
        };
        Some(Off { blocked: off_cpu - runnable, runnable })
    };
    let sum = |spans: &[&Kept]| {
        spans.iter().map(of).try_fold(Off::default(), |all, more| {
            let more = more?;
            Some(Off {
                blocked: all.blocked.saturating_add(more.blocked),
                runnable: all.runnable.saturating_add(more.runnable),
            })
        })
    };
    let (all, without) = (sum(&found.spans)?, sum(&found.without)?);
    let blocked = all.blocked.saturating_sub(without.blocked).min(found.time);
    let runnable = all.runnable.saturating_sub(without.runnable).min(found.time - blocked);
    Some(Off { blocked, runnable })
}

/// Returns how long the place usually waits, and is ready to run, in nanoseconds.
fn usual_off_cpu(usual: &Usual<'_>, found: &Found<'_>) -> [u64; 2] {
    let Some(kept) = found.spans.first() else { return [0; 2] };
    let of_span = usual.off_cpu(kept).map(|time| time.saturating_mul(found.usual_spans));
    let without = found.without.iter().map(|kept| usual.off_cpu(kept));
    let [waits, runnable] = without.fold([0_u64; 2], |[waits, runnable], [wait, more]| {
        [waits.saturating_add(wait), runnable.saturating_add(more)]
    });
    let [wait, ready] = of_span;
    // The mean has the slow ones, too.
    let most = found.usual.unwrap_or(0);
    [wait.saturating_sub(waits), ready.saturating_sub(runnable)].map(|time| time.min(most))
}

/// Adds what the flags tell, where the time is not known. A flag that a span inside has may be that one's.
fn by_flags(
    found: &Found<'_>,
    flags: Flags,
    is_usual: &dyn Fn(Flags) -> bool,
    reasons: &mut Vec<(u64, Reason)>,
) {
    let is_new = |flag: Flags| {
        flags.contains(flag) && !is_usual(flag) && !found.without.iter().any(|kept| kept.has(flag))
    };
    if is_new(Flags::WAITED) {
        reasons.push((2, Reason::Waited { time: None }));
    }
    if is_new(Flags::PREEMPTED) {
        reasons.push((1, Reason::Preempted { time: None }));
    }
    let has_cause = flags.intersects(Flags::WAITED.union(Flags::PREEMPTED));
    if is_new(Flags::DISTURBED) && !has_cause {
        reasons.push((0, Reason::Disturbed));
    }
}

/// Returns how the counts differ from the medians of the site.
fn by_counts(found: &Found<'_>, site: &OfSite<'_>) -> Vec<Reason> {
    let Some(kept) = found.spans.first() else { return Vec::new() };
    let counted = &kept.thread.counted;
    let spans = found.spans.len() as u64;
    let median = |wanted: Event| {
        let place = counted.events.iter().position(|event| *event == wanted)?;
        let median = site.stats.of_counts.get(place)?.quantile(0.5)?;
        site.has_enough().then(|| median.saturating_mul(spans))
    };
    let count = |event: Event| -> Option<u64> {
        let counts = found.spans.iter().map(|kept| kept.count(event));
        counts.sum::<Option<u64>>()
    };
    let mut reasons = Vec::new();
    let more = |event: Event, times: f64, least: u64| {
        let (count, usual) = (count(event)?, median(event)?);
        let is_more = count >= least && count as f64 >= times * usual as f64;
        is_more.then_some((count, usual))
    };
    let interrupts = counted.index_of_interrupts().and_then(|place| counted.events.get(place));
    if let Some((count, usual)) = interrupts.and_then(|event| more(*event, 2.0, 1_000)) {
        reasons.push(Reason::Kernel { count, usual });
    }
    let instructions = more(Event::INSTRUCTIONS, 1.25, 100);
    if let Some((count, usual)) = instructions {
        reasons.push(Reason::Instructions { count, usual });
    }
    let others = counted.events.iter().skip(counted.events_of_slots()).copied();
    let others = others.filter(|event| {
        ![Event::INSTRUCTIONS, Event::CYCLES].contains(event) && Some(event) != interrupts
    });
    let mut others: Vec<_> = others
        .filter_map(|event| more(event, 2.0, 100).map(|(count, usual)| (event, count, usual)))
        .collect();
    others.sort_by_key(|(_, count, usual)| std::cmp::Reverse(count / usual.max(&1)));
    reasons.extend(others.into_iter().map(|(event, count, usual)| Reason::Event {
        event,
        count,
        usual,
    }));
    let ratio = |of: &dyn Fn(Event) -> Option<u64>| {
        let (instructions, cycles) = (of(Event::INSTRUCTIONS)?, of(Event::CYCLES)?);
        (cycles > 0).then(|| instructions as f64 / cycles as f64)
    };
    if let (None, Some((ipc, usual))) = (instructions, ratio(&count).zip(ratio(&median))) {
        if ipc < usual * 0.8 {
            reasons.push(Reason::SlowInstructions { ipc, usual });
        }
    }
    reasons
}

/// Returns the page faults of the place, or of the slow span around it, if there are more than usual.
fn page_faults(usual: &Usual<'_>, found: &Found<'_>, root: Option<&Kept>) -> Option<Reason> {
    // Fewer take less than a tenth of a millisecond. A disk takes longer.
    const MANY: u64 = 100;
    const MANY_MAJOR: u64 = 10;
    let all = found.spans.iter().copied().chain(root);
    let (kept, faults) = all.filter_map(|kept| Some((kept, kept.faults()?))).next()?;
    let site = usual.of_site(kept).filter(|site| site.has_enough())?;
    let usual = site.stats.faults.quantile(0.5)?;
    let mean_major = site.stats.major_faults / site.stats.faults.count().max(1);
    let is_more = faults.all() >= MANY && faults.all() >= usual.saturating_mul(2);
    let is_more_major = faults.major >= MANY_MAJOR && faults.major >= mean_major.saturating_mul(2);
    (is_more || is_more_major).then(|| Reason::PageFaults {
        of: kept.raw.site.name(),
        count: faults.all(),
        major: faults.major,
        usual,
    })
}

/// Returns the largest part of a span's pipeline slots, and that part of all spans of its site. None if they were not counted.
pub(super) fn slots(usual: &Usual<'_>, kept: &Kept) -> Option<String> {
    let level1 = kept.level1()?;
    if let Some(what) = level1.rest_is().filter(|_| level1.rest > level1.largest().1.fraction) {
        return Some(format!("Slots: {what} {:.0} %.", level1.rest * 100.0));
    }
    let (largest, part) = level1.largest();
    let usual = usual.of_site(kept);
    let usual = usual.and_then(|of| kept.thread.counted.level1(&of.stats.counts));
    let usual = usual
        .and_then(|usual| usual.parts().into_iter().find(|(category, _)| *category == largest));
    let percent = |fraction: f64| format!("{:.0} %", (fraction * 100.0).round() + 0.0);
    let most = percent(part.fraction);
    Some(match usual {
        Some((_, usual)) => {
            let usual = percent(usual.fraction);
            format!("Slots: {largest} {most} (all spans of this site: {usual}).")
        }
        None => format!("Slots: {largest} {most}."),
    })
}
