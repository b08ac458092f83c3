//! User access given, refused and unknown, and not one system call while it lasts.

use super::{Entry, least, newest, open, work};
use crate::events::Published;
use crate::harness::{Facts, Outcome, by_system_call, equal, require, samples};
use crate::system::{self, Changed, USER_ACCESS};
use rdpmc::error::ErrorKind;
use rdpmc::{Access, Counter, Event};
use rdpmc_doctor::Seccomp;
use rdpmc_testing::kernels::countdown;
use rdpmc_testing::process::{self, in_child, wait};
use std::hint::black_box;
use std::mem::ManuallyDrop;
use std::time::Duration;

pub const ALL: &[Entry] = &[
    ("access_from_user_space", access_from_user_space),
    ("switched_off", switched_off),
    ("setting_is_hidden", setting_is_hidden),
    ("a_million_reads_without_a_system_call", a_million_reads_without_a_system_call),
    ("rdpmc_faults_as_the_processor_says", rdpmc_faults_as_the_processor_says),
    ("software_events_are_read_by_system_call", software_events_are_read_by_system_call),
    ("mlock_limit", mlock_limit),
    ("diagnosis", diagnosis),
];

fn access_from_user_space(_: &Facts) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    equal("access", counter.access(), Access::UserSpace)?;
    counter.disable()?;
    equal("access", counter.access().why_system_call(), Some(ErrorKind::NotScheduled))?;
    counter.enable()?;
    equal("access", counter.access(), Access::UserSpace)
}

fn switched_off(_: &Facts) -> Outcome {
    // Without a PMU the setting does not exist, and the scenario ends here.
    drop(open(Event::INSTRUCTIONS)?);
    let off = Changed::to(USER_ACCESS, "0");
    without_access(ErrorKind::SwitchedOff, &format!("disabled ({USER_ACCESS} is 0)"))?;
    drop(off);
    equal("access afterwards", open(Event::INSTRUCTIONS)?.access(), Access::UserSpace)
}

/// Opens, counts and reads while `index` stays 0.
fn without_access(kind: ErrorKind, words: &str) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    let page = Published::of(newest());
    equal("index", page.index(), 0)?;
    equal("read_user", counter.read_user(), None)?;
    by_system_call("access", &counter.access(), kind, words)?;
    let mut constant = None;
    for rounds in super::ROUNDS {
        let counted = least(samples(false), || Ok(count_by_system_call(&counter, rounds)?))?;
        if !counter.counts_all_privilege_levels() {
            let rest = counted - 2 * rounds;
            equal("what a read costs", rest, *constant.get_or_insert(rest))?;
        }
        require(counted >= 2 * rounds, || format!("{counted} for {rounds} rounds"))?;
    }
    let reading = counter.reading()?;
    let least = 2 * super::ROUNDS.iter().sum::<u64>();
    require(reading.value > least && !reading.time_running().is_zero(), || format!("{reading:?}"))
}

#[inline(never)]
fn count_by_system_call(counter: &Counter, rounds: u64) -> Result<u64, rdpmc::error::ReadError> {
    let before = counter.read()?;
    countdown(black_box(rounds));
    Ok(counter.read()? - before)
}

fn setting_is_hidden(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    // As in a container that hides the setting: what the kernel permits does not depend on a file.
    let folder = USER_ACCESS.rsplit_once('/').expect("a path").0;
    system::mount("tmpfs", folder).expect("an empty folder in its place");
    let result = (|| {
        let counter = open(Event::INSTRUCTIONS)?;
        equal("access", counter.access(), Access::UserSpace)?;
        counter.disable()?;
        let why = counter.access().why_system_call();
        equal("access while disabled", why, Some(ErrorKind::NotScheduled))?;
        counter.enable()?;
        let counted = work(&counter, 1_000)?;
        require(counted >= 2_000, || format!("{counted} for 2,000 instructions"))
    })();
    system::unmount(folder);
    result
}

