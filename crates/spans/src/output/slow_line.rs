//! A slow span in one line.

use crate::batch::{Batch, Tree};
use crate::cause::{Cause, Usual};
use crate::collect::Kept;
use crate::units;
use std::time::UNIX_EPOCH;

/// Returns the name, number, time and cause of a slow span.
pub(super) fn line(usual: &Usual<'_>, tree: &Tree) -> String {
    let (batch, root) = (usual.batch, &tree.root);
    let cause = Cause::find(usual, tree);
    let [start, _] = batch.time.nanoseconds(root);
    let name = units::cell(&name(root));
    let thread = units::cell(&root.thread.name);
    let time = units::time(usual.time(root));
    let median =
        cause.usual.map_or_else(String::new, |it| format!(", usually {}", units::duration(it)));
    format!("{name} on {thread}: {time}{median}, at {}. {cause}", wall_clock(batch, start))
}

/// Returns the name of a span, with its number.
pub(super) fn name(kept: &Kept) -> String {
    let name = kept.raw.site.name();
    kept.number().map_or_else(|| name.to_owned(), |number| format!("{name} {number}"))
}

/// Returns the time of day of nanoseconds since the recording began: UTC, to the millisecond.
pub(super) fn wall_clock(batch: &Batch, ns: u64) -> String {
    let since = batch.time.wall(ns).duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, milliseconds) = (since.as_secs() % 86_400, since.subsec_millis());
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{milliseconds:03} UTC", seconds % 60)
}
