//! Groups of events, scheduled together or not at all: first as the kernel has them, by type and config, then as the
//! library opens and reads them.

use super::interruption::signal_every;
use super::{Entry, known_events, open, open_pinned};
use crate::cost::FOUR;
use crate::events::{
    BRANCHES, CYCLES, INSTRUCTIONS, Numbers, Options, REFERENCE_CYCLES, RawEvent, TASK_CLOCK,
};
use crate::harness::{Facts, Outcome, Stop, by_system_call, equal, near, require, samples};
use crate::system::{Changed, USER_ACCESS};
use rdpmc::error::{Error, ErrorKind, ReadError};
use rdpmc::{Access, DynGroup, Event, Group, Region};
use rdpmc_testing::kernels::countdown;
use rdpmc_testing::process::{self, in_child, perf_descriptors, perf_mappings};
use std::hint::black_box;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

pub const ALL: &[Entry] = &[
    ("leader_and_siblings", leader_and_siblings),
    ("groups_take_turns", groups_take_turns),
    ("software_event_in_a_hardware_group", software_event_in_a_hardware_group),
    ("a_sibling_that_does_not_fit", a_sibling_that_does_not_fit),
    ("group_of_known_events", group_of_known_events),
    ("group_snapshots_under_multiplexing", group_snapshots_under_multiplexing),
    ("group_reset_by_a_signal_handler", group_reset_by_a_signal_handler),
    ("group_of_as_many_as_fit", group_of_as_many_as_fit),
    ("group_that_does_not_fit", group_that_does_not_fit),
    ("group_beside_pinned_events", group_beside_pinned_events),
    ("group_by_system_call", group_by_system_call),
    ("groups_opened_and_dropped", groups_opened_and_dropped),
    ("events_that_may_be_missing", events_that_may_be_missing),
];

/// A group without the events that the machine lacks counts the others exactly, and so does one of a run-time size.
fn events_that_may_be_missing(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    let never = Event::of_pmu(u32::MAX - 1, 0); // there is no such PMU
    let wanted = [never, Event::INSTRUCTIONS, never, Event::CYCLES];
    let fit = DynGroup::builder(&wanted).allow_all_privilege_levels(true).fit()?;
    equal("counted", &*fit.events, &[Event::INSTRUCTIONS, Event::CYCLES])?;
    let missing: Vec<Event> = fit.missing.iter().map(|(event, _)| *event).collect();
    equal("missing", &*missing, &[never, never])?;
    equal("places", wanted.map(|event| fit.place(event)), [None, Some(0), None, Some(1)])?;
    let same = DynGroup::builder(&fit.events).allow_all_privilege_levels(true).open()?;
    let counts = || same.read_user().ok_or_else(|| Stop::Failed("no user read".into()));
    let work = |rounds| -> Result<u64, Stop> {
        let mut least = u64::MAX;
        for _ in 0..10 {
            let before = counts()?;
            countdown(black_box(rounds));
            least = least.min(counts()?[0] - before[0]);
        }
        Ok(least)
    };
    let (few, many) = (work(1_000)?, work(101_000)?);
    require(many - few >= 200_000, || format!("{few} and {many}"))?;
    if same.counts_all_privilege_levels() {
        return Ok(()); // the kernel's work is counted, too
    }
    equal("a hundred thousand rounds", many - few, 200_000)
}

fn raw(numbers: Numbers, leader: Option<&RawEvent>) -> Result<RawEvent, Stop> {
    RawEvent::open(numbers, Options { leader, ..Options::default() })
        .map_err(|error| Stop::Failed(format!("{numbers:?}: {error}")))
}

/// Returns the machine's known events, and what a round adds to each.
fn members(facts: &Facts) -> Result<Vec<(Numbers, u64)>, Stop> {
    // Ends the scenario if there is no PMU.
    drop(open(Event::INSTRUCTIONS)?);
    let numbers = |event| match event {
        Event::INSTRUCTIONS => INSTRUCTIONS,
        Event::CYCLES => CYCLES,
        Event::REF_CYCLES => REFERENCE_CYCLES,
        Event::BRANCHES => BRANCHES,
        other => unreachable!("{other}"),
    };
    let known = known_events(facts).into_iter();
    Ok(known.map(|(event, per_round)| (numbers(event), per_round)).collect())
}

