//! The spans of a Perfetto trace beside the kernel's trace of the scheduler. `tests/ftrace/run` mounts what it needs.
#![cfg(all(target_os = "linux", feature = "enabled"))]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
#![allow(unsafe_code)]

#[path = "../../src/tests/decoded.rs"]
#[allow(dead_code, reason = "flows and counters are tested elsewhere")]
mod decoded;

use decoded::Decoded;
use rdpmc_spans::{PerfettoTrace, Settings, span};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const SPANS: u64 = 300;

/// A ring of the kernel's own, with the switches of one thread.
struct Ftrace(PathBuf);

impl Ftrace {
    fn of_thread(tracefs: &Path, thread: u32) -> Ftrace {
        let ring = tracefs.join("instances").join(format!("rdpmc-{thread}"));
        fs::create_dir(&ring).unwrap();
        let ftrace = Ftrace(ring);
        ftrace.set("trace_clock", "boot");
        ftrace.set("buffer_size_kb", "4096");
        let filter = format!("prev_pid == {thread} || next_pid == {thread}");
        ftrace.set("events/sched/sched_switch/filter", &filter);
        ftrace.set("events/sched/sched_switch/enable", "1");
        ftrace
    }

    fn set(&self, file: &str, value: &str) {
        fs::write(self.0.join(file), value).unwrap();
    }

    /// Returns the nanoseconds at which the thread was switched out, to the microsecond, and whether it was still ready to run.
    fn switches_out(&self, thread: u32) -> Vec<(u64, bool)> {
        self.set("events/sched/sched_switch/enable", "0");
        let trace = fs::read_to_string(self.0.join("trace")).unwrap();
        let lines = trace.lines().filter_map(|line| line.split_once(": sched_switch: "));
        lines
            .filter(|(_, what)| what.contains(&format!(" prev_pid={thread} ")))
            .map(|(head, what)| {
                let time = head.rsplit(' ').next().unwrap();
                let (seconds, micros) = time.split_once('.').unwrap();
                let [seconds, micros] = [seconds, micros].map(|part| part.parse::<u64>().unwrap());
                (seconds * 1_000_000_000 + micros * 1_000, what.contains("prev_state=R"))
            })
            .collect()
    }
}

impl Drop for Ftrace {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {}
}

/// Each switch of a preempted or waiting span lies in it by both traces, and a span without the flag has none.
#[test]
#[ignore = "it needs ftrace: tests/ftrace/run"]
fn switches_lie_in_their_spans() {
    let tracefs = std::env::var_os("RDPMC_TRACEFS").unwrap(); // tests/ftrace/run sets it
    let cpu = core_affinity::get_core_ids().unwrap()[0];
    // SAFETY: takes nothing.
    let thread = u32::try_from(unsafe { libc::gettid() }).unwrap();
    let mut spans = Settings::new().causes().start().unwrap();
    let mut trace = PerfettoTrace::new(Vec::new());
    drop(span!("first"));
    let ftrace = Ftrace::of_thread(Path::new(&tracefs), thread);
    assert!(core_affinity::set_for_current(cpu));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(core_affinity::set_for_current(cpu));
            while !is_over.load(Relaxed) {
                spin(Duration::from_micros(100));
            }
        });
        for number in 0..SPANS {
            match number % 3 {
                0 => {
                    let _span = span!("spins", number);
                    spin(Duration::from_millis(10));
                }
                1 => {
                    let _span = span!("waits", number);
                    std::thread::sleep(Duration::from_micros(300));
                }
                _ => drop(span!("ends at once", number)),
            }
            if number % 20 == 19 {
                spans.write_perfetto(&mut trace).unwrap();
            }
        }
        is_over.store(true, Relaxed);
    });
    spans.write_perfetto(&mut trace).unwrap();
    let trace = Decoded::decode(&trace.finish().unwrap());
    let switches = ftrace.switches_out(thread);
    assert!(trace.threads.values().any(|ids| *ids == [std::process::id(), thread].map(u64::from)));

    /// What the text of ftrace does not tell: it has microseconds.
    const STEP: u64 = 1_000;
    let (mut with, mut without, mut at_an_end, mut preempted) = (0, 0, 0, 0);
    let mut lie_in_one = vec![false; switches.len()];
    trace.spans(|span, _| {
        if span["number"].is_null() {
            return;
        }
        let [start, time] = ["start_ns", "ns"].map(|key| span[key].as_u64().unwrap());
        let end = start + time;
        let flags = span["flags"].as_array().cloned().unwrap_or_default();
        let is_flagged = |flag: &str| flags.iter().any(|it| it == flag);
        let inside =
            |from: u64, to: u64| switches.iter().filter(|(at, _)| (from..=to).contains(at)).count();
        // A switch within a microsecond of an end may be on either side of it.
        let (surely, perhaps) = (
            inside(start + STEP, end.saturating_sub(2 * STEP)),
            inside(start.saturating_sub(2 * STEP), end + STEP),
        );
        for ((at, is_ready), lies) in switches.iter().zip(&mut lie_in_one) {
            if (start.saturating_sub(2 * STEP)..=end + STEP).contains(at) {
                *lies = true;
                preempted += usize::from(*is_ready && is_flagged("preempted"));
            }
        }
        match is_flagged("waited") || is_flagged("preempted") {
            true => {
                assert!(perhaps > 0, "no switch lies in {span}");
                with += 1;
            }
            false if surely == 0 && perhaps > 0 => at_an_end += 1,
            false => {
                assert_eq!(surely, 0, "a switch lies in {span}, which has no flag");
                without += 1;
            }
        }
    });
    let in_spans = lie_in_one.iter().filter(|lies| **lies).count();
    println!(
        "{with} spans with a switch that lies in them, {without} without, {at_an_end} with one at an end; {in_spans} of {} \
         switches are in spans, {preempted} while the thread was ready to run",
        switches.len()
    );
    assert_eq!(with + without + at_an_end, SPANS as usize);
    assert!(with >= 100 && without >= 50 && preempted > 0 && at_an_end <= 20);
}
