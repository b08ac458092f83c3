//! CPUs of several core types, each with a PMU of its own: all that machines with several CPUs run.
//!
//! Their emulator adds to each CPU's count what the other CPUs do in between. A count may therefore be too high and
//! is never too low, so the minimum of many is exact.

use super::access::{Ended, in_child_without_system_calls};
use super::{Entry, open};
use crate::harness::{
    Facts, Outcome, Stop, by_system_call, equal, patience, report, require, says,
};
use crate::system::{Changed, USER_ACCESS, keep_on, set};
use rdpmc::error::{Disturbed, ErrorKind, ReadError};
use rdpmc::pmu::{Pmu, Pmus};
use rdpmc::{Access, Counter, Error, Event, Group};
use rdpmc_testing::kernels::countdown;
use rdpmc_testing::process::supervised::{Answer, Switch, supervised};
use rdpmc_testing::process::{fork, wait};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

pub const ALL: &[Entry] = &[
    ("sum_over_core_types", sum_over_core_types),
    ("sum_controlled", sum_controlled),
    ("sum_without_a_system_call", sum_without_a_system_call),
    ("sum_while_moved_about", sum_while_moved_about),
    ("sum_after_a_retry", sum_after_a_retry),
    ("sum_in_a_forked_child", sum_in_a_forked_child),
    ("sum_by_system_call", sum_by_system_call),
    ("sum_of_pinned_events", sum_of_pinned_events),
    ("kept_on_a_core_type", kept_on_a_core_type),
    ("group_on_one_core_type", group_on_one_core_type),
    ("each_pmu_by_its_name", each_pmu_by_its_name),
    ("the_first_look_refused", the_first_look_refused),
];

/// Returns the PMUs of CPUs 0 and 1, on which this thread may then run.
fn core_types() -> Result<[Pmu; 2], Stop> {
    let mut pmus: Vec<Pmu> = Pmus::local().all()?.into_iter().filter(Pmu::is_core).collect();
    pmus.sort_by_key(|pmu| pmu.cpus().is_some_and(|cpus| cpus.contains(1)));
    let pmus: Result<[Pmu; 2], _> = pmus.try_into();
    keep_on(None);
    pmus.map_err(|pmus| {
        Stop::Skipped(format!("this machine has {} core types at most", pmus.len().max(1)))
    })
}

/// Returns the minimum of many samples.
fn least(mut sample: impl FnMut() -> Result<u64, Stop>) -> Result<u64, Stop> {
    (0..50).try_fold(u64::MAX, |least, _| Ok(least.min(sample()?)))
}

/// Returns the counter's difference over `rounds` on each of the two CPUs.
fn count(counter: &Counter, rounds: [u64; 2]) -> Result<u64, Stop> {
    keep_on(Some(0));
    let before = counter.read_user();
    for (processor, rounds) in rounds.into_iter().enumerate() {
        keep_on(Some(processor as u32));
        countdown(black_box(rounds));
    }
    let after = counter.read_user();
    after
        .zip(before)
        .map(|(after, before)| after - before)
        .ok_or(Stop::Failed("no user read".into()))
}

fn sum_over_core_types(_: &Facts) -> Outcome {
    core_types()?;
    for event in [Event::INSTRUCTIONS, Event::CYCLES, Event::raw(8)] {
        keep_on(None);
        let counter = open(event)?;
        equal("the event", counter.event(), event)?;
        equal("access", counter.access(), Access::UserSpace)?;
        let constant = least(|| count(&counter, [0, 0]))?;
        for rounds in [[1_000, 0], [0, 1_000], [1_000, 1_000], [5_000, 3_000]] {
            let [first, second] = rounds;
            equal("the sum", least(|| count(&counter, rounds))?, constant + 2 * (first + second))?;
        }
        let read = || counter.read_user().ok_or_else(|| Stop::Failed("no user read".into()));
        let cost = least(|| {
            let before = read()?;
            Ok(read()? - before)
        })?;
        println!("{event} by read_user, the sum of two: {cost} instructions");
        // The kernel's own counts have an equal sum, and so do the times.
        let user = counter.read_user();
        let reading = counter.reading()?;
        let again = counter.read_user();
        // Never None: the thread is kept where the reads before had an answer.
        let is_between = user.is_some_and(|user| user <= reading.value)
            && again.is_some_and(|again| reading.value <= again);
        require(is_between, || format!("{reading:?} between {user:?} and {again:?}"))?;
        require(!reading.is_multiplexed(), || format!("{reading:?}"))?;
        // A region uses the core type that it is made on.
        rdpmc::contain_faults()?;
        for processor in [0, 1] {
            keep_on(Some(processor));
            let region = counter.region()?;
            let of = |rounds: u64| {
                least(|| match region.measure(|| countdown(black_box(rounds))).1 {
                    Ok([count]) => Ok(count),
                    Err(_) => Ok(u64::MAX), // not a sample
                })
            };
            // Opaque, because an instruction that loads the constant 1,000 would count, and 0 needs none.
            let (nothing, some) = (of(black_box(0))?, of(black_box(1_000))?);
            equal("a region's rounds", some - nothing, 2_000)?;
        }
    }
    Ok(())
}

