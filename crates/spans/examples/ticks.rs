//! A trading loop that is pinned to one CPU, and takes its messages from another thread: the time of each stage, and tick to trade from when
//! the message was sent. The main thread prints the percentiles and the outliers of every second, in the end what Prometheus would scrape,
//! and writes a page.
//!
//! `cargo run --release -p rdpmc-spans --example ticks`. Lines that end in `// spans` are all that the measurement takes.

use rdpmc_spans::{Laps, Moment, Settings, Storage, record, stages}; // spans
use std::hint::black_box;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

stages! { enum Stage { Decode = "decode", Update = "update", Encode = "encode" } } // spans

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The kernel's instructions show interrupts.
    let settings = Settings::new().events(&["cycles", "instructions", "instructions:k"]).causes(); // spans
    let mut spans = settings.storage(Storage::Histograms).slowest(3).start()?; // spans
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (feed, ticks) = channel();
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        let trades = thread("ticks").spawn_scoped(scope, || trade(ticks))?;
        thread("feed").spawn_scoped(scope, || send(feed, &is_over))?;
        for _ in 0..2 {
            std::thread::sleep(Duration::from_secs(1));
            println!("{}", spans.view().report()); // spans
        }
        is_over.store(true, Ordering::Relaxed);
        trades.join().map_err(|_| "the trading thread panicked")?;
        spans.view().write_prometheus(std::io::stdout())?; // spans
        let page = std::env::temp_dir().join("ticks.html");
        spans.view().save_html(&page)?; // spans
        println!("# A page with all percentiles is in {}.", page.display());
        Ok(())
    })
}

/// Sends messages, some of them in a burst.
fn send(feed: Sender<(Moment, String)>, is_over: &AtomicBool) {
    for n in 0.. {
        let message = (Moment::now(), message(n)); // spans
        if is_over.load(Ordering::Relaxed) || feed.send(message).is_err() {
            return;
        }
        if n % 64 == 63 {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// The loop. To measure a stage takes one line after it.
fn trade(ticks: Receiver<(Moment, String)>) {
    if let Some(cpu) = core_affinity::get_core_ids().and_then(|cpus| cpus.last().copied()) {
        core_affinity::set_for_current(cpu);
    }
    let mut book = [0_i64; LEVELS];
    let mut order = [0_u8; 64];
    for (sent, message) in ticks {
        let mut laps = Laps::start(); // spans
        let change = black_box(decode(&message));
        laps.next(Stage::Decode); // spans
        let best = black_box(change.and_then(|change| update(&mut book, change)));
        laps.next(Stage::Update); // spans
        black_box(encode(&mut order, best));
        laps.next(Stage::Encode); // spans
        record!("tick to trade", sent..); // spans
    }
}

const LEVELS: usize = 1 << 10;

fn message(n: usize) -> String {
    format!("{},{}", n * 7919 % LEVELS, n as i64 * 104_729 % 2_000 - 900)
}

/// Parses `LEVEL,AMOUNT`.
fn decode(message: &str) -> Option<(usize, i64)> {
    let (level, amount) = message.split_once(',')?;
    Some((level.parse().ok()?, amount.parse().ok()?))
}

/// Returns the first level on which more is offered than wanted.
fn update(book: &mut [i64; LEVELS], (level, amount): (usize, i64)) -> Option<usize> {
    *book.get_mut(level)? += amount;
    book.iter().position(|amount| *amount > 0)
}

/// Writes an order, and returns its length.
fn encode(order: &mut [u8; 64], best: Option<usize>) -> usize {
    let mut rest = order.as_mut_slice();
    match best.map(|level| write!(rest, "BUY 100 AT {level}")) {
        Some(Ok(())) => 64 - rest.len(),
        _ => 0,
    }
}
