//! What failed, why on this machine, and what to do.

use crate::event::Event;
use crate::pmu::Unreadable;
use crate::sys::{self, Errno, PMU_FOLDER as FOLDER};
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// An event and its name on this machine, as an error reports it.
///
/// The name was looked up when the error was made, so writing it makes no system call. Two are equal if their
/// events are.
#[derive(Clone)]
pub struct NamedEvent(Arc<(Event, String)>);

impl NamedEvent {
    pub(crate) fn new(event: Event, name: String) -> NamedEvent {
        NamedEvent(Arc::new((event, name)))
    }

    /// The event.
    pub fn event(&self) -> Event {
        self.0.0
    }

    /// Its name, e.g. `cycles:u` or `cpu_core/mem-loads,ldlat=3/`.
    pub fn name(&self) -> &str {
        &self.0.1
    }
}

impl PartialEq for NamedEvent {
    fn eq(&self, other: &NamedEvent) -> bool {
        self.event() == other.event()
    }
}

impl Eq for NamedEvent {}

impl PartialEq<Event> for NamedEvent {
    fn eq(&self, other: &Event) -> bool {
        self.event() == *other
    }
}

impl fmt::Display for NamedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Visible(f).write_str(self.name())
    }
}

impl fmt::Debug for NamedEvent {
    /// As that of an [`Event`], by its name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({self})")
    }
}

/// Why a counter could not be opened or read. The message says what failed, what was found on
/// this machine to be the cause, and the remedy. `Debug` writes the variant's name before it, so that a
/// `main` that returns an error prints it; neither makes a system call.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// This target has no `perf_event_open`: it is not Linux.
    Unsupported,
    /// A hardware event was asked for, and the kernel has no driver for a PMU of this processor.
    NoPmu {
        /// The event.
        event: NamedEvent,
        /// Whether this is known to be a virtual machine, which has the PMU its host gives it.
        is_virtual: bool,
        /// Whether it is one of KVM's on an Intel processor of a model that usually has cores of several
        /// types. If it has, KVM gives no guest a PMU, whatever its configuration.
        is_guest_of_hybrid: bool,
    },
    /// The kernel or its PMU does not have this event, or not with these settings (`ENOENT`,
    /// `EINVAL`, `EOPNOTSUPP` and the like).
    EventNotSupported {
        /// The event.
        event: NamedEvent,
        /// The kernel's answer.
        errno: i32,
    },
    /// The PMU counts all privilege levels or none, and some were to be left out, as all but user mode are by
    /// default.
    NoPrivilegeFilter {
        /// The event.
        event: NamedEvent,
    },
    /// The event includes guests, and the kernel refuses that (`EOPNOTSUPP`), as it would not without them:
    /// this host runs a virtual machine that has the PMU to itself (KVM's mediated PMU, since Linux 7.0), or
    /// the PMU cannot count guests.
    IncludesGuests {
        /// The event.
        event: NamedEvent,
    },
    /// Nothing is left to count: the settings leave out every privilege level that the event happens
    /// at, or guests and the host. Software events happen on the host only.
    CountsNothing {
        /// The event.
        event: NamedEvent,
    },
    /// `kernel.perf_event_paranoid` forbids this to a process without `CAP_PERFMON`.
    Paranoid {
        /// Its value.
        level: i32,
        /// The highest value that allows what was asked: 2 for user mode alone, else 1.
        allowed: i32,
    },
    /// Refused, and this thread is under a seccomp filter; those of containers refuse the system
    /// call by default.
    Seccomp {
        /// The filter's answer.
        errno: i32,
    },
    /// The kernel has no `perf_event_open`: it was built without `CONFIG_PERF_EVENTS`.
    NoSystemCall,
    /// Refused, though neither `perf_event_paranoid` nor seccomp explains it: a security module
    /// or kernel lockdown.
    Denied {
        /// The kernel's answer.
        errno: i32,
    },
    /// No descriptor is left for the event.
    TooManyDescriptors {
        /// Whether it is the machine's limit (`ENFILE`) rather than the process's (`EMFILE`).
        of_the_machine: bool,
    },
    /// Not all events of a group can be counted at the same time, beside those that are pinned at the
    /// moment, so that it would not be counted at all.
    GroupTooLarge {
        /// How many of the events, from the first, can.
        fit: usize,
        /// The first event that does not fit in with them.
        event: NamedEvent,
    },
    /// A region reads its counters in user space, and this cannot be done.
    NotFromUserSpace {
        /// The first event of which that is true.
        event: NamedEvent,
        /// Why.
        reason: NoUserAccess,
    },
    /// On this machine a region may end after its counter is gone, and reading it then faults:
    /// [`contain_faults`](crate::contain_faults) has to be called first.
    FaultsNotContained,
    /// This overhead was measured with other events than those of the region.
    OtherOverhead,
    /// A sample of a region is no measure of it.
    Disturbed(Disturbed),
    /// There is no event of that name.
    Name(Box<NameError>),
    /// The event's PMU counts for processors, packages or the machine (`cpumask`), not for a thread.
    NotOfAThread {
        /// The event.
        event: NamedEvent,
    },
    /// Two events of a group are of different PMUs, and a group stays on one.
    SeveralPmus {
        /// The group's first event of hardware.
        first: NamedEvent,
        /// The one of another PMU.
        event: NamedEvent,
    },
    /// Another user holds what this event needs, exclusively (`EBUSY`).
    Busy {
        /// The event.
        event: NamedEvent,
    },
    /// The event sets a field that this kernel does not know yet (`E2BIG`).
    TooNewForKernel {
        /// The size of `perf_event_attr` that carries what is set, in bytes.
        needed: u32,
        /// The size that this kernel knows.
        known: u32,
    },
    /// The event is in error state: it is pinned and could not get a counter, or lost it.
    ErrorState,
    /// The PMU is not this machine's, but was read from a copy of some machine's files.
    NotThisMachine,
    /// This process is a fork of the one that opened the counter, or that was about to.
    Forked,
    /// The kernel has no memory for it (`ENOMEM`).
    OutOfMemory {
        /// The system call.
        call: &'static str,
    },
    /// What the kernel says of its PMUs could not be read, and the event depends on it.
    Unreadable(Unreadable),
    /// Another failure of a system call.
    System {
        /// Its name.
        call: &'static str,
        /// The kernel's answer.
        errno: i32,
    },
}