/// Reads all of them, without allocating between one and the next.
fn counts(group: &[RawEvent]) -> Option<Vec<u64>> {
    let mut counts = Vec::with_capacity(group.len());
    for event in group {
        counts.push(event.count()?);
    }
    Some(counts)
}

/// Returns the minimum of several, for machines on which interrupts add.
fn least_of_work(group: &[RawEvent], rounds: u64) -> Result<Vec<u64>, Stop> {
    let mut least = vec![u64::MAX; group.len()];
    for _ in 0..if cfg!(target_arch = "riscv64") { 100 } else { 10 } {
        let before = counts(group);
        countdown(black_box(rounds));
        let (Some(before), Some(after)) = (before, counts(group)) else {
            return Err(Stop::Failed("a member is not read from user space".into()));
        };
        for (least, (before, after)) in least.iter_mut().zip(before.iter().zip(after)) {
            *least = (*least).min(after - before);
        }
    }
    Ok(least)
}

fn exact(group: &[RawEvent], members: &[(Numbers, u64)]) -> Outcome {
    const ROUNDS: u64 = 10_000;
    let (none, some) = (least_of_work(group, 0)?, least_of_work(group, ROUNDS)?);
    for (n, (numbers, per_round)) in members.iter().enumerate() {
        equal(&format!("{numbers:?}"), some[n] - none[n], per_round * ROUNDS)?;
    }
    Ok(())
}

fn leader_and_siblings(facts: &Facts) -> Outcome {
    let members = members(facts)?;
    let options = Options { read_as_group: true, ..Options::default() };
    let mut group = vec![RawEvent::open(members[0].0, options).map_err(|error| error.to_string())?];
    for (numbers, _) in &members[1..] {
        group.push(raw(*numbers, group.first())?);
    }
    exact(&group, &members)?;
    // One read(2) of the leader returns all counts, between those that user space reads before and after.
    let before = counts(&group).ok_or("no user read".to_owned())?;
    let kernel = group[0].read_group(group.len());
    let after = counts(&group).ok_or("no user read".to_owned())?;
    for (before, (kernel, after)) in before.iter().zip(kernel.iter().zip(&after)) {
        require(before < kernel && kernel < after, || format!("{before} {kernel} {after}"))?;
    }
    // The leader stops and starts all events.
    for _ in 0..10 {
        group[0].disable(true);
        equal("counts while disabled", group.iter().filter_map(RawEvent::count).count(), 0)?;
        group[0].enable(true);
        exact(&group, &members)?;
    }
    // A sibling that is disabled alone stays disabled, whatever its leader does.
    let last = group.len() - 1;
    group[last].disable(false);
    group[0].enable(false);
    equal("the disabled sibling", group[last].count(), None)?;
    require(counts(&group[..last]).is_some(), || "the others stopped as well".into())?;
    group[last].enable(false);
    exact(&group, &members)
}

/// More groups than fit: at any moment a group is complete or absent.
fn groups_take_turns(facts: &Facts) -> Outcome {
    let members = members(facts)?;
    let mut groups = Vec::new();
    for _ in 0..8 {
        let mut group = vec![raw(members[0].0, None)?];
        for (numbers, _) in &members[1..] {
            group.push(raw(*numbers, group.first())?);
        }
        groups.push(group);
    }
    let pages: Vec<Vec<_>> =
        groups.iter().map(|group| group.iter().map(RawEvent::published).collect()).collect();
    let (mut there, mut away) = (0, 0);
    for _ in 0..20_000 {
        for (group, pages) in groups.iter().zip(&pages) {
            let lock = pages[0].lock();
            let index = pages[0].index();
            let counts: Vec<Option<u64>> = group.iter().map(RawEvent::count).collect();
            let indices: Vec<bool> = pages.iter().map(|page| page.index() != 0).collect();
            // Unless the kernel was at work during the reads.
            if pages[0].lock() == lock {
                let whole = counts.iter().all(|count| count.is_some() == (index != 0));
                let together = indices.iter().all(|there| *there == (index != 0));
                require(whole && together, || format!("{counts:?}, {indices:?} at {index}"))?;
                *if index != 0 { &mut there } else { &mut away } += 1;
            }
        }
    }
    require(there > 1_000 && away > 1_000, || format!("{there} there, {away} away"))
}

