//! A game: a main thread and two workers, a line for an overlay, a table of its systems, a page that explains why the slowest
//! frames were slow, and a trace to open in <https://ui.perfetto.dev>.
//!
//! `cargo run --release -p rdpmc-spans --example frames`. Lines that end in `// spans` are all that the measurement takes.

use rdpmc_spans::{Settings, span}; // spans
use std::hint::black_box;
use std::sync::mpsc::{Receiver, Sender, channel};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings::new().events(&["cycles", "instructions"]).causes(); // spans
    let mut spans = settings.faults("frame").slowest(3).start()?; // spans
    let mut bodies = vec![[0.0_f32; 4]; 2_000];
    let workers = [worker("physics")?, worker("ai")?];
    for frame in 0..120_u64 {
        if frame > 0 && frame % 60 == 0 {
            println!("{}", spans.line("frame")); // spans
        }
        let _span = span!("frame", frame); // spans
        input(frame);
        for (jobs, _, _) in &workers {
            jobs.send(frame)?;
        }
        render(&mut bodies);
        for (_, results, _) in &workers {
            black_box(results.recv()?);
        }
    }
    for (jobs, _, thread) in workers {
        drop(jobs);
        thread.join().map_err(|_| "a worker panicked")?;
    }
    let [page, trace] =
        ["frames.html", "frames.pftrace"].map(|name| std::env::temp_dir().join(name));
    spans.view().save_html(&page)?; // spans
    spans.view().save_perfetto(&trace)?; // spans
    print!("{}", spans.report()); // spans
    println!(
        "A page that explains the slowest frames is in {}, a trace in {}.",
        page.display(),
        trace.display()
    );
    Ok(())
}

type Worker = (Sender<u64>, Receiver<u64>, std::thread::JoinHandle<()>);

fn worker(name: &'static str) -> std::io::Result<Worker> {
    let (jobs, inbox) = channel();
    let (outbox, results) = channel();
    let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
        while let Ok(frame) = inbox.recv() {
            let result = if name == "ai" { paths(frame) } else { collisions(frame) };
            if outbox.send(result).is_err() {
                return;
            }
        }
    });
    Ok((jobs, results, thread?))
}

fn input(frame: u64) {
    let _span = span!("input"); // spans
    black_box(frame.wrapping_mul(0x9e37_79b9_7f4a_7c15));
}

fn collisions(frame: u64) -> u64 {
    let _span = span!("collisions"); // spans
    (0..20_000_u64).fold(frame, |hash, body| hash.rotate_left(5) ^ black_box(body))
}

fn paths(frame: u64) -> u64 {
    let _span = span!("paths"); // spans
    (0..60_u64).map(|start| search(frame ^ start)).sum()
}

fn search(start: u64) -> u64 {
    let mut at = start;
    for _ in 0..200 {
        at = if at & 1 == 0 { at / 2 } else { at.wrapping_mul(3).wrapping_add(1) };
    }
    black_box(at)
}

fn render(bodies: &mut [[f32; 4]]) {
    let _span = span!("render"); // spans
    for body in bodies.iter_mut() {
        for (place, value) in body.iter_mut().enumerate() {
            *value = value.mul_add(0.99, place as f32);
        }
    }
    black_box(bodies);
}
