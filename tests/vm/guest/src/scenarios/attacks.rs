//! What a hostile program, user or administrator can do to a process that counts: refusals, forks in signal
//! handlers, and memory that other threads map.
#![allow(clippy::disallowed_types, reason = "no child of a fork comes here")]

use super::{Entry, known_events, open};
use crate::attacks::{guests, refusals, stepped};
use crate::harness::{Facts, Outcome, Stop, equal, patience, require, skip};
use crate::process::supervised::{Answer, supervised};
use crate::process::{self, drop_rights, in_child};
use crate::system::{self, Changed};
use rdpmc::error::{OpenError, SyscallReason};
use rdpmc::{Access, Event, Group};
use std::ptr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

pub const ALL: &[Entry] = &[
    ("pages_of_other_threads_stay", pages_of_other_threads_stay),
    ("each_call_refused_in_turn", each_call_refused_in_turn),
    ("system_calls_of_open", system_calls_of_open),
    ("events_with_guests_refused", events_with_guests_refused),
    ("forked_between_instructions", forked_between_instructions),
    ("stepped_by_a_debugger", stepped_by_a_debugger),
];

/// Every read ends, although the kernel updates the pages after each of its instructions.
fn stepped_by_a_debugger(facts: &Facts) -> Outcome {
    if cfg!(target_arch = "riscv64") {
        return skip("Linux has no PTRACE_SINGLESTEP there");
    }
    patience(300);
    let [first, second, ..] = *known_events(facts) else { return skip("one known event") };
    let said = stepped::every_read_ends([first.0, second.0])??;
    println!("{said}");
    Ok(())
}

/// As on a host that runs a VM with a mediated PMU, with a simulated kernel that refuses such events.
fn events_with_guests_refused(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    if cfg!(target_arch = "riscv64") {
        return skip("this PMU has no flag for guests, and no machine of its kind a mediated one");
    }
    match guests::refused() {
        Some(result) => Ok(result?),
        None => skip("no process may answer for another"),
    }
}

/// On bare metal nothing is measured: once a process has opened its first counter, opening another takes the calls that
/// the documentation states, and no others.
fn system_calls_of_open(facts: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    const CALLS: [(libc::c_long, &str); 8] = [
        (libc::SYS_perf_event_open, "perf_event_open"),
        (libc::SYS_mmap, "mmap"),
        (libc::SYS_munmap, "munmap"),
        (libc::SYS_ioctl, "ioctl"),
        (libc::SYS_read, "read"),
        (libc::SYS_openat, "openat"),
        (libc::SYS_prctl, "prctl"),
        (libc::SYS_clock_gettime, "clock_gettime"),
    ];
    let calls_of = |open: fn() -> bool| -> Result<String, Stop> {
        let mut made = [0; CALLS.len()];
        let status = supervised(
            &CALLS.map(|(number, _)| number),
            |call| {
                // Not the allocator's mappings, which are writable.
                let is_writable = call.arguments[2] & libc::PROT_WRITE as u64 != 0;
                let number = libc::c_long::from(call.number);
                let place = CALLS.iter().position(|(known, _)| *known == number);
                if let Some(place) = place.filter(|_| number != libc::SYS_mmap || !is_writable) {
                    made[place] += 1;
                }
                Answer::Pass
            },
            |switch| {
                let first = open();
                switch.set(true);
                let second = open();
                switch.set(false);
                i32::from(!(first && second))
            },
        );
        equal("the child's status", status, Some(0))?;
        let made = CALLS.iter().zip(made).filter(|(_, made)| *made > 0);
        let words: Vec<String> = made.map(|((_, name), made)| format!("{made} {name}")).collect();
        Ok(words.join(", "))
    };
    // The handles are forgotten, so that dropping them is not counted.
    let counter = calls_of(|| open(Event::INSTRUCTIONS).map(std::mem::forget).is_ok())?;
    let group = calls_of(|| {
        let two = Group::builder([Event::INSTRUCTIONS, Event::CYCLES]);
        two.allow_all_privilege_levels(true).open().map(std::mem::forget).is_ok()
    })?;
    println!("a counter: {counter}; a group of two: {group}");
    let asks_again = facts.number("width") == Some(32) || facts.say("user_access") == Some("none");
    if cfg!(target_arch = "riscv64") || asks_again {
        // The privilege filter, user access or a 64-bit counter is refused first, and settings are read for each event.
        return require(!counter.contains("clock_gettime"), || counter.clone());
    }
    equal("a counter's calls", counter.as_str(), "1 perf_event_open, 1 mmap")?;
    let of_two = "2 perf_event_open, 3 mmap, 1 munmap, 1 ioctl";
    equal("a group's calls", group.as_str(), of_two)
}

/// The number of groups that are opened beside the threads that map.
const OPENS: u64 = 20_000;

