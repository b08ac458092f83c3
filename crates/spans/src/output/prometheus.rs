//! The text format of Prometheus.

use crate::batch::Batch;
use crate::distribution::Distribution;
use crate::output::{NOTHING, Row};
use crate::record::Site;
use rdpmc::Event;
use std::io::{self, Write};
use std::time::Duration;

/// The spans of a site on all threads of a name, whether they have ended or not: so a series grows until the interval ends,
/// and keeps its labels.
struct Series {
    thread: String,
    site: &'static Site,
    count: u64,
    nanoseconds: u128,
    times: Distribution,
    events: Vec<(Event, u64, Distribution)>,
    disturbed: Option<u64>,
    waited: Option<u64>,
    preempted: Option<u64>,
    interrupted: Option<u64>,
}

impl Series {
    fn add(&mut self, row: &Row, total: Duration) {
        self.count += row.count;
        self.nanoseconds += total.as_nanos();
        // Threads with another clock are in sum and count alone.
        self.times.merge(&row.distribution).unwrap_or_default();
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
        format!("thread=\"{thread}\",span=\"{span}\",site=\"{file}:{}\"", self.site.line())
    }
}

/// Returns the series, in the order of the report.
fn series(batch: &Batch) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for thread in &batch.threads {
        for stats in &thread.sites {
            let (name, site) = (thread.meta.group(), stats.site);
            // A macro of the program's with two spans has two statics of one line.
            let is_same =
                |known: &&mut Series| known.thread == name && of_site(known.site) == of_site(site);
            let row = Row::new(thread, stats, &batch.time);
            // A sum that falls is a restart to Prometheus.
            let total = batch.time.first_conversion(&thread.meta).duration(stats.ticks);
            if let Some(known) = all.iter_mut().find(is_same) {
                known.add(&row, total);
                continue;
            }
            let mut new = Series {
                thread: name.to_string(),
                site,
                count: 0,
                nanoseconds: 0,
                times: Distribution::default(),
                events: Vec::new(),
                disturbed: None,
                waited: None,
                preempted: None,
                interrupted: None,
            };
            new.add(&row, total);
            all.push(new);
        }
    }
    all
}

fn of_site(site: &Site) -> (&str, &str, u32) {
    (site.name(), site.file(), site.line())
}

/// Writes the interval as summaries and counters.
pub(crate) fn write(batch: &Batch, to: impl Write) -> io::Result<()> {
    let mut to = io::BufWriter::new(to);
    if let Some(why) = NOTHING {
        writeln!(to, "# {why}")?;
    }
    let all = series(batch);
    head(&mut to, "rdpmc_span_seconds", "summary", "The time of spans.")?;
    for series in &all {
        let labels = series.labels();
        for (quantile, ns) in quantiles(&series.times) {
            let seconds = Seconds(u128::from(ns));
            writeln!(to, "rdpmc_span_seconds{{{labels},quantile=\"{quantile}\"}} {seconds}")?;
        }
        writeln!(to, "rdpmc_span_seconds_sum{{{labels}}} {}", Seconds(series.nanoseconds))?;
        writeln!(to, "rdpmc_span_seconds_count{{{labels}}} {}", series.count)?;
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
        head(&mut to, &format!("rdpmc_spans_{name}_total"), "counter", help)?;
        for (series, count) in known {
            writeln!(to, "rdpmc_spans_{name}_total{{{}}} {count}", series.labels())?;
        }
    }
    let dropped: u64 = batch.threads.iter().map(|thread| thread.dropped).sum();
    head(
        &mut to,
        "rdpmc_spans_dropped_total",
        "counter",
        "Records that found a ring full, and spans too deep.",
    )?;
    writeln!(to, "rdpmc_spans_dropped_total {dropped}")?;
    head(&mut to, "rdpmc_spans_lost_total", "counter", "Spans that were lost otherwise.")?;
    writeln!(to, "rdpmc_spans_lost_total {}", batch.lost)?;
    to.flush()
}

fn head(to: &mut impl Write, name: &str, kind: &str, help: &str) -> io::Result<()> {
    writeln!(to, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn quantiles(of: &Distribution) -> [(&'static str, u64); 4] {
    let quantile = |q| of.quantile(q).unwrap_or(0);
    [
        ("0.5", quantile(0.5)),
        ("0.99", quantile(0.99)),
        ("0.999", quantile(0.999)),
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
