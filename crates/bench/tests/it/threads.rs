//! Rows whose work is that of other threads. Each test has a process of its own: the threads of other tests work, too.

use crate::memory::Memory;
use rdpmc::Event;
use rdpmc_bench::{Bench, Cause, Limits, Quantity, Results, Scope, Status, Verdict};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Set for the process of a test.
const ALONE: &str = "RDPMC_BENCH_TEST_ALONE";

/// Whether this is the test's own process. Otherwise runs it.
pub(crate) fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ALONE, "1");
    let output = process.output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr];
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}\n{stderr}");
    false
}

/// A thread that is there before the counters, and does work when it is told, as those of a pool.
struct Pool {
    work: SyncSender<usize>,
    is_done: Receiver<()>,
    thread: thread::JoinHandle<()>,
}

impl Pool {
    fn new() -> Pool {
        // These allocate nothing later.
        let ((work, works), (done, is_done)) = (sync_channel(1), sync_channel(1));
        let thread = thread::spawn(move || {
            let pages = Memory::new();
            while let Ok(count) = works.recv() {
                pages.fault(count);
                done.send(()).unwrap();
                // As many pools, it looks for more work before it sleeps.
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_micros(100) {}
            }
        });
        Pool { work, is_done, thread }
    }

    fn fault(&self, pages: usize) {
        self.work.send(pages).unwrap();
        self.is_done.recv().unwrap();
    }

    /// Ends the thread, so that its end is in no other measurement.
    fn end(self) {
        drop(self.work);
        self.thread.join().unwrap();
    }
}

/// Measures two rows: this many page faults here, and in a thread of a pool.
fn measured(scope: Scope, pages: usize) -> Results {
    let (here, pool) = (Memory::new(), Pool::new());
    let events = [Event::PAGE_FAULTS, Event::INSTRUCTIONS];
    let mut bench = Bench::with_events(&events).unwrap();
    bench.scope(scope).time_per_row(Duration::from_millis(20));
    bench.row("here").throughput(|| here.fault(pages));
    bench.row("pool").throughput(|| pool.fault(pages));
    let results = bench.run();
    pool.end();
    results
}

/// Measures this many page faults in a new thread: apart, because what a thread does when it ends may come in a sample of another row.
fn measured_in_new_threads(scope: Scope, pages: usize) -> Results {
    let mut bench = Bench::with_events(&[Event::PAGE_FAULTS]).unwrap();
    bench.scope(scope).time_per_row(Duration::from_millis(20));
    let code = move || thread::spawn(move || Memory::new().fault(pages)).join().unwrap();
    bench.row("new").throughput(code);
    bench.run()
}

fn faults(results: &Results, row: &str) -> Option<(f64, Verdict)> {
    let figure = results.row(row).unwrap().event(Event::PAGE_FAULTS)?;
    Some((figure.estimate.value, figure.verdict))
}

/// Whether a row has ten page faults. The kernel adds one now and then where memory is scarce: a page that it moves meanwhile.
fn is_ten(results: &Results, row: &str) -> bool {
    let is_known = |verdict| matches!(verdict, Verdict::Exact | Verdict::Stable);
    faults(results, row)
        .is_some_and(|(value, verdict)| (value - 10.0).abs() < 0.1 && is_known(verdict))
}

#[test]
fn the_work_of_other_threads_is_marked_or_counted() {
    if !is_alone("threads::the_work_of_other_threads_is_marked_or_counted") {
        return;
    }
    let one = measured(Scope::Thread, 10);
    let text = one.to_string();
    if faults(&one, "here").is_none() {
        return crate::skips::skip(
            "the_work_of_other_threads_is_marked_or_counted",
            "page faults cannot be counted here",
        );
    }
    assert!(is_ten(&one, "here"), "{text}");
    let new = measured_in_new_threads(Scope::Thread, 10);
    for (results, row) in [(&one, "pool"), (&new, "new")] {
        for figure in results.row(row).unwrap().figures() {
            let is_marked = |is: bool| {
                matches!(figure.verdict, Verdict::Unstable(Cause::OtherThreads { percent, is_stepped, .. })
                    if is_stepped == is && percent > 1.0)
            };
            match figure.quantity {
                Quantity::Time => {}
                Quantity::SteppedInstructions => assert!(is_marked(true), "{figure:?}"),
                _ => assert!(is_marked(false), "{figure:?}"),
            }
        }
    }
    assert!(text.contains("Count all with `bench.scope(Scope::Process)`"), "{text}");
    let all = measured(Scope::Process, 10);
    let text = all.to_string();
    assert!(text.contains("Counts are those of all threads of the process."), "{text}");
    for row in ["here", "pool"] {
        assert!(is_ten(&all, row), "{text}");
    }
    // A thread's start has some of its own.
    let (new, verdict) = faults(&measured_in_new_threads(Scope::Process, 10), "new").unwrap();
    assert!(new >= 10.0, "{text}");
    assert!(!matches!(verdict, Verdict::Unstable(Cause::OtherThreads { .. })), "{text}");
}

/// A gate sees a pool that grew, or says that it cannot.
#[test]
fn the_gate_sees_a_pool_that_grew() {
    if !is_alone("threads::the_gate_sees_a_pool_that_grew") {
        return;
    }
    let file = |scope: Scope| {
        let name = format!("threads-{scope:?}.json");
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
    };
    for scope in [Scope::Thread, Scope::Process] {
        measured(scope, 10).save(file(scope)).unwrap();
    }
    if faults(&measured(Scope::Process, 1), "here").is_none() {
        return crate::skips::skip(
            "the_gate_sees_a_pool_that_grew",
            "page faults cannot be counted here",
        );
    }
    let limits = Limits::new().accept("page-faults", 0.001);
    let of = |scope: Scope, pages: usize, old: Scope| {
        let comparison = measured(scope, pages).check(file(old), &limits);
        let pool = |it: &&rdpmc_bench::Compared| {
            it.row == "pool" && it.figure.as_deref().is_none_or(|figure| figure == "page-faults")
        };
        let outcome = comparison.compared().iter().find(pool).unwrap().outcome.clone();
        (comparison.status(), outcome, comparison.to_string())
    };
    use rdpmc_bench::Outcome;
    let (status, outcome, text) = of(Scope::Thread, 16, Scope::Thread);
    // Those here are worse, unless the pool's thread had a part of their time, too. That of the pool is not known.
    assert!(matches!(status, Status::Regressed | Status::Incomplete), "{text}");
    assert_eq!(outcome, Outcome::Unstable, "{text}");
    let (status, outcome, text) = of(Scope::Process, 16, Scope::Process);
    assert_eq!((status, outcome), (Status::Regressed, Outcome::Worse), "{text}");
    let (_, outcome, text) = of(Scope::Process, 10, Scope::Process);
    assert_eq!(outcome, Outcome::Same, "{text}");
    let (status, outcome, text) = of(Scope::Process, 10, Scope::Thread);
    assert!(matches!(outcome, Outcome::NotComparable(_)), "{text}");
    assert_eq!(status, Status::Incomplete, "{text}");
    assert!(
        text.contains("counts one thread, and the other all threads. Measure both with one scope"),
        "{text}"
    );
}