/// A user whose allowance of control pages is used up opens groups, while four threads map pages of their own, check
/// that they still have them, and unmap them. These threads have priority and wake every few microseconds, so they
/// run between any two instructions of the thread that opens.
fn pages_of_other_threads_stay(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    let _kilobytes = Changed::to(system::MLOCK_KB, "0");
    patience(300);
    // Some PMUs here count the kernel, too, which takes level 1.
    let _paranoid = Changed::to(system::PARANOID, "1");
    Ok(in_child(|| -> Outcome {
        process::limit(libc::RLIMIT_MEMLOCK as _, 0);
        let (done, mapped, lost) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let ready = Barrier::new(5);
        let opened = thread::scope(|scope| {
            for number in 1..=4 {
                let (ready, done, mapped, lost) = (&ready, &done, &mapped, &lost);
                scope.spawn(move || {
                    take_priority(number);
                    ready.wait();
                    map_and_look(number, done, mapped, lost);
                });
            }
            ready.wait();
            let opened = std::panic::catch_unwind(open_groups);
            done.store(true, Relaxed);
            opened.unwrap_or_else(|_| Err(String::from("it panicked").into()))
        });
        let (mapped, lost) = (mapped.load(Relaxed), lost.load(Relaxed));
        let beyond = opened?;
        println!("{OPENS} groups, {beyond} of them beyond the allowance; {mapped} pages of others");
        require(beyond >= OPENS - OPENS / 16, || format!("{beyond} beyond the allowance"))?;
        require(mapped > OPENS, || format!("{mapped} pages mapped"))?;
        require(lost == 0, || format!("{lost} of {mapped} pages of other threads were unmapped"))
    })?)
}

/// Returns how many of the opened groups were refused their pages.
fn open_groups() -> Result<u64, crate::harness::Stop> {
    assert!(drop_rights());
    let mut beyond = 0;
    for round in 0..OPENS / 4 {
        beyond += u64::from(is_beyond([Event::INSTRUCTIONS, Event::CYCLES])?);
        beyond += u64::from(is_beyond([Event::INSTRUCTIONS; 4])?);
        beyond += u64::from(is_beyond([Event::CYCLES, Event::INSTRUCTIONS])?);
        // Most machines have fewer counters, which takes longer to detect than to map.
        match round % 8 {
            0 => beyond += u64::from(is_beyond([Event::INSTRUCTIONS; 8])?),
            _ => beyond += u64::from(is_beyond([Event::CYCLES; 2])?),
        }
    }
    Ok(beyond)
}

/// Opens a group, and returns whether only the limit prevented its mapping.
fn is_beyond<const N: usize>(events: [Event; N]) -> Result<bool, crate::harness::Stop> {
    // A disabled group is not checked for counters, which are not the subject here.
    let group = Group::builder(events).allow_all_privilege_levels(true).disabled(true).open();
    match group.map(|group| group.access()) {
        Ok(Access::SystemCall(SyscallReason::MlockLimit { kilobytes: Some(0), .. })) => Ok(true),
        Err(OpenError::GroupTooLarge { .. }) => Ok(false),
        Ok(other) => Err(format!("a group of {N} is {other:?}").into()),
        Err(other) => Err(other.into()),
    }
}

fn take_priority(number: u64) {
    let priority = libc::sched_param { sched_priority: number as i32 };
    // SAFETY: `priority` is valid for the read. The call affects this thread.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Maps some pages and writes to them, then checks that those of the last round are still there and unchanged, over
/// and over. Their number changes, so that now and then they exceed their own address range.
fn map_and_look(number: u64, done: &AtomicBool, mapped: &AtomicU64, lost: &AtomicU64) {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let (mut earlier, mut random) = (Vec::with_capacity(8), number);
    while !done.load(Relaxed) {
        // The constants of the MMIX generator.
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut pages = Vec::with_capacity(8);
        for _ in 0..1 + (random >> 33) % 8 {
            // SAFETY: the mapping is new, and the write is within it.
            unsafe {
                let page = libc::mmap(ptr::null_mut(), 4096, access, kind, -1, 0).cast::<u64>();
                assert_ne!(page.cast(), libc::MAP_FAILED);
                page.write_volatile(page.addr() as u64 ^ number);
                pages.push(page);
            }
        }
        mapped.fetch_add(pages.len() as u64, Relaxed);
        for page in std::mem::replace(&mut earlier, pages) {
            let mut resident = 0_u8;
            // SAFETY: the page is this thread's own, read if it is there, and unmapped once.
            unsafe {
                let is_there = libc::mincore(page.cast(), 4096, &mut resident) == 0;
                if is_there && page.read_volatile() == page.addr() as u64 ^ number {
                    libc::munmap(page.cast(), 4096);
                } else {
                    lost.fetch_add(1, Relaxed);
                }
            }
        }
        thread::sleep(Duration::from_micros(700 + 100 * number));
    }
}

fn each_call_refused_in_turn(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    patience(600); // a thousand processes
    let Some((trials, wrong)) = refusals::everywhere(refusals::OPERATIONS, 2, 4) else {
        return skip("no process may answer for another here");
    };
    println!("{trials} system calls were refused");
    require(trials > 250, || format!("{trials} trials only"))?;
    require(wrong.is_empty(), || {
        format!("{} went wrong: {:?}", wrong.len(), &wrong[..wrong.len().min(5)])
    })
}

#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
fn forked_between_instructions(facts: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    #[cfg(not(target_arch = "x86_64"))]
    return skip("it steps by x86-64's trap flag");
    #[cfg(target_arch = "x86_64")]
    {
        use crate::attacks::counts;
        use crate::attacks::stepped_forks::{self, Plan};
        use crate::events::Published;
        patience(300);
        // A fork takes long here, so each target has a phase of its own.
        const EVERY: u32 = 31;
        let phase =
            facts.0.iter().flat_map(|fact| fact.bytes()).map(u32::from).sum::<u32>() % EVERY;
        let phases = [phase, (phase + EVERY / 2) % EVERY];
        let plan = Plan { every: EVERY, phases: &phases, most_steps: 4_000 };
        stepped_forks::all(&plan, |line| println!("{line}"))?;
        // The page of a counter that this process opens is still its own.
        let counter = open(Event::INSTRUCTIONS)?;
        let page = Published::of(super::newest());
        require(page.index() != 0, || "it has no counter".into())?;
        Ok(counts(&counter)?)
    }
}
