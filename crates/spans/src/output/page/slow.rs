//! The slow spans: what ran during each, and why it was slow.

use crate::batch::{Batch, Tree};
use crate::collect::Kept;
use crate::output::{cause, units};
use rdpmc_page::{Axis, Page, Table, Timeline};
use std::cmp::Reverse;
use std::collections::HashMap;

/// The most spans on all timelines together, but each has at least a few.
const SPANS: usize = 4_000;
const LEAST: usize = 20;

/// Adds a timeline, a table and the cause for each slow span.
pub(super) fn add(page: &mut Page, batch: &Batch) {
    let most = (SPANS / batch.slow.len().max(1)).clamp(LEAST, 200);
    for (place, tree) in batch.slow.iter().enumerate() {
        let root = &tree.root;
        let [start, _] = batch.time.nanoseconds(root);
        let time = units::time(time_of(batch, root));
        let name = cause::name(root);
        page.subheading(
            &format!("slow-{}", place + 1),
            &format!(
                "{}. {name} on {}: {time} at {}",
                place + 1,
                root.thread.name,
                cause::wall_clock(batch, start)
            ),
        );
        page.paragraph(&format!("{}{}", cause::of(batch, tree), usual(batch, tree)));
        let shown = shown(tree, most);
        let left_out = 1 + tree.inside.len() + tree.beside.len() - shown.len();
        page.push(timeline(batch, tree, &shown, &format!("What ran during {name}")));
        if left_out > 0 {
            let left_out = units::number_of(left_out as u64, "shorter span");
            page.paragraph(&format!("Not shown: {left_out}."));
        }
        page.folded(&format!("The spans of {name}, with their counts"), table(batch, tree, &shown));
    }
}

/// Returns the median of its site, and the span inside that is longest compared with its own.
fn usual(batch: &Batch, tree: &Tree) -> String {
    let median = |kept: &Kept| cause::median_time(batch, kept);
    let mut text = match median(&tree.root) {
        Some(median) => format!(
            " The median of all {} spans on this thread is {}.",
            tree.root.raw.site.name(),
            units::time(median)
        ),
        None => String::new(),
    };
    // Of a span and the one around it, which are as far beyond their medians, the inner one is the cause.
    let beyond =
        |kept: &Kept| time_of(batch, kept).saturating_sub(median(kept).unwrap_or(u64::MAX));
    let most = tree.inside.iter().map(beyond).max().unwrap_or(0);
    let is_most = |kept: &&Kept| beyond(kept) > most / 10 * 9;
    let inside = tree.inside.iter().filter(is_most).max_by_key(|kept| kept.raw.depth);
    if let Some((kept, median)) = inside.and_then(|kept| Some((kept, median(kept)?))) {
        let [time, median] = [time_of(batch, kept), median].map(units::time);
        text +=
            &format!(" Most beyond its median: {}, {time} instead of {median}.", cause::name(kept));
    }
    text
}

/// Whether it took three times as long as the median of its site.
fn is_slow(batch: &Batch, kept: &Kept) -> bool {
    cause::median_time(batch, kept).is_some_and(|median| time_of(batch, kept) / 3 >= median.max(1))
}

fn time_of(batch: &Batch, kept: &Kept) -> u64 {
    batch.time.conversion(&kept.thread).delta_ns(kept.raw.time())
}

/// Returns the slow span, the longest ones inside, and the longest ones beside it, in the order of their beginnings.
fn shown(tree: &Tree, most: usize) -> Vec<&Kept> {
    let mut shown: Vec<&Kept> = tree.inside.iter().chain(&tree.beside).collect();
    shown.sort_by_key(|kept| Reverse(kept.raw.time()));
    shown.truncate(most);
    shown.push(&tree.root);
    shown.sort_by_key(|kept| {
        (kept.raw.ticks[0], Reverse(kept.raw.ticks[1]), kept.raw.depth, !kept.raw.is_lap())
    });
    shown
}