/// Access is revoked and allowed again while the thread is on either core type. Then that type's page is mapped again, and
/// snapshots before and after are of other counters.
fn sum_after_a_retry(_: &Facts) -> Outcome {
    core_types()?;
    rdpmc::contain_faults()?;
    for processor in [0, 1] {
        keep_on(Some(processor));
        let mut counter = open(Event::INSTRUCTIONS)?;
        let before = counter.snapshot().ok_or_else(|| "no snapshot".to_owned())?;
        let again = counter.snapshot().ok_or_else(|| "no snapshot".to_owned())?;
        let of_others = Some(Disturbed::OtherCounters);
        require((again - before).disturbed() != of_others, || "of one handle".into())?;
        let faults = rdpmc::contained_faults();
        set(USER_ACCESS, "0");
        for _ in 0..100 {
            counter.read_user();
        }
        set(USER_ACCESS, "1");
        require(rdpmc::contained_faults() > faults, || "no read faults".into())?;
        counter.retry_user()?;
        let mut after = None;
        for _ in 0..1_000 {
            after = after.or_else(|| counter.snapshot());
            thread::sleep(Duration::from_millis(1));
        }
        let after = after.ok_or_else(|| "no snapshot after the retry".to_owned())?;
        equal("across the mapping", (after - before).disturbed(), of_others)?;
    }
    Ok(())
}

fn sum_controlled(_: &Facts) -> Outcome {
    core_types()?;
    let counter = open(Event::INSTRUCTIONS)?;
    count(&counter, [1_000, 1_000])?;
    counter.disable()?;
    equal("read_user of a disabled one", counter.read_user(), None)?;
    equal(
        "access of a disabled one",
        counter.access().why_system_call(),
        Some(ErrorKind::NotScheduled),
    )?;
    let stopped = counter.read()?;
    countdown(black_box(1_000));
    equal("while it is disabled", counter.read()?, stopped)?;
    require(stopped >= 4_000, || format!("{stopped}"))?;
    counter.enable()?;
    require(count(&counter, [1_000, 1_000])? >= 4_000, || "enabled, it counts again".into())?;
    counter.reset()?;
    let after = counter.read()?;
    require(after < 2_000, || format!("{after} after a reset"))?;
    // A counter opened without being started is 0.
    let idle = Counter::builder(Event::INSTRUCTIONS).disabled(true).open()?;
    equal("never started", idle.read()?, 0)?;
    equal("never started", idle.read_user(), None)
}

fn sum_without_a_system_call(_: &Facts) -> Outcome {
    core_types()?;
    let ended = in_child_without_system_calls(|counter| {
        (0..100_000)
            .all(|_| black_box(counter.read_user()).is_some() && black_box(counter.read()).is_ok())
    });
    equal("how the reads ended", ended, Ended::Exited(0))
}

