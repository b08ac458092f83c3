//! Why a span was slow.

use crate::batch::{Batch, Tree};
use crate::collect::Kept;
use crate::output::units;
use crate::record::Flags;
use crate::statistics::SiteStats;
use rdpmc::Event;
use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

/// Returns the name, number, time and cause of a slow span.
pub(crate) fn line(batch: &Batch, tree: &Tree) -> String {
    let root = &tree.root;
    let ns = batch.time.conversion(&root.thread).delta_ns(root.raw.time());
    let name = units::cell(&name(root));
    let [start, _] = batch.time.nanoseconds(root);
    let clock = wall_clock(batch, start);
    format!(
        "{name} on {}: {} at {clock}. {}",
        units::cell(&root.thread.name),
        units::time(ns),
        of(batch, tree)
    )
}

/// Returns the name of a span, with its number.
pub(super) fn name(kept: &Kept) -> String {
    let name = kept.raw.site.name();
    kept.number.map_or_else(|| name.to_owned(), |number| format!("{name} {number}"))
}

/// Returns the time of day of nanoseconds since the recording began: UTC, to the millisecond.
pub(super) fn wall_clock(batch: &Batch, ns: u64) -> String {
    let since = batch.time.wall(ns).duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, milliseconds) = (since.as_secs() % 86_400, since.subsec_millis());
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{milliseconds:03} UTC", seconds % 60)
}

/// Returns the sentence of the cause.
pub(crate) fn of(batch: &Batch, tree: &Tree) -> String {
    let mut sentence = match by_the_kernel(tree).or_else(|| by_counts(batch, tree)) {
        Some(cause) => cause,
        None => "No cause is known from its flags and counts".into(),
    };
    sentence += ".";
    sentence += &slots(batch, &tree.root);
    if let Some(longest) = longest_inside(batch, tree) {
        sentence += &format!(" Longest inside: {longest}.");
    }
    if tree.not_kept > 0 {
        sentence += &format!(" Not kept: {}.", units::number_of(tree.not_kept, "span"));
    }
    if !tree.beside.is_empty() {
        let beside = units::number_of(tree.beside.len() as u64, "span");
        sentence += &format!(" At the same time: {beside} of other threads.");
    }
    sentence
}

/// What the kernel did during it.
fn by_the_kernel(tree: &Tree) -> Option<String> {
    let root = &tree.root;
    let cause = match [Flags::WAITED, Flags::PREEMPTED].map(|flag| root.has(flag)) {
        [true, true] => "It waited, and it was preempted",
        [true, false] => "It waited",
        [false, true] => "It was preempted",
        [false, false] if root.has(Flags::DISTURBED) => "It was switched out",
        [false, false] if root.has(Flags::INTERRUPTED) => {
            "It was interrupted: the kernel executed instructions for an interrupt, a fault or a system call"
        }
        _ => return None,
    };
    // The innermost span that has the same flags tells where.
    let flags = [Flags::WAITED, Flags::PREEMPTED, Flags::DISTURBED];
    let of_root = flags.into_iter().filter(|flag| root.has(*flag));
    let flags = match of_root.fold(Flags::NONE, Flags::union) {
        Flags::NONE => Flags::INTERRUPTED,
        flags => flags,
    };
    let is_there = |kept: &&Kept| kept.has(flags);
    let inside = tree.inside.iter().filter(is_there);
    let place = inside.max_by_key(|kept| kept.raw.depth);
    Some(match place {
        Some(place) => format!("{cause}, in {}", units::cell(place.raw.site.name())),
        None => cause.into(),
    })
}

/// The largest part of its pipeline slots, and that part of all spans of its site. Empty if they were not counted.
fn slots(batch: &Batch, root: &Kept) -> String {
    let Some(level1) = root.level1() else { return String::new() };
    if let Some(what) = level1.rest_is().filter(|_| level1.rest > level1.largest().1.fraction) {
        return format!(" Slots: {what} {:.0} %.", level1.rest * 100.0);
    }
    let (largest, part) = level1.largest();
    let usual = site_of(batch, root).and_then(|stats| root.thread.counted.level1(&stats.counts));
    let usual = usual
        .and_then(|usual| usual.parts().into_iter().find(|(category, _)| *category == largest));
    let percent = |fraction: f64| format!("{:.0} %", (fraction * 100.0).round() + 0.0);
    let most = percent(part.fraction);
    match usual {
        Some((_, usual)) => {
            format!(
                " Slots: {largest} {most} (all spans of this site: {}).",
                percent(usual.fraction)
            )
        }
        None => format!(" Slots: {largest} {most}."),
    }
}

