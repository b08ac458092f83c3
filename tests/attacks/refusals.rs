//! The n-th system call of a kind fails, once or from then on, in everything that the library offers.
//!
//! Nothing crashes, hangs or leaks. The error is that of the refusal. The next call, without refusals, is not
//! affected.

use super::{Share, counts, group_counts, open, open_group};
use crate::process::supervised::{Answer, supervised};
use crate::process::{perf_descriptors, perf_mappings};
use libc::{
    E2BIG, EACCES, EAGAIN, EBUSY, EEXIST, EINTR, EINVAL, EIO, EMFILE, ENFILE, ENODEV, ENOENT,
    ENOMEM, ENOSPC, ENOSYS, EOPNOTSUPP, EPERM,
};
use rdpmc::{Clock, Event};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// An operation of the library, and its result in words without counts or times.
pub struct Operation {
    pub name: &'static str,
    pub run: fn() -> String,
}

fn said<T: Debug, E: Debug>(result: Result<T, E>) -> String {
    format!("{result:?}")
}

/// Returns the name of an error's variant, because the event's name in the message depends on which files could be
/// read.
fn variant(error: &impl Debug) -> String {
    let text = format!("{error:?}");
    text.split(|end: char| !end.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

fn counter(event: Event) -> String {
    said(open(event).map(|counter| {
        let controlled = [counter.disable(), counter.enable(), counter.reset()];
        let reading = counter.reading().map(drop);
        let region = counter.region().map(drop);
        (counts(&counter), counter.access(), controlled, reading, region)
    }))
}

fn group<const N: usize>(events: [Event; N]) -> String {
    said(open_group(events).map(|group| {
        let controlled = [group.disable(), group.enable(), group.reset()];
        let reading = group.reading().map(drop);
        let region = group.region().map(drop);
        (group_counts(&group), group.access(), controlled, reading, region)
    }))
}

/// All operations that work on any machine.
pub const OPERATIONS: &[Operation] = &[
    Operation { name: "a counter of software", run: || counter(Event::TASK_CLOCK) },
    Operation { name: "a counter of hardware", run: || counter(Event::INSTRUCTIONS) },
    Operation {
        name: "a group of software",
        run: || group([Event::TASK_CLOCK, Event::PAGE_FAULTS]),
    },
    Operation { name: "a group of hardware", run: || group([Event::INSTRUCTIONS, Event::CYCLES]) },
    Operation { name: "a group too large", run: || group([Event::INSTRUCTIONS; 8]) },
    Operation {
        name: "a pinned counter",
        run: || {
            let pinned = rdpmc::Counter::builder(Event::CYCLES)
                .pinned(true)
                .allow_all_privilege_levels(true);
            said(pinned.open().map(|counter| counter.access()))
        },
    },
    Operation {
        name: "an event that there is not",
        run: || match open(Event::of_pmu(1, 999)) {
            Ok(_) => "opened".to_owned(),
            Err(error) => variant(&error),
        },
    },
    Operation {
        name: "a clock",
        run: || {
            said(Clock::open().map(|clock| {
                let before = clock.now();
                (clock.now() >= before, clock.ticks() > 0, clock.kind())
            }))
        },
    },
    Operation { name: "faults contained", run: || said(rdpmc::contain_faults()) },
    Operation {
        name: "names",
        run: || {
            let names = ["cycles", "cpu/event=0xc0/", "software/config=1/", "no-such-event"];
            said(Ok::<_, ()>(names.map(|name| name.parse::<Event>())))
        },
    },
    Operation {
        name: "the PMUs",
        run: || {
            let pmus = rdpmc::pmu::Pmus::local();
            let names: Result<Vec<String>, _> =
                pmus.all().map(|all| all.iter().map(|pmu| pmu.name().to_owned()).collect());
            format!("{names:?} {:?}", pmus.get("software").map(|pmu| pmu.is_some()))
        },
    },
];

/// Returns the errors that a kernel may return from each call.
fn refusals() -> Vec<(libc::c_long, &'static str, Vec<i32>)> {
    const FILES: [i32; 7] = [EMFILE, ENFILE, ENOMEM, EACCES, EPERM, EIO, EAGAIN];
    vec![
        (
            libc::SYS_perf_event_open,
            "perf_event_open",
            vec![
                E2BIG, EACCES, EBUSY, EINTR, EINVAL, EIO, EMFILE, ENFILE, ENODEV, ENOENT, ENOMEM,
                ENOSPC, ENOSYS, EOPNOTSUPP, EPERM, 0,
            ],
        ),
        (libc::SYS_mmap, "mmap", vec![EPERM, EAGAIN, ENOMEM, ENODEV, EACCES, EEXIST, EINVAL]),
        (libc::SYS_munmap, "munmap", vec![EINVAL, ENOMEM]),
        (libc::SYS_read, "read", vec![EIO, ENOMEM, EACCES, 0]),
        (libc::SYS_ioctl, "ioctl", vec![EINVAL, EPERM, EBUSY, EIO, ENOMEM]),
        (libc::SYS_fcntl, "fcntl", vec![EINVAL, EMFILE, EPERM]),
        (libc::SYS_openat, "openat", FILES.to_vec()),
        (libc::SYS_getdents64, "getdents64", vec![EIO, ENOMEM, EACCES]),
        (libc::SYS_statx, "statx", vec![EIO, ENOMEM, EACCES, EPERM]),
        (libc::SYS_rt_sigaction, "rt_sigaction", vec![EINVAL, EPERM]),
        (libc::SYS_sched_getaffinity, "sched_getaffinity", vec![EINVAL, EPERM]),
        (libc::SYS_prctl, "prctl", vec![EINVAL, EPERM]),
        (libc::SYS_clock_gettime, "clock_gettime", vec![EINVAL, EPERM]),
    ]
}

/// Returns words, one of which the error must contain that this refusal causes.
fn right(call: &str, errno: i32) -> Vec<String> {
    let mut words: Vec<&str> = match (call, errno) {
        ("openat", EMFILE | ENFILE) => vec!["TooManyOpenFiles", "Unreadable"],
        (_, EMFILE | ENFILE) => vec!["TooManyOpenFiles"],
        // If `open` asks the kernel whether the privilege filter is the cause, an unprivileged process gets no
        // answer.
        ("perf_event_open", EPERM | EACCES) => vec!["Seccomp", "EventNotSupported"],
        ("perf_event_open", ENOSYS | EINTR | 0) => vec!["Seccomp"],
        ("perf_event_open", EBUSY) => vec!["Busy"],
        ("perf_event_open", E2BIG) => vec!["UnsupportedField"],
        ("perf_event_open", ENOMEM) => vec!["OutOfMemory"],
        ("perf_event_open", EIO) => vec!["System"],
        ("perf_event_open", _) => {
            vec!["EventNotSupported", "NoPmu", "NoPrivilegeFilter", "GroupTooLarge", "SeveralPmus"]
        }
        ("mmap", EPERM) => vec!["MlockLimit"],
        // An empty read means the error state of a pinned event. For a file that must have a line it is a failure,
        // and for a term's file it makes the term unknown.
        ("read", 0) => vec!["ErrorState", "Unreadable", "GroupTooLarge", "UnknownTerm"],
        ("ioctl", EPERM) => vec!["Seccomp", "System", "Unreadable"],
        ("read" | "ioctl", ENOMEM) => vec!["OutOfMemory", "System", "Unreadable"],
        ("clock_gettime", _) => vec!["System"],
        ("read" | "ioctl" | "rt_sigaction", _) => vec!["System", "Unreadable"],
        _ => vec!["Unreadable", "NotMapped"],
    };
    // A file of `/proc` from which the cause would have been read cannot be read.
    if matches!(call, "read" | "openat" | "statx") {
        words.extend(["NoPmu", "Denied"]);
    }
    words.into_iter().map(str::to_owned).collect()
}

/// Returns the number of descriptors and mappings of events, and of all descriptors.
fn held() -> (usize, usize, usize) {
    let all = std::fs::read_dir("/proc/self/fd").expect("/proc is mounted").count();
    (perf_descriptors().len(), perf_mappings(), all)
}

struct Trial {
    /// The results of the operation while calls were refused, and of its repetition afterwards.
    first: String,
    second: String,
    /// What was held before and after the first run.
    held: [(usize, usize, usize); 2],
}

/// Runs an operation twice, in a child. During the first run, `what` answers its calls.
fn trial(
    operation: &Operation,
    calls: &[libc::c_long],
    mut what: impl FnMut(libc::c_long) -> Answer,
) -> Result<Option<Trial>, String> {
    let (mut reader, mut writer) = UnixStream::pair().expect("a pair of sockets");
    let status = supervised(
        calls,
        |call| {
            // Not the allocator's mappings: these are writable, or reserve more than the library does.
            let [_, length, access, ..] = call.arguments;
            let writable = access & libc::PROT_WRITE as u64 != 0;
            let number = libc::c_long::from(call.number);
            match number == libc::SYS_mmap && (writable || length > 1 << 20) {
                true => Answer::Pass,
                false => what(number),
            }
        },
        |switch| {
            // SAFETY: alarm takes a number. A child that hangs is killed.
            unsafe { libc::alarm(20) };
            let before = held();
            switch.set(true);
            let first = (operation.run)();
            switch.set(false);
            let after = held();
            let second = (operation.run)();
            let told = format!("{first}\n{second}\n{before:?}\n{after:?}");
            // A result is no longer than what a socket takes at once.
            writer.write_all(told.as_bytes()).map_or(1, |()| 0)
        },
    );
    drop(writer);
    let Some(status) = status else { return Ok(None) };
    if status != 0 {
        return Err(format!("wait status {status:#x}"));
    }
    let mut told = String::new();
    reader.read_to_string(&mut told).expect("the child writes text");
    let lines: Vec<&str> = told.lines().collect();
    let [first, second, before, after] = lines[..] else { return Err(told) };
    let numbers = |line: &str| {
        let found: Vec<usize> =
            line.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        (found[0], found[1], found[2])
    };
    Ok(Some(Trial {
        first: first.to_owned(),
        second: second.to_owned(),
        held: [numbers(before), numbers(after)],
    }))
}

/// Returns the number of trials, and those that went wrong. None if this kernel or sandbox does not let one process
/// answer another's system calls. Of each kind of call, at most `sites` are refused, spread over all, each with at
/// most `errors` of the errors in turn. Of these trials, only those of the share are made.
pub fn everywhere(
    operations: &[Operation],
    sites: usize,
    errors: usize,
    share: Share,
) -> Option<(usize, Vec<String>)> {
    let refusals = refusals();
    let calls: Vec<libc::c_long> = refusals.iter().map(|(call, ..)| *call).collect();
    let (mut trials, mut possible, mut turn, mut wrong) = (0, 0, 0_usize, Vec::new());
    for operation in operations {
        let mut made: BTreeMap<libc::c_long, usize> = BTreeMap::new();
        let count = |call| {
            *made.entry(call).or_default() += 1;
            Answer::Pass
        };
        let reference = match trial(operation, &calls, count) {
            Ok(reference) => reference?,
            Err(why) => {
                wrong.push(format!("{}, with nothing refused: {why}", operation.name));
                continue;
            }
        };
        for (call, name, errnos) in &refusals {
            let all = made.get(call).copied().unwrap_or(0);
            for site in (0..all).step_by(all.div_ceil(sites).max(1)) {
                let next = turn;
                turn = turn.wrapping_add(errors);
                for errno in
                    errnos.iter().cycle().skip(next % errnos.len()).take(errors.min(errnos.len()))
                {
                    for once in [true, false] {
                        possible += 1;
                        if !share.has(possible - 1) {
                            continue;
                        }
                        trials += 1;
                        let mut number = 0;
                        let refuse = |made| {
                            if made != *call {
                                return Answer::Pass;
                            }
                            number += 1;
                            match (number - 1 == site, number > site) {
                                (true, _) | (_, true) if !once || number - 1 == site => match errno
                                {
                                    0 => Answer::Return(0),
                                    errno => Answer::Refuse(*errno),
                                },
                                _ => Answer::Pass,
                            }
                        };
                        let result = trial(operation, &[*call], refuse);
                        let judged = result.and_then(|trial| match &trial {
                            Some(trial) => judge(operation.name, name, *errno, trial, &reference),
                            None => Err("cannot be supervised any more".to_owned()),
                        });
                        if let Err(why) = judged {
                            let often = if once { "once" } else { "from then on" };
                            let operation = operation.name;
                            wrong.push(format!(
                                "{operation}: {name}, call {site} of {all}, is {errno} {often}: {why}"
                            ));
                        }
                    }
                }
            }
        }
    }
    Some((trials, wrong))
}

fn judge(
    name: &str,
    call: &str,
    errno: i32,
    trial: &Trial,
    reference: &Trial,
) -> Result<(), String> {
    let Trial { first, second, held: [before, after] } = trial;
    // A page that the kernel does not unmap stays. The kernel has no reason to refuse that.
    let descriptors = |held: &(usize, usize, usize)| (held.0, held.2);
    if descriptors(before) != descriptors(after) || (before.1 != after.1 && call != "munmap") {
        return Err(format!("held {before:?} before and {after:?} after"));
    }
    // Without a page, a clock uses another source.
    let is_clock = name == "a clock" && first.contains("Ok((true, true, ");
    // If the kernel does not report whether the events fit, and `open` cannot try it, they may never get a turn.
    let is_unsure = name == "a group too large"
        && (first.contains("NotScheduled") || first.contains("GroupTooLarge"));
    let is_right = *first == reference.first
        || is_clock
        || is_unsure
        || right(call, errno).iter().any(|word| first.contains(word));
    if !is_right {
        return Err(first.clone());
    }
    // A page that stays also keeps its event's counter.
    if *second != reference.second && before.1 == after.1 {
        return Err(format!("afterwards: {second}, not {}", reference.second));
    }
    Ok(())
}
