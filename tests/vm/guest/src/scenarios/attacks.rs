//! What a hostile program, user or administrator can do to a process that counts: refusals, forks in signal
//! handlers, and memory that other threads map.
#![allow(clippy::disallowed_types, reason = "no child of a fork comes here")]

use super::{Entry, known_events, open};
use crate::harness::{Facts, Outcome, Stop, equal, patience, require, skip};
use crate::system::{self, Changed};
use rdpmc::error::{Error, ErrorKind};
use rdpmc::{Access, Event, Group};
use rdpmc_testing::attacks::{closed, guests, refusals, stepped};
use rdpmc_testing::process::supervised::{Answer, Switch, supervised};
use rdpmc_testing::process::{self, drop_rights};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

pub const ALL: &[Entry] = &[
    ("pages_of_other_threads_stay", pages_of_other_threads_stay),
    ("each_call_refused_in_turn", each_call_refused_in_turn),
    ("system_calls_of_open", system_calls_of_open),
    ("closed_and_used_again", closed_and_used_again),
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

/// Other code closes descriptors, and their numbers become those of other files.
fn closed_and_used_again(facts: &Facts) -> Outcome {
    patience(300);
    closed::each([Event::TASK_CLOCK, Event::CPU_CLOCK])?;
    if !facts.say_no_pmu() {
        closed::each([Event::INSTRUCTIONS, Event::CYCLES])?;
    }
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
    const CALLS: [(libc::c_long, &str); 10] = [
        (libc::SYS_perf_event_open, "perf_event_open"),
        (libc::SYS_mmap, "mmap"),
        (libc::SYS_munmap, "munmap"),
        (libc::SYS_ioctl, "ioctl"),
        (libc::SYS_fcntl, "fcntl"),
        (libc::SYS_close, "close"),
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
    equal(
        "a counter's calls",
        counter.as_str(),
        "1 perf_event_open, 1 mmap, 1 ioctl, 1 fcntl, 1 close",
    )?;
    let of_two = "2 perf_event_open, 3 mmap, 1 munmap, 4 ioctl, 2 fcntl, 2 close";
    equal("a group's calls", group.as_str(), of_two)
}

/// Between any two system calls that map a group's pages, another thread maps a page of its own, at the place that the next
/// call names. It still has the page afterwards, as it left it, and the group opens: with its pages, and of a user whose
/// allowance of control pages is used up without them.
fn pages_of_other_threads_stay(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    let _kilobytes = Changed::to(system::MLOCK_KB, "0");
    patience(120);
    // Some PMUs here count the kernel, too, which takes level 1.
    let _paranoid = Changed::to(system::PARANOID, "1");
    let shared = Shared::new();
    let status = supervised(
        &[libc::SYS_mmap],
        |call| {
            let place = call.arguments[0];
            if place != 0 && shared.is_next_taken() {
                shared.wanted.store(place, SeqCst);
                // The other thread takes it before this call goes on. If it does not, nobody takes it later.
                let start = Instant::now();
                while shared.wanted.load(SeqCst) != 0 {
                    let is_late = start.elapsed() > Duration::from_secs(20);
                    if is_late && shared.wanted.compare_exchange(place, 0, SeqCst, SeqCst).is_ok() {
                        shared.plan.store(0, SeqCst);
                        println!("nobody takes the place");
                        break;
                    }
                    thread::yield_now();
                }
            }
            Answer::Pass
        },
        |switch| {
            process::limit(libc::RLIMIT_MEMLOCK as _, 0);
            thread::scope(|scope| {
                let other = scope.spawn(|| take_places(shared));
                while !shared.is_ready.load(SeqCst) {
                    thread::yield_now();
                }
                let result = open_beside(shared, switch);
                shared.is_over.store(true, SeqCst);
                let lost = other.join().unwrap_or(u64::MAX);
                match &result {
                    Ok(said) => println!("{said}; {lost} of them are gone"),
                    Err(Stop::Failed(why) | Stop::Skipped(why)) => println!("{why}"),
                }
                i32::from(result.is_err() || lost > 0)
            })
        },
    );
    match status {
        Some(status) => equal("the child's status", status, 0),
        None => skip("no process may answer for another here"),
    }
}

/// In [`Shared::wanted`]: the place is being taken. No address of a page.
const TAKING: u64 = 1;

/// What the process that answers, the thread that opens and the one that takes places share.
struct Shared {
    /// Which calls of an open find their place taken: the lowest bit is that of the next.
    plan: AtomicU64,
    /// The place that the other thread is to take, until it has.
    wanted: AtomicU64,
    taken: AtomicU64,
    /// The thread that takes places is ready, or is to end.
    is_ready: AtomicBool,
    is_over: AtomicBool,
}

impl Shared {
    fn new() -> &'static Shared {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: the mapping is new, zeroed, as large as a page, and never unmapped.
        unsafe {
            let page = libc::mmap(ptr::null_mut(), 4096, access, kind, -1, 0);
            assert_ne!(page, libc::MAP_FAILED);
            &*page.cast::<Shared>()
        }
    }

    fn is_next_taken(&self) -> bool {
        let plan = self.plan.load(SeqCst);
        self.plan.store(plan >> 1, SeqCst);
        plan & 1 == 1
    }
}

/// Moves a page to each place that is wanted. Returns how many of the pages are gone or changed in the end.
///
/// Maps nothing meanwhile, because whoever answers that call waits for the place to be taken.
fn take_places(shared: &Shared) -> u64 {
    const SIZE: usize = 4096;
    const PLACES: usize = 1024;
    let mut places = Vec::with_capacity(PLACES);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the mapping is new, and nothing else has its address.
    let pages = unsafe { libc::mmap(ptr::null_mut(), SIZE * PLACES, access, kind, -1, 0) };
    assert_ne!(pages, libc::MAP_FAILED);
    shared.is_ready.store(true, SeqCst);
    while !shared.is_over.load(SeqCst) {
        let place = shared.wanted.load(SeqCst);
        // From here on, the call waits.
        let is_free = places.len() < PLACES;
        if place == 0
            || !is_free
            || shared.wanted.compare_exchange(place, TAKING, SeqCst, SeqCst).is_err()
        {
            thread::yield_now();
            continue;
        }
        let page = pages.wrapping_byte_add(SIZE * places.len());
        let at = ptr::without_provenance_mut::<libc::c_void>(place as usize);
        let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: each page is written and moved once, to a place that was free just now: the thread that opens waits.
        unsafe {
            page.cast::<u64>().write_volatile(place);
            assert_eq!(libc::mremap(page, SIZE, SIZE, fixed, at), at);
        }
        places.push(at);
        shared.taken.fetch_add(1, SeqCst);
        shared.wanted.store(0, SeqCst);
    }
    let is_gone = |at: &&*mut libc::c_void| {
        let mut resident = 0_u8;
        // SAFETY: the page is this thread's own, read if it is there.
        unsafe {
            let is_there = libc::mincore(**at, SIZE, &mut resident) == 0;
            !is_there || at.cast::<u64>().read_volatile() != at.addr() as u64
        }
    };
    places.iter().filter(is_gone).count() as u64
}

/// Opens groups while their places are taken, with rights and without.
fn open_beside(shared: &Shared, switch: &Switch) -> Result<String, Stop> {
    // One call, several in a row, and some with others in between.
    const PLANS: [u64; 8] = [0b1, 0b10, 0b11, 0b100, 0b1010, 0b1111, 0b1001_0110, 0xff_ffff];
    let mut opened = [0, 0];
    for (is_refused, opened) in [false, true].into_iter().zip(&mut opened) {
        if is_refused {
            require(drop_rights(), || "it keeps its rights".into())?;
        }
        for plan in PLANS {
            let open = |open: &dyn Fn() -> Result<Access, Error>| {
                shared.plan.store(plan, SeqCst);
                switch.set(true);
                let access = open();
                switch.set(false);
                access
            };
            let groups = [
                open(&|| access([Event::INSTRUCTIONS, Event::CYCLES])),
                open(&|| access([Event::INSTRUCTIONS; 3])),
                open(&|| access([Event::CYCLES; 8])),
            ];
            for access in groups {
                let is_right = match &access {
                    Ok(access) => match access.why_system_call() {
                        Some(ErrorKind::MlockLimit) => is_refused,
                        Some(ErrorKind::NotMapped) => false,
                        // The page of a group that was never enabled says nothing of user space.
                        _ => !is_refused,
                    },
                    // Some PMUs have fewer counters.
                    Err(why) => matches!(why.kind(), ErrorKind::GroupTooLarge { .. }),
                };
                require(is_right, || format!("{access:?} with the plan {plan:b}"))?;
                *opened += u64::from(access.is_ok());
            }
        }
    }
    let taken = shared.taken.load(SeqCst);
    // Of a user without an allowance, an open ends at its first page.
    require(taken > 80, || format!("{taken} places were taken"))?;
    let [with, without] = opened;
    require(with > 10 && without > 10, || format!("{with} and {without} groups"))?;
    Ok(format!("{with} groups with pages, {without} beyond the allowance; {taken} places taken"))
}

/// Opens and drops a group, and returns how it would be read. A disabled group is not checked for counters.
fn access<const N: usize>(events: [Event; N]) -> Result<Access, Error> {
    let group = Group::builder(events).allow_all_privilege_levels(true).disabled(true).open();
    group.map(|group| group.access())
}

fn each_call_refused_in_turn(facts: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    patience(600); // a thousand processes
    let diagnosis = refusals::Operation {
        name: "a diagnosis",
        run: || {
            let report = rdpmc_doctor::diagnose();
            let core: Vec<_> = report.core_pmus.iter().map(|pmu| &pmu.name).collect();
            format!("{core:?} {:?} {:?}", report.unreadable, report.clock.map(drop))
        },
    };
    let share = facts.share();
    let all = refusals::everywhere(refusals::OPERATIONS, 2, 4, share);
    let of_the_doctor = refusals::everywhere(&[diagnosis], 2, 4, share);
    let Some(((trials, wrong), (more, wrong_there))) = all.zip(of_the_doctor) else {
        return skip("no process may answer for another here");
    };
    let (trials, wrong) = (trials + more, [wrong, wrong_there].concat());
    println!("{trials} system calls were refused");
    require(trials > 250 / share.of, || format!("{trials} trials only"))?;
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
        use crate::events::Published;
        use rdpmc_testing::attacks::counts;
        use rdpmc_testing::attacks::stepped_forks::{self, Plan};
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