fn software_event_in_a_hardware_group(facts: &Facts) -> Outcome {
    let members = members(facts)?;
    let (last, per_round) = members[members.len() - 1];
    let hardware = [members[0], (last, per_round)];
    for software_leads in [false, true] {
        let (group, clock) = if software_leads {
            let clock = raw(TASK_CLOCK, None)?;
            let group = [raw(hardware[0].0, Some(&clock))?, raw(last, Some(&clock))?];
            (group, clock)
        } else {
            let leader = raw(hardware[0].0, None)?;
            let clock = raw(TASK_CLOCK, Some(&leader))?;
            let sibling = raw(last, Some(&leader))?;
            ([leader, sibling], clock)
        };
        equal("a software event from user space", clock.count(), None)?;
        let [before, _, _] = clock.read();
        exact(&group, &hardware)?;
        let [after, enabled, running] = clock.read();
        require(after > before, || format!("{after} ns after {before}"))?;
        equal("running", running, enabled)?;
        // It takes no register from the others and gives none.
        equal("the software event's index", clock.published().index(), 0)?;
        for event in &group {
            require(event.published().index() != 0, || "a hardware event has no register".into())?;
        }
    }
    Ok(())
}

fn a_sibling_that_does_not_fit(facts: &Facts) -> Outcome {
    let (numbers, per_round) = members(facts)?[0];
    let places = registers_for_instructions()?;
    let mut group = vec![raw(numbers, None)?];
    let refusal = loop {
        match RawEvent::open(numbers, Options { leader: group.first(), ..Options::default() }) {
            Ok(sibling) if counts(&group).is_some() && sibling.count().is_some() => {
                group.push(sibling);
            }
            // The kernel accepted it, and now the whole group has no registers.
            Ok(sibling) => {
                equal("counts", group.iter().filter_map(RawEvent::count).count(), 0)?;
                equal("the surplus sibling", sibling.count(), None)?;
                let [before, _, _] = group[0].read();
                countdown(black_box(10_000));
                let [after, _, _] = group[0].read();
                equal("what a group without a place counts", after, before)?;
                drop(sibling);
                // When it is gone, the next turn brings the others back.
                std::thread::sleep(std::time::Duration::from_millis(20));
                break None;
            }
            Err(error) => break error.raw_os_error(),
        }
        require(group.len() < 32, || "32 siblings fit".into())?;
    };
    let refuses = !cfg!(target_arch = "riscv64");
    equal("how the kernel refuses it", refusal, refuses.then_some(libc::EINVAL))?;
    equal("members that fit", group.len(), places)?;
    // The events that are there count on, exactly.
    exact(&group, &vec![(numbers, per_round); group.len()])
}

/// Returns how many events of one kind have a register simultaneously.
fn registers_for_instructions() -> Result<usize, Stop> {
    let mut counters = Vec::new();
    loop {
        let counter = open_pinned(Event::INSTRUCTIONS)?;
        if counter.read_user().is_none() {
            return Ok(counters.len());
        }
        counters.push(counter);
    }
}

/// Opens a group as every scenario here does.
fn group<const N: usize>(events: [Event; N]) -> Result<Group<N>, Error> {
    Group::builder(events).allow_all_privilege_levels(true).open()
}

/// What a round of `countdown` adds to each of FOUR.
const PER_ROUND: [u64; 4] = if cfg!(target_arch = "riscv64") { [2, 2, 0, 0] } else { [2; 4] };

