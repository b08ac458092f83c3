//! The errors of wrong and unknown names.

use super::suggest;
use crate::error::{Error, ErrorKind};
use crate::event::generic;

pub(super) fn no_pmu_list(name: &str) -> Error {
    Error::new(
        ErrorKind::NoPmuList,
        "{event} needs the list of this machine's PMUs, and there is no /sys/bus/event_source/devices",
        "Mount /sys in this container or chroot. Constants such as Event::CYCLES do not need it",
    )
    .about(name)
}

pub(super) fn invalid(cause: &'static str, remedy: &'static str) -> Error {
    Error::new(ErrorKind::InvalidName, cause, remedy)
}

/// Makes the error of a name that is unknown: asks for the nearest names, or without any tells where all are.
pub(super) fn unknown(cause: &'static str, name: &str, nearest: &[String], all: String) -> Error {
    let remedy = match nearest {
        [] => all,
        [one] => format!("Did you mean {one}?"),
        [first @ .., last] => format!("Did you mean {} or {last}?", first.join(", ")),
    };
    Error::new(ErrorKind::UnknownName, cause, "{1}").with(&name).with(&remedy)
}

/// Makes the error of a name with a colon, of which the first part is no event for this reason, and the second no modifiers: unless it
/// looks like a misspelt event, it is a name of other tools, such as `sched:sched_switch`.
pub(super) fn of_a_tracepoint(name: &str, event: &str, why: Error) -> Error {
    let is_misspelt = !suggest::nearest(event, generic::all()).is_empty();
    if is_misspelt || event.is_empty() || why.kind() != ErrorKind::UnknownName {
        return why;
    }
    let cause = "`{0}` is neither an event with modifiers nor a counter's name: perf names tracepoints and breakpoints with a colon, \
                 and libpfm4 its events";
    let remedy = "Count tracepoints with perf. For a vendor's name, use the crate rdpmc-events";
    invalid(cause, remedy).with(&name)
}

/// `has_no_core` tells that this machine is known to have no core PMU.
pub(super) fn unknown_event(name: &str, nearest: &[String], has_no_core: bool) -> Error {
    if name.is_empty() {
        return invalid("the event name is empty", "Give one, such as cycles");
    }
    if name.starts_with('{') {
        let remedy = "Parse one event at a time, and open a group for several";
        return invalid("`{0}` is a group of events", remedy).with(&name);
    }
    if let Some((_, others)) = name.split_once(',') {
        if others.trim().is_empty() {
            return invalid("nothing follows the comma of `{0}`", "Remove the comma").with(&name);
        }
        if others.contains('=') {
            let remedy = "Write terms between slashes, such as cpu/event=0xc0,cmask=1/";
            return invalid("`{0}` has terms without a PMU", remedy).with(&name);
        }
        let remedy = "Parse one event at a time, and open a group for several";
        return invalid("`{0}` is a list of events", remedy).with(&name);
    }
    let second = name.as_bytes().get(1);
    if name.starts_with('r') && second.is_some_and(u8::is_ascii_digit) && nearest.is_empty() {
        let remedy = "Write r and at most 16 hexadecimal digits";
        return invalid("`{0}` is not a raw event", remedy).with(&name);
    }
    let all = if has_no_core {
        "This machine has no core PMU, whose own events would have names. Run `perf list` to see the others. The crate \
         rdpmc-events has the names of CPUs' vendors"
    } else {
        "Run `perf list` to see them. For a name of the CPU's vendor, use the crate rdpmc-events, or the encoding that `perf \
         stat -vv -e NAME true` prints, e.g. cpu/event=0xc0,umask=0x1/"
    };
    unknown("there is no event `{0}` on this machine", name, nearest, all.into())
}
