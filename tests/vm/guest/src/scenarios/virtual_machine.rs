//! What a virtual machine's counters may do: cost more than a system call, and count wrong.

use super::{Entry, open};
use crate::faults::Fault;
use crate::harness::{Facts, Outcome, Stop, equal, require};
use rdpmc::error::{Error, ErrorKind};
use rdpmc::{Access, Counter, DynGroup, Event, Group, ReadBy};
use rdpmc_doctor::{Trust, Verdict, test_counters};
use rdpmc_testing::kernels::countdown;
use rdpmc_testing::process::perf_descriptors;
use std::hint::black_box;
use std::os::fd::{FromRawFd, OwnedFd};

pub const ALL: &[Entry] = &[
    ("a_healthy_virtual_machine", a_healthy_virtual_machine),
    ("trapped_reads_go_to_the_kernel", trapped_reads_go_to_the_kernel),
    ("each_fault_is_named", each_fault_is_named),
    ("no_group_gets_a_dead_counter", no_group_gets_a_dead_counter),
    ("a_disabled_counter_knows_its_cost", a_disabled_counter_knows_its_cost),
];

/// The last of four counters, which the scheduler uses only if all are needed.
const LAST: u32 = 3;

fn a_healthy_virtual_machine(_: &Facts) -> Outcome {
    rdpmc::contain_faults()?;
    let counter = open(Event::INSTRUCTIONS)?;
    equal("access", counter.access(), Access::UserSpace)?;
    let cost = counter.read_cost();
    require(!cost.is_trapped, || format!("{cost:?}"))?;
    let (user, system_call) = (cost.user, cost.system_call);
    require(user < system_call, || format!("{cost:?}"))?;
    println!("{cost:?}");
    let report = rdpmc_doctor::diagnose();
    println!("{}", report.summary());
    require(report.summary().starts_with("Counters work here, from user space: "), || {
        report.to_string()
    })?;
    let counting = report.core_pmus.iter().map(|pmu| (pmu.general, pmu.counting)).collect();
    equal("counters", counting, vec![(Some(4), Some(4))])
}

fn trapped_reads_go_to_the_kernel(_: &Facts) -> Outcome {
    rdpmc::contain_faults()?;
    Fault::IsTrapped.of_counter(0);
    for events in [&[Event::INSTRUCTIONS][..], &[Event::CYCLES, Event::INSTRUCTIONS]] {
        let group = DynGroup::open(events)?;
        let cost = group.read_cost();
        require(cost.is_trapped, || format!("{cost:?}"))?;
        equal("access", group.access().why_system_call(), Some(ErrorKind::Slower))?;
        println!("{}: {}", events.len(), group.access());
    }
    let counter = open(Event::INSTRUCTIONS)?;
    let is_slower = |counter: &Counter| {
        equal("access", counter.access().why_system_call(), Some(ErrorKind::Slower))
    };
    is_slower(&counter)?;
    // What says so still reads in user space.
    require(counter.read_user().is_some(), || "no user read".into())?;
    counter.region()?.measure(|| ()).1?;
    // A system call takes some hundred instructions in user mode, a read there 15.
    let cost_of_read = |counter: &Counter| -> Result<u64, Stop> {
        let before = counter.read()?;
        Ok(counter.read()? - before)
    };
    require(cost_of_read(&counter)? > 50, || "it reads in user space".into())?;
    // The builder can insist on either way.
    let insists = Counter::builder(Event::INSTRUCTIONS).read_by(ReadBy::UserSpace).open()?;
    equal("access", insists.access(), Access::UserSpace)?;
    require(cost_of_read(&insists)? < 50, || "it makes system calls".into())?;
    Fault::None.of_counter(0);
    let asks = Counter::builder(Event::INSTRUCTIONS).read_by(ReadBy::SystemCall).open()?;
    equal("access", asks.access().why_system_call(), Some(ErrorKind::Requested))?;
    require(cost_of_read(&asks)? > 50, || "it reads in user space".into())?;
    // The first of a process decides for later ones of the same events.
    is_slower(&open(Event::INSTRUCTIONS)?)?;
    equal("access", open(Event::CYCLES)?.access(), Access::UserSpace)
}

/// Whether all counters have right verdicts but the last, and that has this one.
fn only_last(trust: &Trust, is_it: impl Fn(&Verdict) -> bool) -> bool {
    trust.tests.len() == 3
        && trust.tests.iter().all(|test| match test.verdicts.split_last() {
            Some((last, others)) => {
                others.len() == 3 && others.iter().all(Verdict::is_right) && is_it(last)
            }
            None => false,
        })
}

/// Makes the kernel's timer interrupt this CPU, without a signal and without waking anything, while the descriptor is
/// open.
fn interrupt_every(nanoseconds: i64) -> OwnedFd {
    let every = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds };
    let interval = libc::itimerspec { it_interval: every, it_value: every };
    // SAFETY: the calls take numbers and a pointer that is valid for the read. The descriptor is new.
    unsafe {
        let timer = libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC);
        assert!(timer >= 0);
        assert_eq!(libc::timerfd_settime(timer, 0, &interval, std::ptr::null_mut()), 0);
        OwnedFd::from_raw_fd(timer)
    }
}

