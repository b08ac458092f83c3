//! Threads, each with counters of its own.
#![allow(clippy::disallowed_types, reason = "no child of a fork comes here")]

use super::{Entry, exact, least, open, work};
use crate::harness::{Facts, Outcome, Stop, equal, require, slack};
use crate::neighbour::Neighbour;
use rdpmc::Event;
use rdpmc_testing::kernels::countdown;
use rdpmc_testing::process::{self, perf_descriptors, perf_mappings};
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

pub const ALL: &[Entry] = &[
    ("nine_threads_beside_a_busy_neighbour", nine_threads_beside_a_busy_neighbour),
    ("a_thousand_threads", a_thousand_threads),
    ("only_this_threads_work", only_this_threads_work),
];

/// Each thread opens, works and closes, over and over, and counts each piece of work exactly.
fn nine_threads_beside_a_busy_neighbour(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    let _neighbour = Neighbour::start();
    let all_ready = Barrier::new(9);
    thread::scope(|scope| {
        let threads: Vec<_> = (1..=9)
            .map(|thread| {
                let all_ready = &all_ready;
                scope.spawn(move || {
                    all_ready.wait();
                    open_work_and_close(thread).map_err(|stop| stop.to_string())
                })
            })
            .collect();
        let mut done_over = Vec::new();
        for thread in threads {
            done_over.extend(thread.join().expect("no panic")?);
        }
        // All retried reads took an equal number of instructions more: the read's loop.
        let is_one_round = |more: &u64| more.abs_diff(done_over[0]) <= slack() && *more < 20;
        require(done_over.iter().all(is_one_round), || format!("counted too much: {done_over:?}"))?;
        require(done_over.len() < 45, || format!("{} reads were done over", done_over.len()))
    })
}

/// Returns the surplus of each sample that counted more than exactly. A context switch during a read makes it retry,
/// and this thread executed both rounds.
fn open_work_and_close(thread: u64) -> Result<Vec<u64>, Stop> {
    const TIMES: u64 = 100;
    let rounds = 1_000 * thread;
    let mut done_over = Vec::new();
    for _ in 0..5 {
        let counter = open(Event::INSTRUCTIONS)?;
        let exact = 2 * rounds + least(20, || work(&counter, 0))?;
        let mut samples = Vec::new();
        for _ in 0..TIMES {
            samples.push(work(&counter, rounds)?);
            thread::yield_now();
        }
        equal("the least sample", samples.iter().min(), Some(&exact))?;
        if counter.counts_all_privilege_levels() {
            // Interrupts and switches add to some.
            let sum: u64 = samples.iter().sum();
            require(sum < TIMES * exact + 1_000_000, || format!("{sum} for {}", TIMES * exact))?;
        } else {
            let more = samples.iter().map(|sample| sample - exact);
            done_over.extend(more.filter(|more| *more > slack()));
        }
    }
    Ok(done_over)
}

/// A counter for each, all open simultaneously.
fn a_thousand_threads(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    const THREADS: usize = 1_000;
    process::limit(libc::RLIMIT_NOFILE as _, 2 * THREADS as u64);
    let (all_open, all_read) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for n in 0..THREADS as u64 {
            let (all_open, all_read) = (&all_open, &all_read);
            let body = move || -> Result<(), String> {
                let counter = open(Event::INSTRUCTIONS);
                all_open.wait();
                let result = counter.as_ref().map_err(ToString::to_string).and_then(|counter| {
                    let least =
                        |rounds| least(10, || work(counter, rounds)).map_err(|why| why.to_string());
                    equal("the count", least(n)?, 2 * n + least(0)?).map_err(|why| why.to_string())
                });
                // With the counter still open.
                all_read.wait();
                result
            };
            let builder = thread::Builder::new().stack_size(64 << 10);
            threads.push(builder.spawn_scoped(scope, body).expect("there is room for a thread"));
        }
        all_open.wait();
        let (descriptors, mappings) = (perf_descriptors().len(), perf_mappings());
        // Whatever the result, the threads wait for this.
        all_read.wait();
        for thread in threads {
            equal("a thread's outcome", thread.join().expect("no panic"), Ok(()))?;
        }
        equal("descriptors", descriptors, THREADS)?;
        equal("mappings", mappings, THREADS)?;
        equal("descriptors left", perf_descriptors().len(), 0)?;
        equal("mappings left", perf_mappings(), 0)
    })
}

/// Another thread's work, on this CPU and at this time, is not counted.
fn only_this_threads_work(_: &Facts) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    let nothing = exact("the count", 2, counter.counts_all_privilege_levels(), |rounds| {
        work(&counter, rounds)
    })?;
    let before = counter.read()?;
    let theirs = thread::scope(|scope| {
        let other = scope.spawn(|| -> Result<u64, String> {
            let own = open(Event::INSTRUCTIONS).map_err(|error| error.to_string())?;
            for _ in 0..100 {
                countdown(black_box(1_000_000));
                thread::yield_now();
            }
            own.read().map_err(|error| error.to_string())
        });
        for _ in 0..100 {
            thread::yield_now();
        }
        other.join().expect("no panic")
    })?;
    let ours = counter.read()? - before;
    require(theirs > 200_000_000, || format!("the other thread counted {theirs}"))?;
    // It gave way a hundred times.
    let most = if counter.counts_all_privilege_levels() { 2_000_000 } else { 20_000 };
    require(nothing < ours && ours < most, || format!("{ours} beside {theirs}"))
}
