//! Opening, dropping, forking, starting another program.

use super::{Entry, Known, exact, fill_the_pmu, open, work};
use crate::harness::{Facts, Outcome, equal, report, require};
use rdpmc::error::ReadError;
use rdpmc::{Access, Counter, Event};
use rdpmc_testing::kernels::countdown;
use rdpmc_testing::process::{self, in_child, perf_descriptors, perf_mappings, wait};
use std::hint::black_box;
use std::os::unix::process::CommandExt;
use std::process::Command;

pub const ALL: &[Entry] = &[
    ("ten_thousand_opened_and_dropped", ten_thousand_opened_and_dropped),
    ("fork_with_live_handles", fork_with_live_handles),
    ("dropped_in_any_order", dropped_in_any_order),
    ("exec_in_a_forked_child", exec_in_a_forked_child),
    ("exec_with_live_handles", exec_with_live_handles),
];

fn ten_thousand_opened_and_dropped(facts: &Facts) -> Outcome {
    // All on the machines with the first share, and some on those like them.
    let share = facts.share();
    let times = if share.number == 0 { 10_000 } else { 10_000 / share.of };
    for _ in 0..times {
        require(open(Event::INSTRUCTIONS)?.read_user().is_some(), || "no user read".into())?;
    }
    equal("descriptors left", perf_descriptors().len(), 0)?;
    equal("mappings left", perf_mappings(), 0)?;
    // No counter is left occupied.
    fill_the_pmu(facts).map(drop)
}

fn dropped_in_any_order(facts: &Facts) -> Outcome {
    let mut counters = fill_the_pmu(facts)?;
    let all = counters.len();
    equal("mappings", perf_mappings(), all)?;
    drop(counters.remove(all / 2));
    drop(counters.remove(0));
    counters.reverse();
    drop(counters.pop());
    equal("mappings", perf_mappings(), counters.len())?;
    for Known { counter, .. } in counters.drain(..) {
        equal("access", counter.access(), Access::UserSpace)?;
    }
    equal("mappings", perf_mappings(), 0)
}

/// In a child, the parent's counters answer every call and do nothing.
fn useless(counters: &[Counter]) -> Outcome {
    for counter in counters {
        equal("read_user", counter.read_user(), None)?;
        equal("read", counter.read(), Err(ReadError::Forked))?;
        equal("reading", counter.reading(), Err(ReadError::Forked))?;
        equal("reset", counter.reset(), Err(ReadError::Forked))?;
        equal("disable", counter.disable(), Err(ReadError::Forked))?;
        equal("enable", counter.enable(), Err(ReadError::Forked))?;
        equal("access", counter.access(), Access::Forked)?;
    }
    Ok(())
}

fn fork_with_live_handles(facts: &Facts) -> Outcome {
    let first = open(Event::INSTRUCTIONS)?;
    let counters =
        [Counter::open(Event::TASK_CLOCK)?, open(Event::CYCLES)?, open(Event::INSTRUCTIONS)?];
    // A mapping from the far end of the list is gone.
    drop(first);
    in_child(|| -> Outcome {
        useless(&counters)?;
        // A child has counters of its own, which are useless in its own child.
        let own = open(Event::INSTRUCTIONS)?;
        equal("access of the child's own", own.access(), Access::UserSpace)?;
        in_child(|| -> Outcome {
            useless(&counters)?;
            useless(std::slice::from_ref(&own))
        })?;
        counts_exactly(&own, 2)?;
        // A drop in the child drops its own copies only.
        // SAFETY: the value is read once, and _exit ends this child before the original could be dropped.
        let copies = unsafe { std::ptr::read(&counters) };
        drop(copies);
        equal("descriptors in the child", perf_descriptors().len(), 1)
    })?;
    // The children's drops left the parent's counters alone.
    let [clock, cycles, instructions] = counters;
    let before = clock.read()?;
    countdown(black_box(1_000_000));
    let nanoseconds = clock.read()? - before;
    require(nanoseconds >= 2_000_000, || format!("{nanoseconds} ns for 2,000,000 instructions"))?;
    counts_exactly(&cycles, 2 * facts.number("cycles").unwrap_or(1))?;
    counts_exactly(&instructions, 2)
}

fn counts_exactly(counter: &Counter, per_round: u64) -> Outcome {
    exact(&counter.event().to_string(), per_round, counter.counts_all_privilege_levels(), |n| {
        work(counter, n)
    })
    .map(drop)
}

/// Returns the command that runs [`reopen`] in place of this program.
fn reopening(facts: &Facts) -> Command {
    let mut command = Command::new("/init");
    command.arg("reopen").args(facts.0);
    command
}

/// Checks what the new program finds: nothing of the old one's, and every register free.
pub fn reopen(facts: &Facts) -> Outcome {
    equal("descriptors of the old program", perf_descriptors().len(), 0)?;
    let counters = fill_the_pmu(facts)?;
    counters.iter().try_for_each(|known| counts_exactly(&known.counter, known.per_round))
}

/// Forks. The child runs `first` and then starts another program, whose status this returns.
fn in_child_that_execs(facts: &Facts, first: impl FnOnce() -> Outcome) -> i32 {
    wait(process::fork(|| {
        let outcome = first().and_then(|()| {
            // exec returns only if it fails.
            Err(reopening(facts).exec().to_string().into())
        });
        report(outcome).into()
    }))
}

fn exec_in_a_forked_child(facts: &Facts) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    let status = in_child_that_execs(facts, || {
        useless(std::slice::from_ref(&counter))?;
        // SAFETY: the value is read once, and exec or _exit ends this child before the original could be dropped.
        drop(unsafe { std::ptr::read(&counter) });
        Ok(())
    });
    equal("how the dropping child ended", status, 0)?;
    // A child that leaves them to the exec.
    equal("how the careless child ended", in_child_that_execs(facts, || Ok(())), 0)?;
    counts_exactly(&counter, 2)
}

fn exec_with_live_handles(facts: &Facts) -> Outcome {
    // In a child, so that this process can check the result.
    drop(open(Event::INSTRUCTIONS)?);
    let mut kept = Vec::new();
    let status = in_child_that_execs(facts, || {
        kept = fill_the_pmu(facts)?;
        for descriptor in perf_descriptors() {
            // SAFETY: F_GETFD takes no pointer.
            let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
            equal("close-on-exec", flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC)?;
        }
        Ok(())
    });
    equal("how the program after the exec ended", status, 0)
}