impl Error {
    /// The event that its message names, if it is about one.
    pub(crate) fn event(&self) -> Option<&NamedEvent> {
        match self {
            Error::NoPmu { event, .. }
            | Error::EventNotSupported { event, .. }
            | Error::NoPrivilegeFilter { event }
            | Error::IncludesGuests { event }
            | Error::CountsNothing { event }
            | Error::NotOfAThread { event }
            | Error::Busy { event } => Some(event),
            _ => None,
        }
    }
}

impl fmt::Debug for Error {
    /// The variant's name, and the message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = match self {
            Error::Unsupported => "Unsupported",
            Error::NoPmu { .. } => "NoPmu",
            Error::EventNotSupported { .. } => "EventNotSupported",
            Error::NoPrivilegeFilter { .. } => "NoPrivilegeFilter",
            Error::IncludesGuests { .. } => "IncludesGuests",
            Error::CountsNothing { .. } => "CountsNothing",
            Error::Paranoid { .. } => "Paranoid",
            Error::Seccomp { .. } => "Seccomp",
            Error::NoSystemCall => "NoSystemCall",
            Error::Denied { .. } => "Denied",
            Error::TooManyDescriptors { .. } => "TooManyDescriptors",
            Error::GroupTooLarge { .. } => "GroupTooLarge",
            Error::NotFromUserSpace { .. } => "NotFromUserSpace",
            Error::FaultsNotContained => "FaultsNotContained",
            Error::OtherOverhead => "OtherOverhead",
            Error::Disturbed(_) => "Disturbed",
            Error::Name(_) => "Name",
            Error::NotOfAThread { .. } => "NotOfAThread",
            Error::SeveralPmus { .. } => "SeveralPmus",
            Error::Busy { .. } => "Busy",
            Error::TooNewForKernel { .. } => "TooNewForKernel",
            Error::ErrorState => "ErrorState",
            Error::NotThisMachine => "NotThisMachine",
            Error::Forked => "Forked",
            Error::OutOfMemory { .. } => "OutOfMemory",
            Error::Unreadable(_) => "Unreadable",
            Error::System { .. } => "System",
        };
        write!(f, "{variant}: {self}")
    }
}

impl std::error::Error for Error {}

impl From<Disturbed> for Error {
    fn from(disturbed: Disturbed) -> Error {
        Error::Disturbed(disturbed)
    }
}

impl From<Unreadable> for Error {
    fn from(unreadable: Unreadable) -> Error {
        match unreadable.errno {
            sys::EMFILE => Error::TooManyDescriptors { of_the_machine: false },
            sys::ENFILE => Error::TooManyDescriptors { of_the_machine: true },
            _ => Error::Unreadable(unreadable),
        }
    }
}

