//! An event and its name, as errors report it.

use crate::event::Event;
use crate::kernel::Visible;
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// An event and its name on this machine, as an error reports it.
///
/// The name was looked up when the error was made, so printing it makes no system call. Two are equal if their
/// events are equal.
#[derive(Clone)]
pub struct NamedEvent(Arc<(Event, String)>);

impl NamedEvent {
    pub(crate) fn new(event: Event, name: String) -> NamedEvent {
        NamedEvent(Arc::new((event, name)))
    }

    /// Returns the event.
    pub fn event(&self) -> Event {
        self.0.0
    }

    /// Returns its name, e.g. `cycles:u` or `cpu_core/mem-loads,ldlat=3/`.
    pub fn name(&self) -> &str {
        &self.0.1
    }
}

impl From<Event> for NamedEvent {
    /// Names the event as its `Display` does.
    fn from(event: Event) -> NamedEvent {
        NamedEvent::new(event, event.to_string())
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
    /// Writes what the `Debug` of an [`Event`] does, with this name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({self})")
    }
}
