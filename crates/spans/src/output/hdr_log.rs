//! The log format of HdrHistogram.

use crate::batch::Batch;
use crate::distribution::Distribution;
use crate::output::Report;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

/// The digits of a value: more than the distributions have.
const DIGITS: u8 = 3;

/// Writes a line for each name.
pub(crate) fn write(batch: &Batch, length: Duration, mut to: impl Write) -> io::Result<()> {
    let mut names: Vec<(&str, Distribution)> = Vec::new();
    for row in Report::new(batch).rows {
        match names.iter_mut().find(|(name, _)| *name == row.name) {
            // All are in nanoseconds, so no unit differs.
            Some((_, all)) => all.merge(&row.distribution).unwrap_or_default(),
            None => names.push((row.name, row.distribution)),
        }
    }
    let begin = batch.time.wall(batch.begun).duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new().begin_log_with(&mut to, &mut serializer)?;
    for (name, times) in names {
        let mut histogram = Histogram::<u64>::new(DIGITS).map_err(io::Error::other)?;
        for ([_, highest], count) in times.iter() {
            histogram.record_n(highest, count).map_err(io::Error::other)?;
        }
        // A tag has none of these.
        let tag = name.replace([',', ' ', '\r', '\n'], "_");
        log.write_histogram(&histogram, begin, length, Tag::new(&tag)).map_err(io::Error::other)?;
    }
    drop(log);
    to.flush()
}