/// Returns what `read` counts of `rounds`: the minimum of some if interrupts add to it.
#[inline(never)]
fn counted(read: &dyn Fn() -> Result<[u64; 4], Stop>, rounds: u64) -> Result<[u64; 4], Stop> {
    let mut least = [u64::MAX; 4];
    for _ in 0..samples(cfg!(target_arch = "riscv64")) {
        let before = read()?;
        countdown(black_box(rounds));
        for (least, (before, after)) in least.iter_mut().zip(before.iter().zip(read()?)) {
            *least = (*least).min(after - before);
        }
    }
    Ok(least)
}

fn exact_by(what: &str, read: &dyn Fn() -> Result<[u64; 4], Stop>) -> Outcome {
    exact_by_adding(what, read, PER_ROUND)
}

/// Checks that a round of `countdown` adds `per_round` to each count.
fn exact_by_adding(
    what: &str,
    read: &dyn Fn() -> Result<[u64; 4], Stop>,
    per_round: [u64; 4],
) -> Outcome {
    let nothing = counted(read, 0)?;
    for rounds in [1, 1_000, 100_000] {
        let some = counted(read, rounds)?;
        for n in 0..4 {
            let what = format!("{what}, counter {n} of {rounds} rounds");
            equal(&what, some[n], nothing[n] + per_round[n] * rounds)?;
        }
    }
    Ok(())
}

fn group_of_known_events(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    std::thread::sleep(Duration::from_millis(20)); // on riscv64 that gives its register back
    let four = group(FOUR)?;
    equal("events", four.events(), FOUR)?;
    equal("access", four.access(), Access::UserSpace)?;
    let user = || four.read_user().ok_or_else(|| Stop::Failed("no user read".into()));
    let reading = || Ok(four.reading()?.map(|reading| reading.value));
    exact_by("read_user", &user)?;
    exact_by("read", &|| Ok(four.read()?))?;
    exact_by("reading", &reading)?;
    // All started simultaneously. Events of one kind differ by the reads in between, and by the kernel's instructions
    // if these are counted.
    let most = if four.counts_all_privilege_levels() { 50_000 } else { 20 };
    let counts = user()?;
    require(counts[1].abs_diff(counts[0]) < most, || format!("{counts:?}"))?;
    let before = user()?;
    let readings = four.reading()?;
    let after = user()?;
    for n in 0..4 {
        let value = readings[n].value;
        require(before[n] <= value && value <= after[n], || {
            format!("{before:?} {readings:?} {after:?}")
        })?;
        require(!readings[n].is_multiplexed(), || format!("{readings:?}"))?;
    }
    // They stop, are reset, and start together.
    four.disable()?;
    equal("read_user while disabled", four.read_user(), None)?;
    equal("disabled, twice", four.read()?, four.read()?)?;
    four.reset()?;
    equal("disabled and reset", four.read()?, [0; 4])?;
    four.enable()?;
    exact_by("enabled again", &user)?;
    four.reset()?;
    let counts = user()?;
    require(counts.iter().all(|count| *count < 50_000), || format!("{counts:?} after a reset"))?;
    // Such a group can be opened without starting it, and holds its registers if pinned.
    drop(four);
    let four =
        Group::builder(FOUR).allow_all_privilege_levels(true).disabled(true).pinned(true).open()?;
    equal("opened disabled", four.read(), Ok([0; 4]))?;
    four.enable()?;
    require(four.read_user().is_some(), || format!("enabled: {:?}", four.access()))?;
    // By read(2), because one of them is a software event.
    drop(four);
    let [first, second, third, _] = FOUR;
    let mixed = group([first, second, third, Event::DUMMY])?;
    let [one, two, three, _] = PER_ROUND;
    let per_round = [one, two, three, 0];
    exact_by_adding("read(2)", &|| Ok(mixed.read()?), per_round)?;
    let reading = || Ok(mixed.reading()?.map(|reading| reading.value));
    exact_by_adding("reading by read(2)", &reading, per_round)
}

