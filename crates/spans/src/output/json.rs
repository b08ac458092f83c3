//! JSON for other programs.

use crate::batch::Batch;
use crate::collect::Kept;
use crate::counting::Level1;
use crate::output::{Percentiles, Report, Row, is_enabled, string};
use std::io::{self, Write};

/// Writes the counts, the number and the flags of a record.
pub(super) fn arguments(to: &mut impl Write, kept: &Kept) -> io::Result<()> {
    if kept.raw.is_counted() {
        let counted = &kept.thread.counted;
        let others = counted.events.iter().zip(kept.raw.counts).skip(counted.events_of_slots());
        for (event, count) in others {
            string(to, &event.to_string())?;
            write!(to, ":{count},")?;
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
    is_enabled()?;
    let mut to = io::BufWriter::new(to);
    for kept in &batch.records {
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
    is_enabled()?;
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
    for (place, line) in report.slowest().iter().enumerate() {
        to.write_all(if place > 0 { b",\n" } else { b"\n" })?;
        string(&mut to, line)?;
    }
    write!(to, "\n],\"slow_not_kept\":{}", report.slow_not_kept)?;
    write!(to, ",\"clock_step_ns\":{}", report.clock_step.as_nanos())?;
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
    for (name, count) in optional_flags {
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
    let Percentiles { p50, p99, p999, max } = of;
    write!(to, "{{\"p50\":{p50},\"p99\":{p99},\"p999\":{p999},\"max\":{max}")?;
    if let Some(sum) = sum {
        write!(to, ",\"sum\":{sum}")?;
    }
    to.write_all(b"}")
}

/// Writes a number, or null.
fn optional(to: &mut impl Write, number: Option<u64>) -> io::Result<()> {
    match number {
        Some(number) => write!(to, "{number}"),
        None => to.write_all(b"null"),
    }
}
