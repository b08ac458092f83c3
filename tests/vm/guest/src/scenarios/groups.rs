//! Groups of events: scheduled together or not at all. The library does not open any yet; its reader
//! reads them.

use super::{Entry, known_events, open, open_pinned};
use crate::events::{
    BRANCHES, CYCLES, INSTRUCTIONS, Numbers, Options, REFERENCE_CYCLES, RawEvent, TASK_CLOCK,
};
use crate::harness::{Facts, Outcome, Stop, equal, require};
use crate::kernels::countdown;
use rdpmc::Event;
use std::hint::black_box;

pub const ALL: &[Entry] = &[
    ("leader_and_siblings", leader_and_siblings),
    ("groups_take_turns", groups_take_turns),
    ("software_event_in_a_hardware_group", software_event_in_a_hardware_group),
    ("a_sibling_that_does_not_fit", a_sibling_that_does_not_fit),
];

fn raw(numbers: Numbers, leader: Option<&RawEvent>) -> Result<RawEvent, Stop> {
    RawEvent::open(numbers, Options { leader, ..Options::default() })
        .map_err(|error| Stop::Failed(format!("{numbers:?}: {error}")))
}

/// The machine's known events, and what a round adds.
fn members(facts: &Facts) -> Result<Vec<(Numbers, u64)>, Stop> {
    // Ends the scenario where there is no PMU.
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

fn counts(group: &[RawEvent]) -> Option<Vec<u64>> {
    group.iter().map(RawEvent::count).collect()
}

/// The least of several, for those machines where interrupts add.
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
    // One read(2) of the leader is all of them, between what user space reads before and after.
    let before = counts(&group).ok_or("no user read".to_owned())?;
    let kernel = group[0].read_group(group.len());
    let after = counts(&group).ok_or("no user read".to_owned())?;
    for (before, (kernel, after)) in before.iter().zip(kernel.iter().zip(&after)) {
        require(before < kernel && kernel < after, || format!("{before} {kernel} {after}"))?;
    }
    // The leader stops and starts them all.
    for _ in 0..10 {
        group[0].disable(true);
        equal("counts while disabled", group.iter().filter_map(RawEvent::count).count(), 0)?;
        group[0].enable(true);
        exact(&group, &members)?;
    }
    // A sibling that is disabled alone stays so, whatever its leader does.
    let last = group.len() - 1;
    group[last].disable(false);
    group[0].enable(false);
    equal("the disabled sibling", group[last].count(), None)?;
    require(counts(&group[..last]).is_some(), || "the others stopped as well".into())?;
    group[last].enable(false);
    exact(&group, &members)
}

/// More groups than fit: at any moment a group is whole or not there.
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
            // Unless the kernel was at work meanwhile.
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
        // That it takes no register from the others, nor gives one.
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
            // The kernel took it in, and now the whole group has no place.
            Ok(sibling) => {
                equal("counts", group.iter().filter_map(RawEvent::count).count(), 0)?;
                equal("the surplus sibling", sibling.count(), None)?;
                let [before, _, _] = group[0].read();
                countdown(black_box(10_000));
                let [after, _, _] = group[0].read();
                equal("what a group without a place counts", after, before)?;
                drop(sibling);
                // Once it is gone, the next turn brings the others back.
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
    // Whoever is there counts on, exactly.
    exact(&group, &vec![(numbers, per_round); group.len()])
}

/// How many events of the same kind have a register at the same time.
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
