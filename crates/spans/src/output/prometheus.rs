//! The text formats of Prometheus and OpenMetrics.

use crate::batch::Batch;
use crate::distribution::Distribution;
use crate::output::{NOTHING, Row};
use crate::record::Site;
use rdpmc::Event;
use rdpmc::clock::Conversion;
use std::io::{self, Write};

/// Two formats with the same samples. They differ in the lines before and after these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Version 0.0.4.
    Prometheus,
    OpenMetrics,
}

/// The number of limits of the histograms.
const LIMITS: usize = 4 * 30 + 1;

/// Returns the limits of the histograms in nanoseconds: four for each power of two, from 2^4 to 2^34. All processes have the same ones, so
/// that histograms can be added.
pub(crate) fn limits() -> [u64; LIMITS] {
    std::array::from_fn(|place| (4 + place as u64 % 4) << (place / 4 + 2))
}

/// The number of times between each limit and the one before it, and above all limits.
pub(crate) type Buckets = [u64; LIMITS + 1];

/// Adds a distribution of ticks.
pub(crate) fn add_times(buckets: &mut Buckets, times: &Distribution, conversion: Conversion) {
    let limits = limits();
    // The lowest value of each bucket of the distribution: the highest one changes with the maximum, and then a count could fall.
    for ([lowest, _], count) in times.iter() {
        let time = conversion.delta_ns(lowest);
        let place = limits.partition_point(|limit| *limit < time);
        if let Some(known) = buckets.get_mut(place) {
            *known += count;
        }
    }
}

/// The spans of a name in a source file on all threads of a name, whether they have ended or not: so a series grows until the interval
/// ends, and keeps its labels when a line of the source moves.
struct Series {
    thread: String,
    site: &'static Site,
    count: u64,
    nanoseconds: u128,
    times: Buckets,
    distribution: Distribution,
    events: Vec<(Event, u64, Distribution)>,
    disturbed: Option<u64>,
    waited: Option<u64>,
    preempted: Option<u64>,
    interrupted: Option<u64>,
}

impl Series {
    fn new(thread: &str, site: &'static Site) -> Series {
        Series {
            thread: thread.to_string(),
            site,
            count: 0,
            nanoseconds: 0,
            times: [0; LIMITS + 1],
            distribution: Distribution::default(),
            events: Vec::new(),
            disturbed: None,
            waited: None,
            preempted: None,
            interrupted: None,
        }
    }

    /// Adds the spans of a row. `times` is their distribution in ticks.
    fn add(&mut self, row: &Row, ticks: u64, times: &Distribution, conversion: Conversion) {
        self.count += row.count;
        self.nanoseconds += conversion.duration(ticks).as_nanos();
        add_times(&mut self.times, times, conversion);
        // Threads with another clock are not in the quantiles.
        self.distribution.merge(&row.distribution).unwrap_or_default();
        for counts in &row.counts {
            match self.events.iter_mut().find(|(event, ..)| *event == counts.event) {
                Some((_, sum, distribution)) => {
                    *sum = sum.wrapping_add(counts.sum);
                    distribution.merge(&counts.distribution).unwrap_or_default();
                }
                None => self.events.push((counts.event, counts.sum, counts.distribution.clone())),
            }
        }
        let flags = [
            (&mut self.disturbed, row.disturbed),
            (&mut self.waited, row.waited),
            (&mut self.preempted, row.preempted),
            (&mut self.interrupted, row.interrupted),
        ];
        for (sum, more) in flags {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0) + more);
            }
        }
    }

    fn labels(&self) -> String {
        let [thread, span, file] = [&self.thread, self.site.name(), self.site.file()].map(Escaped);
        format!("thread=\"{thread}\",span=\"{span}\",file=\"{file}\"")
    }
}

/// Returns the series, in the order of the report.
fn series(batch: &Batch) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for thread in &batch.threads {
        for stats in &thread.sites {
            let (name, site) = (thread.meta.group(), stats.site);
            let is_same =
                |known: &&mut Series| known.thread == name && of_site(known.site) == of_site(site);
            let row = Row::new(thread, stats, &batch.time);
            // One that never changes: a sum that falls is a restart to Prometheus.
            let conversion = batch.time.first_conversion(&thread.meta);
            let series = match all.iter_mut().find(is_same) {
                Some(known) => known,
                None => {
                    all.push(Series::new(name, site));
                    let Some(new) = all.last_mut() else { continue };
                    new
                }
            };
            series.add(&row, stats.ticks, &stats.times, conversion);
        }
    }
    all
}

fn of_site(site: &Site) -> (&str, &str) {
    (site.name(), site.file())
}