fn each_fault_is_named(_: &Facts) -> Outcome {
    rdpmc::contain_faults()?;
    for fault in Fault::ALL {
        fault.of_counter(LAST);
        let interrupts = (fault == Fault::CountsInterrupts).then(|| interrupt_every(500_000));
        let mut trust = test_counters();
        for _ in 0..10 {
            // Few of the interrupts hit user mode.
            if interrupts.is_some()
                && trust.as_ref().is_ok_and(|trust| trust.added_by_interrupts == Some(0))
            {
                trust = test_counters();
            }
        }
        drop(interrupts);
        Fault::None.of_counter(LAST);
        let trust = trust.map_err(|why| why.to_string())?;
        println!("{fault:?}: {trust}");
        let is_named = match fault {
            Fault::None => {
                trust.is_right()
                    && trust.counting() == (4, 4)
                    && trust.added_by_interrupts == Some(0)
                    && trust.added_by_reads == Some(0)
            }
            Fault::StandsStill => {
                trust.counting() == (3, 4)
                    && only_last(&trust, |verdict| *verdict == Verdict::CountsNothing)
            }
            Fault::CountsHalf => only_last(&trust, |verdict| {
                matches!(verdict, Verdict::Off { expected, counted, .. }
                    if counted.abs_diff(expected / 2) <= 2)
            }),
            Fault::CountsInterrupts => {
                trust.is_right() && matches!(trust.added_by_interrupts, Some(1..50))
            }
            Fault::IsTrapped => trust.is_right() && trust.added_by_reads == Some(1),
            Fault::Jumps => only_last(&trust, |verdict| *verdict == Verdict::Implausible),
            Fault::ReadsZero => only_last(&trust, |verdict| *verdict == Verdict::WrongInUserSpace),
        };
        require(is_named, || format!("{fault:?} is {trust:?}"))?;
    }
    Ok(())
}

fn no_group_gets_a_dead_counter(_: &Facts) -> Outcome {
    rdpmc::contain_faults()?;
    let group = |events| Group::<4>::open(events);
    let four = [Event::CYCLES, Event::INSTRUCTIONS, Event::BRANCHES, Event::INSTRUCTIONS];
    Fault::StandsStill.of_counter(LAST);
    let fits = |result: Result<Group<4>, Error>| match result {
        Ok(group) => Err(Stop::Failed(format!("{group:?}"))),
        Err(why) => match why.kind() {
            ErrorKind::GroupTooLarge { fit, stands_still: true, .. } => Ok(fit),
            _ => Err(why.into()),
        },
    };
    equal("how many count", fits(group(four))?, 3)?;
    // Events that need not count are not taken for dead.
    let never = Event::raw(511);
    equal("how many count", fits(group([never, Event::CYCLES, never, never]))?, 3)?;
    equal("descriptors", perf_descriptors().len(), 0)?;
    let message = group(four).err().map(|error| error.to_string());
    println!("{message:?}");
    let three = Group::open([Event::CYCLES, Event::INSTRUCTIONS, never])?;
    let before = three.read()?;
    countdown(black_box(1_000));
    let after = three.read()?;
    require(after[1] - before[1] >= 2_000 && after[2] == before[2], || format!("{after:?}"))?;
    drop(three);
    // Too many for the PMU in any case: what fits is what counts.
    match Group::open([Event::INSTRUCTIONS; 6]).err().map(|why| why.kind()) {
        Some(ErrorKind::GroupTooLarge { fit: 3, stands_still: true, .. }) => {}
        other => return Err(Stop::Failed(format!("{other:?}"))),
    }
    let report = rdpmc_doctor::diagnose();
    let counting = report.core_pmus.iter().map(|pmu| (pmu.general, pmu.counting)).collect();
    equal("counters", counting, vec![(Some(4), Some(3))])?;
    equal("status", report.status(), rdpmc_doctor::Status::CountsWrong)?;
    let text = report.to_string();
    require(text.contains("4 general-purpose counters, 3 of which count"), || text.clone())?;
    require(text.contains("Open at most 3 events at a time"), || text.clone())?;
    // Again with all four, which are remembered to count.
    Fault::None.of_counter(LAST);
    group(four)?;
    Ok(())
}

fn a_disabled_counter_knows_its_cost(_: &Facts) -> Outcome {
    rdpmc::contain_faults()?;
    Fault::IsTrapped.of_counter(0);
    let counter = Counter::builder(Event::INSTRUCTIONS).disabled(true).open()?;
    equal("descriptors", perf_descriptors().len(), 1)?;
    counter.enable()?;
    equal("access", counter.access().why_system_call(), Some(ErrorKind::Slower))?;
    let before = counter.read()?;
    countdown(black_box(1_000));
    let counted = counter.read()? - before;
    // One read by system call takes some 210 instructions in user mode.
    require((2_000..2_300).contains(&counted), || format!("{counted}"))
}
