//! JSON for other programs.

use crate::batch::{Batch, Tree};
use crate::cause::{Cause, Place, Reason, Usual};
use crate::collect::Kept;
use crate::counting::Level1;
use crate::output::{NOTHING, Percentiles, Report, Row, string};
use std::io::{self, Write};
use std::time::Duration;

/// Writes the counts, the number and the flags of a record.
pub(super) fn arguments(to: &mut impl Write, kept: &Kept) -> io::Result<()> {
    if kept.raw.is_counted() {
        let counted = &kept.thread.counted;
        let others = counted.events.iter().zip(kept.raw.counts).skip(counted.events_of_slots());
        for (event, count) in others {
            string(to, &event.to_string())?;
            to.write_all(b":")?;
            integer(to, count)?;
            to.write_all(b",")?;
        }
    }
    if let Some(level1) = kept.level1() {
        slots(to, &level1)?;
        to.write_all(b",")?;
    }
    to.write_all(b"\"number\":")?;
    optional(to, kept.number())?;
    to.write_all(b",\"flags\":[")?;
    for (place, flag) in kept.raw.flags.names().enumerate() {
        if place > 0 {
            to.write_all(b",")?;
        }
        string(to, flag)?;
    }
    to.write_all(b"]")
}

/// Writes the fractions of the pipeline slots.
fn slots(to: &mut impl Write, level1: &Level1) -> io::Result<()> {
    to.write_all(b"\"slots\":{")?;
    for (place, (category, part)) in level1.parts().into_iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        write!(to, "{comma}\"{category}\":{:.4}", part.fraction)?;
    }
    write!(to, ",\"rest\":{:.4}}}", level1.rest)
}

/// Writes the records, a line each.
pub(crate) fn write_lines(batch: &Batch, to: impl Write) -> io::Result<()> {
    let mut to = io::BufWriter::new(to);
    for kept in batch.records.iter() {
        let [start, _] = batch.time.nanoseconds(kept);
        let ns = batch.time.conversion(&kept.thread).delta_ns(kept.raw.time());
        write!(to, "{{\"thread_number\":{},\"thread\":", kept.thread.number)?;
        string(&mut to, &kept.thread.name)?;
        to.write_all(b",\"file\":")?;
        string(&mut to, kept.raw.site.file())?;
        write!(to, ",\"line\":{}", kept.raw.site.line())?;
        to.write_all(b",\"name\":")?;
        string(&mut to, kept.raw.site.name())?;
        to.write_all(b",\"parent\":")?;
        match kept.raw.parent {
            Some(parent) => string(&mut to, parent.name())?,
            None => to.write_all(b"null")?,
        }
        write!(to, ",\"start_ns\":{start},\"ns\":{ns},")?;
        arguments(&mut to, kept)?;
        to.write_all(b"}\n")?;
    }
    to.flush()
}

/// Writes the report.
pub(crate) fn write_report(batch: &Batch, to: impl Write) -> io::Result<()> {
    let report = Report::new(batch);
    let mut to = io::BufWriter::new(to);
    for (name, rows) in [("{\"rows\":[", &report.rows), ("\n],\"all\":[", &report.all)] {
        to.write_all(name.as_bytes())?;
        for (place, row) in rows.iter().enumerate() {
            to.write_all(if place > 0 { b",\n" } else { b"\n" })?;
            write_row(&mut to, row)?;
        }
    }
    to.write_all(b"\n],\"slowest\":[")?;
    let usual = Usual::new(batch);
    for (place, (tree, line)) in batch.slow.iter().zip(report.slowest()).enumerate() {
        to.write_all(if place > 0 { b",\n" } else { b"\n" })?;
        slow(&mut to, &usual, tree, line)?;
    }
    write!(to, "\n],\"slow_not_kept\":{}", report.slow_not_kept)?;
    write!(to, ",\"clock_step_ns\":{}", report.clock_step.as_nanos())?;
    if let Some(why) = NOTHING {
        to.write_all(b",\"note\":")?;
        string(&mut to, why)?;
    }
    let dropped: u64 = batch.threads.iter().map(|thread| thread.dropped).sum();
    writeln!(to, ",\"dropped\":{dropped},\"lost\":{}}}", report.lost)?;
    to.flush()
}

