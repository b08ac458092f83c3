//! The error of this library, [`Error`], and the reasons that it gives for what it does.
//!
//! Each message has the cause found on this machine and the remedy, which [`cause`](Error::cause) and
//! [`remedy`](Error::remedy) also return apart. Neither these nor `Display` makes a system call, except to allocate memory.
//!
//! Reads return the small [`ReadError`], and regions [`Disturbed`]. `?` converts both into an [`Error`].

// Floor 3. Uses `kernel` and `event`. The words of a message are where its cause is found.

pub(crate) mod access;
pub(crate) mod clock;
mod disturbed;
mod kind;
mod read;

pub use crate::kernel::Errno;
pub use disturbed::Disturbed;
pub use kind::ErrorKind;
pub use read::ReadError;

use crate::event::Event;
use crate::kernel::{self, Unreadable, Visible};
use std::fmt::{self, Write};
use std::io;

/// An error of this library, or the reason for which a counter or clock is not read from user space.
///
/// ```
/// use rdpmc::{Counter, ErrorKind, Event};
///
/// match Counter::open(Event::CYCLES) {
///     Ok(counter) => println!("{:?} cycles", counter.read()),
///     Err(why) if matches!(why.kind(), ErrorKind::NoPmu { .. }) => println!("time only"),
///     Err(why) => println!("{why}"), // the cause on this machine, and the remedy
/// }
/// ```
///
/// `Display` prints the cause, a period, and the remedy without one. Its `Debug` prints the message too, so that a `main` that returns one prints the remedy. `source` is the kernel's [`Errno`],
/// where there is one. It converts into [`std::io::Error`].
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    /// The two parts of the message. `{event}` stands for `name`, `{errno}` for `errno`, and `{0}`, `{1}` for `parts`.
    cause: &'static str,
    remedy: &'static str,
    event: Option<Event>,
    /// That of the event, as it was when the error was made: printing makes no system call.
    name: String,
    errno: Option<Errno>,
    parts: Vec<String>,
}

impl Error {
    /// Makes an error whose message has these two parts.
    #[cold]
    pub(crate) fn new(kind: ErrorKind, cause: &'static str, remedy: &'static str) -> Error {
        debug_assert!(!cause.ends_with('.') && !remedy.ends_with('.') && !remedy.is_empty());
        let (name, parts) = (String::new(), Vec::new());
        Error(Box::new(Inner { kind, cause, remedy, event: None, name, errno: None, parts }))
    }

    /// Makes an error of a name, with this cause, without a period, and this remedy: for an [`IntoEvent`](crate::IntoEvent) of
    /// another crate, with names of its own. Its kind is [`ErrorKind::UnknownName`].
    pub fn of_name(cause: impl Into<String>, remedy: impl Into<String>) -> Error {
        let mut error = Error::new(ErrorKind::UnknownName, "{0}", "{1}");
        error.0.parts = vec![cause.into(), remedy.into()];
        error
    }

    /// Makes it an error of this event, of this name.
    pub(crate) fn for_event(mut self, (event, name): (Event, String)) -> Error {
        (self.0.event, self.0.name) = (Some(event), name);
        self
    }

    /// Makes it an error of a name that is the name of no event here.
    pub(crate) fn about(mut self, name: &str) -> Error {
        self.0.name = format!("`{name}`");
        self
    }

    pub(crate) fn errno_is(mut self, errno: Errno) -> Error {
        self.0.errno = Some(errno);
        self
    }

    /// Adds what the next number in the message stands for.
    pub(crate) fn with(mut self, part: &dyn fmt::Display) -> Error {
        self.0.parts.push(part.to_string());
        self
    }

    /// Puts the cause into other words, where it stands for `{0}`.
    pub(crate) fn in_words(mut self, words: &'static str) -> Error {
        self.0.parts = vec![self.cause(), self.remedy()];
        (self.0.cause, self.0.remedy) = (words, "{1}");
        self
    }

    /// Returns the same error as one of another kind.
    pub(crate) fn of_kind(mut self, kind: ErrorKind) -> Error {
        self.0.kind = kind;
        self
    }

    /// Returns its kind, to be matched.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the event that the error is about. None if it is about a name, the process or the machine.
    /// [`Pmus::name_of`](crate::pmu::Pmus::name_of) has its name.
    pub fn event(&self) -> Option<Event> {
        self.0.event
    }

