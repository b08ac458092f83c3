//! Errors and reasons: one type for each operation, and [`Error`] for all of them.
//!
//! Each message has the cause found on this machine and the remedy, which `cause` and `remedy` also return apart. Neither
//! these nor `Display` makes a system call, except to allocate memory.
//!
//! The `Debug` of [`Error`] prints the message too, so that a `main` that returns one prints the remedy. `source` is the
//! kernel's [`Errno`], where there is one.

// Floor 3: every reason this library can give. Uses `kernel` and `event`.

pub(crate) mod access;
pub(crate) mod clock;
mod disturbed;
pub(crate) mod name;
mod named_event;
mod open;
mod read;
mod region;

pub use crate::kernel::{Errno, Unreadable};
pub use access::SyscallReason;
pub use disturbed::Disturbed;
pub use name::NameError;
pub use named_event::NamedEvent;
pub use open::OpenError;
pub use read::ReadError;
pub use region::RegionError;

use crate::kernel::{Message, PMU_DIRECTORY, say};
use std::fmt;
use std::io;

/// The message for a hardware event in a virtual machine of WSL2 without a PMU.
fn no_pmu_on_wsl(event: &str) -> Message {
    say!(
        "{event} needs a hardware counter, and Windows gives this machine of WSL2 none (no core PMU \
         in {PMU_DIRECTORY})",
        "Remove `hardwarePerformanceCounters=false` from .wslconfig if it is there, and run \
         `wsl --shutdown`. If no PMU appears, use software events, or Linux without Windows"
    )
}

/// Any error of this library: `?` converts the error of each operation into it.
///
/// Its message and its `source` are those of the error inside. Its `Debug` is that error's, and the message.
///
/// ```
/// use rdpmc::{Counter, Error, Event};
///
/// fn cycles_of(work: impl FnOnce()) -> Result<u64, Error> {
///     let counter = Counter::open(Event::CYCLES)?; // OpenError
///     let before = counter.read()?; // ReadError
///     work();
///     Ok(counter.read()? - before)
/// }
/// # let _ = cycles_of(|| ());
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Something could not be opened.
    Open(OpenError),
    /// An open counter could not be read or controlled.
    Read(ReadError),
    /// A region could not be made.
    Region(RegionError),
    /// A region's sample is not a measurement.
    Disturbed(Disturbed),
    /// A name is not the name of an event.
    Name(Box<NameError>),
}

impl Error {
    /// Returns the cause found on this machine: the first part of the message, without a period.
    pub fn cause(&self) -> String {
        match self {
            Error::Open(error) => error.cause(),
            Error::Read(error) => error.cause(),
            Error::Region(error) => error.cause(),
            Error::Disturbed(error) => error.cause(),
            Error::Name(error) => error.cause(),
        }
    }

    /// Returns what to do about it: the rest of the message.
    pub fn remedy(&self) -> String {
        match self {
            Error::Open(error) => error.remedy(),
            Error::Read(error) => error.remedy(),
            Error::Region(error) => error.remedy(),
            Error::Disturbed(error) => error.remedy(),
            Error::Name(error) => error.remedy(),
        }
    }

    /// Returns the [`cause`](Error::cause) with `this` in place of the event's name: see [`OpenError::shared_cause`].
    pub fn shared_cause(&self) -> String {
        match self {
            Error::Open(error) => error.shared_cause(),
            Error::Name(error) => error.shared_cause(),
            other => other.cause(),
        }
    }

    fn inner(&self) -> &(dyn std::error::Error + 'static) {
        match self {
            Error::Open(error) => error,
            Error::Read(error) => error,
            Error::Region(error) => error,
            Error::Disturbed(error) => error,
            Error::Name(error) => error.as_ref(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.inner(), f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.inner())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner().source()
    }
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Error {
        Error::Open(error)
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Error {
        Error::Read(error)
    }
}

impl From<RegionError> for Error {
    fn from(error: RegionError) -> Error {
        Error::Region(error)
    }
}

impl From<Disturbed> for Error {
    fn from(disturbed: Disturbed) -> Error {
        Error::Disturbed(disturbed)
    }
}

impl From<NameError> for Error {
    fn from(error: NameError) -> Error {
        Error::Name(Box::new(error))
    }
}

impl From<Unreadable> for Error {
    fn from(unreadable: Unreadable) -> Error {
        Error::Open(unreadable.into())
    }
}

/// The errors that also convert into [`io::Error`] directly.
macro_rules! into_io_error {
    ($($type:ident)*) => {
        $(impl From<$type> for io::Error {
            /// Converts as [`Error`] does.
            fn from(error: $type) -> io::Error {
                Error::from(error).into()
            }
        })*
    };
}
into_io_error!(OpenError ReadError RegionError);

impl From<Error> for io::Error {
    /// Keeps the error as the inner error, with the kind that fits its cause.
    fn from(error: Error) -> io::Error {
        let kind = match &error {
            Error::Open(error) => error.io_kind(),
            Error::Name(_) => io::ErrorKind::InvalidInput,
            // Not `Interrupted`, which std retries: a disturbed sample may be so each time.
            Error::Read(_) | Error::Region(_) | Error::Disturbed(_) => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