/// More groups than fit, each of events with equal counts: they differ in every snapshot as much as in the first.
fn group_snapshots_under_multiplexing(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    // riscv64 has one register for instructions, but cycles have equal counts.
    let events = if cfg!(target_arch = "riscv64") {
        [Event::INSTRUCTIONS, Event::CYCLES]
    } else {
        [Event::INSTRUCTIONS; 2]
    };
    let groups = [(); 6].map(|()| group(events));
    let mut distances = [None; 6];
    let (mut there, mut away, mut begun, mut turns) = (0u32, 0u32, 0, [0u32; 6]);
    let mut was_there = [false; 6];
    while turns.iter().any(|turns| *turns < 20) {
        for (n, group) in groups.iter().enumerate() {
            let group = group.as_ref().map_err(|error| error.to_string())?;
            let snapshot = group.read_user();
            turns[n] += u32::from(snapshot.is_some() && !was_there[n]);
            was_there[n] = snapshot.is_some();
            let Some([first, second]) = snapshot else {
                away += 1;
                continue;
            };
            there += 1;
            let distance = second.wrapping_sub(first) as i64;
            let before = *distances[n].get_or_insert(distance);
            if cfg!(target_arch = "riscv64") {
                // The kernel starts one after the other, and its own instructions are counted in between.
                require((distance - before).abs() < 20_000, || {
                    format!("{distance} after {before}")
                })?;
                distances[n] = Some(distance);
            } else {
                near(&format!("how far apart group {n} is"), distance, before)?;
            }
        }
        countdown(black_box(10_000));
        begun += 1;
        require(begun < 200_000, || format!("{turns:?} turns"))?;
    }
    require(there > 100 && away > 100, || format!("{there} there, {away} away"))
}

/// A signal handler resets a group at any point of a read: all of its counts are from before, or all from after.
fn group_reset_by_a_signal_handler(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    std::thread::sleep(Duration::from_millis(20));
    static GROUP: AtomicPtr<Group<2>> = AtomicPtr::new(std::ptr::null_mut());
    static RESETS: AtomicU64 = AtomicU64::new(0);
    extern "C" fn reset(_: libc::c_int) {
        // SAFETY: the group was there before the first signal, and is never freed.
        let done = unsafe { &*GROUP.load(Relaxed) }.reset();
        RESETS.fetch_add(u64::from(done.is_ok()), Relaxed);
    }
    let events = if cfg!(target_arch = "riscv64") {
        [Event::INSTRUCTIONS, Event::CYCLES]
    } else {
        [Event::INSTRUCTIONS; 2]
    };
    let group: &Group<2> = Box::leak(Box::new(group(events)?));
    GROUP.store(std::ptr::from_ref(group).cast_mut(), Relaxed);
    signal_every(400_000, reset)?;
    let mut constant = None;
    let (mut reads, mut largest) = (0u64, 0);
    while RESETS.load(Relaxed) < 1_500 {
        // The counts grow, to tell one from before a reset from one after it.
        countdown(black_box(5_000));
        for _ in 0..100 {
            let Some([first, second]) = group.read_user() else { continue };
            reads += 1;
            largest = largest.max(first);
            let distance = second.wrapping_sub(first) as i64;
            if group.counts_all_privilege_levels() {
                require(distance.abs() < 40_000, || format!("{first} and {second}"))?;
            } else {
                let apart = *constant.get_or_insert(distance);
                near("how far apart they are", distance, apart)?;
            }
        }
    }
    require(reads > 10_000 && largest > 200_000, || format!("{reads} reads, up to {largest}"))
}

/// Each count is in its own place: no two neighbouring events count equally.
fn group_of_as_many_as_fit(facts: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    std::thread::sleep(Duration::from_millis(20));
    let per_round = |event| {
        known_events(facts).into_iter().find(|(known, _)| *known == event).map_or(0, |(_, per)| per)
    };
    const I: Event = Event::INSTRUCTIONS;
    let (cycles, branches) = (Event::CYCLES, Event::BRANCHES);
    if cfg!(target_arch = "riscv64") {
        let fetches = Event::ITLB_LOAD_MISSES;
        let [_, _, loads, stores] = FOUR;
        return in_their_places(&[cycles, loads, I, fetches, stores].map(|e| (e, per_round(e))));
    }
    if cfg!(target_arch = "aarch64") {
        let never = Event::raw(facts.number("never_happens").expect("a fact of this machine"));
        return in_their_places(&[never, I, never, never, I, I].map(|e| (e, per_round(e))));
    }
    let places = facts.number("registers").expect("a fact of each machine with a PMU");
    let reference = Event::REF_CYCLES;
    if places == 7 {
        let seven = [branches, I, cycles, reference, I, branches, cycles];
        in_their_places(&seven.map(|e| (e, per_round(e))))
    } else {
        in_their_places(&[cycles, branches, I, cycles].map(|e| (e, per_round(e))))
    }
}

