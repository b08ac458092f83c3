//! A kernel that refuses hardware events which include guests, as Linux 7 does on a host that runs a VM with a
//! mediated PMU. This process refuses them in the kernel's place, for a child.

use super::{open, open_group};
use crate::process::perf_descriptors;
use crate::process::supervised::{Answer, Call, supervised};
use rdpmc::error::{Error, ErrorKind};
use rdpmc::{Counter, Event, Group};
use std::cell::Cell;
use std::fmt::Debug;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Runs the checks in a child. Of the first part, nothing must be refused. None if a process may not answer another's
/// system calls here.
pub fn refused() -> Option<Result<(), String>> {
    let refused = Cell::new(0);
    let mut excluding = |call: &Call| {
        let [kind, flags] = attr_of(call);
        const EXCLUDE_GUEST: u64 = 1 << 20;
        let is_refused = kind as u32 != 1 && flags & EXCLUDE_GUEST == 0;
        refused.set(refused.get() + u32::from(is_refused));
        if is_refused { Answer::Refuse(libc::EOPNOTSUPP) } else { Answer::Pass }
    };
    let calls = [libc::SYS_perf_event_open];
    let mut said = |checks: fn() -> Result<(), String>| {
        supervised(&calls, &mut excluding, |switch| {
            switch.set(true);
            match checks() {
                Ok(()) => 0,
                Err(why) => {
                    println!("{why}");
                    1
                }
            }
        })
    };
    let status = said(without_guests)?;
    // On arm64, if the PMU rejects one form of a request, others are tried, some of which include guests.
    let may_be_refused = cfg!(target_arch = "aarch64");
    if status != 0 || refused.get() != 0 && !may_be_refused {
        let refused = refused.get();
        return Some(Err(format!("without guests: wait status {status}, {refused} refusals")));
    }
    refused.set(0);
    let status = said(with_guests)?;
    // Without a refusal, the test would show nothing.
    if status != 0 || refused.get() == 0 {
        let refused = refused.get();
        return Some(Err(format!("with guests: wait status {status}, {refused} refusals")));
    }
    Some(Ok(()))
}

/// Returns `type`, and the flags.
fn attr_of(call: &Call) -> [u64; 2] {
    let memory =
        File::open(format!("/proc/{}/mem", call.process)).expect("a child of this process");
    let word = |offset| {
        let mut word = [0; 8];
        memory.read_exact_at(&mut word, call.arguments[0] + offset).expect("an attr");
        u64::from_ne_bytes(word)
    };
    [word(0), word(40)]
}

fn same<T: Debug + PartialEq>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, not {expected:?}")) }
}

/// By default, events are opened as usual, or refused for another reason.
fn without_guests() -> Result<(), String> {
    let opened = |result: Result<(), Error>| match result {
        Ok(()) => Ok(()),
        Err(why) if matches!(why.kind(), ErrorKind::NoPmu { .. }) => Ok(()),
        other => Err(format!("without guests: {other:?}")),
    };
    opened(open(Event::CYCLES).map(drop))?;
    opened(open(Event::INSTRUCTIONS.kernel()).map(drop))?;
    opened(open_group([Event::CYCLES, Event::INSTRUCTIONS]).map(drop))?;
    opened(open("cycles:H".parse().map_err(|why| format!("{why}"))?).map(drop))?;
    opened(Counter::builder(Event::CYCLES).exclude_guest(true).open().map(drop))?;
    opened(Counter::open(Event::TASK_CLOCK).map(drop))?;
    same("descriptors left open", perf_descriptors().len(), 0)
}

/// An event that includes guests reports it, if there is a PMU at all.
fn with_guests() -> Result<(), String> {
    let is_no_pmu = |why: &Error| matches!(why.kind(), ErrorKind::NoPmu { .. });
    let has_pmu = !Counter::open(Event::CYCLES).is_err_and(|why| is_no_pmu(&why));
    let refused = |what: &str, found: Result<(), Error>, event: Event| {
        let is_right = match &found {
            Err(why) if why.kind() == ErrorKind::IncludesGuests => {
                has_pmu && why.event() == Some(event)
            }
            Err(why) if is_no_pmu(why) => !has_pmu,
            _ => false,
        };
        if is_right { Ok(()) } else { Err(format!("{what}: {found:?}")) }
    };
    let including = Counter::builder(Event::CYCLES).exclude_guest(false);
    refused("exclude_guest(false)", including.open().map(drop), Event::CYCLES)?;
    for name in ["cycles:G", "cycles:GH", "instructions:Gu"] {
        let event: Event = name.parse().map_err(|why| format!("{why}"))?;
        refused(name, Counter::open(event).map(drop), event)?;
        let group = Group::open([Event::INSTRUCTIONS, event]).map(drop);
        refused(&format!("a group with {name}"), group, event)?;
    }
    // The message names this cause first.
    if has_pmu {
        let message = including.open().map_or_else(|why| why.to_string(), |_| String::new());
        same(&message, message.contains("exclude_guest(true)"), true)?;
    }
    same("descriptors left open", perf_descriptors().len(), 0)
}