fn write_row(to: &mut impl Write, row: &Row) -> io::Result<()> {
    to.write_all(b"{\"thread_number\":")?;
    optional(to, row.thread.map(u64::from))?;
    to.write_all(b",\"thread\":")?;
    string(to, &row.thread_name)?;
    to.write_all(b",\"name\":")?;
    string(to, row.name)?;
    to.write_all(b",\"file\":")?;
    string(to, row.site.file())?;
    write!(to, ",\"line\":{},\"count\":{}", row.site.line(), row.count)?;
    let optional_flags = [
        ("disturbed", row.disturbed),
        ("waited", row.waited),
        ("preempted", row.preempted),
        ("interrupted", row.interrupted),
        ("not_counted", Some(row.not_counted)),
        ("multiplexed", Some(row.multiplexed)),
        ("out_of_order", Some(row.out_of_order)),
    ];
    let [off_cpu, runnable, busy] = [row.off_cpu, row.runnable, row.busy].map(|time| time.map(ns));
    let times = [
        ("off_cpu_ns", off_cpu),
        ("runnable_ns", runnable),
        ("busy_ns", busy),
        ("polls", row.polls),
    ];
    for (name, count) in optional_flags.into_iter().chain(times) {
        write!(to, ",\"{name}\":")?;
        optional(to, count)?;
    }
    write!(to, ",\"total_ns\":{},\"own_ns\":{}", row.total.as_nanos(), row.own.as_nanos())?;
    to.write_all(b",\"ns\":")?;
    percentiles(to, row.time, None)?;
    to.write_all(b",\"events\":{")?;
    for (place, counts) in row.counts.iter().enumerate() {
        if place > 0 {
            to.write_all(b",")?;
        }
        string(to, &counts.event.to_string())?;
        to.write_all(b":")?;
        percentiles(to, counts.percentiles, Some(counts.sum))?;
    }
    to.write_all(b"}")?;
    if let Some(level1) = &row.level1 {
        to.write_all(b",")?;
        slots(to, level1)?;
    }
    to.write_all(b"}")
}

fn percentiles(to: &mut impl Write, of: Percentiles, sum: Option<u64>) -> io::Result<()> {
    let Percentiles { p50, p99, p999, p9999, max } = of;
    let all =
        [("{\"p50", p50), (",\"p99", p99), (",\"p999", p999), (",\"p9999", p9999), (",\"max", max)];
    for (name, value) in all {
        write!(to, "{name}\":")?;
        integer(to, value)?;
    }
    if let Some(sum) = sum {
        to.write_all(b",\"sum\":")?;
        integer(to, sum)?;
    }
    to.write_all(b"}")
}

/// Writes a slow span: what its line says, and the parts of it.
fn slow(to: &mut impl Write, usual: &Usual<'_>, tree: &Tree, line: &str) -> io::Result<()> {
    let (root, cause) = (&tree.root, Cause::find(usual, tree));
    to.write_all(b"{\"line\":")?;
    string(to, line)?;
    to.write_all(b",\"name\":")?;
    string(to, root.raw.site.name())?;
    to.write_all(b",\"number\":")?;
    optional(to, root.number())?;
    to.write_all(b",\"thread\":")?;
    string(to, &root.thread.name)?;
    let [start, _] = usual.batch.time.nanoseconds(root);
    write!(to, ",\"thread_number\":{},\"start_ns\":{start}", root.thread.number)?;
    write!(to, ",\"ns\":{},\"usual_ns\":", usual.time(root))?;
    optional(to, cause.usual.map(ns))?;
    to.write_all(b",\"place\":")?;
    match &cause.place {
        Some(it) => place(to, it)?,
        None => to.write_all(b"null")?,
    }
    to.write_all(b",\"reasons\":[")?;
    reasons(to, &cause.reasons)?;
    to.write_all(b"],\"waited_for\":[")?;
    for (number, holder) in cause.waited_for.iter().enumerate() {
        to.write_all(if number > 0 { b"," } else { b"" })?;
        to.write_all(b"{\"place\":")?;
        place(to, &holder.place)?;
        to.write_all(b",\"reasons\":[")?;
        reasons(to, &holder.reasons)?;
        to.write_all(b"],\"began_after_ns\":")?;
        optional(to, holder.began_after.map(ns))?;
        to.write_all(b"}")?;
    }
    write!(to, "],\"not_kept\":{}}}", cause.not_kept)
}

