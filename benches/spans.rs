//! Spans of `rdpmc-spans` beside those of other tools: the time of an empty span, and its ratio to two bare reads of the
//! tick counter. Each tool is measured in a process of its own, in turns with the bare reads.
//!
//! `cargo bench -p rdpmc-benches --bench spans` takes half a minute.
#![allow(missing_docs)]
#![allow(clippy::disallowed_types, reason = "no child of a fork comes here")]

use rdpmc::clock::TickCounter;
use rdpmc::{Clock, Event};
use rdpmc_spans::{Counters, Laps, Settings, Site, Spans, Storage, TracingLayer, span};
use std::hint::black_box;
use std::io;
use std::process::Command;
use tracing_subscriber::layer::SubscriberExt;

/// The variable that names the tool to a child process.
const TOOL: &str = "RDPMC_BENCHES_TOOL";
const QUICK: &str = "RDPMC_BENCHES_QUICK";

/// The name of a tool, and what it measures.
type Tool = (&'static str, fn(&Bare) -> Result<Vec<Ratio>, String>);

/// The tools, in the order of the table.
const TOOLS: [Tool; 20] = [
    ("rdpmc-spans", |bare| with_ours(bare, 0, Storage::Ring { records: RING })),
    ("rdpmc-spans, 1 counter", |bare| with_ours(bare, 1, Storage::Ring { records: RING })),
    ("rdpmc-spans, 2 counters", |bare| with_ours(bare, 2, Storage::Ring { records: RING })),
    ("rdpmc-spans, 4 counters", |bare| with_ours(bare, 4, Storage::Ring { records: RING })),
    ("rdpmc-spans, with a number", with_a_number),
    ("rdpmc-spans, with causes", with_causes),
    ("rdpmc-spans, into histograms", |bare| with_ours(bare, 0, Storage::Histograms)),
    ("rdpmc-spans, into histograms, 2 counters", |bare| with_ours(bare, 2, Storage::Histograms)),
    ("rdpmc-spans, a lap", |bare| with_laps(bare, 0, Storage::Ring { records: RING })),
    ("rdpmc-spans, a lap with 2 counters", |bare| {
        with_laps(bare, 2, Storage::Ring { records: RING })
    }),
    ("rdpmc-spans, a lap into histograms", |bare| with_laps(bare, 0, Storage::Histograms)),
    ("rdpmc-spans, off", with_ours_off),
    ("tracing with rdpmc-spans", with_our_layer),
    ("fastrace", with_fastrace),
    ("puffin", with_puffin),
    ("perfetto-recorder", with_perfetto_recorder),
    ("tracy-client", with_tracy),
    ("tracing, no subscriber", |bare| Ok(bare.beside(a_span_of_tracing, || ()))),
    ("tracing with a registry alone", with_a_registry),
    ("tracing with tracing-chrome", with_chrome),
];

fn main() -> io::Result<()> {
    match std::env::var(TOOL) {
        Ok(tool) => {
            match TOOLS.iter().find(|(name, _)| *name == tool) {
                Some((_, measure)) => match Bare::new().and_then(|bare| measure(&bare)) {
                    Ok(ratios) => {
                        ratios.iter().for_each(|Ratio { ns, ratio }| println!("{ns} {ratio}"))
                    }
                    Err(why) => println!("{why}"),
                },
                None => println!("there is no tool {tool}"),
            }
            Ok(())
        }
        Err(_) => compare(),
    }
}

/// The spans of one sample.
const SPANS: usize = 1_000;
/// More than a sample's.
const RING: usize = 4_096;

/// Two bare reads of the tick counter.
struct Bare {
    clock: Clock,
    counter: TickCounter,
    samples: usize,
}

/// The time of a span, and its ratio to that of two bare reads just before or after.
struct Ratio {
    ns: f64,
    ratio: f64,
}

impl Bare {
    fn new() -> Result<Bare, String> {
        let clock = Clock::open().map_err(|why| why.to_string())?;
        let counter =
            clock.tick_counter().ok_or("there is no tick counter to compare with here")?;
        let samples = if std::env::var_os(QUICK).is_some() { 50 } else { 500 };
        Ok(Bare { clock, counter, samples })
    }

    /// Measures a span in turns with two bare reads. `after` empties the tool's memory.
    fn beside(&self, mut span: impl FnMut(), mut after: impl FnMut()) -> Vec<Ratio> {
        // Only now, so that the tool's own threads may be elsewhere.
        if let Some(core) = core_affinity::get_core_ids().and_then(|cores| cores.first().copied()) {
            core_affinity::set_for_current(core);
        }
        let sample = |turn: usize| {
            let mut reads = || {
                black_box((self.counter.read(), self.counter.read()));
            };
            // The reads are first in every other sample.
            let first = turn.is_multiple_of(2).then(|| self.time(&mut reads));
            let ns = self.time(&mut span);
            let bare = first.unwrap_or_else(|| self.time(&mut reads));
            after();
            Ratio { ns, ratio: ns / bare.max(1e-3) }
        };
        const WARM_UP: usize = 20;
        (0..WARM_UP + self.samples).map(sample).skip(WARM_UP).collect()
    }

    /// Returns the nanoseconds of one of `SPANS` calls.
    #[inline(never)]
    fn time(&self, call: &mut impl FnMut()) -> f64 {
        let start = self.clock.now_ordered();
        for _ in 0..SPANS {
            call();
        }
        self.clock.now_ordered().saturating_sub(start) as f64 / SPANS as f64
    }
}

fn start(counters: usize, storage: Storage) -> Result<Spans, String> {
    let events = [Event::CYCLES, Event::INSTRUCTIONS, Event::BRANCHES, Event::BRANCH_MISSES];
    let events = events.get(..counters).unwrap_or(&events);
    let settings = Settings::new().events(events).counters(Counters::Always).storage(storage);
    let mut spans = settings.keep(0).start().map_err(|why| why.to_string())?;
    drop(span!("the first"));
    spans.collect();
    match spans.threads().first() {
        Some(thread) if thread.events.len() == counters => Ok(spans),
        Some(thread) => match (&thread.time_only, thread.missing.first()) {
            (Some(why), _) => Err(why.to_string()),
            (None, Some((event, why))) => Err(format!("{event}: {why}")),
            (None, None) => Err("it counts something else".to_string()),
        },
        None => Err("no thread has joined".to_string()),
    }
}

fn with_ours(bare: &Bare, counters: usize, storage: Storage) -> Result<Vec<Ratio>, String> {
    let mut spans = start(counters, storage)?;
    let ratios = bare.beside(
        || drop(span!("a span")),
        || {
            spans.collect();
        },
    );
    none_dropped(&mut spans)?;
    Ok(ratios)
}

fn none_dropped(spans: &mut Spans) -> Result<(), String> {
    match spans.threads().iter().map(|thread| thread.dropped).sum::<u64>() {
        0 => Ok(()),
        dropped => Err(format!("{dropped} records were dropped")),
    }
}

fn with_a_number(bare: &Bare) -> Result<Vec<Ratio>, String> {
    let mut spans = start(0, Storage::Ring { records: 2 * RING })?;
    let mut number = 0;
    let ratios = bare.beside(
        || {
            number += 1;
            drop(span!("a span", number));
        },
        || {
            spans.collect();
        },
    );
    none_dropped(&mut spans)?;
    Ok(ratios)
}

fn with_causes(bare: &Bare) -> Result<Vec<Ratio>, String> {
    let settings = Settings::new().causes().keep(0).storage(Storage::Ring { records: RING });
    let mut spans = settings.start().map_err(|why| why.to_string())?;
    drop(span!("a span"));
    if !spans.threads().iter().all(|thread| thread.knows_causes) {
        return Err("no area of this thread is registered with the kernel".into());
    }
    let ratios = bare.beside(
        || drop(span!("a span")),
        || {
            spans.collect();
        },
    );
    none_dropped(&mut spans)?;
    Ok(ratios)
}

fn with_laps(bare: &Bare, counters: usize, storage: Storage) -> Result<Vec<Ratio>, String> {
    static LAP: Site = Site::new("a lap", file!(), line!());
    let mut spans = start(counters, storage)?;
    let mut laps = Laps::start();
    let ratios = bare.beside(
        || laps.next(&LAP),
        || {
            spans.collect();
        },
    );
    none_dropped(&mut spans)?;
    Ok(ratios)
}

fn with_ours_off(bare: &Bare) -> Result<Vec<Ratio>, String> {
    Ok(bare.beside(|| drop(span!("a span")), || ()))
}

fn a_span_of_tracing() {
    drop(black_box(tracing::info_span!("a span").entered()));
}

fn global(subscriber: impl Into<tracing::Dispatch>) -> Result<(), String> {
    tracing::dispatcher::set_global_default(subscriber.into()).map_err(|why| why.to_string())
}

fn with_our_layer(bare: &Bare) -> Result<Vec<Ratio>, String> {
    let mut spans = start(0, Storage::Ring { records: RING })?;
    global(tracing_subscriber::registry().with(TracingLayer::new()))?;
    let ratios = bare.beside(a_span_of_tracing, || {
        spans.collect();
    });
    none_dropped(&mut spans)?;
    Ok(ratios)
}

fn with_a_registry(bare: &Bare) -> Result<Vec<Ratio>, String> {
    global(tracing_subscriber::registry())?;
    Ok(bare.beside(a_span_of_tracing, || ()))
}

fn with_chrome(bare: &Bare) -> Result<Vec<Ratio>, String> {
    let (layer, guard) = tracing_chrome::ChromeLayerBuilder::new().writer(io::sink()).build();
    global(tracing_subscriber::registry().with(layer))?;
    Ok(bare.beside(a_span_of_tracing, || guard.flush()))
}

fn with_fastrace(bare: &Bare) -> Result<Vec<Ratio>, String> {
    use fastrace::prelude::{LocalSpan, SpanContext};
    struct Nowhere;
    impl fastrace::collector::Reporter for Nowhere {
        fn report(&mut self, spans: Vec<fastrace::collector::SpanRecord>) {
            drop(black_box(spans));
        }
    }
    fastrace::set_reporter(Nowhere, fastrace::collector::Config::default());
    // A local parent has room for some thousand spans.
    let parent = || {
        let root = fastrace::Span::root("a sample", SpanContext::random());
        let guard = root.set_local_parent();
        (guard, root)
    };
    let mut current = Some(parent());
    let span = || drop(black_box(LocalSpan::enter_with_local_parent("a span")));
    let ratios = bare.beside(span, || {
        drop(current.take());
        current = Some(parent());
    });
    Ok(ratios)
}

fn with_puffin(bare: &Bare) -> Result<Vec<Ratio>, String> {
    puffin::set_scopes_on(true);
    // Inside another, because an outermost scope hands all over to the profiler.
    let id = puffin::ThreadProfiler::call(|profiler| {
        profiler.register_named_scope("a sample", "with_puffin", file!(), line!())
    });
    let outer = || puffin::ProfilerScope::new(id, "");
    let mut current = Some(outer());
    let span = || {
        puffin::profile_scope!("a span");
    };
    let ratios = bare.beside(span, || {
        drop(current.take());
        puffin::GlobalProfiler::lock().new_frame();
        current = Some(outer());
    });
    Ok(ratios)
}

fn with_perfetto_recorder(bare: &Bare) -> Result<Vec<Ratio>, String> {
    perfetto_recorder::start().map_err(|why| format!("{why:?}"))?;
    let span = || {
        perfetto_recorder::scope!("a span");
    };
    let take = || drop(black_box(perfetto_recorder::ThreadTraceData::take_current_thread()));
    Ok(bare.beside(span, take))
}

fn with_tracy(bare: &Bare) -> Result<Vec<Ratio>, String> {
    let _client = tracy_client::Client::start();
    let span = || drop(tracy_client::span!("a span", 0));
    Ok(bare.beside(span, || ()))
}

/// Runs each tool in turn, some times, and prints the table.
fn compare() -> io::Result<()> {
    let is_quick = std::env::args().any(|argument| argument == "--quick" || argument == "--test");
    let rounds = if is_quick { 1 } else { 5 };
    let program = std::env::current_exe()?;
    let mut results: Vec<(Vec<f64>, Vec<f64>, String)> = vec![Default::default(); TOOLS.len()];
    for _ in 0..rounds {
        for ((name, _), (times, ratios, problem)) in TOOLS.iter().zip(&mut results) {
            let mut command = Command::new(&program);
            command.env(TOOL, name);
            if is_quick {
                command.env(QUICK, "1");
            }
            let output = command.output()?;
            let printed = String::from_utf8_lossy(&output.stdout);
            for line in printed.lines() {
                let numbers = line.split_once(' ').map(|(ns, ratio)| (ns.parse(), ratio.parse()));
                match numbers {
                    Some((Ok(ns), Ok(ratio))) => {
                        times.push(ns);
                        ratios.push(ratio);
                    }
                    _ => *problem = line.to_string(),
                }
            }
            if !output.status.success() {
                let errors = String::from_utf8_lossy(&output.stderr);
                *problem = format!("{}: {}", output.status, errors.lines().next().unwrap_or(""));
            }
        }
    }
    println!(
        "\nAn empty span: the median, its ratio to two bare reads of the tick counter, and the range"
    );
    println!("of the middle 80 % of that ratio, in {rounds} processes for each tool.\n");
    let mut left_out: Vec<(String, Vec<&str>)> = Vec::new();
    println!("| ns | ratio | 10 % to 90 % | span");
    println!("|---:|---:|---:|:-");
    for ((name, _), (times, ratios, problem)) in TOOLS.iter().zip(&mut results) {
        match (quantile(times, 0.5), quantile(ratios, 0.5)) {
            (Some(ns), Some(ratio)) => {
                let [low, high] = [0.1, 0.9].map(|q| quantile(ratios, q).unwrap_or(f64::NAN));
                println!("| {ns:.1} | {ratio:.2} | {low:.2} to {high:.2} | {name}");
            }
            _ => match left_out.iter_mut().find(|(why, _)| why == problem) {
                Some((_, names)) => names.push(name),
                None => left_out.push((problem.clone(), vec![name])),
            },
        }
    }
    for (why, names) in left_out {
        println!("\nNot measured: {}. {why}", names.join("; "));
    }
    Ok(())
}

fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(((values.len().checked_sub(1)?) as f64 * q).round() as usize).copied()
}
