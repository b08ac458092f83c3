//! Opens and maps the events of a group.

use super::checks;
use super::events::{self, Opened};
use super::group::OpenGroup;
use super::mapping::map_and_judge;
use super::options::{Options, ReadBy};
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::kernel::flag;
use crate::page::MAX_EVENTS;
use crate::page::fork;
use crate::page::process::Process;
use crate::page::reader::Repeat;
use crate::pmu::core_types;

/// Opens a group of 1 to 8 events, and decides how `read` reads it. Events that name no core type are opened on the PMU of type
/// `pmu`, or else on the one that [`core_types::of_group`] chooses. `repeat` reads this number of events.
pub(crate) fn open(
    events: &[Event],
    options: Options,
    pmu: Option<u32>,
    repeat: Repeat,
) -> Result<OpenGroup, Error> {
    let pmu = match pmu {
        None => core_types::of_group(events)?,
        chosen => chosen,
    };
    let mut events = events.to_vec();
    if let Some(pmu) = pmu {
        core_types::put_on_pmu(&mut events, pmu)?;
    }
    let mut group = by_either_name(events, |events| open_as_is(events, options, repeat))?;
    if let Some(reason) = why_by_system_call(&group, options, repeat) {
        group.choose_system_call(reason);
    }
    // A signal handler may have forked meanwhile.
    if group.is_forked() { Err(Error::forked_meanwhile()) } else { Ok(group) }
}

/// Returns why `read` should make system calls.
fn why_by_system_call(group: &OpenGroup, options: Options, repeat: Repeat) -> Option<Error> {
    match options.read_by {
        ReadBy::SystemCall => Some(Error::new(
            ErrorKind::Requested,
            "the builder requested system calls",
            "To use the cheaper way, pass ReadBy::Cheaper",
        )),
        ReadBy::UserSpace => None,
        ReadBy::Cheaper if !group.is_readable() || !checks::is_virtual() => None,
        ReadBy::Cheaper if group.is_scheduled() => group.read_cost().reason(),
        ReadBy::Cheaper => match group.known_cost() {
            Some(known) => known.reason(),
            None if options.is_disabled() => {
                let running = options.with(flag::DISABLED, false);
                open_as_is(group.events.clone(), running, repeat).ok()?.read_cost().reason()
            }
            // Others have its counters now, so there is nothing to measure.
            None => None,
        },
    }
}

/// Opens events, with the architectural numbers if the kernel is older than the encoding that names a PMU.
pub(crate) fn by_either_name<T>(
    events: Vec<Event>,
    open: impl Fn(Vec<Event>) -> Result<T, Error>,
) -> Result<T, Error> {
    match open(events.clone()) {
        Err(refusal) if refusal.kind() == ErrorKind::EventNotSupported => {
            core_types::by_architecture(events)?.map_or(Err(refusal), open)
        }
        other => other,
    }
}

fn open_as_is(events: Vec<Event>, options: Options, repeat: Repeat) -> Result<OpenGroup, Error> {
    // Taken before anything is opened: from here on a signal handler may fork, and the child must not use what the
    // parent has opened and mapped.
    let process = fork::process().map_err(Error::of_call("pthread_atfork"))?;
    let group = open_in(process, events, options, repeat);
    if process.is_past() { Err(Error::forked_meanwhile()) } else { group }
}

fn open_in(
    process: Process,
    events: Vec<Event>,
    options: Options,
    repeat: Repeat,
) -> Result<OpenGroup, Error> {
    let opened = open_checked(&events, &options)?;
    let mapped = map_and_judge(&events, &opened, process)?;
    let is_scheduled = mapped.as_ref().is_ok_and(|(pages, _)| pages.are_scheduled());
    if events.len() > 1 && !options.is_disabled() && !is_scheduled {
        check_if_idle(&events, &options, &opened, process)?;
    }
    Ok(OpenGroup::new(events, opened, mapped, options.flags_of_cost(), process, repeat))
}

/// Opens events as a group that is only ever read by system call, of the thread in `options`.
pub(crate) fn open_unmapped(
    events: &[Event],
    options: &Options,
    process: Process,
) -> Result<Opened, Error> {
    if options.thread != 0 {
        return events::open_events(options, events);
    }
    let opened = open_checked(events, options)?;
    if events.len() > 1 && !options.is_disabled() {
        check_if_idle(events, options, &opened, process)?;
    }
    Ok(opened)
}

/// Opens events, after checks that their counters exist and advance.
fn open_checked(events: &[Event], options: &Options) -> Result<Opened, Error> {
    if events.len() > 1 && checks::is_virtual() {
        checks::check_that_they_count(events)?;
    }
    events.iter().try_for_each(|event| checks::check_fixed(options, *event))?;
    events::open_events(options, events).map_err(|error| or_fewer(error, events))
}

/// Checks that a group fits that has had no counters yet: it may never get any.
fn check_if_idle(
    events: &[Event],
    options: &Options,
    opened: &Opened,
    process: Process,
) -> Result<(), Error> {
    if process.is_past() {
        return Err(Error::forked_meanwhile());
    }
    let counts = match events.len() > MAX_EVENTS {
        true => opened.read_but_last(),
        false => opened.read(),
    };
    let counts = counts.map_err(Error::of_call("read"))?; // None in error state
    if counts.is_some_and(|counts| counts.time_running > 0) {
        return Ok(());
    }
    checks::check_that_they_fit(options, events, opened.config1_request)
        .map_err(|error| or_fewer(error, events))
}

/// If not all events fit, checks that those that do also count, as far as that is in doubt.
fn or_fewer(error: Error, events: &[Event]) -> Error {
    match error.kind() {
        ErrorKind::GroupTooLarge { fit: fit @ 2.., .. } if checks::is_virtual() => {
            let fitting = events.get(..fit).unwrap_or(events);
            checks::check_that_they_count(fitting).err().unwrap_or(error)
        }
        _ => error,
    }
}