/// Writes the interval as histograms, quantiles, summaries and counters.
pub(crate) fn write(batch: &Batch, format: Format, to: impl Write) -> io::Result<()> {
    let mut to = io::BufWriter::new(to);
    // OpenMetrics has no comments.
    if let Some(why) = NOTHING.filter(|_| format == Format::Prometheus) {
        writeln!(to, "# {why}")?;
    }
    let all = series(batch);
    let head = |to: &mut _, name: &str, kind, help| head(to, format, name, kind, help);
    head(&mut to, "rdpmc_span_seconds", "histogram", "The time of spans.")?;
    for series in &all {
        let (labels, mut below) = (series.labels(), 0);
        for (count, limit) in series.times.iter().zip(limits()) {
            below += count;
            let limit = Seconds(u128::from(limit));
            writeln!(to, "rdpmc_span_seconds_bucket{{{labels},le=\"{limit}\"}} {below}")?;
        }
        writeln!(to, "rdpmc_span_seconds_bucket{{{labels},le=\"+Inf\"}} {}", series.count)?;
        writeln!(to, "rdpmc_span_seconds_sum{{{labels}}} {}", Seconds(series.nanoseconds))?;
        writeln!(to, "rdpmc_span_seconds_count{{{labels}}} {}", series.count)?;
    }
    let help = "The quantiles of the time of spans in this process.";
    head(&mut to, "rdpmc_span_quantile_seconds", "gauge", help)?;
    for series in &all {
        let labels = series.labels();
        for (quantile, ns) in quantiles(&series.distribution) {
            let seconds = Seconds(u128::from(ns));
            writeln!(
                to,
                "rdpmc_span_quantile_seconds{{{labels},quantile=\"{quantile}\"}} {seconds}"
            )?;
        }
    }
    if all.iter().any(|series| !series.events.is_empty()) {
        head(&mut to, "rdpmc_span_events", "summary", "The counts of spans.")?;
    }
    for series in &all {
        for (event, sum, distribution) in &series.events {
            let labels = format!("{},event=\"{}\"", series.labels(), Escaped(&event.to_string()));
            for (quantile, count) in quantiles(distribution) {
                writeln!(to, "rdpmc_span_events{{{labels},quantile=\"{quantile}\"}} {count}")?;
            }
            writeln!(to, "rdpmc_span_events_sum{{{labels}}} {sum}")?;
            writeln!(to, "rdpmc_span_events_count{{{labels}}} {}", distribution.count())?;
        }
    }
    type Of = fn(&Series) -> Option<u64>;
    let counters: [(&str, &str, Of); 4] = [
        ("disturbed", "Spans that the kernel disturbed.", |series| series.disturbed),
        ("waited", "Spans that waited.", |series| series.waited),
        ("preempted", "Spans that were preempted.", |series| series.preempted),
        ("interrupted", "Spans that were interrupted.", |series| series.interrupted),
    ];
    for (name, help, of) in counters {
        let known: Vec<_> = all.iter().filter_map(|series| Some((series, of(series)?))).collect();
        if known.is_empty() {
            continue;
        }
        head(&mut to, &format!("rdpmc_spans_{name}"), "counter", help)?;
        for (series, count) in known {
            writeln!(to, "rdpmc_spans_{name}_total{{{}}} {count}", series.labels())?;
        }
    }
    let dropped: u64 = batch.threads.iter().map(|thread| thread.dropped).sum();
    let help = "Records that found a ring full, and spans too deep.";
    head(&mut to, "rdpmc_spans_dropped", "counter", help)?;
    writeln!(to, "rdpmc_spans_dropped_total {dropped}")?;
    head(&mut to, "rdpmc_spans_lost", "counter", "Spans that were lost otherwise.")?;
    writeln!(to, "rdpmc_spans_lost_total {}", batch.lost)?;
    if format == Format::OpenMetrics {
        writeln!(to, "# EOF")?;
    }
    to.flush()
}

/// Writes the lines before a metric's samples. A counter's samples end in `_total`, which is not part of its name in OpenMetrics.
fn head(to: &mut impl Write, format: Format, name: &str, kind: &str, help: &str) -> io::Result<()> {
    let suffix = if kind == "counter" && format == Format::Prometheus { "_total" } else { "" };
    writeln!(to, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}")?;
    if format == Format::OpenMetrics && name.ends_with("_seconds") {
        writeln!(to, "# UNIT {name} seconds")?;
    }
    Ok(())
}

fn quantiles(of: &Distribution) -> [(&'static str, u64); 5] {
    let quantile = |q| of.quantile(q).unwrap_or(0);
    [
        ("0.5", quantile(0.5)),
        ("0.99", quantile(0.99)),
        ("0.999", quantile(0.999)),
        ("0.9999", quantile(0.9999)),
        ("1", of.max().unwrap_or(0)),
    ]
}

/// Nanoseconds in seconds.
struct Seconds(u128);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// The value of a label.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for character in self.0.chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                character => write!(f, "{character}")?,
            }
        }
        Ok(())
    }
}