/// Another thread moves this one back and forth all the time.
fn sum_while_moved_about(_: &Facts) -> Outcome {
    const READS: u64 = 20_000;
    const ROUNDS: u64 = 500;
    core_types()?;
    let counter = open(Event::INSTRUCTIONS)?;
    // SAFETY: gettid takes nothing.
    let this = unsafe { libc::gettid() };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut moves = 0_u64;
            while !over.load(Relaxed) {
                let mask: u64 = 1 << (moves % 2);
                // SAFETY: `mask` is valid for the read of its size.
                unsafe { libc::syscall(libc::SYS_sched_setaffinity, this, 8, &raw const mask) };
                moves += 1;
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
        });
        let outcome = (|| {
            let (mut last, mut system_calls) = (counter.read()?, 0);
            let (first, mut seen) = (last, [false; 2]);
            for _ in 0..READS {
                countdown(black_box(ROUNDS));
                system_calls += u64::from(counter.read_user().is_none());
                let now = counter.read()?;
                require(now > last + 2 * ROUNDS, || format!("{now} after {last}"))?;
                let by_the_kernel = counter.reading()?.value;
                last = counter.read()?;
                require(now < by_the_kernel && by_the_kernel < last, || {
                    format!("{now}, by the kernel {by_the_kernel}, {last}")
                })?;
                // SAFETY: sched_getcpu takes nothing.
                let processor = unsafe { libc::sched_getcpu() };
                seen[usize::try_from(processor).unwrap_or(0) & 1] = true;
            }
            println!(
                "{} instructions in {READS} reads, {system_calls} without an answer",
                last - first
            );
            equal("processors seen", seen, [true; 2])?;
            let reading = counter.reading()?;
            require(reading.time_running() <= reading.time_enabled(), || format!("{reading:?}"))
        })();
        over.store(true, Relaxed);
        outcome
    })
}

fn sum_in_a_forked_child(_: &Facts) -> Outcome {
    core_types()?;
    let counter = open(Event::INSTRUCTIONS)?;
    let status = wait(fork(|| {
        let harmless = counter.read_user().is_none()
            && counter.read() == Err(ReadError::Forked)
            && counter.reading() == Err(ReadError::Forked)
            && counter.access() == Access::Forked;
        i32::from(!harmless)
    }));
    equal("the child's status", status, 0)?;
    equal("the parent reads on", counter.read_user().is_some(), true)
}

/// If user space may not read, the kernel's counts are added, and the times are still right.
fn sum_by_system_call(_: &Facts) -> Outcome {
    core_types()?;
    let off = Changed::to(USER_ACCESS, "0");
    let counter = open(Event::INSTRUCTIONS)?;
    equal("read_user", counter.read_user(), None)?;
    by_system_call("access", &counter.access(), ErrorKind::SwitchedOff, USER_ACCESS)?;
    let sum = |rounds: [u64; 2]| {
        least(|| {
            keep_on(Some(0));
            let before = counter.read()?;
            for (processor, rounds) in rounds.into_iter().enumerate() {
                keep_on(Some(processor as u32));
                countdown(black_box(rounds));
            }
            Ok(counter.read()? - before)
        })
    };
    let constant = sum([0, 0])?;
    equal("the sum", sum([3_000, 2_000])?, constant + 10_000)?;
    for processor in [0, 1] {
        keep_on(Some(processor));
        let reading = counter.reading()?;
        require(!reading.is_multiplexed(), || format!("on {processor}: {reading:?}"))?;
    }
    drop(off);
    Ok(())
}

/// No page shows that a pinned event has lost its counter, so reads are system calls, which report it.
fn sum_of_pinned_events(_: &Facts) -> Outcome {
    core_types()?;
    let pinned = Counter::builder(Event::INSTRUCTIONS).pinned(true).open()?;
    equal("access", pinned.access().why_system_call(), Some(ErrorKind::PinnedOnSeveralTypes))?;
    equal("read_user", pinned.read_user(), None)?;
    keep_on(Some(0));
    let before = pinned.read()?;
    keep_on(Some(1));
    countdown(black_box(1_000));
    require(pinned.read()? - before >= 2_000, || "it counts".into())?;
    let marked: Event = "instructions:D".parse()?;
    keep_on(None);
    let marked = open(marked)?;
    equal("access", marked.access().why_system_call(), Some(ErrorKind::PinnedOnSeveralTypes))?;
    // More events than counters: those that are left without one report it.
    keep_on(None);
    let many: Result<Vec<Counter>, Error> =
        (0..10).map(|_| Counter::builder(Event::INSTRUCTIONS).pinned(true).open()).collect();
    let many = many?;
    for processor in [0, 1] {
        keep_on(Some(processor));
        countdown(black_box(1_000));
    }
    let lost = many.iter().filter(|counter| counter.read() == Err(ReadError::ErrorState)).count();
    require(lost >= 3, || format!("{lost} of 10 have lost their counter"))
}