impl From<Unreadable> for NameError {
    fn from(unreadable: Unreadable) -> NameError {
        NameError::Unreadable(unreadable)
    }
}

impl From<NameError> for Error {
    fn from(error: NameError) -> Error {
        match error {
            NameError::Unreadable(unreadable) => unreadable.into(),
            error => Error::Name(Box::new(error)),
        }
    }
}

/// An error number by the name that the manual pages use. The system's sentence for it would
/// mislead: here `ENOENT` is not about files.
struct Number(i32);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            sys::E2BIG => "E2BIG",
            sys::EACCES => "EACCES",
            sys::EAGAIN => "EAGAIN",
            sys::EBUSY => "EBUSY",
            sys::EEXIST => "EEXIST",
            sys::EFBIG => "EFBIG",
            sys::EINTR => "EINTR",
            sys::EINVAL => "EINVAL",
            sys::EIO => "EIO",
            sys::EMFILE => "EMFILE",
            sys::ENFILE => "ENFILE",
            sys::ENODEV => "ENODEV",
            sys::ENOENT => "ENOENT",
            sys::ENOMEM => "ENOMEM",
            sys::ENOSPC => "ENOSPC",
            sys::ENOSYS => "ENOSYS",
            sys::EOPNOTSUPP => "EOPNOTSUPP",
            sys::EPERM => "EPERM",
            other => return write!(f, "error number {other}"),
        };
        f.write_str(name)
    }
}

