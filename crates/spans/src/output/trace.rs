//! Traces in Chrome's JSON format.

use crate::batch::Batch;
use crate::collect::Kept;
use crate::output::rates::rates;
use crate::output::{NOTHING, json, process_name, string};
use crate::record::Site;
use std::cmp::Reverse;
use std::fmt;
use std::io::{self, Write};

/// Writes records as a trace.
pub(crate) fn write<'a>(
    batch: &'a Batch,
    records: impl Iterator<Item = &'a Kept>,
    to: impl Write,
) -> io::Result<()> {
    let mut to = io::BufWriter::new(to);
    to.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    to.write_all(b"{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":")?;
    string(&mut to, &process_name())?;
    to.write_all(b"}}")?;
    // Those around others first: importers such as Tracy's take the order for the nesting of spans that begin at one time. Both ends by the same
    // timeline, so that spans nest. Their difference may be some ten nanoseconds off their length.
    let mut records: Vec<([u64; 2], &Kept)> =
        records.map(|kept| (batch.time.nanoseconds(kept), kept)).collect();
    records.sort_by_key(|([start, end], kept)| {
        (*start, Reverse(*end), kept.raw.depth, !kept.raw.is_lap())
    });
    let mut named = std::collections::HashSet::new();
    for (place, ([start, end], kept)) in records.into_iter().enumerate() {
        let thread = &kept.thread;
        if named.insert(thread.number) {
            write!(
                to,
                ",\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":",
                thread.number
            )?;
            string(&mut to, &thread.name)?;
            to.write_all(b"}}")?;
        }
        let (number, ts) = (thread.number, Micros(start));
        if kept.raw.is_recorded_time() {
            // On a track of its own, because it overlaps the spans of its thread.
            write!(to, ",\n{{\"ph\":\"b\",\"cat\":\"recorded\",\"id\":{place}")?;
            write!(to, ",\"pid\":1,\"tid\":{number},\"ts\":{ts}")?;
            of_site(&mut to, kept.raw.site)?;
            to.write_all(b",\"args\":{")?;
            json::arguments(&mut to, kept)?;
            write!(to, "}}}},\n{{\"ph\":\"e\",\"cat\":\"recorded\",\"id\":{place}")?;
            write!(to, ",\"pid\":1,\"tid\":{number},\"ts\":{}", Micros(end))?;
            of_site(&mut to, kept.raw.site)?;
            to.write_all(b"}")?;
            continue;
        }
        let dur = Micros(end.saturating_sub(start));
        write!(to, ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{number},\"ts\":{ts},\"dur\":{dur}")?;
        of_site(&mut to, kept.raw.site)?;
        to.write_all(b",\"args\":{")?;
        json::arguments(&mut to, kept)?;
        to.write_all(b"}}")?;
        if kept.raw.depth == 1 && kept.raw.is_counted() {
            for (name, rate) in rates(kept) {
                for (at, rate) in [(start, rate), (end, 0.0)] {
                    write!(to, ",\n{{\"ph\":\"C\",\"pid\":1,\"ts\":{},\"name\":", Micros(at))?;
                    string(&mut to, &format!("{name}, {} ({})", thread.name, thread.number))?;
                    write!(to, ",\"args\":{{\"value\":{rate:.4}}}}}")?;
                }
            }
        }
    }
    write!(to, "\n],\"otherData\":{{\"clock\":")?;
    string(&mut to, &batch.time.kind.to_string())?;
    if let Some(error) = batch.time.error {
        write!(to, ",\"clock_error_ns\":{}", error.as_nanos())?;
    }
    if let Some(why) = NOTHING {
        to.write_all(b",\"note\":")?;
        string(&mut to, why)?;
    }
    let dropped: u64 = batch.threads.iter().map(|thread| thread.dropped).sum();
    writeln!(
        to,
        ",\"not_kept\":{},\"dropped\":{dropped},\"lost\":{}}}}}",
        batch.not_kept, batch.lost
    )?;
    to.flush()
}

/// Writes the name and the source location of an event.
fn of_site(to: &mut impl Write, site: &Site) -> io::Result<()> {
    to.write_all(b",\"name\":")?;
    string(&mut *to, site.name())?;
    to.write_all(b",\"loc\":")?;
    string(&mut *to, &format!("{}:{}", site.file(), site.line()))
}

/// Nanoseconds as the microseconds of a trace.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}
