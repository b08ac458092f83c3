//! A kernel that gives user space no counter (arm64 before Linux 5.17): every read is a system call, each count is
//! still right, and the reason is reported.

use super::{Entry, known_events, open};
use crate::harness::{Facts, Outcome, equal, require, says};
use rdpmc::error::{ErrorKind, ReadError};
use rdpmc::{Event, Group};
use rdpmc_testing::kernels::countdown;
use std::hint::black_box;

pub const ALL: &[Entry] = &[
    ("no_user_access_is_offered", no_user_access_is_offered),
    ("counted_by_system_call", counted_by_system_call),
    ("groups_counted_by_system_call", groups_counted_by_system_call),
    ("no_user_access_is_diagnosed", no_user_access_is_diagnosed),
];

const NOT_OFFERED: Option<ErrorKind> = Some(ErrorKind::NotOffered);

fn no_user_access_is_offered(_: &Facts) -> Outcome {
    let counter = open(Event::INSTRUCTIONS)?;
    equal("access", counter.access().why_system_call(), NOT_OFFERED)?;
    let said = counter.access().to_string();
    require(said.contains("arm64 needs Linux 5.17"), || said.clone())?;
    equal("read_user", counter.read_user(), None)?;
    equal("reading_user", counter.reading_user(), None)?;
    require(counter.read()? > 0, || "nothing is counted".into())?;
    let why = counter.region().map(drop).expect_err("it has none");
    let words = "instructions cannot be read there: the kernel offers no user access";
    says("region", &why, ErrorKind::UserReadUnavailable, words)
}

fn counted_by_system_call(facts: &Facts) -> Outcome {
    for (event, per_round) in known_events(facts) {
        let counter = open(event)?;
        let mut nothing = None;
        for rounds in super::ROUNDS {
            let [counted] = between(|| Ok([counter.read()?]), rounds)?;
            let counted = counted - per_round * rounds;
            equal(&format!("{event} of a read"), counted, *nothing.get_or_insert(counted))?;
        }
        let (first, second) = (counter.reading()?, counter.reading()?);
        let difference = second.since(&first);
        require(difference.is_some_and(|both| both.value > 0 && !both.is_multiplexed()), || {
            format!("{first:?}, then {second:?}")
        })?;
        counter.disable()?;
        equal("disabled", counter.read()?, counter.read()?)?;
        counter.reset()?;
        equal("reset", counter.read()?, 0)?;
    }
    Ok(())
}

/// Returns the difference of two reads, before and after the work, by one piece of code for every number of rounds.
#[inline(never)]
fn between<const N: usize>(
    read: impl Fn() -> Result<[u64; N], ReadError>,
    rounds: u64,
) -> Result<[u64; N], ReadError> {
    let rounds = black_box(rounds);
    let before = read()?;
    countdown(rounds);
    let mut after = read()?;
    for (after, before) in after.iter_mut().zip(before) {
        *after -= before;
    }
    Ok(after)
}

fn groups_counted_by_system_call(_: &Facts) -> Outcome {
    let group = Group::open([Event::INSTRUCTIONS; 4])?;
    equal("access", group.access().why_system_call(), NOT_OFFERED)?;
    equal("read_user", group.read_user(), None)?;
    let mut nothing = None;
    for rounds in super::ROUNDS {
        let counted = between(|| group.read(), rounds)?.map(|count| count - 2 * rounds);
        equal("a read of the group", counted, *nothing.get_or_insert(counted))?;
    }
    Ok(())
}

fn no_user_access_is_diagnosed(_: &Facts) -> Outcome {
    let report = rdpmc_doctor::diagnose();
    let [pmu] = report.core_pmus.as_slice() else {
        return Err(format!("{} PMUs", report.core_pmus.len()).into());
    };
    let access = pmu.access.as_ref().ok().and_then(|access| access.why_system_call());
    equal("the PMU's access", access, NOT_OFFERED)?;
    equal("the setting", report.user_access, None)?;
    let said = |line: &String| line.contains("the kernel offers no user access");
    require(report.advice.iter().any(said), || format!("{:?}", report.advice))
}