impl Error {
    /// Of a call that failed for want of something, or as no kernel is known to have it fail.
    pub(crate) fn of_call(call: &'static str) -> impl Fn(Errno) -> Error {
        move |Errno(errno)| match errno {
            sys::EMFILE => Error::TooManyDescriptors { of_the_machine: false },
            sys::ENFILE => Error::TooManyDescriptors { of_the_machine: true },
            sys::ENOMEM => Error::OutOfMemory { call },
            errno => Error::System { call, errno },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unsupported => write!(
                f,
                "performance counters are opened with Linux's perf_event_open, which this target \
                 does not have: run on Linux"
            ),
            Error::NoPmu { event, is_guest_of_hybrid: true, .. } => write!(
                f,
                "{event} needs a hardware counter, and this virtual machine has none. On a hybrid Intel \
                 processor, as this model usually is, KVM gives no guest one, whatever its configuration. \
                 Run on the host, or use software events"
            ),
            Error::NoPmu { event, is_virtual: true, .. } => write!(
                f,
                "{event} needs a hardware counter, and this virtual machine has none (no PMU of \
                 the processor in {FOLDER}): have the hypervisor give it one, or run on the host; \
                 software events work meanwhile"
            ),
            Error::NoPmu { event, is_virtual: false, .. } => write!(
                f,
                "{event} needs a hardware counter, and the kernel offers none (no PMU of the \
                 processor in {FOLDER}): it may lack the driver, or the firmware may have switched \
                 the PMU off; software events work meanwhile"
            ),
            Error::EventNotSupported { event, errno } => write!(
                f,
                "{event} is not supported here, or not with these settings ({}): choose an event \
                 that `perf list` shows on this machine, or other privilege levels",
                Number(*errno)
            ),
            Error::NoPrivilegeFilter { event } => write!(
                f,
                "{event} cannot be counted without some privilege levels: this PMU cannot tell them \
                 apart. To count all levels where it must be, ask for allow_unfiltered(true)"
            ),
            Error::IncludesGuests { event } => write!(
                f,
                "{event} includes guests, and they cannot be counted: this host runs a virtual machine with a \
                 mediated PMU, or the PMU has no way to. Leave guests out: exclude_guest(true), or no `G` \
                 in the name"
            ),
            Error::CountsNothing { event } => write!(
                f,
                "{event} would count nothing, because the settings leave out every privilege level that it \
                 happens at, or both guests and the host. Include one of them, for example with \
                 exclude_kernel(false) or exclude_guest(false). Letters in the event's name, such as `u` or \
                 `G`, take precedence over these: change or remove them"
            ),
            Error::Paranoid { level, allowed } => write!(
                f,
                "kernel.perf_event_paranoid is {level}, and this process does not have \
                 CAP_PERFMON: `sysctl kernel.perf_event_paranoid={allowed}` as root, or give the \
                 program the capability{}",
                if *allowed < 2 { ", or count user mode alone where the PMU can" } else { "" }
            ),
            Error::Seccomp { errno: 0 } => write!(
                f,
                "perf_event_open answers 0 and opens no event, which a seccomp filter does in the \
                 kernel's place. Run with a profile that allows it (`--security-opt seccomp=...`), or \
                 outside of the sandbox"
            ),
            Error::Seccomp { errno } => write!(
                f,
                "perf_event_open is refused ({}), and this process is under a seccomp filter; those \
                 of containers refuse it by default: run with `--cap-add PERFMON` or with a profile \
                 that allows it (`--security-opt seccomp=...`), or outside of the sandbox",
                Number(*errno)
            ),
            Error::NoSystemCall => write!(
                f,
                "this kernel has no perf_event_open: use one built with CONFIG_PERF_EVENTS"
            ),
            Error::Denied { errno } => write!(
                f,
                "perf_event_open is refused ({}), and neither kernel.perf_event_paranoid nor \
                 seccomp is the cause: look at the security module's log (SELinux, AppArmor) and \
                 at /sys/kernel/security/lockdown",
                Number(*errno)
            ),
            Error::TooManyDescriptors { of_the_machine: false } => write!(
                f,
                "this process has no file descriptor left, and each counter holds one: raise \
                 `ulimit -n` or drop counters"
            ),
            Error::TooManyDescriptors { of_the_machine: true } => write!(
                f,
                "this machine has no file descriptor left, and each counter holds one: raise \
                 `sysctl fs.file-max` or close files"
            ),
            Error::GroupTooLarge { fit: 0, event } => write!(
                f,
                "{event} cannot be counted now, pinned events hold every counter that it could have: \
                 drop some, or open the group disabled and enable it when they are gone"
            ),
            Error::GroupTooLarge { fit, event } => write!(
                f,
                "{event} cannot be counted together with the {fit} {} before it: the PMU has no \
                 counter left for it (pinned events and, on x86-64, the kernel's watchdog hold \
                 some: `sysctl kernel.nmi_watchdog=0`), or it is another PMU's: put it into a \
                 group of its own",
                if *fit == 1 { "event" } else { "events" }
            ),
            Error::NotFromUserSpace { event, reason: NoUserAccess::SoftwareEvent } => write!(
                f,
                "a region reads its counters from user space, and {event} is counted by the kernel in \
                 software: take the difference of two reads, or choose a hardware event"
            ),
            Error::NotFromUserSpace { event, reason } => write!(
                f,
                "a region reads its counters from user space, and {event} cannot be: {reason}"
            ),
            Error::FaultsNotContained => write!(
                f,
                "on this machine a counter may be gone when a region ends, and reading it then \
                 faults: call rdpmc::contain_faults() before making regions"
            ),
            Error::OtherOverhead => write!(
                f,
                "this overhead was measured with other events than those of the region. Measure it with \
                 Overhead::of and a region of the same counters"
            ),
            Error::Disturbed(disturbed) => disturbed.fmt(f),
            Error::Name(error) => error.fmt(f),
            Error::NotOfAThread { event } => write!(
                f,
                "{event} is counted for processors or the whole machine, and cannot be for a thread, \
                 which is all that this library does: `perf stat -a -e {event}` counts it"
            ),
            Error::SeveralPmus { first, event } => write!(
                f,
                "{event} is of another PMU than {first}, and a group stays on one: put it into a group \
                 of its own, or open a counter for each"
            ),
            Error::Busy { event } => write!(
                f,
                "what {event} needs is in exclusive use by another profiler or by the firmware: \
                 stop that one and try again"
            ),
            Error::TooNewForKernel { needed, known } => write!(
                f,
                "the event needs {needed} bytes of perf_event_attr, and this kernel knows {known}: \
                 leave the newest config words at 0, or use a newer kernel"
            ),
            Error::ErrorState => write!(
                f,
                "the pinned event has no counter and is in error state: pin fewer events, then \
                 enable() it again"
            ),
            Error::NotThisMachine => write!(
                f,
                "this PMU was read from another directory than this machine's ({FOLDER}). Take it from \
                 Pmus::here() to count with it"
            ),
            Error::Forked => write!(
                f,
                "this process is a fork of the one that opened the counter, which counts the \
                 parent's thread: open a counter of its own"
            ),
            Error::OutOfMemory { call } => write!(
                f,
                "{call} failed for want of memory (ENOMEM). Free memory, or raise the limit of this \
                 process's memory cgroup"
            ),
            Error::Unreadable(unreadable) => unreadable.fmt(f),
            Error::System { call, errno } => write!(
                f,
                "{call} failed ({}), which nothing known explains: please report it with the \
                 kernel's version",
                Number(*errno)
            ),
        }
    }
}

