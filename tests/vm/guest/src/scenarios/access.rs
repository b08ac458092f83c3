//! User access given, refused, unknown; and not one system call while it lasts.

use super::{Entry, open};
use crate::harness::{Facts, Outcome, equal, require};
use crate::kernels::countdown;
use crate::machine::{self, Page, USER_ACCESS, get, set};
use crate::process::{self, in_child, perf_descriptors};
use rdpmc::{Access, Counter, Event, NoUserAccess};
use std::hint::black_box;

pub const ALL: &[Entry] = &[
    ("access_from_user_space", access_from_user_space),
    ("sysctl_is_0", sysctl_is_0),
    ("sysctl_is_absent", sysctl_is_absent),
    ("a_million_reads_without_a_system_call", a_million_reads_without_a_system_call),
    ("software_events_are_read_by_system_call", software_events_are_read_by_system_call),
    ("mlock_limit", mlock_limit),
];

fn access_from_user_space(_: &Facts) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    equal("access", counter.access(), Access::UserSpace)?;
    counter.disable()?;
    equal("access", counter.access(), Access::SystemCall(NoUserAccess::NotScheduled))?;
    counter.enable()?;
    equal("access", counter.access(), Access::UserSpace)
}

fn sysctl_is_0(_: &Facts) -> Outcome {
    // Without a PMU there is no such setting, and this is the end of it.
    drop(open(Event::INSTRUCTIONS)?);
    set(USER_ACCESS, "0");
    let result = without_access(Access::SystemCall(NoUserAccess::SwitchedOff {
        setting: USER_ACCESS,
        value: 0,
    }));
    set(USER_ACCESS, "1");
    result?;
    equal("access afterwards", open(Event::INSTRUCTIONS)?.access(), Access::UserSpace)
}

/// Opens, counts and reads where `index` stays 0.
fn without_access(access: Access) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    let page = Page::of(*perf_descriptors().last().expect("one is open"));
    equal("index", page.index(), 0)?;
    equal("read_user", counter.read_user(), None)?;
    equal("access", counter.access(), access)?;
    let mut constant = None;
    for rounds in [0, 1, 1_000, 1_000_000] {
        let counted = count_by_system_call(&counter, rounds)?;
        if !counter.is_unfiltered() {
            let rest = counted - 2 * rounds;
            equal("what a read costs", rest, *constant.get_or_insert(rest))?;
        }
        require(counted >= 2 * rounds, || format!("{counted} for {rounds} rounds"))?;
    }
    let reading = counter.reading()?;
    require(reading.value > 2_000_000 && reading.time_running > 0, || format!("{reading:?}"))
}

#[inline(never)]
fn count_by_system_call(counter: &Counter, rounds: u64) -> Result<u64, rdpmc::Error> {
    let before = counter.read()?;
    countdown(black_box(rounds));
    Ok(counter.read()? - before)
}

fn sysctl_is_absent(_: &Facts) -> Outcome {
    // As in a container that hides it: what the kernel allows is not for a file to say.
    machine::mount("tmpfs", "/proc/sys/kernel").expect("an empty folder in its place");
    let result = (|| {
        let counter = open(Event::INSTRUCTIONS)?;
        equal("access", counter.access(), Access::UserSpace)?;
        counter.disable()?;
        let access = Access::SystemCall(NoUserAccess::NotScheduled);
        equal("access while disabled", counter.access(), access)?;
        counter.enable()?;
        let before = counter.read_user();
        countdown(black_box(1_000));
        let after = counter.read_user();
        require(after > before, || format!("{before:?} to {after:?}"))
    })();
    machine::unmount("/proc/sys/kernel");
    result
}

/// The kernel kills a process that makes a system call between the first read and the last.
fn a_million_reads_without_a_system_call(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    let reads = in_child_without_system_calls(|counter| {
        for _ in 0..1_000_000 {
            if black_box(counter.read_user()).is_none() {
                return false;
            }
        }
        true
    })?;
    equal("how the reads ended", reads, Ended::Exited(0))?;
    // The control: one system call would not have gone unnoticed.
    let control = in_child_without_system_calls(|counter| {
        let _ = counter.disable();
        true
    })?;
    equal("how a system call ends", control, Ended::Killed(libc::SIGSYS))
}

#[derive(Debug, PartialEq)]
enum Ended {
    Exited(i32),
    Killed(i32),
}

/// Forks; the child opens a counter and runs `body` under a filter that allows nothing but to
/// exit, with status 0 if `body` says true.
fn in_child_without_system_calls(
    body: fn(&Counter) -> bool,
) -> Result<Ended, crate::harness::Stop> {
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let Ok(counter) = open(Event::INSTRUCTIONS) else { std::process::exit(2) };
        process::allow_only(libc::SYS_exit_group);
        let status = i32::from(!body(&counter));
        // SAFETY: ends the process at once, by the one call that is left.
        unsafe { libc::_exit(status) };
    }
    let status = process::wait(child);
    Ok(if libc::WIFSIGNALED(status) {
        Ended::Killed(libc::WTERMSIG(status))
    } else {
        Ended::Exited(libc::WEXITSTATUS(status))
    })
}

fn software_events_are_read_by_system_call(_: &Facts) -> Outcome {
    let counter = Counter::open(Event::TASK_CLOCK)?;
    equal("access", counter.access(), Access::SystemCall(NoUserAccess::SoftwareEvent))?;
    equal("read_user", counter.read_user(), None)?;
    let before = counter.read()?;
    countdown(black_box(1_000_000));
    let after = counter.read()?;
    require(after > before, || format!("{before} to {after}"))
}

fn mlock_limit(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    let (kilobytes, paranoid) = (get(machine::MLOCK_KB), get(machine::PARANOID));
    set(machine::MLOCK_KB, "8");
    set(machine::PARANOID, "1");
    let result = beyond_the_mlock_limit();
    set(machine::MLOCK_KB, &kilobytes);
    set(machine::PARANOID, &paranoid);
    result
}

fn beyond_the_mlock_limit() -> Outcome {
    Ok(in_child(|| -> Outcome {
        process::limit(libc::RLIMIT_MEMLOCK as _, 0);
        assert!(process::drop_rights());
        // Two pages of 4 KiB are granted to a user, on one processor.
        let counters = [open(Event::INSTRUCTIONS)?, open(Event::INSTRUCTIONS)?];
        for counter in &counters {
            equal("access", counter.access(), Access::UserSpace)?;
        }
        let third = open(Event::INSTRUCTIONS)?;
        let why = NoUserAccess::MlockLimit { kilobytes: Some(8) };
        equal("access beyond the limit", third.access(), Access::SystemCall(why))?;
        equal("read_user beyond the limit", third.read_user(), None)?;
        let before = third.read()?;
        countdown(black_box(1_000));
        let after = third.read()?;
        require(after - before >= 2_000, || format!("{before} to {after}"))?;
        // Dropping gives the allowance back.
        drop(counters);
        equal("access", open(Event::INSTRUCTIONS)?.access(), Access::UserSpace)
    })?)
}
