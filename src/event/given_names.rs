//! The names that a program has given to events.

use super::Event;
use crate::kernel::List;

/// The names, never freed: at most one for each event.
static NAMES: List<(Event, String)> = List::new();

/// The maximum number of names: a program may make them of what its users write.
const MAX_NAMES: usize = 4096;

/// The maximum length of a name, in bytes.
const MAX_LENGTH: usize = 1024;

impl Event {
    /// Gives this event a name, which `Display` writes for the rest of the process: in columns, labels and errors.
    ///
    /// The crate `rdpmc-events` gives the vendors' names, with their modifiers. A raw event has no name by itself:
    ///
    /// ```
    /// use rdpmc::Event;
    ///
    /// let event = Event::raw(0x1c2).named("uops_retired.all");
    /// assert_eq!(event.to_string(), "uops_retired.all");
    /// assert_eq!(event.kernel().to_string(), "uops_retired.all:k");
    /// assert_eq!(event.encoding(), "r1c2");
    /// ```
    ///
    /// The first name of an event stays: functions that take events or names, such as `Bench::with_events`, give those that they get. An event that the kernel names, such as [`CYCLES`](Event::CYCLES), keeps that name. Has
    /// no effect if the name is empty, has control characters or more than 1,024 bytes, or if the process has named 4,096
    /// events. Allocates, at most once for each event.
    pub fn named(self, name: &str) -> Event {
        let name = name.trim();
        let is_fit = !name.is_empty() && name.len() <= MAX_LENGTH;
        if !is_fit || name.contains(char::is_control) || self.has_kernel_name() {
            return self;
        }
        // It would take the place of a name.
        if name == self.encoding() {
            return self;
        }
        loop {
            let newest = NAMES.newest();
            if exact(&self).is_some() || NAMES.iter().count() >= MAX_NAMES {
                return self;
            }
            // Another thread may have given one meanwhile.
            if NAMES.push_after(newest, (self, name.to_owned())).is_ok() {
                return self;
            }
        }
    }

    /// Returns the name that this event was given, with its modifiers.
    pub(crate) fn given_name(&self) -> Option<String> {
        if let Some(name) = exact(self) {
            return Some(name.to_owned());
        }
        // `Event::kernel` has added a modifier since.
        let name = exact(&self.plain())?;
        let letters = self.modifiers.letters();
        let slash = if name.ends_with('/') { "" } else { ":" };
        Some(format!("{name}{slash}{letters}"))
    }
}

fn exact(event: &Event) -> Option<&'static str> {
    NAMES.iter().find(|(known, _)| known == event).map(|(_, name)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_stays() {
        let event = Event::raw(0xabc01).named("rabc01").named(" first ").named("second");
        assert_eq!(event.to_string(), "first");
        assert_eq!(event.kernel().to_string(), "first:k");
        assert_eq!(event.encoding(), "rabc01");
        // Other words are another event.
        assert_eq!(event.with_config1(1).to_string(), event.with_config1(1).encoding());
        let on_a_pmu = Event::of_pmu(10, 0xabc02).named("cpu_atom/some.event/");
        assert_eq!(on_a_pmu.kernel().to_string(), "cpu_atom/some.event/k");
        let with_modifiers = Event::raw(0xabc03).kernel().named("other:k");
        assert_eq!(with_modifiers.to_string(), "other:k");
        assert_eq!(with_modifiers.plain().to_string(), "rabc03");
    }

    #[test]
    fn what_is_no_name() {
        let event = Event::raw(0xabc04);
        for name in ["", "  ", "a\nb", "nul\0", &"x".repeat(1025)] {
            assert_eq!(event.named(name).to_string(), "rabc04", "{name:?}");
        }
        assert_eq!(Event::CYCLES.named("clock").to_string(), "cycles");
        assert_eq!(Event::CYCLES.kernel().named("clock").to_string(), "cycles:k");
        let of_a_type = Event::CYCLES.on_core_pmu(10);
        assert_eq!(of_a_type.named("cpu_atom/cycles/").to_string(), "cpu_atom/cycles/");
    }

    #[test]
    fn threads_that_name_one_event() {
        let event = Event::raw(0xabc05);
        let name = |thread| event.named(&format!("name{thread}")).to_string();
        let all: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || name(thread))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        assert!(all.len() == 4 && all.iter().all(|name| Some(name) == all.first()), "{all:?}");
    }
}
