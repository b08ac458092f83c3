//! Traces for viewers and other programs.

use crate::record::{Flags, Record};
use crate::spans::{Spans, Thread};
use rdpmc::Event;
use rdpmc::clock::Conversion;
use std::fmt;
use std::io::{self, Write};

impl Spans {
    /// Collects, and writes the records as a trace in Chrome's JSON format, for <https://ui.perfetto.dev> and
    /// `chrome://tracing`.
    ///
    /// Spans have their counts and flags as arguments. Each thread has counter tracks: one shows the instructions per cycle,
    /// the others show each further event per 1,000 instructions. Only outermost spans are in these tracks.
    ///
    /// Only [`Settings::keep`](crate::Settings::keep) records are kept. The trace's metadata has the number of those that
    /// were not, and of those that were dropped.
    ///
    /// Records that are [out of order](Flags::OUT_OF_ORDER) may overlap others on their track, and Perfetto may leave them
    /// out. The records are kept: a second call writes them again.
    ///
    /// # Errors
    /// Those of `to`, such as that of a full disk. What was written until then is not a complete trace.
    pub fn write_trace(&mut self, to: impl Write) -> io::Result<()> {
        self.collect();
        self.update_time();
        let mut to = io::BufWriter::new(to);
        to.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
        to.write_all(b"{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":")?;
        string(&mut to, &process_name())?;
        to.write_all(b"}}")?;
        for thread in self.all_threads() {
            let info = thread.info(self.time());
            write!(
                to,
                ",\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":",
                info.number
            )?;
            string(&mut to, &info.name)?;
            to.write_all(b"}}")?;
        }
        let dropped: u64 = self.threads().iter().map(|thread| thread.dropped).sum();
        self.each_kept(|number, thread, events, conversion, record| {
            let [start, end] = self.nanoseconds(conversion, record);
            write!(
                to,
                ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{number},\"ts\":{},\"dur\":{},\"name\":",
                Micros(start),
                Micros(end - start)
            )?;
            string(&mut to, record.site.name())?;
            to.write_all(b",\"args\":{")?;
            arguments(&mut to, events, record)?;
            to.write_all(b"}}")?;
            if record.depth == 1 && !record.flags.contains(Flags::NOT_COUNTED) {
                for (name, rate) in rates(events, record) {
                    for (at, rate) in [(start, rate), (end, 0.0)] {
                        write!(to, ",\n{{\"ph\":\"C\",\"pid\":1,\"ts\":{},\"name\":", Micros(at))?;
                        string(&mut to, &format!("{name}, {} ({number})", thread.name()))?;
                        write!(to, ",\"args\":{{\"value\":{rate:.4}}}}}")?;
                    }
                }
            }
            Ok(())
        })?;
        write!(to, "\n],\"otherData\":{{\"clock\":")?;
        string(&mut to, &self.time().kind.to_string())?;
        if let Some(error) = self.time().error {
            write!(to, ",\"clock_error_ns\":{}", error.as_nanos())?;
        }
        writeln!(
            to,
            ",\"not_kept\":{},\"dropped\":{dropped},\"lost\":{}}}}}",
            self.not_kept(),
            self.lost()
        )?;
        to.flush()
    }

    /// Collects, and writes the records as lines of JSON: one object for each, with `thread_number`, `thread`, `file`,
    /// `line`, `name`, `parent` (or null), `start_ns` since the recording began, `ns`, the events' counts, and `flags`.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn write_json_lines(&mut self, to: impl Write) -> io::Result<()> {
        self.collect();
        self.update_time();
        let mut to = io::BufWriter::new(to);
        self.each_kept(|number, thread, events, conversion, record| {
            let [start, end] = self.nanoseconds(conversion, record);
            write!(to, "{{\"thread_number\":{number},\"thread\":")?;
            string(&mut to, thread.name())?;
            to.write_all(b",\"file\":")?;
            string(&mut to, record.site.file())?;
            write!(to, ",\"line\":{}", record.site.line())?;
            to.write_all(b",\"name\":")?;
            string(&mut to, record.site.name())?;
            to.write_all(b",\"parent\":")?;
            match record.parent {
                Some(parent) => string(&mut to, parent.name())?,
                None => to.write_all(b"null")?,
            }
            write!(to, ",\"start_ns\":{start},\"ns\":{},", end - start)?;
            arguments(&mut to, events, record)?;
            to.write_all(b"}\n")
        })?;
        to.flush()
    }

    /// Calls `each` with the records that are kept.
    fn each_kept(
        &self,
        mut each: impl FnMut(u32, &Thread, &[Event], &Conversion, &Record) -> io::Result<()>,
    ) -> io::Result<()> {
        let known: Vec<_> = self
            .all_threads()
            .iter()
            .map(|thread| {
                let info = thread.info(self.time());
                (info.number, thread, info.events, thread.conversion(self.time()))
            })
            .collect();
        for (number, record) in self.kept() {
            if let Some((number, thread, events, conversion)) =
                known.iter().find(|known| known.0 == *number)
            {
                each(*number, thread, events, conversion, record)?;
            }
        }
        Ok(())
    }

    /// Returns the times at both ends, in nanoseconds since the recording began.
    fn nanoseconds(&self, conversion: &Conversion, record: &Record) -> [u64; 2] {
        let zero = self.time().conversion.ticks_to_ns(self.time().zero);
        // Each end by itself, so that spans which end in one tick end in one nanosecond. A conversion of another
        // calibration may put the first spans before the beginning.
        let since = |ticks: u64| match conversion.ticks_to_ns(ticks).wrapping_sub(zero) {
            before if before > u64::MAX / 2 => 0,
            since => since,
        };
        let [start, end] = record.ticks.map(since);
        [start, end.max(start)]
    }
}

/// Writes the counts and the flags.
fn arguments(to: &mut impl Write, events: &[Event], record: &Record) -> io::Result<()> {
    if !record.flags.contains(Flags::NOT_COUNTED) {
        for (event, count) in events.iter().zip(record.counts) {
            string(to, &event.to_string())?;
            write!(to, ":{count},")?;
        }
    }
    to.write_all(b"\"flags\":[")?;
    for (place, flag) in record.flags.names().enumerate() {
        if place > 0 {
            to.write_all(b",")?;
        }
        string(to, flag)?;
    }
    to.write_all(b"]")
}

/// Returns the rates of a span that have a track.
fn rates(events: &[Event], record: &Record) -> Vec<(String, f64)> {
    let count = |wanted: Event| {
        let counted = events.iter().zip(record.counts).find(|(event, _)| **event == wanted);
        counted.map(|(_, count)| count as f64)
    };
    let Some(instructions) = count(Event::INSTRUCTIONS).filter(|count| *count > 0.0) else {
        return Vec::new();
    };
    let rate = |event: &Event| match *event {
        Event::INSTRUCTIONS => None,
        Event::CYCLES => {
            let cycles = count(Event::CYCLES).filter(|count| *count > 0.0)?;
            Some(("IPC".to_string(), instructions / cycles))
        }
        event => {
            Some((format!("{event} per 1,000 instructions"), count(event)? * 1000.0 / instructions))
        }
    };
    events.iter().filter_map(rate).collect()
}

/// Nanoseconds as the microseconds of a trace.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Writes a string in quotes.
fn string(to: &mut impl Write, text: &str) -> io::Result<()> {
    Ok(serde_json::to_writer(to, text)?)
}

fn process_name() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&path).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
