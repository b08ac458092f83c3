//! The slow spans: what ran during each, and why it was slow.

use crate::batch::{Batch, Tree};
use crate::cause::{Cause, Usual};
use crate::collect::Kept;
use crate::output::slow_line;
use crate::units;
use rdpmc_report::page::{Axis, Page, Table, Timeline};
use std::cmp::Reverse;
use std::collections::HashMap;

/// The maximum number of spans on all timelines. Each timeline may have at least `LEAST`.
const SPANS: usize = 4_000;
const LEAST: usize = 20;

/// Adds a timeline, a table and the cause for each slow span.
pub(super) fn add(page: &mut Page, batch: &Batch) {
    let usual = Usual::new(batch);
    let most = (SPANS / batch.slow.len().max(1)).clamp(LEAST, 200);
    for (place, tree) in batch.slow.iter().enumerate() {
        let root = &tree.root;
        let [start, _] = batch.time.nanoseconds(root);
        let time = units::time(usual.time(root));
        let name = slow_line::name(root);
        page.subheading(
            &format!("slow-{}", place + 1),
            &format!(
                "{}. {name} on {}: {time} at {}",
                place + 1,
                root.thread.name,
                slow_line::wall_clock(batch, start)
            ),
        );
        let cause = Cause::find(&usual, tree);
        let median = cause.usual.map_or_else(String::new, |median| {
            let (name, median) = (root.raw.site.name(), units::duration(median));
            format!(" The median of all {name} spans of this thread is {median}.")
        });
        page.paragraph(&format!("{cause}{median}"));
        let shown = shown(tree, most);
        let left_out = 1 + tree.inside.len() + tree.beside.len() - shown.len();
        page.push(&timeline(batch, &usual, tree, &shown, &format!("What ran during {name}")));
        if left_out > 0 {
            let left_out = units::number_of(left_out as u64, "shorter span");
            page.paragraph(&format!("Not shown: {left_out}."));
        }
        page.folded(
            &format!("The spans of {name}, with their counts"),
            &[&table(batch, &usual, tree, &shown)],
        );
    }
}

/// Whether a span took three times as long as the median of its site.
fn is_exceeded_by(usual: &Usual<'_>, kept: &Kept) -> bool {
    usual.median(kept).is_some_and(|median| usual.time(kept) / 3 >= median.max(1))
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

fn timeline(
    batch: &Batch,
    usual: &Usual<'_>,
    tree: &Tree,
    shown: &[&Kept],
    title: &str,
) -> Timeline {
    let [start, end] = batch.time.nanoseconds(&tree.root);
    let axis = Axis::linear("time").whole().written(|ns| units::time(ns.max(0.0) as u64));
    let mut timeline = Timeline::new(title, axis, (end - start) as f64);
    let own = tree.root.thread.number;
    // The rows of a thread, and when the last span in each ends.
    let mut rows: Vec<(usize, u64)> = Vec::new();
    let mut colors: HashMap<&str, usize> = HashMap::new();
    let mut add = |timeline: &mut Timeline, kept: &Kept, row: usize| {
        let name = slow_line::name(kept);
        let next = colors.len();
        let color = *colors.entry(kept.raw.site.name()).or_insert(next);
        let ends = batch.time.nanoseconds(kept).map(|ns| ns as f64 - start as f64);
        let flags = kept.raw.flags.names().map(|flag| format!(", {flag}")).collect::<String>();
        let median = usual.median(kept);
        let median = median.map_or_else(String::new, |ns| format!(", median {}", units::time(ns)));
        let text = format!("{name}: {}{median}{flags}", units::time(usual.time(kept)));
        match is_exceeded_by(usual, kept) && !std::ptr::eq(kept, &tree.root) {
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
            *end = to.max(from.saturating_add(1));
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

fn table(batch: &Batch, usual: &Usual<'_>, tree: &Tree, shown: &[&Kept]) -> Table {
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
            slow_line::name(kept),
            kept.thread.name.clone(),
            begins,
            units::time(usual.time(kept)),
            usual.median(kept).map_or("-".into(), units::time),
        ];
        table.row(cells.into_iter().chain(counts).chain([flags]));
    }
    table
}