fn timeline(batch: &Batch, tree: &Tree, shown: &[&Kept], title: &str) -> Timeline {
    let [start, end] = batch.time.nanoseconds(&tree.root);
    let axis = Axis::linear("time").written(|ns| units::time(ns.max(0.0) as u64));
    let mut timeline = Timeline::new(title, axis, (end - start) as f64);
    let own = tree.root.thread.number;
    // The rows of a thread, and when the last span in each ends.
    let mut rows: Vec<(usize, u64)> = Vec::new();
    let mut colors: HashMap<&str, usize> = HashMap::new();
    let mut add = |timeline: &mut Timeline, kept: &Kept, row: usize| {
        let name = cause::name(kept);
        let next = colors.len();
        let color = *colors.entry(kept.raw.site.name()).or_insert(next);
        let ends = batch.time.nanoseconds(kept).map(|ns| ns as f64 - start as f64);
        let flags = kept.raw.flags.names().map(|flag| format!(", {flag}")).collect::<String>();
        let usual = cause::median_time(batch, kept)
            .map_or_else(String::new, |median| format!(", median {}", units::time(median)));
        let text = format!("{name}: {}{usual}{flags}", units::time(time_of(batch, kept)));
        match is_slow(batch, kept) && !std::ptr::eq(kept, &tree.root) {
            true => timeline.marked_bar(row, ends, &name, &text),
            false => timeline.bar(row, ends, color, &name, &text),
        }
    };
    for kept in shown.iter().filter(|kept| kept.thread.number == own) {
        let [from, to] = batch.time.nanoseconds(kept);
        let free = rows.iter().position(|(_, end)| *end <= from);
        // A span is in the row below that of the span around it: the first that is free.
        let place = free.unwrap_or_else(|| {
            let name = if rows.is_empty() { tree.root.thread.name.as_str() } else { "" };
            rows.push((timeline.row(name), 0));
            rows.len() - 1
        });
        if let Some((row, end)) = rows.get_mut(place) {
            *end = to.max(from + 1);
            add(&mut timeline, kept, *row);
        }
    }
    let mut threads: Vec<(u32, usize)> = Vec::new();
    for kept in shown.iter().filter(|kept| kept.thread.number != own) {
        let known = threads.iter().find(|(number, _)| *number == kept.thread.number);
        let row = known.map(|(_, row)| *row).unwrap_or_else(|| {
            let row = timeline.row(&kept.thread.name);
            threads.push((kept.thread.number, row));
            row
        });
        add(&mut timeline, kept, row);
    }
    timeline
}

fn table(batch: &Batch, tree: &Tree, shown: &[&Kept]) -> Table {
    let [start, _] = batch.time.nanoseconds(&tree.root);
    let counted = &tree.root.thread.counted;
    let events = counted.events.get(counted.events_of_slots()..).unwrap_or_default();
    let names: Vec<String> = events.iter().map(|event| event.to_string()).collect();
    let columns =
        [("span", false), ("thread", false), ("begins", true), ("time", true), ("median", true)];
    let columns = columns.into_iter().chain(names.iter().map(|name| (name.as_str(), true)));
    let mut table = Table::new(columns.chain([("flags", false)]));
    for kept in shown {
        let [from, _] = batch.time.nanoseconds(kept);
        let begins = match from.checked_sub(start) {
            Some(after) => units::time(after),
            None => format!("-{}", units::time(start - from)),
        };
        let counts =
            events.iter().map(|event| kept.count(*event).map_or("-".into(), |it| it.to_string()));
        let flags = kept.raw.flags.names().collect::<Vec<_>>().join(", ");
        let cells = [
            cause::name(kept),
            kept.thread.name.clone(),
            begins,
            units::time(time_of(batch, kept)),
            cause::median_time(batch, kept).map_or("-".into(), units::time),
        ];
        table.row(cells.into_iter().chain(counts).chain([flags]));
    }
    table
}