fn place(to: &mut impl Write, of: &Place) -> io::Result<()> {
    to.write_all(b"{\"name\":")?;
    string(to, of.name)?;
    to.write_all(b",\"number\":")?;
    optional(to, of.number)?;
    to.write_all(b",\"thread\":")?;
    string(to, &of.thread)?;
    let Place { spans, usual_spans, is_root, is_own, time, .. } = of;
    write!(
        to,
        ",\"spans\":{spans},\"usual_spans\":{usual_spans},\"is_root\":{is_root},\"is_own\":{is_own}"
    )?;
    write!(to, ",\"ns\":{},\"usual_ns\":", ns(*time))?;
    optional(to, of.usual.map(ns))?;
    to.write_all(b"}")
}

fn reasons(to: &mut impl Write, all: &[Reason]) -> io::Result<()> {
    for (number, reason) in all.iter().enumerate() {
        to.write_all(if number > 0 { b"," } else { b"" })?;
        write!(to, "{{\"what\":\"{}\"", reason.name())?;
        let (time, count) = match reason {
            Reason::Waited { time } | Reason::Preempted { time } => (*time, None),
            Reason::WokenLate { time } | Reason::WithoutCpu { time } | Reason::Ran { time } => {
                (Some(*time), None)
            }
            Reason::PageFaults { count, usual, .. }
            | Reason::Kernel { count, usual }
            | Reason::Instructions { count, usual }
            | Reason::Event { count, usual, .. } => (None, Some((*count, *usual))),
            Reason::Polled { polls, busy, idle } => {
                to.write_all(b",\"polls\":")?;
                integer(to, *polls)?;
                write!(to, ",\"busy_ns\":{}", ns(*busy))?;
                (Some(*idle), None)
            }
            Reason::SlowInstructions { ipc, usual } => {
                write!(to, ",\"ipc\":{ipc:.4},\"usual_ipc\":{usual:.4}")?;
                (None, None)
            }
            Reason::Disturbed => (None, None),
        };
        if let Reason::PageFaults { of, major, .. } = reason {
            to.write_all(b",\"of\":")?;
            string(to, of)?;
            to.write_all(b",\"major\":")?;
            integer(to, *major)?;
        }
        if let Reason::Event { event, .. } = reason {
            to.write_all(b",\"event\":")?;
            string(to, &event.to_string())?;
        }
        if let Some(time) = time {
            write!(to, ",\"ns\":{}", ns(time))?;
        }
        if let Some((count, usual)) = count {
            to.write_all(b",\"count\":")?;
            integer(to, count)?;
            to.write_all(b",\"usual\":")?;
            integer(to, usual)?;
        }
        to.write_all(b"}")?;
    }
    Ok(())
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Writes a number. A string from 2^53 on: readers that take numbers for floating point, such as JavaScript and jq, would
/// change it.
fn integer(to: &mut impl Write, number: u64) -> io::Result<()> {
    match number {
        0..0x20_0000_0000_0000 => write!(to, "{number}"),
        _ => write!(to, "\"{number}\""),
    }
}

/// Writes a number, or null.
fn optional(to: &mut impl Write, number: Option<u64>) -> io::Result<()> {
    match number {
        Some(number) => integer(to, number),
        None => to.write_all(b"null"),
    }
}
