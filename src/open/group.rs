//! Opens and maps the events of a group.

use super::checks;
use super::events::{self, Opened};
use super::mapping::map_and_judge;
use super::mock::Answers;
use super::options::Options;
use crate::error::{OpenError, ReadError, SyscallReason};
use crate::event::Event;
use crate::page::MAX_EVENTS;
use crate::page::fork;
use crate::page::monitor::Monitor;
use crate::page::process::Process;
use crate::page::reader::Reader;
use crate::pmu::core_types;

/// An open group without its reader: the parts that only the slower paths need.
pub(crate) struct OpenGroup<const N: usize> {
    pub(crate) events: [Event; N],
    pub(crate) answers: Answers,
    /// Why user space never reads the group, and the event that is the cause. None if it does while the events have
    /// counters.
    pub(crate) obstacle: Option<(Event, SyscallReason)>,
    /// Why `read` makes system calls although user space can read the group. None if it reads in user space, and until the
    /// handle has chosen.
    pub(crate) choice: Option<SyscallReason>,
    /// The settings that influence the cost of a read.
    pub(crate) flags: u64,
    pub(crate) process: Process,
}

/// Opens a group. Events that name no core type are opened on the one that [`core_types::of_group`] chooses.
pub(crate) fn open<const N: usize>(
    events: [Event; N],
    options: Options,
) -> Result<(Reader<N>, OpenGroup<N>), OpenError> {
    match core_types::of_group(&events)? {
        Some(pmu) => open_on(events, options, pmu),
        None => by_either_name(events, |events| open_as_is(events, options)),
    }
}

/// Opens a group. Events that name no core type are opened on the PMU of type `pmu`.
pub(crate) fn open_on<const N: usize>(
    events: [Event; N],
    options: Options,
    pmu: u32,
) -> Result<(Reader<N>, OpenGroup<N>), OpenError> {
    by_either_name(core_types::on_pmu(events, pmu)?, |events| open_as_is(events, options))
}

/// Opens events, with the architectural numbers if the kernel is older than the encoding that names a PMU.
pub(crate) fn by_either_name<E: AsMut<[Event]> + Clone + PartialEq, T>(
    events: E,
    open: impl Fn(E) -> Result<T, OpenError>,
) -> Result<T, OpenError> {
    match open(events.clone()) {
        Err(refusal @ OpenError::EventNotSupported { .. }) => {
            core_types::by_architecture(events)?.map_or(Err(refusal), open)
        }
        other => other,
    }
}

pub(crate) fn open_as_is<const N: usize>(
    events: [Event; N],
    options: Options,
) -> Result<(Reader<N>, OpenGroup<N>), OpenError> {
    // Taken before anything is opened: from here on a signal handler may fork, and the child must not use what the
    // parent has opened and mapped.
    let process = fork::process().map_err(OpenError::of_call("pthread_atfork"))?;
    let group = open_in(process, events, options);
    if process.is_past() { Err(OpenError::Forked) } else { group }
}

fn open_in<const N: usize>(
    process: Process,
    events: [Event; N],
    options: Options,
) -> Result<(Reader<N>, OpenGroup<N>), OpenError> {
    let opened = open_checked(&events, &options)?;
    let (mut reader, obstacle) = match map_and_judge(&events, &opened, process, Monitor::new())? {
        Ok(reader) => (reader, None),
        Err(obstacle) => (Reader::none(), Some(obstacle)),
    };
    let flags = options.flags_of_cost();
    reader.must_advance = events.iter().rev().fold(0, |bits, event| {
        bits << 1 | u8::from(event.bare() == Event::INSTRUCTIONS && options.counts_user(*event))
    });
    if N > 1 && !options.is_disabled() && !reader.is_scheduled() {
        check_if_idle(&events, &options, &opened, process)?;
    }
    let answers = Answers::OfTheKernel(opened);
    Ok((reader, OpenGroup { events, answers, obstacle, choice: None, flags, process }))
}

/// Opens events as a group that is only ever read by system call, of the thread in `options`.
pub(crate) fn open_unmapped(
    events: &[Event],
    options: &Options,
    process: Process,
) -> Result<Opened, OpenError> {
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
fn open_checked(events: &[Event], options: &Options) -> Result<Opened, OpenError> {
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
) -> Result<(), OpenError> {
    if process.is_past() {
        return Err(OpenError::Forked);
    }
    let counts = match events.len() > MAX_EVENTS {
        true => opened.read_but_last(),
        false => opened.read(),
    };
    let counts = counts.map_err(OpenError::of_call("read"))?; // None in error state
    if counts.is_some_and(|counts| counts.time_running > 0) {
        return Ok(());
    }
    checks::check_that_they_fit(options, events, opened.config1_request)
        .map_err(|error| or_fewer(error, events))
}

/// If not all events fit, checks that those that do also count, as far as that is in doubt.
fn or_fewer(error: OpenError, events: &[Event]) -> OpenError {
    match error {
        OpenError::GroupTooLarge { fit: fit @ 2.., .. } if checks::is_virtual() => {
            let fitting = events.get(..fit).unwrap_or(events);
            checks::check_that_they_count(fitting).err().unwrap_or(error)
        }
        error => error,
    }
}

impl<const N: usize> OpenGroup<N> {
    /// Whether `read` reads in user space, unless that faults.
    pub(crate) fn is_in_user_space(&self) -> bool {
        self.obstacle.is_none() && self.choice.is_none()
    }

    /// Maps the pages again. The inner error is the reason why that is not possible now.
    ///
    /// # Errors
    /// [`ReadError::Forked`], or [`ReadError::Closed`] if other code has closed one of the descriptors.
    pub(crate) fn map_again(
        &self,
        monitor: Monitor,
    ) -> Result<Result<Reader<N>, SyscallReason>, ReadError> {
        if self.process.is_past() {
            return Err(ReadError::Forked);
        }
        let Some(opened) = self.answers.opened() else {
            return Ok(Err(SyscallReason::NotInItsRegister));
        };
        opened.are_own().map_err(|_| ReadError::Closed)?;
        match map_and_judge(&self.events, opened, self.process, monitor) {
            Ok(mapped) => Ok(mapped.map_err(|(_, reason)| reason)),
            Err(_) => Err(ReadError::Forked),
        }
    }
}