    /// Returns the error number of the failed system call. None if the library found the cause, such as a missing PMU: the message
    /// has that instead.
    pub fn errno(&self) -> Option<Errno> {
        self.0.errno
    }

    /// Returns the cause found on this machine: the first part of the message, without a period.
    pub fn cause(&self) -> String {
        self.filled(self.0.cause, &self.0.name)
    }

    /// Returns what to do about it: the rest of the message.
    pub fn remedy(&self) -> String {
        self.filled(self.0.remedy, &self.0.name)
    }

    /// Returns the [`cause`](Error::cause) with `this` in place of the event's name (`this on PMU`, if the event is one of a
    /// PMU other than the CPU's own): events that cannot be opened for the same cause can share a line.
    pub fn shared_cause(&self) -> String {
        match self.0.name.split_once('/') {
            Some((pmu, _)) if self.0.event.is_some_and(|event| event.pmu().is_some()) => {
                self.filled(self.0.cause, &format!("this on {pmu}"))
            }
            _ => self.filled(self.0.cause, "this"),
        }
    }

    fn filled(&self, text: &str, name: &str) -> String {
        struct Filled<'a>(&'a Error, &'a str, &'a str);
        impl fmt::Display for Filled<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let Filled(error, text, name) = self;
                error.fill(text, name, &mut Visible(f))
            }
        }
        Filled(self, text, name).to_string()
    }

    fn fill(&self, text: &str, name: &str, to: &mut impl Write) -> fmt::Result {
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (what, after) = after.split_once('}').unwrap_or((after, ""));
            to.write_str(before)?;
            match (what, self.0.errno) {
                ("event", _) => to.write_str(name)?,
                ("errno", Some(errno)) => write!(to, "{errno}")?,
                (place, _) => {
                    let part = place.parse().ok().and_then(|place: usize| self.0.parts.get(place));
                    to.write_str(part.map_or("", String::as_str))?;
                }
            }
            rest = after;
        }
        to.write_str(rest)
    }
}

/// Errors that several operations have.
impl Error {
    /// Makes an error of a call that ran out of something, or failed in a way that is not known to occur.
    pub(crate) fn of_call(call: &'static str) -> impl Fn(Errno) -> Error {
        move |errno| match errno.0 {
            kernel::EBADF => ReadError::Closed.into(),
            kernel::EMFILE => Error::new(
                ErrorKind::TooManyOpenFiles,
                "this process has no file descriptor left, and each counter holds one",
                "Raise `ulimit -n`, or close counters or files",
            )
            .errno_is(errno),
            kernel::ENFILE => Error::new(
                ErrorKind::TooManyOpenFiles,
                "this machine has no file descriptor left, and each counter holds one",
                "Raise `sysctl fs.file-max` or close files",
            )
            .errno_is(errno),
            kernel::ENOMEM => Error::new(
                ErrorKind::OutOfMemory,
                "{0} failed for lack of memory (ENOMEM)",
                "Free memory, or raise the limit of this process's memory cgroup",
            )
            .with(&call)
            .errno_is(errno),
            _ => Error::new(
                ErrorKind::System,
                "{0} failed with {errno}, which is not known to occur",
                "Please report it with the kernel's version",
            )
            .with(&call)
            .errno_is(errno),
        }
    }

    pub(crate) fn unsupported() -> Error {
        let system = match std::env::consts::OS {
            "" => "a target without a system",
            system => system,
        };
        Error::new(
            ErrorKind::Unsupported,
            "this library counts on Linux, and this program was built for {0}",
            "Build it for Linux, and run it there",
        )
        .with(&system)
    }

    /// Makes the error of a signal handler that forked, in the child.
    pub(crate) fn forked_meanwhile() -> Error {
        Error::new(
            ErrorKind::Forked,
            "this process is a fork of the one that was opening the counter",
            "Open a new counter in this process",
        )
    }

    /// Makes an error of a number of events.
    pub(crate) fn of_group_size(events: usize) -> Error {
        let (cause, remedy) = match events {
            0 => ("a group needs at least one event", "Pass between 1 and 8 events"),
            _ => ("a group has between 1 and 8 events, not {0}", "Split them into several groups"),
        };
        Error::new(ErrorKind::GroupSize, cause, remedy).with(&events)
    }

    /// Makes the reason of an event for which the kernel offers no user access.
    pub(crate) fn not_offered() -> Error {
        Error::new(
            ErrorKind::NotOffered,
            "the kernel offers no user access for this event",
            "On x86-64, check /sys/bus/event_source/devices/cpu/rdpmc as root. arm64 needs Linux 5.17 and riscv64 needs \
             6.6. Some events never have user access",
        )
    }