fn in_their_places<const N: usize>(events: &[(Event, u64); N]) -> Outcome {
    rdpmc::contain_faults()?;
    let many = group(events.map(|(event, _)| event))?;
    let region = many.region()?;
    let user = || many.read_user().ok_or_else(|| Stop::Failed("no user read".into()));
    let fenced = || {
        rdpmc::fence();
        let counts = user();
        rdpmc::fence();
        counts
    };
    const ROUNDS: u64 = 10_000;
    for n in 0..3 {
        let mut least = [[u64::MAX; N]; 2];
        for _ in 0..100 {
            for (least, rounds) in least.iter_mut().zip([0, ROUNDS]) {
                let sample = in_one_place(&user, &fenced, &region, n, rounds)?;
                for (least, count) in least.iter_mut().zip(sample.unwrap_or([u64::MAX; N])) {
                    *least = (*least).min(count);
                }
            }
        }
        for (place, (event, per_round)) in events.iter().enumerate() {
            let way = ["read_user", "read_user between fences", "region"][n];
            let counted = least[1][place] - least[0][place];
            equal(&format!("{event} in place {place} by {way}"), counted, per_round * ROUNDS)?;
        }
    }
    Ok(())
}

#[inline(never)]
fn in_one_place<const N: usize>(
    user: &dyn Fn() -> Result<[u64; N], Stop>,
    fenced: &dyn Fn() -> Result<[u64; N], Stop>,
    region: &Region<'_, N>,
    way: usize,
    rounds: u64,
) -> Result<Option<[u64; N]>, Stop> {
    let rounds = black_box(rounds);
    if way == 2 {
        return Ok(region.measure(|| countdown(rounds)).1.ok());
    }
    let read = [user, fenced][way];
    let before = read()?;
    countdown(rounds);
    let mut counts = read()?;
    for (count, before) in counts.iter_mut().zip(before) {
        *count -= before;
    }
    Ok(Some(counts))
}

/// Other events hold registers permanently, as the kernel's watchdog does, and what is left is what fits.
fn group_beside_pinned_events(_: &Facts) -> Outcome {
    let places = registers_for_instructions()?;
    if places < 3 {
        return crate::harness::skip("there is one register for instructions");
    }
    let held: Result<Vec<_>, _> =
        (0..places - 2).map(|_| open_pinned(Event::INSTRUCTIONS)).collect();
    let held = held?;
    equal("how many fit", how_many_fit(group([Event::INSTRUCTIONS; 3]).err()), Some(2))?;
    equal("descriptors", perf_descriptors().len(), held.len())?;
    let two = group([Event::INSTRUCTIONS; 2])?;
    require(two.read_user().is_some(), || "two do not fit".into())?;
    // Beside multiplexed events, a group waits for its turn.
    drop(held);
    let waiting: Result<Vec<_>, _> = (0..places).map(|_| open(Event::INSTRUCTIONS)).collect();
    let waiting = waiting?;
    let three = group([Event::INSTRUCTIONS; 3])?;
    for _ in 0..10_000 {
        if three.read_user().is_some() {
            break;
        }
        countdown(black_box(10_000));
    }
    require(three.read_user().is_some(), || format!("{:?}", three.access()))?;
    drop(waiting);
    Ok(())
}

/// Returns how many events fit, as an error about the next one, of instructions, says.
fn how_many_fit(error: Option<Error>) -> Option<usize> {
    let error = error.filter(|error| error.event() == Some(Event::INSTRUCTIONS))?;
    match error.kind() {
        ErrorKind::GroupTooLarge { fit, stands_still: false, .. } => Some(fit),
        _ => None,
    }
}