fn kept_on_a_core_type(_: &Facts) -> Outcome {
    let pmus = core_types()?;
    for (processor, pmu) in pmus.iter().enumerate() {
        keep_on(Some(processor as u32));
        let counter = open(Event::INSTRUCTIONS)?;
        // Linux before 6.6 does not know the first name.
        let of_pmu = |name| Pmus::local().event(&format!("{}/{name}/", pmu.name()));
        let (new, old) = (of_pmu("instructions"), of_pmu("inst_retired"));
        let event = counter.event();
        require(Ok(event) == new || Ok(event) == old, || format!("{event}"))?;
        equal("access", counter.access(), Access::UserSpace)?;
        let counted = least(|| {
            let before = counter.read_user();
            countdown(black_box(1_000));
            let counted = counter.read_user().zip(before).map(|(after, before)| after - before);
            Ok(counted.unwrap_or(u64::MAX))
        })?;
        require((2_000..2_100).contains(&counted), || format!("{counted}"))?;
        // On the other CPU it has no counter.
        keep_on(Some(1 - processor as u32));
        equal("read_user elsewhere", counter.read_user(), None)?;
        require(counter.reading()?.is_multiplexed(), || "counted elsewhere".into())?;
    }
    Ok(())
}

fn group_on_one_core_type(_: &Facts) -> Outcome {
    let pmus = core_types()?;
    rdpmc::contain_faults()?;
    for (processor, pmu) in pmus.iter().enumerate() {
        keep_on(Some(processor as u32));
        for allowed in [Some(processor as u32), None] {
            // With the thread kept on the CPU, and without.
            keep_on(allowed);
            let group = Group::open([Event::CYCLES, Event::INSTRUCTIONS])?;
            let names = group.events().map(|event| Pmus::local().name_of(event));
            let are_of = |pmu: &Pmu| {
                names
                    .iter()
                    .all(|name| name.split_once('/').is_some_and(|(of, _)| of == pmu.name()))
            };
            let here = allowed.is_some();
            // A thread that is not kept may have been on either type, but the group is on one.
            let is_right = if here { are_of(pmu) } else { pmus.iter().any(are_of) };
            require(is_right, || format!("{names:?}"))?;
            if !here {
                continue;
            }
            let region = group.region()?;
            let counted = least(|| match region.measure(|| countdown(black_box(1_000))).1 {
                Ok([_, instructions]) => Ok(instructions),
                Err(_) => Ok(u64::MAX),
            })?;
            require((2_000..2_050).contains(&counted), || format!("{counted}"))?;
        }
    }
    // An event that names its PMU decides for the others. Two that name different PMUs cannot be in one group.
    let [first, second] = &pmus;
    let of = |pmu: &Pmu, name: &str| Pmus::local().event(&format!("{}/{name}/", pmu.name()));
    let named = of(first, "cpu_cycles")?;
    let group = Group::open([Event::INSTRUCTIONS, named])?;
    let names = group.events().map(|event| Pmus::local().name_of(event));
    let are_of_first = names.iter().all(|name| name.starts_with(first.name()));
    require(are_of_first, || format!("{names:?}"))?;
    let other = of(second, "inst_retired")?;
    let error = Group::open([named, other]).expect_err("of two PMUs");
    says("two PMUs", &error, ErrorKind::SeveralPmus, &Pmus::local().name_of(named))
}