/// Why a name is that of no event, from `"name".parse::<Event>()` or
/// [`Pmus::event`](crate::Pmus::event).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// Neither the kernel nor a PMU of this machine has an event of this name.
    UnknownEvent {
        /// The name.
        name: String,
        /// The nearest that there are, if any are near.
        nearest: Vec<String>,
    },
    /// This machine has no PMU of this name.
    UnknownPmu {
        /// The name.
        name: String,
        /// The nearest that there are, if any are near.
        nearest: Vec<String>,
    },
    /// The PMU has no such term or event.
    UnknownTerm {
        /// The PMU.
        pmu: String,
        /// What it does not have.
        term: String,
        /// The nearest that it has, if any are near.
        nearest: Vec<String>,
    },
    /// Several PMUs have an event of this name.
    OfSeveralPmus {
        /// The name.
        name: String,
        /// The same, of each PMU.
        choices: Vec<String>,
    },
    /// The value has more bits than the PMU has for the term.
    TooLarge {
        /// The PMU.
        pmu: String,
        /// The term.
        term: String,
        /// The bits there are for it.
        bits: u32,
    },
    /// The value is no number of 64 bits.
    NotANumber {
        /// The PMU.
        pmu: String,
        /// The term.
        term: String,
        /// The value.
        value: String,
    },
    /// The term says what another has said: it is there twice, they share bits, or both are events.
    Twice {
        /// The PMU.
        pmu: String,
        /// The term.
        term: String,
    },
    /// The term has more than one bit and no value, or the PMU's event takes one from whoever asks for it.
    NeedsValue {
        /// The PMU.
        pmu: String,
        /// The term that has none.
        term: String,
    },
    /// These are not modifiers, or one of them is there once too often.
    Modifier {
        /// What stands there.
        letters: String,
    },
    /// The second slash is missing.
    NotClosed {
        /// The name.
        name: String,
    },
    /// The name is longer than any is.
    TooLong {
        /// The most bytes it may have.
        limit: usize,
    },
    /// What the kernel says of its PMUs could not be read, and the name depends on it.
    Unreadable(Unreadable),
}

impl fmt::Debug for NameError {
    /// The variant's name, and the message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = match self {
            NameError::UnknownEvent { .. } => "UnknownEvent",
            NameError::UnknownPmu { .. } => "UnknownPmu",
            NameError::UnknownTerm { .. } => "UnknownTerm",
            NameError::OfSeveralPmus { .. } => "OfSeveralPmus",
            NameError::TooLarge { .. } => "TooLarge",
            NameError::NotANumber { .. } => "NotANumber",
            NameError::Twice { .. } => "Twice",
            NameError::NeedsValue { .. } => "NeedsValue",
            NameError::Modifier { .. } => "Modifier",
            NameError::NotClosed { .. } => "NotClosed",
            NameError::TooLong { .. } => "TooLong",
            NameError::Unreadable(_) => "Unreadable",
        };
        write!(f, "{variant}: {self}")
    }
}

impl std::error::Error for NameError {}

/// Writes text on, with what a terminal would obey rather than show made visible (`\u{1b}`): control
/// characters, and those that turn the direction of writing. Names and files may contain anything.
pub(crate) struct Visible<'a, 'b>(pub(crate) &'a mut fmt::Formatter<'b>);