fn group_that_does_not_fit(_: &Facts) -> Outcome {
    let places = registers_for_instructions()?;
    let error = group([Event::INSTRUCTIONS; 8]).err();
    equal("how many fit", how_many_fit(error), Some(places))?;
    // Nothing of it is left, and as many events as the error reports do fit.
    equal("descriptors", perf_descriptors().len(), 0)?;
    std::thread::sleep(Duration::from_millis(20));
    let fits = match places {
        1 => group([Event::INSTRUCTIONS; 1])?.read_user().is_some(),
        4 => group([Event::INSTRUCTIONS; 4])?.read_user().is_some(),
        5 => group([Event::INSTRUCTIONS; 5])?.read_user().is_some(),
        6 => group([Event::INSTRUCTIONS; 6])?.read_user().is_some(),
        7 => group([Event::INSTRUCTIONS; 7])?.read_user().is_some(),
        other => return Err(Stop::Failed(format!("{other} places"))),
    };
    require(fits, || format!("{places} do not fit"))
}

/// With a software event in it, or without user access, one system call reads them all.
fn group_by_system_call(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    std::thread::sleep(Duration::from_millis(20));
    let mixed = group([Event::INSTRUCTIONS, Event::TASK_CLOCK])?;
    equal("access", mixed.access().why_system_call(), Some(ErrorKind::SoftwareEvent))?;
    equal("read_user", mixed.read_user(), None)?;
    let before = mixed.read()?;
    countdown(black_box(100_000));
    let after = mixed.read()?;
    require(after[0] - before[0] >= 200_000, || format!("{before:?} {after:?}"))?;
    require(after[1] - before[1] >= 200_000, || format!("{before:?} {after:?}"))?;
    drop(mixed);
    let off = Changed::to(USER_ACCESS, "0");
    let four = group(FOUR)?;
    by_system_call("access", &four.access(), ErrorKind::SwitchedOff, USER_ACCESS)?;
    equal("read_user", four.read_user(), None)?;
    exact_by("switched off", &|| Ok(four.read()?))?;
    drop(off);
    // In the child of a fork, it is useless.
    drop(four);
    let four = group(FOUR)?;
    Ok(in_child(|| -> Outcome {
        equal("read_user", four.read_user(), None)?;
        equal("read", four.read(), Err(ReadError::Forked))?;
        equal("reading", four.reading(), Err(ReadError::Forked))?;
        equal("region", four.region().err().map(|why| why.kind()), Some(ErrorKind::Forked))?;
        equal("reset", four.reset(), Err(ReadError::Forked))?;
        // SAFETY: the value is read once, and _exit ends this child before the parent's could be dropped.
        drop(unsafe { std::ptr::read(&four) });
        equal("descriptors", perf_descriptors().len(), 0)
    })?)
}

fn groups_opened_and_dropped(_: &Facts) -> Outcome {
    drop(open(Event::INSTRUCTIONS)?);
    let mappings =
        || std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count());
    drop(group(FOUR)?);
    let before = mappings();
    for _ in 0..300 {
        let four = group(FOUR)?;
        equal("mapped pages", perf_mappings(), 4)?;
        drop(four);
        drop(group([Event::INSTRUCTIONS, Event::PAGE_FAULTS])?);
    }
    equal("descriptors", perf_descriptors().len(), 0)?;
    equal("mapped pages", perf_mappings(), 0)?;
    equal("mappings of any kind", mappings(), before)?;
    // Beyond the limit of locked memory there is no page for the last event. The whole group is read by system call,
    // and nothing is left of the other pages.
    let _kilobytes = Changed::to(crate::system::MLOCK_KB, "12");
    let _paranoid = Changed::to(crate::system::PARANOID, "1");
    Ok(in_child(|| -> Outcome {
        process::limit(libc::RLIMIT_MEMLOCK as _, 0);
        assert!(process::drop_rights());
        let four = group(FOUR)?;
        by_system_call("access", &four.access(), ErrorKind::MlockLimit, "is 12 KiB per CPU")?;
        equal("mapped pages", perf_mappings(), 0)?;
        exact_by("beyond the limit", &|| Ok(four.read()?))
    })?)
}