/// The kernel kills a process that makes a system call between the first read and the last.
fn a_million_reads_without_a_system_call(facts: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    let reads = in_child_without_system_calls(|counter| {
        (0..1_000_000)
            .all(|_| black_box(counter.read_user()).is_some() && black_box(counter.read()).is_ok())
    });
    equal("how the reads ended", reads, Ended::Exited(0))?;
    // Without a clock on the page, the times take a system call.
    let readings = in_child_without_system_calls(|counter| {
        (0..100_000).all(|_| black_box(counter.reading()).is_ok())
    });
    let killed = Ended::Killed(libc::SIGSYS);
    let with_clock = facts.say("clock") == Some("page");
    equal("how the readings ended", readings, if with_clock { Ended::Exited(0) } else { killed })?;
    // A call that never makes a system call returns None instead, and counts go on from one to the next.
    let never = in_child_without_system_calls(|counter| {
        let first = black_box(counter.reading_user());
        (0..100_000).all(|_| {
            let next = black_box(counter.reading_user());
            match (&first, next) {
                (Some(first), Some(next)) => {
                    with_clock && next.since(first).is_some_and(|since| since.value > 0)
                }
                (None, None) => !with_clock,
                _ => false,
            }
        })
    });
    equal("how the user readings ended", never, Ended::Exited(0))?;
    // The control: one system call is detected.
    let control = in_child_without_system_calls(|counter| counter.disable().is_ok());
    equal("how a system call ends", control, killed)
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ended {
    Exited(i32),
    Killed(i32),
}

/// Forks. The child opens a counter and runs `body` under a filter that permits nothing but to exit. Its status is 0
/// if `body` returns true.
pub fn in_child_without_system_calls(body: impl FnOnce(&Counter) -> bool) -> Ended {
    ended(wait(process::fork(|| {
        let counter = ManuallyDrop::new(open(Event::INSTRUCTIONS).expect("opens again"));
        process::allow_only(libc::SYS_exit_group);
        i32::from(!body(&counter))
    })))
}

fn ended(status: i32) -> Ended {
    if libc::WIFSIGNALED(status) {
        Ended::Killed(libc::WTERMSIG(status))
    } else {
        Ended::Exited(libc::WEXITSTATUS(status))
    }
}

/// `rdpmc` faults if no event is mapped, and for a counter that the CPU does not have. This checks the emulated CPU's
/// CR4.PCE and its range of indexes.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
fn rdpmc_faults_as_the_processor_says(facts: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    #[cfg(not(target_arch = "x86_64"))]
    return crate::harness::skip("this processor has no rdpmc");
    #[cfg(target_arch = "x86_64")]
    {
        const FIXED: u32 = 1 << 30;
        let ends = |mapped: bool, index: u32| {
            wait(process::fork(|| {
                let _counter = mapped.then(|| open(Event::INSTRUCTIONS).expect("opens again"));
                // SAFETY: reads a register, or faults, which ends this child.
                unsafe { std::arch::asm!("rdpmc", in("ecx") index, out("eax") _, out("edx") _) };
                0
            }))
        };
        equal("counter 0, mapped", ends(true, 0), 0)?;
        equal("the last counter, mapped", ends(true, 3), 0)?;
        equal("counter 0, not mapped", ends(false, 0), libc::SIGSEGV)?;
        equal("beyond the last counter", ends(true, 4), libc::SIGSEGV)?;
        let has_fixed = facts.number("reference_cycles").is_some();
        let fixed = if has_fixed { 0 } else { libc::SIGSEGV };
        equal("the last fixed counter, if there are any", ends(true, FIXED | 2), fixed)?;
        equal("beyond the last fixed counter", ends(true, FIXED | 3), libc::SIGSEGV)?;
        equal("a counter of no kind", ends(true, u32::MAX), libc::SIGSEGV)
    }
}

fn software_events_are_read_by_system_call(_: &Facts) -> Outcome {
    let counter = Counter::open(Event::TASK_CLOCK)?;
    equal("access", counter.access().why_system_call(), Some(ErrorKind::SoftwareEvent))?;
    equal("read_user", counter.read_user(), None)?;
    let before = counter.read()?;
    countdown(black_box(1_000_000));
    let nanoseconds = counter.read()? - before;
    require(nanoseconds >= 2_000_000, || format!("{nanoseconds} ns for 2,000,000 instructions"))
}

fn mlock_limit(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    std::thread::sleep(Duration::from_millis(20)); // on riscv64 its register is free at the next turn
    let _kilobytes = Changed::to(system::MLOCK_KB, "8");
    // Some PMUs here count the kernel, too, which takes level 1.
    let _paranoid = Changed::to(system::PARANOID, "1");
    Ok(in_child(|| -> Outcome {
        process::limit(libc::RLIMIT_MEMLOCK as _, 0);
        assert!(process::drop_rights());
        // A user gets two pages of 4 KiB on one CPU. The second counter may have to take turns with the first. That
        // it is mapped is what matters.
        let counters = [open(Event::INSTRUCTIONS)?, open(Event::INSTRUCTIONS)?];
        equal("access", counters[0].access(), Access::UserSpace)?;
        let not_mapped = |counter: &Counter| {
            let words = "kernel.perf_event_mlock_kb is 8 KiB per CPU";
            by_system_call("", &counter.access(), ErrorKind::MlockLimit, words).is_ok()
        };
        require(!not_mapped(&counters[1]), || "the second is beyond the limit".into())?;
        let third = open(Event::INSTRUCTIONS)?;
        require(not_mapped(&third), || format!("the third has {:?}", third.access()))?;
        equal("read_user beyond the limit", third.read_user(), None)?;
        // From the next turn on, it has a counter all the time, because it is alone.
        drop(counters);
        std::thread::sleep(Duration::from_millis(20));
        let before = third.read()?;
        countdown(black_box(1_000));
        let after = third.read()?;
        require(after - before >= 2_000, || format!("{before} to {after}"))?;
        // Dropping released the allowance.
        drop(third);
        equal("access", open(Event::INSTRUCTIONS)?.access(), Access::UserSpace)
    })?)
}

/// The report describes this machine correctly, and gives the remedy when something is off.
fn diagnosis(facts: &Facts) -> Outcome {
    let report = rdpmc_doctor::diagnose();
    equal("descriptors left open", process::perf_descriptors().len(), 0)?;
    equal("capability", report.capability, Some("CAP_PERFMON"))?;
    equal("seccomp mode", report.seccomp, Some(Seccomp::Off))?;
    let of = |report: &rdpmc_doctor::Report, event| {
        let found = report.events.iter().find(|found| found.event == event);
        found.map(|found| found.access.clone())
    };
    let software = of(&report, Event::TASK_CLOCK).and_then(|access| access.ok()?.why_system_call());
    equal("task-clock", software, Some(ErrorKind::SoftwareEvent))?;
    let [pmu] = report.core_pmus.as_slice() else {
        equal("PMUs", report.core_pmus.len(), 0)?;
        equal("no PMU is meant", facts.say_no_pmu(), true)?;
        equal("status", report.status(), rdpmc_doctor::Status::NoCounters)?;
        let said =
            report.advice.iter().any(|line| line.starts_with("all hardware events: this needs"));
        return require(said, || format!("{:?}", report.advice));
    };
    equal("status", report.status(), rdpmc_doctor::Status::UserSpace)?;
    equal("the PMU's access", pmu.access.clone(), Ok(Access::UserSpace))?;
    equal("instructions", of(&report, Event::INSTRUCTIONS), Some(Ok(Access::UserSpace)))?;
    if cfg!(target_arch = "riscv64") {
        equal("counters", (pmu.general, pmu.fixed), (None, None))?;
        equal("the privilege filter is missing", pmu.counts_all_privilege_levels, true)?;
    } else {
        let counters = pmu.general.zip(pmu.fixed).map(|(general, fixed)| general + fixed);
        equal("counters", counters.map(|counters| counters as u64), facts.number("registers"))?;
        equal("width", pmu.width.map(u64::from), facts.number("width"))?;
    }
    let off = Changed::to(USER_ACCESS, "0");
    let report = rdpmc_doctor::diagnose();
    equal("status", report.status(), rdpmc_doctor::Status::SystemCall)?;
    let why = of(&report, Event::INSTRUCTIONS).and_then(|access| access.ok()?.why_system_call());
    equal("instructions", why, Some(ErrorKind::SwitchedOff))?;
    let remedy = format!("`echo 1 > {USER_ACCESS}` as root");
    require(report.advice.iter().any(|line| line.contains(&remedy)), || {
        format!("{:?}", report.advice)
    })?;
    drop(off);
    in_child(|| {
        process::refuse(libc::SYS_perf_event_open, libc::EPERM);
        let report = rdpmc_doctor::diagnose();
        let said = report
            .advice
            .iter()
            .any(|line| line.starts_with("all events: perf_event_open was denied"));
        if said && report.seccomp == Some(Seccomp::Filter) {
            Ok(())
        } else {
            Err(report.to_string())
        }
    })?;
    Ok(())
}