impl fmt::Write for Visible<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            let turns = matches!(
                character,
                '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            );
            if turns || character.is_control() {
                write!(self.0, "{}", character.escape_unicode())?;
            } else {
                self.0.write_char(character)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Unreadable {
    /// The name of the type, and the message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unreadable: {self}")
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedy = match self.errno {
            sys::EMFILE => {
                "This process has no file descriptor left: raise `ulimit -n` or close files"
            }
            sys::ENFILE => {
                "This machine has no file descriptor left: raise `sysctl fs.file-max` or close files"
            }
            sys::ENOMEM => "There is no memory for it: free some and try again",
            sys::EACCES | sys::EPERM => {
                "Let this process read /sys/bus/event_source/devices and what it links to"
            }
            sys::EFBIG => "There is more in it than any kernel shows: pass another directory",
            _ => "Try again, and if it stays so, report it with the kernel's version",
        };
        let path = self.path.display();
        write!(Visible(f), "{path} cannot be read ({}). {remedy}", Number(self.errno))
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut Visible(f);
        // The names by themselves, or what to do where none is near.
        let choose = |f: &mut Visible<'_, '_>, nearest: &[String], otherwise: &str| match nearest {
            [] => write!(f, ": {otherwise}"),
            [one] => write!(f, ": did you mean {one}?"),
            [first @ .., last] => write!(f, ": did you mean {} or {last}?", first.join(", ")),
        };
        match self {
            NameError::UnknownEvent { name, .. } if name.is_empty() => {
                write!(f, "an event's name is empty: give one, such as cycles")
            }
            NameError::UnknownEvent { name, .. } if name.contains(',') => write!(
                f,
                "`{name}` is no name of an event: name one at a time, and open a group for several"
            ),
            NameError::UnknownEvent { name, nearest } => {
                write!(f, "there is no event `{name}` on this machine")?;
                choose(
                    f,
                    nearest,
                    "`perf list` shows those there are; one that perf has from its own tables is to be \
                     given by its terms, which `perf stat -vv` prints, as in cpu/event=0xc0,umask=0x1/",
                )
            }
            NameError::UnknownPmu { name, nearest } => {
                write!(f, "there is no PMU `{name}` on this machine")?;
                choose(f, nearest, &format!("those there are have a folder each in {FOLDER}"))
            }
            NameError::UnknownTerm { pmu, term, nearest } => {
                write!(f, "the PMU {pmu} has no term and no event `{term}`")?;
                choose(f, nearest, &format!("see {FOLDER}/{pmu}/format and events"))
            }
            NameError::OfSeveralPmus { name, choices } => {
                write!(
                    f,
                    "several PMUs have an event `{name}`: choose one of {}",
                    choices.join(", ")
                )
            }
            NameError::TooLarge { pmu, term, bits } => write!(
                f,
                "the PMU {pmu} has {bits} {} for `{term}`, which the value does not fit into: give a \
                 smaller one",
                if *bits == 1 { "bit" } else { "bits" }
            ),
            NameError::NotANumber { pmu, term, value } => write!(
                f,
                "`{value}` is no value for `{term}` of the PMU {pmu}: give a number of at most 64 bits, \
                 decimal or hexadecimal with 0x"
            ),
            NameError::Twice { pmu, term } => write!(
                f,
                "`{term}` of the PMU {pmu} says what another term has said already: leave one of them out"
            ),
            NameError::NeedsValue { pmu, term } => write!(
                f,
                "this event of the PMU {pmu} needs a value for `{term}`: say `{term}=...` in it"
            ),
            NameError::Modifier { letters } => write!(
                f,
                "`{letters}` are not an event's modifiers: these are u, k, h, G, H, I, D, e, P, S, W \
                 and up to three p, each once (and tracepoints, as in sched:sched_switch, have no name here)"
            ),
            NameError::NotClosed { name } => {
                write!(f, "`{name}` has no second slash: write PMU/TERM=VALUE,.../")
            }
            NameError::TooLong { limit } => {
                write!(f, "the name is longer than {limit} bytes: give one event's name")
            }
            NameError::Unreadable(unreadable) => write!(f, "{unreadable}"),
        }
    }
}

/// How a counter is read at this moment, from [`Counter::access`](crate::Counter::access).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// From user space: [`read_user`](crate::Counter::read_user) answers.
    UserSpace,
    /// By `read(2)`, a system call, for this reason.
    SystemCall(NoUserAccess),
    /// Not at all: this process is a fork of the one that opened the counter.
    Forked,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::UserSpace => write!(f, "read from user space"),
            Access::SystemCall(reason) => write!(f, "read by system call: {reason}"),
            Access::Forked => Error::Forked.fmt(f),
        }
    }
}

/// Why user space cannot read a counter, so that its reads are system calls.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoUserAccess {
    /// The kernel counts this event in software.
    SoftwareEvent,
    /// The event has no counter at this moment (`index` is 0): it is disabled, or more events are
    /// open than the PMU has counters and others have their turn.
    NotScheduled,
    /// The event is pinned and in error state: it could not get a counter, or lost it. Reads are
    /// [`Error::ErrorState`].
    ErrorState,
    /// The administrator has switched user access off.
    SwitchedOff {
        /// The file with the setting.
        setting: &'static str,
        /// Its value.
        value: i32,
    },
    /// The kernel does not offer it for this event (`cap_user_rdpmc` is 0), and no setting says
    /// why.
    NotOffered,
    /// The page offers it, and the processor refuses (a fault, contained), and no setting says why.
    Refused,
    /// The control page is that of a kernel before 3.12, which does not say for sure what it allows.
    PageTooOld,
    /// The counter's width (`pmc_width`) is one that this library leaves to the kernel, or other
    /// than that of those before it in its group.
    Width {
        /// In bits.
        bits: u16,
    },
    /// The register that the kernel publishes does not hold this event's count: Intel's topdown
    /// metrics are packed fractions, riscv64's firmware events have no register.
    NotInItsRegister,
    /// The event is pinned and of several core types: if it lost its counter on one of them, no page says
    /// so.
    PinnedOnSeveralTypes,
    /// The control page could not be mapped: the user's allowance of locked memory is used up
    /// (`EPERM`).
    MlockLimit {
        /// `kernel.perf_event_mlock_kb`, in KiB for each processor, if it can be read.
        kilobytes: Option<u64>,
    },
    /// The control page could not be mapped for another reason.
    NotMapped {
        /// The kernel's answer.
        errno: i32,
    },
}

