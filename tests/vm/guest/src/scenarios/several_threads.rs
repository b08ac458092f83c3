//! Hardware events over several threads: those that are there, and those to come.

use super::{Entry, exact, open};
use crate::harness::{Facts, Outcome, Stop, equal, require, skip};
use crate::system::keep_on;
use rdpmc::{Event, Scope, SyscallGroup};
use rdpmc_testing::attacks::threads::{Crew, touch};
use rdpmc_testing::kernels::countdown;
use std::hint::black_box;
use std::time::Duration;

pub const ALL: &[Entry] = &[("threads_of_each_scope", threads_of_each_scope)];

pub const OF_CORE_TYPES: &[Entry] = &[("threads_on_each_core_type", threads_on_each_core_type)];

fn over(events: &[Event], scope: Scope) -> Result<SyscallGroup, Stop> {
    Ok(SyscallGroup::builder(events).allow_all_privilege_levels(true).open_scope(scope)?)
}

/// Returns what one of the counts grows by while this runs.
fn during(counters: &SyscallGroup, place: usize, run: impl FnOnce()) -> Result<u64, Stop> {
    // A thread that has said that it is done still has some instructions to go.
    let settled = || std::thread::sleep(Duration::from_millis(3));
    settled();
    let before = counters.read()?;
    run();
    settled();
    Ok(counters.read()?[place] - before[place])
}

/// Each thread's work is counted to the instruction, alone and in a group.
fn threads_of_each_scope(facts: &Facts) -> Outcome {
    if open(Event::INSTRUCTIONS)?.counts_all_privilege_levels() {
        return skip("this PMU counts the kernel, too, which differs each time");
    }
    let both = [Event::INSTRUCTIONS, Event::CYCLES];
    let scopes = [(Scope::Thread, 0, 1), (Scope::NewThreads, 4, 1), (Scope::Process, 8, 5)];
    for events in [&both[..1], &both] {
        for (scope, threads, are_there) in scopes {
            let there = Crew::new(4, |rounds| countdown(black_box(rounds)));
            let counters = over(events, scope)?;
            let come = Crew::new(4, |rounds| countdown(black_box(rounds)));
            equal("threads", counters.threads(), are_there)?;
            let is_old = scope != Scope::Thread && kernel_is_old()?;
            equal("counts processes", counters.counts_child_processes(), is_old)?;
            let of = |place| {
                let (there, come, counters) = (&there, &come, &counters);
                move |rounds| {
                    during(counters, place, || {
                        there.run(rounds);
                        come.run(rounds);
                    })
                }
            };
            exact(&format!("{scope:?}: instructions"), 2 * threads, false, of(0))?;
            if let (Some(cycles), [_, _]) = (facts.number("cycles"), events) {
                exact(&format!("{scope:?}: cycles"), 2 * threads * cycles, false, of(1))?;
            }
            let readings = counters.reading()?;
            require(!readings[0].is_multiplexed(), || format!("{scope:?}: {readings:?}"))?;
        }
    }
    Ok(())
}

/// Whether this kernel has no `inherit_thread` (Linux 5.13).
fn kernel_is_old() -> Result<bool, Stop> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    let release = release.map_err(|why| Stop::Failed(why.to_string()))?;
    let mut numbers = release.split('.').map_while(|part| part.parse::<u32>().ok());
    Ok((numbers.next(), numbers.next()) < (Some(5), Some(13)))
}

/// The emulator may add what another CPU does at the same time, so the threads run one after the other, and the minimum counts.
fn threads_on_each_core_type(_: &Facts) -> Outcome {
    let crews = [0, 1].map(|processor| {
        keep_on(Some(processor));
        Crew::new(1, |rounds| countdown(black_box(rounds)))
    });
    keep_on(Some(0));
    let all = over(&[Event::INSTRUCTIONS], Scope::Process)?;
    equal("threads", all.threads(), 3)?;
    let least = |rounds: [u64; 2]| {
        (0..50).try_fold(u64::MAX, |least, _| -> Result<u64, Stop> {
            let counted = during(&all, 0, || {
                crews.iter().zip(rounds).for_each(|(crew, rounds)| crew.run(rounds));
            })?;
            Ok(least.min(counted))
        })
    };
    let nothing = least([0, 0])?;
    for rounds in [[1_000, 0], [0, 1_000], [5_000, 3_000]] {
        let [first, second] = rounds;
        equal("instructions", least(rounds)?, nothing + 2 * (first + second))?;
    }
    let readings = all.reading()?;
    println!("{readings:?}");
    drop(crews);
    // A software event in a group with hardware events counts while that group is on the PMU of its core type.
    let crews = [0, 1].map(|processor| {
        keep_on(Some(processor));
        Crew::new(1, |pages| touch(pages as usize))
    });
    keep_on(Some(0));
    let mixed = over(&[Event::INSTRUCTIONS, Event::PAGE_FAULTS], Scope::Process)?;
    for pages in [[100, 0], [0, 200], [50, 60]] {
        let counted = during(&mixed, 1, || {
            crews.iter().zip(pages).for_each(|(crew, pages)| crew.run(pages.max(1)));
        })?;
        equal("page faults", counted, pages.iter().map(|pages| *pages.max(&1)).sum())?;
    }
    Ok(())
}
