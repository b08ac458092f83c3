//! Opening, dropping, forking, threads.

use super::{Entry, fill_the_pmu, open};
use crate::harness::{Facts, Outcome, equal, require};
use crate::kernels::countdown;
use crate::process::{in_child, perf_descriptors, perf_mappings};
use rdpmc::{Access, Counter, Error, Event};
use std::hint::black_box;

pub const ALL: &[Entry] = &[
    ("ten_thousand_opened_and_dropped", ten_thousand_opened_and_dropped),
    ("fork_with_live_handles", fork_with_live_handles),
    ("dropped_in_any_order", dropped_in_any_order),
    ("threads_of_their_own", threads_of_their_own),
    ("exec_closes", exec_closes),
];

fn ten_thousand_opened_and_dropped(_: &Facts) -> Outcome {
    for _ in 0..10_000 {
        require(open(Event::INSTRUCTIONS)?.read_user().is_some(), || "no user read".into())?;
    }
    equal("descriptors left", perf_descriptors().len(), 0)?;
    equal("mappings left", perf_mappings(), 0)?;
    // And no counter is left occupied.
    let registers = fill_the_pmu()?.len();
    require(registers >= 2, || format!("only {registers} registers left"))
}

fn dropped_in_any_order(_: &Facts) -> Outcome {
    let mut counters = fill_the_pmu()?;
    let all = counters.len();
    equal("mappings", perf_mappings(), all)?;
    drop(counters.remove(all / 2));
    drop(counters.remove(0));
    counters.reverse();
    drop(counters.pop());
    equal("mappings", perf_mappings(), counters.len())?;
    for counter in counters.drain(..) {
        equal("access", counter.access(), Access::UserSpace)?;
    }
    equal("mappings", perf_mappings(), 0)
}

/// In a child, the parent's counters answer everything and do nothing.
fn useless(counters: &[Counter]) -> Outcome {
    for counter in counters {
        equal("read_user", counter.read_user(), None)?;
        equal("read", counter.read(), Err(Error::Forked))?;
        equal("reading", counter.reading(), Err(Error::Forked))?;
        equal("reset", counter.reset(), Err(Error::Forked))?;
        equal("disable", counter.disable(), Err(Error::Forked))?;
        equal("enable", counter.enable(), Err(Error::Forked))?;
        equal("access", counter.access(), Access::Forked)?;
    }
    Ok(())
}

fn fork_with_live_handles(_: &Facts) -> Outcome {
    let first = open(Event::INSTRUCTIONS)?;
    let counters =
        [Counter::open(Event::TASK_CLOCK)?, open(Event::CYCLES)?, open(Event::INSTRUCTIONS)?];
    // One from the far end of the list of mappings is gone.
    drop(first);
    in_child(|| -> Outcome {
        useless(&counters)?;
        // A child has counters of its own, which its own child has not.
        let own = open(Event::INSTRUCTIONS)?;
        equal("access of the child's own", own.access(), Access::UserSpace)?;
        in_child(|| -> Outcome {
            useless(&counters)?;
            useless(std::slice::from_ref(&own))
        })?;
        let first = own.read_user();
        countdown(black_box(1_000));
        require(own.read_user() > first, || "the child's own does not count".into())?;
        // Dropped in the child: its own copies only.
        // SAFETY: read once, and forgotten by the _exit that ends this child.
        let copies = unsafe { std::ptr::read(&counters) };
        drop(copies);
        equal("descriptors in the child", perf_descriptors().len(), 1)
    })?;
    // The children's drops left the parent's counters alone.
    counters.iter().try_for_each(|counter| {
        let before = counter.read()?;
        countdown(black_box(1_000));
        let after = counter.read()?;
        require(after > before, || format!("the parent's {} stands still", counter.event()))
    })
}

fn threads_of_their_own(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    let threads: Vec<_> = (1..=9u64)
        .map(|thread| {
            std::thread::spawn(move || {
                let counter = open(Event::INSTRUCTIONS).map_err(|error| error.to_string())?;
                let before = counter.read().map_err(|error| error.to_string())?;
                for _ in 0..100 {
                    countdown(black_box(thread * 1_000));
                    std::thread::yield_now();
                }
                let counted = counter.read().map_err(|error| error.to_string())? - before;
                // Two instructions a round, and the way into and out of a hundred yields.
                let work = 2 * 100 * thread * 1_000;
                if counter.is_unfiltered() || (work..work + 20_000).contains(&counted) {
                    Ok(())
                } else {
                    Err(format!("{counted} for {work}"))
                }
            })
        })
        .collect();
    for thread in threads {
        equal("a thread's count", thread.join().expect("no panic"), Ok(()))?;
    }
    Ok(())
}

fn exec_closes(_: &Facts) -> Outcome {
    let _counter = open(Event::INSTRUCTIONS)?;
    let descriptor = *perf_descriptors().last().expect("one is open");
    // SAFETY: asks for a descriptor's flags.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
    equal("close-on-exec", flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC)
}
