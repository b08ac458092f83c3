//! A page with the counts of all benchmarks, beside criterion's own pages.

use rdpmc_report::criterion::home::{NEW, name, results};
use rdpmc_report::criterion::{Counted, Results};
use rdpmc_report::gate::bench_json::program;
use rdpmc_report::gate::cells::{exact, with_error};
use rdpmc_report::gate::{Interval, files};
use rdpmc_report::page::{Axis, Chart, Page, Table};
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// A benchmark with saved counts.
struct Benchmark {
    name: String,
    /// The relative link to criterion's report. None if there is no report.
    page: Option<String>,
    results: Results,
}

/// Writes the page of all benchmarks below `home`: `index.html`.
pub(crate) fn write(home: &Path) -> io::Result<()> {
    let mut page = Page::new("Counters");
    page.origin(&program(), rdpmc_report::gate::cpu_identity().as_deref(), SystemTime::now());
    page.paragraph("The page has all benchmarks with saved counts, also those of earlier runs.");
    let all: Vec<Benchmark> =
        results(home, &|name| name == NEW).iter().filter_map(|new| benchmark(home, new)).collect();
    if home.join("report/index.html").exists() {
        page.link("criterion's reports of the first event, with its changes", "report/index.html");
    }
    page.heading("Per iteration").push(&table(&all));
    page.heading("Samples");
    page.paragraph("A mark is the count of a sample, divided by its iterations.");
    for (place, benchmark) in all.iter().enumerate() {
        page.subheading(&format!("benchmark-{}", place + 1), &benchmark.name);
        if let Some(to) = &benchmark.page {
            page.link("criterion's report", to);
        }
        benchmark
            .results
            .counters
            .iter()
            .for_each(|counted| samples(&mut page, benchmark, counted));
        if let Some(functions) = &benchmark.results.functions {
            page.paragraph("The stepped instructions of an iteration, by functions:");
            page.push(&functions.table());
        }
    }
    files::replace(&home.join("index.html"), page.to_string().as_bytes())
}

fn benchmark(home: &Path, new: &Path) -> Option<Benchmark> {
    let directory = new.parent()?;
    // A benchmark whose results cannot be read has lines about it in the terminal.
    let results = Results::load(new).ok()??;
    let relative = directory.strip_prefix(home).ok()?.join("report/index.html");
    let page = home.join(&relative).exists().then(|| address(&relative));
    Some(Benchmark { name: name(home, directory), page, results })
}

/// Returns a relative path as an address on a page.
fn address(path: &Path) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    let written = |byte: &u8| match is_plain(byte) {
        true => char::from(*byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    let part = |part: &OsStr| part.as_encoded_bytes().iter().map(written).collect::<String>();
    path.iter().map(part).collect::<Vec<_>>().join("/")
}

/// Returns a table with a column for each event of any benchmark.
fn table(all: &[Benchmark]) -> Table {
    let mut events: Vec<&str> = Vec::new();
    for counted in all.iter().flat_map(|benchmark| &benchmark.results.counters) {
        if !events.contains(&counted.event.as_str()) {
            events.push(&counted.event);
        }
    }
    let columns = [("benchmark", false), ("measured", false)].into_iter();
    let columns = columns.chain(events.iter().map(|event| (*event, true)));
    let mut table = Table::new(columns.chain([("notes", false)]));
    for (place, Benchmark { name, results, .. }) in all.iter().enumerate() {
        let cell = |event: &&str| {
            results.counted(event).map_or("-".into(), |it| figure(&it.per_iteration))
        };
        let notes = [&results.without_counters, &results.not_stepped].into_iter().flatten();
        let notes = notes.cloned().collect::<Vec<String>>().join(". ");
        let cells = [name.clone(), results.measured.clone()].into_iter();
        let cells = cells.chain(events.iter().map(cell)).chain([notes]);
        table.linked_row(&format!("#benchmark-{}", place + 1), cells);
    }
    table
}

fn figure(of: &Interval) -> String {
    match of.low == of.high {
        true => exact(of.median),
        false => with_error(of.median, (of.median - of.low).max(of.high - of.median)),
    }
}

/// Adds the counts of a benchmark's samples.
fn samples(page: &mut Page, benchmark: &Benchmark, counted: &Counted) {
    let Benchmark { name, results, .. } = benchmark;
    let Counted { event, unit, per_iteration, counts, .. } = counted;
    let each: Vec<f64> =
        counts.iter().zip(&results.iterations).map(|(count, n)| *count as f64 / n).collect();
    let text =
        format!("{event}: {} per iteration, in {} samples.", figure(per_iteration), each.len());
    page.paragraph(&text);
    let is_varying = each.iter().zip(each.iter().skip(1)).any(|(one, other)| one != other);
    if !is_varying {
        return;
    }
    let (order, count) = (Axis::linear("samples"), Axis::linear(unit));
    let mut chart = Chart::new(&format!("{event} of {name} in each sample"), order, count);
    for (place, value) in each.iter().enumerate() {
        let at = place as f64;
        chart.bar(0, [at, at + 1.0], [*value; 2], &format!("{value:.3} {unit}"));
    }
    chart.line(1, "", [0.0, each.len() as f64].map(|at| (at, per_iteration.median)));
    page.push(&chart);
}