    /// Makes the reason of counters of this width.
    pub(crate) fn of_width(bits: u16) -> Error {
        let cause = "this library does not read counters of {0} bits here, so the kernel does";
        Error::new(ErrorKind::Width, cause, "No action needed").with(&bits)
    }

    pub(crate) fn not_in_its_register() -> Error {
        let cause = "no register holds this event's count";
        Error::new(ErrorKind::NotInItsRegister, cause, "No action needed")
    }

    pub(crate) fn not_scheduled() -> Error {
        Error::new(
            ErrorKind::NotScheduled,
            "the event is not on a hardware counter now",
            "Enable it, or open fewer events than the PMU has counters (on x86-64 the kernel's watchdog holds one unless \
             kernel.nmi_watchdog is 0), or on a hybrid CPU keep the thread on the event's core type",
        )
    }

    /// Whether another event would fail too: a resource of the process or the machine is used up, or the call is not
    /// available.
    pub(crate) fn is_of_the_process(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Unsupported
                | ErrorKind::NoSystemCall
                | ErrorKind::TooManyOpenFiles
                | ErrorKind::OutOfMemory
                | ErrorKind::Forked
                | ErrorKind::System
        )
    }
}

impl From<Unreadable> for Error {
    fn from(Unreadable { path, errno }: Unreadable) -> Error {
        if matches!(errno.0, kernel::EMFILE | kernel::ENFILE) {
            return Error::of_call("open")(errno);
        }
        let remedy = match errno.0 {
            kernel::ENOMEM => "There is no memory for it: free some and try again",
            kernel::EACCES | kernel::EPERM => {
                "Give this process read access to it, and to what it links to"
            }
            kernel::ENOENT | kernel::ENOTDIR if path.starts_with("/proc") => {
                "Make it visible in this container or chroot (mount /proc)"
            }
            // The list of clock sources.
            kernel::ENOENT | kernel::ENOTDIR if path.starts_with("/sys/devices") => {
                "Make it visible in this container or chroot (mount /sys), or open a clock before entering it"
            }
            kernel::ENOENT | kernel::ENOTDIR => {
                "Make it visible in this container or chroot (mount /sys)"
            }
            kernel::EFBIG => "There is more in it than any kernel shows: pass another directory",
            _ => "Try again, and if it stays so, report it with the kernel's version",
        };
        let error = Error::new(ErrorKind::Unreadable, "{0} cannot be read ({errno})", remedy);
        error.with(&path.display()).errno_is(errno)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { cause, remedy, name, .. } = &*self.0;
        self.fill(cause, name, &mut Visible(f))?;
        f.write_str(". ")?;
        self.fill(remedy, name, &mut Visible(f))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.errno.as_ref().map(|errno| errno as _)
    }
}

impl From<Error> for io::Error {
    /// Keeps the error as the inner error. Its kind is `Unsupported` for what the machine lacks, `PermissionDenied`, `ResourceBusy`,
    /// `OutOfMemory`, `InvalidInput` for a wrong name or set of events, and `Other` for the rest.
    fn from(error: Error) -> io::Error {
        let kind = match error.kind() {
            ErrorKind::Unsupported
            | ErrorKind::NoSystemCall
            | ErrorKind::NoPmu { .. }
            | ErrorKind::NoPmuList
            | ErrorKind::EventNotSupported
            | ErrorKind::NoPrivilegeFilter
            | ErrorKind::NoFixedCounter
            | ErrorKind::UserReadUnavailable
            | ErrorKind::NotPerThread
            | ErrorKind::UnsupportedField => io::ErrorKind::Unsupported,
            ErrorKind::Busy => io::ErrorKind::ResourceBusy,
            ErrorKind::Paranoid | ErrorKind::Seccomp | ErrorKind::Denied => {
                io::ErrorKind::PermissionDenied
            }
            ErrorKind::OutOfMemory => io::ErrorKind::OutOfMemory,
            ErrorKind::GroupSize
            | ErrorKind::SeveralPmus
            | ErrorKind::CountsNothing
            | ErrorKind::PinnedOnNewThreads
            | ErrorKind::UnknownName
            | ErrorKind::InvalidName => io::ErrorKind::InvalidInput,
            // Not `Interrupted`, which std retries: a disturbed sample may be so each time.
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