impl fmt::Display for NoUserAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoUserAccess::SoftwareEvent => {
                write!(f, "the kernel counts this event in software; nothing to do")
            }
            NoUserAccess::NotScheduled => write!(
                f,
                "the event has no counter at this moment: enable it, or open fewer events than \
                 the PMU has counters (on x86-64 the kernel's watchdog holds one unless \
                 kernel.nmi_watchdog is 0); if it is of one core type, keep the thread on that"
            ),
            NoUserAccess::ErrorState => Error::ErrorState.fmt(f),
            NoUserAccess::SwitchedOff { setting, value } => write!(
                f,
                "user access is switched off, {setting} is {value}: `echo 1 > {setting}` as root, \
                 then open the counter again"
            ),
            NoUserAccess::NotOffered => write!(
                f,
                "the kernel offers no user access for this event: on x86-64 it may be switched off \
                 (root sees it in {FOLDER}/cpu/rdpmc), on arm64 it takes Linux 5.17, on riscv64 6.6, and \
                 some events have none anywhere"
            ),
            NoUserAccess::Refused => write!(
                f,
                "the kernel offers the counter and the processor refuses to read it, as when the \
                 thread has moved to another core type: keep it on one, or open the counter again"
            ),
            NoUserAccess::PageTooOld => write!(
                f,
                "the kernel's control page is older than Linux 3.12 and does not say what it \
                 allows: use a newer kernel"
            ),
            NoUserAccess::Width { bits } => write!(
                f,
                "this processor's counters are {bits} bits wide, which only the kernel reads; \
                 nothing to do"
            ),
            NoUserAccess::NotInItsRegister => write!(
                f,
                "no register holds this event's count, only the kernel knows it; nothing to do"
            ),
            NoUserAccess::PinnedOnSeveralTypes => write!(
                f,
                "it is pinned, and of several core types: keep the thread on one when it is opened, or do \
                 not pin the event"
            ),
            NoUserAccess::MlockLimit { kilobytes } => {
                write!(f, "the control page cannot be mapped, the user's allowance is used up")?;
                if let Some(kilobytes) = kilobytes {
                    write!(f, " (kernel.perf_event_mlock_kb is {kilobytes} for each processor)")?;
                }
                write!(
                    f,
                    ": raise it or `ulimit -l`, or give the program CAP_IPC_LOCK, or keep fewer \
                     counters"
                )
            }
            NoUserAccess::NotMapped { errno } => {
                write!(
                    f,
                    "the control page cannot be mapped ({}): {}",
                    Number(*errno),
                    match *errno {
                        sys::ENOMEM => "free memory or mappings and open it again",
                        sys::EAGAIN =>
                            "this process locks all its memory and may lock no more, so raise `ulimit -l`",
                        sys::EEXIST =>
                            "other threads kept taking the chosen addresses, so open it again",
                        _ =>
                            "look at the security module's log, or report it with the kernel's version",
                    }
                )
            }
        }
    }
}

/// What a [`Clock`](crate::Clock) goes by, from [`Clock::kind`](crate::Clock::kind).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockKind {
    /// The tick counter, converted as the control page says. Nanoseconds are those of perf's
    /// timestamps (`PERF_SAMPLE_TIME`, `perf record`'s default clock).
    Page,
    /// The tick counter, calibrated against CLOCK_MONOTONIC_RAW, because there is no control page to
    /// say what it is, for this reason. Nanoseconds are that clock's; of a clock that had a page before,
    /// they go on from its time.
    Calibrated(NoPageClock),
    /// CLOCK_MONOTONIC_RAW by `clock_gettime`, because the tick counter is of no use here, for this
    /// reason. Ticks are nanoseconds then. A clock that had a page before goes on from its time.
    Kernel(NoTicks),
}

impl fmt::Display for ClockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClockKind::Page => write!(f, "the control page's clock, on perf's timeline"),
            ClockKind::Calibrated(reason) => {
                write!(f, "the tick counter, calibrated against CLOCK_MONOTONIC_RAW: {reason}")
            }
            ClockKind::Kernel(reason) => {
                write!(f, "clock_gettime, CLOCK_MONOTONIC_RAW: {reason}")
            }
        }
    }
}