/// Returns the median time of a span's site on its thread, in nanoseconds. None if it is not known.
pub(super) fn median_time(batch: &Batch, kept: &Kept) -> Option<u64> {
    let median = site_of(batch, kept)?.times.quantile(0.5)?;
    Some(batch.time.conversion(&kept.thread).delta_ns(median))
}

/// The statistics of a span's site on its thread.
fn site_of<'a>(batch: &'a Batch, root: &Kept) -> Option<&'a SiteStats> {
    let of_root = batch.threads.iter().filter(|thread| match thread.ended {
        0 => thread.meta.number == root.thread.number,
        _ => thread.meta.group() == root.thread.group() && thread.meta.is_like(&root.thread),
    });
    let mut sites = of_root.flat_map(|thread| &thread.sites);
    sites.find(|stats| std::ptr::eq(stats.site, root.raw.site))
}

/// How its counts differ from the median of its site.
fn by_counts(batch: &Batch, tree: &Tree) -> Option<String> {
    let root = &tree.root;
    let stats = site_of(batch, root)?;
    let events = &root.thread.counted.events;
    let median = |wanted: Event| {
        let place = events.iter().position(|event| *event == wanted)?;
        stats.of_counts.get(place)?.quantile(0.5)
    };
    let [usual, executed] = [median(Event::INSTRUCTIONS)?, root.count(Event::INSTRUCTIONS)?];
    let factor = executed as f64 / usual.max(1) as f64;
    if factor >= 1.25 {
        let place = place_of(tree, Event::INSTRUCTIONS, executed);
        return Some(format!("It executed {factor:.1} x the median's instructions{place}"));
    }
    let others = events.iter().skip(root.thread.counted.events_of_slots());
    let misses = others.filter(|event| ![Event::INSTRUCTIONS, Event::CYCLES].contains(event));
    let more = misses.filter_map(|event| {
        let (usual, counted) = (median(*event)?, root.count(*event)?);
        (counted >= 100 && counted >= 2 * usual).then_some((*event, counted, usual))
    });
    let most = more.max_by_key(|(_, counted, usual)| counted / usual.max(&1));
    if let Some((event, counted, usual)) = most {
        let place = place_of(tree, event, counted);
        let [counted, usual] = [counted, usual].map(units::count);
        return Some(format!("It had {counted} {event}, the median is {usual}{place}"));
    }
    let (now, cycles) = (root.ipc()?, median(Event::CYCLES)?);
    let usual = usual as f64 / cycles.max(1) as f64;
    (now < usual * 0.8).then(|| {
        format!(
            "It executed as many instructions as others, at {now:.2} a cycle and not {usual:.2}"
        )
    })
}

/// The innermost span inside that has most of a count.
fn place_of(tree: &Tree, event: Event, count: u64) -> String {
    let has_most = |kept: &&Kept| kept.count(event).is_some_and(|inside| inside > count / 2);
    let place = tree.inside.iter().filter(has_most).max_by_key(|kept| kept.raw.depth);
    place.map_or_else(String::new, |kept| {
        format!(". Most are in {}", units::cell(kept.raw.site.name()))
    })
}

/// The site with the most time inside.
fn longest_inside(batch: &Batch, tree: &Tree) -> Option<String> {
    let root = &tree.root;
    let mut times: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    // A lap has the depth of the spans in it.
    let depth = if root.raw.is_lap() { root.raw.depth } else { root.raw.depth + 1 };
    for kept in tree.inside.iter().filter(|kept| kept.raw.depth == depth) {
        let (ticks, spans) = times.entry(kept.raw.site.name()).or_default();
        *ticks = ticks.saturating_add(kept.raw.time());
        *spans += 1;
    }
    let (name, (ticks, _)) = times.into_iter().max_by_key(|(_, (ticks, _))| *ticks)?;
    let time = batch.time.conversion(&root.thread).delta_ns(ticks);
    Some(format!("{}, {}", units::cell(name), units::time(time)))
}
