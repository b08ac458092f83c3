//! Converts event names in perf's syntax to events, and back.

// Floor 5: from a name to an event (`parse`), and back (`print`), with the `term`s of a PMU. For a wrong name, `unknown` has the messages, and
// `suggest` the nearest names. Uses `kernel`, `event`, `error` and `pmu`.

mod parse;
mod print;
pub(crate) mod suggest;
mod term;
mod unknown;

#[cfg(rdpmc_internals)]
pub(crate) use print::terms_of;

use crate::error::Error;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::event::Event;
use crate::pmu::Pmus;
use std::fmt;
use std::str::FromStr;

impl FromStr for Event {
    type Err = Error;

    /// Parses the name of an event on this machine: see [`Event`] and [`Pmus::event`].
    fn from_str(name: &str) -> Result<Event, Error> {
        Pmus::local().event(name)
    }
}

/// An [`Event`] or the name of one, for functions that go on without an event that this machine lacks.
///
/// ```
/// use rdpmc::{Event, IntoEvent};
///
/// assert_eq!("instructions".into_event(), Ok(Event::INSTRUCTIONS));
/// assert_eq!(Event::CYCLES.into_event(), Ok(Event::CYCLES));
/// ```
pub trait IntoEvent: fmt::Display {
    /// Returns the event. A name is parsed on this machine: see [`Pmus::event`].
    ///
    /// # Errors
    /// [`ErrorKind::UnknownName`] or [`ErrorKind::InvalidName`] for a name that is not that of an event here.
    /// [`ErrorKind::NoPmu`] or [`ErrorKind::NoPmuList`] if the machine lacks the PMU that it needs, or the list.
    /// [`ErrorKind::Unreadable`] or [`ErrorKind::TooManyOpenFiles`] if the files of the PMUs cannot be read.
    fn into_event(self) -> Result<Event, Error>;
}

impl IntoEvent for Event {
    fn into_event(self) -> Result<Event, Error> {
        Ok(self)
    }
}

impl<T: IntoEvent + Clone> IntoEvent for &T {
    fn into_event(self) -> Result<Event, Error> {
        self.clone().into_event()
    }
}

impl IntoEvent for &str {
    /// The event has this [name](Event::named) from then on, if its own would be numbers.
    fn into_event(self) -> Result<Event, Error> {
        self.parse().map(|event: Event| event.named(self))
    }
}

impl IntoEvent for String {
    fn into_event(self) -> Result<Event, Error> {
        self.as_str().into_event()
    }
}

/// Returns the event with its name, for an error: the name that it was given, else its name on this machine. Reads the files that
/// [`Pmus::name_of`] reads.
pub(crate) fn named(event: Event) -> (Event, String) {
    (event, name_of(event))
}

/// Returns the name that an event was given, else its name on this machine.
pub fn name_of(event: Event) -> String {
    event.given_name().unwrap_or_else(|| Pmus::local().name_of(event))
}