/// Why there is no control page to tell a [`Clock`](crate::Clock) what its ticks are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoPageClock {
    /// The page says nothing of the time (`cap_user_time_zero` is 0): the kernel's own clock is
    /// another one.
    NotOffered,
    /// No event can be opened, and a page is an event's.
    NoEvent(Error),
    /// The page cannot be mapped.
    NotMapped(NoUserAccess),
    /// This process is a fork of the one that opened the clock. It goes on from the parent's time.
    Forked,
}

impl fmt::Display for NoPageClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoPageClock::NotOffered => write!(
                f,
                "the kernel's scheduler keeps another clock than the tick counter, as in most virtual \
                 machines; nothing to do"
            ),
            NoPageClock::NoEvent(error) => error.fmt(f),
            NoPageClock::NotMapped(reason) => reason.fmt(f),
            NoPageClock::Forked => write!(
                f,
                "this process is a fork of the one that opened the clock: open one of its own"
            ),
        }
    }
}

/// Why a [`Clock`](crate::Clock) leaves the tick counter alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoTicks {
    /// This library knows no tick counter of this processor.
    NotHere,
    /// This thread has forbidden itself to read it (`PR_SET_TSC`).
    Forbidden,
    /// The processor does not say that it goes on at one rate, whatever it does; or it did not go on when
    /// it was looked at.
    NotInvariant,
    /// The kernel does not have it among its clock sources: it has found it to be wrong, or was told so
    /// (`tsc=unstable`), or this cannot be seen here.
    NotTrusted,
}

impl fmt::Display for NoTicks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoTicks::NotHere => {
                "no tick counter of this processor is known to this library; nothing to do"
            }
            NoTicks::Forbidden => {
                "this thread may not read the tick counter: allow it with prctl(PR_SET_TSC, \
                 PR_TSC_ENABLE) and open the clock again"
            }
            NoTicks::NotInvariant => {
                "the processor does not promise one rate for its tick counter (on x86-64, no \
                 `nonstop_tsc` in /proc/cpuinfo), or it stood still: if this is a virtual machine, have \
                 the hypervisor show the feature (QEMU: `-cpu host,+invtsc`)"
            }
            NoTicks::NotTrusted => {
                "the kernel does not list the tick counter in /sys/devices/system/clocksource/\
                 clocksource0/available_clocksource: its log says what it found (`dmesg | grep -i tsc`)"
            }
        })
    }
}

/// Why a sample of a [`Region`](crate::Region) is no measure of the code in it. Usually the thing
/// to do is to take another.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disturbed {
    /// An event had no counter at the start (`index` 0): it is disabled, or multiplexing gave others
    /// the turn. [`Counter::access`](crate::Counter::access) tells.
    NoCounter,
    /// In between, the kernel has updated the control page: it switched the thread out or to another
    /// processor, took the counter away or gave it another, or the counter overflowed.
    Interrupted {
        /// How far the pages' `lock` words have moved, taken together: 2 for each update of a page,
        /// of which a context switch away and back was seen to take 2 or 3.
        lock_moved: u64,
    },
    /// A counter could not be read, and the fault was contained: user access was revoked, or the
    /// thread moved to another core type. Also where the processor gave 0, as some do in place of a
    /// forbidden counter.
    Faulted,
    /// The region was started with other counters than those of the region that stops it.
    OtherCounters,
}

impl fmt::Debug for Disturbed {
    /// The variant's name, and the message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = match self {
            Disturbed::NoCounter => "NoCounter",
            Disturbed::Interrupted { .. } => "Interrupted",
            Disturbed::Faulted => "Faulted",
            Disturbed::OtherCounters => "OtherCounters",
        };
        write!(f, "{variant}: {self}")
    }
}

impl std::error::Error for Disturbed {}

impl fmt::Display for Disturbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disturbed::NoCounter => write!(
                f,
                "disturbed: the event had no counter when the region started; take another sample, \
                 and if there never is one, open fewer events than the PMU has counters"
            ),
            Disturbed::Interrupted { lock_moved } => write!(
                f,
                "disturbed: the kernel switched the thread or moved the counter during the region \
                 (`lock` moved by {lock_moved}); take another sample"
            ),
            Disturbed::Faulted => write!(
                f,
                "disturbed: the counter could not be read when the region started or ended; take another \
                 sample, and if it goes on, see what access() says"
            ),
            Disturbed::OtherCounters => write!(
                f,
                "disturbed: the region was started with other counters than those that stop it. Stop it \
                 with a region of the same counters"
            ),
        }
    }
}
