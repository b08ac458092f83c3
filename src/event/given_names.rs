//! The names that a program has given to events.

use super::{Event, generic};
use crate::kernel::List;
use std::sync::atomic::{AtomicU64, Ordering};

/// An event and a name of it. Never freed, so each pair is there once.
struct Given {
    event: Event,
    /// Without the event's modifiers if these are at its end. Empty after the event was given its encoding.
    name: String,
    /// Larger for a name that was given later.
    order: AtomicU64,
}

static NAMES: List<Given> = List::new();
static ORDER: AtomicU64 = AtomicU64::new(1);

/// The maximum number of pairs, because users of a program may write the names.
const MAX_NAMES: usize = 4096;

/// The maximum length of a name, in bytes.
const MAX_LENGTH: usize = 1024;

impl Event {
    /// Gives this event a name, which `Display` writes for the rest of the process: in columns, labels and errors. All equal events
    /// have it. The last name that was given counts.
    ///
    /// The crate `rdpmc-events` gives the vendors' names, and a `&str` as [`IntoEvent`](crate::IntoEvent) gives itself. A raw event has
    /// no name until then:
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
    /// The [encoding](Event::encoding) as a name takes the name away. Has no effect:
    /// - on an event that the kernel names, such as [`CYCLES`](Event::CYCLES),
    /// - if the name is empty, has control characters or more than 1,024 bytes,
    /// - if the name is the kernel's or was given to another event,
    /// - if the process has given 4,096 names.
    ///
    /// Allocates.
    pub fn named(self, name: &str) -> Event {
        let name = name.trim();
        if name.is_empty() || name.len() > MAX_LENGTH || name.contains(char::is_control) {
            return self;
        }
        if self.has_kernel_name() || generic::generic(name).is_some() {
            return self;
        }
        let (event, name) = match self.without_modifiers(name) {
            _ if name == self.encoding() => (self.plain(), ""),
            Some(base) => (self.plain(), base),
            None => (self, name),
        };
        if name.is_empty() && last(&event).is_none() {
            return self; // it has no name
        }
        let is_of_another = |given: &Given| {
            given.event != event && given.name == name && last(&given.event) == Some(name)
        };
        if !name.is_empty() && NAMES.iter().any(is_of_another) {
            return self;
        }
        loop {
            let newest = NAMES.newest();
            // Orders only need to differ: no other memory depends on them.
            let order = ORDER.fetch_add(1, Ordering::Relaxed);
            let is_it = |given: &&Given| given.event == event && given.name == name;
            if let Some(given) = NAMES.iter().find(is_it) {
                given.order.fetch_max(order, Ordering::Relaxed);
                return self;
            }
            if NAMES.iter().count() >= MAX_NAMES {
                return self;
            }
            let given = Given { event, name: name.to_owned(), order: AtomicU64::new(order) };
            // Another thread may have given one meanwhile.
            if NAMES.push_after(newest, given).is_ok() {
                return self;
            }
        }
    }

    /// Returns a name without this event's modifiers. None if they are not at its end.
    fn without_modifiers<'n>(&self, name: &'n str) -> Option<&'n str> {
        let letters = self.modifiers.letters();
        if letters.is_empty() {
            return Some(name);
        }
        let base = name.strip_suffix(letters.as_str())?;
        let base = base.strip_suffix(':').unwrap_or(base);
        (base.len() < name.len() - letters.len() || base.ends_with('/')).then_some(base)
    }

    /// Returns the name that this event was given, with its modifiers.
    pub(crate) fn given_name(&self) -> Option<String> {
        if let Some(name) = last(self).filter(|_| *self != self.plain()) {
            return Some(name.to_owned());
        }
        let name = last(&self.plain())?;
        let letters = self.modifiers.letters();
        let colon = if name.ends_with('/') || letters.is_empty() { "" } else { ":" };
        Some(format!("{name}{colon}{letters}"))
    }
}

/// Returns the last name that was given to exactly this event.
fn last(event: &Event) -> Option<&'static str> {
    let its = NAMES.iter().filter(|given| given.event == *event);
    let last = its.max_by_key(|given| given.order.load(Ordering::Relaxed))?;
    Some(last.name.as_str()).filter(|name| !name.is_empty())
}

// Each test has encodings of its own: the names are those of the process.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_counts() {
        let event = Event::raw(0xabc01).named("rabc01").named(" first ").named("second");
        assert_eq!(event.to_string(), "second");
        assert_eq!(event.named("first").to_string(), "first");
        assert_eq!(event.kernel().to_string(), "first:k");
        assert_eq!(event.encoding(), "rabc01");
        assert_eq!(event.named("rabc01").to_string(), "rabc01");
        // Other words are another event.
        event.named("first");
        assert_eq!(event.with_config1(1).to_string(), "cpu/config=0xabc01,config1=0x1/");
    }

    #[test]
    fn modifiers() {
        let on_a_pmu = Event::of_pmu(10, 0xabc02).named("cpu_atom/some.event/");
        assert_eq!(on_a_pmu.kernel().to_string(), "cpu_atom/some.event/k");
        let kernel = on_a_pmu.kernel().named("cpu_atom/other.event/k");
        assert_eq!(kernel.to_string(), "cpu_atom/other.event/k");
        assert_eq!(on_a_pmu.to_string(), "cpu_atom/other.event/");
        let with_a_colon = Event::raw(0xabc03).kernel().named("other.one:k");
        assert_eq!(with_a_colon.to_string(), "other.one:k");
        assert_eq!(with_a_colon.plain().to_string(), "other.one");
        // Not at the end.
        let elsewhere = Event::raw(0xabc06).kernel().named("other:k=1:c=2");
        assert_eq!(elsewhere.to_string(), "other:k=1:c=2");
        assert_eq!(elsewhere.plain().to_string(), "rabc06");
    }

    #[test]
    fn what_is_no_name() {
        let event = Event::raw(0xabc04);
        for name in ["", "  ", "a\nb", "nul\0", &"x".repeat(1025), "cycles", "rabc04"] {
            assert_eq!(event.named(name).to_string(), "rabc04", "{name:?}");
        }
        assert_eq!(Event::CYCLES.named("clock").to_string(), "cycles");
        assert_eq!(Event::CYCLES.kernel().named("clock").to_string(), "cycles:k");
        let of_a_type = Event::CYCLES.on_core_pmu(10);
        assert_eq!(of_a_type.named("cpu_atom/cycles/").to_string(), "cpu_atom/cycles/");
        // One name is one event's.
        event.named("of one");
        assert_eq!(Event::raw(0xabc07).named("of one").to_string(), "rabc07");
    }

    #[test]
    fn threads_that_name_one_event() {
        let event = Event::raw(0xabc05);
        let give = |thread: u32| {
            for round in 0..100 {
                event.named(&format!("name {thread} {}", round % 3));
            }
        };
        std::thread::scope(|scope| {
            (0..4).for_each(|thread| drop(scope.spawn(move || give(thread))));
        });
        assert!(event.to_string().starts_with("name "), "{event}");
        assert_eq!(NAMES.iter().filter(|given| given.event == event).count(), 4 * 3);
    }
}