/// An event that names its PMU is opened there by older kernels, too, and each PMU is described correctly.
fn each_pmu_by_its_name(facts: &Facts) -> Outcome {
    for (processor, pmu) in core_types()?.iter().enumerate() {
        keep_on(Some(processor as u32));
        for name in ["cycles", "instructions", "cpu_cycles", "r8"] {
            let event: Event = format!("{}/{name}/", pmu.name()).parse()?;
            let counter = open(event)?;
            equal("access", counter.access(), Access::UserSpace)?;
            let before = counter.read()?;
            countdown(black_box(1_000));
            require(counter.read()? - before >= 2_000, || format!("{event} counts less"))?;
        }
        let Some(found) = rdpmc_doctor::describe(pmu) else {
            return Err(String::from("not local").into());
        };
        let counters =
            found.general.zip(found.fixed).map(|(general, fixed)| (general + fixed) as u64);
        equal("counters", counters, facts.number("registers"))?;
        equal("width", found.width.map(u64::from), facts.number("width"))?;
        equal("access", found.access, Ok(Access::UserSpace))?;
    }
    let report = rdpmc_doctor::diagnose();
    equal("PMUs of cores", report.core_pmus.len(), 2)?;
    let said = report.advice.iter().any(|line| line.contains("several core types"));
    require(said, || format!("{:?}", report.advice))
}

/// Each file and directory that `open` first reads about the core types is refused in turn, in a process that has not
/// read them before. That open fails with the cause, or is right. The next one is right.
fn the_first_look_refused(facts: &Facts) -> Outcome {
    const CALLS: [libc::c_long; 4] =
        [libc::SYS_openat, libc::SYS_read, libc::SYS_getdents64, libc::SYS_statx];
    const ROUNDS: u64 = 20_000;
    patience(600); // some hundred processes
    keep_on(None);
    // Checks whether a counter covers both core types: half of the work runs on each.
    let is_whole = |counter: &Counter| -> Outcome {
        let before = counter.read()?;
        for processor in [0, 1] {
            keep_on(Some(processor));
            countdown(black_box(ROUNDS));
        }
        let counted = counter.read()? - before;
        keep_on(None);
        require(counted >= 2 * 2 * ROUNDS, || format!("{counted} of {} instructions", 4 * ROUNDS))?;
        rdpmc::contain_faults()?;
        Ok(counter.region().map(drop)?)
    };
    // A file that reads as empty is not understood, unless it must have a line.
    let is_read_short = Cell::new(false);
    let first_and_next = |switch: &Switch| {
        report((|| {
            switch.set(true);
            let first = open(Event::INSTRUCTIONS);
            switch.set(false);
            match first {
                Ok(counter) => is_whole(&counter)?,
                Err(why) => match why.kind() {
                    ErrorKind::Unreadable | ErrorKind::TooManyOpenFiles => {}
                    ErrorKind::EventNotSupported if is_read_short.get() => {}
                    _ => return Err(why.into()),
                },
            }
            is_whole(&open(Event::INSTRUCTIONS)?)
        })())
        .into()
    };
    let share = facts.share();
    let (mut trials, mut possible) = (0, 0);
    for call in CALLS {
        let mut made = 0;
        let count = |_: &_| {
            made += 1;
            Answer::Pass
        };
        equal("with nothing refused", supervised(&[call], count, first_and_next), Some(0))?;
        require(made > 1, || format!("system call {call} was made {made} times"))?;
        // On older kernels, it reads the PMUs' events as well, so only some calls are refused.
        for (shift, site) in (0..made).step_by((made / 24).max(1)).enumerate() {
            for errno in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EACCES, libc::EIO, 0] {
                // A listing that ends early would be one of fewer PMUs, but no kernel ends it early. From the other
                // calls, 0 would mean nothing.
                if errno == 0 && call != libc::SYS_read {
                    continue;
                }
                possible += 1;
                // With the shift, a share has each error at some of the calls.
                if !share.has(possible + shift) {
                    continue;
                }
                is_read_short.set(errno == 0);
                let mut number = 0;
                let refuse = |_: &_| {
                    number += 1;
                    match (number - 1 == site, errno) {
                        (false, _) => Answer::Pass,
                        (true, 0) => Answer::Return(0),
                        (true, errno) => Answer::Refuse(errno),
                    }
                };
                let what = format!("call {site} of {call}, refused by {errno}");
                equal(&what, supervised(&[call], refuse, first_and_next), Some(0))?;
                trials += 1;
            }
        }
    }
    println!("{trials} calls were refused");
    require(trials > 150 / share.of, || format!("{trials} trials only"))
}
